#include "http/request_head.h"

#include <openssl/rand.h>

#include <array>

#include "base/check.h"
#include "base/hash.h"

namespace surety::http {
namespace {

Result<std::string> PercentDecode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? HexDigitValue(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? HexDigitValue(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return Error(InvalidArgumentError("'%' in the URL is followed by two hexadecimal digits, not by '" +
                                          Printable(text.substr(i + 1, 2)) + "'"));
      }
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) return Error(InvalidArgumentError("the URL holds a control character"));
    out += c;
  }
  return out;
}

bool HasDotSegment(std::string_view path) {
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view segment = path.substr(at, end - at);
    if (segment == "." || segment == "..") return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

Result<Target> ParseTarget(std::string_view target) {
  Target out;
  if (target == "*") {
    out.path = "*";
    return out;
  }
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    const size_t slash = target.find_first_of("/?", scheme.size());
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
    break;
  }
  target = target.substr(0, target.find('#'));
  const size_t question = target.find('?');
  const std::string_view raw_path = target.substr(0, question);
  if (!raw_path.starts_with('/')) {
    return Error(InvalidArgumentError("the request's target starts with '/', not '" + Printable(target, 40) + "'"));
  }
  SURETY_ASSIGN_OR_RETURN(out.path, PercentDecode(raw_path, false));
  if (HasDotSegment(out.path)) return Error(InvalidArgumentError("the URL's path holds a '.' or '..' segment"));
  if (question == std::string_view::npos) return out;
  std::string_view rest = target.substr(question + 1);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest = rest.substr(std::min(end + 1, rest.size()));
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    SURETY_ASSIGN_OR_RETURN(std::string name, PercentDecode(pair.substr(0, equals), true));
    std::string value;
    if (equals != std::string_view::npos) {
      SURETY_ASSIGN_OR_RETURN(value, PercentDecode(pair.substr(equals + 1), true));
    }
    out.query.insert_or_assign(std::move(name), std::move(value));
  }
  return out;
}

bool IsSaneRequestId(std::string_view id) {
  if (id.empty() || id.size() > 128) return false;
  for (const char c : id) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!word && c != '.' && c != '_' && c != ':' && c != '-') return false;
  }
  return true;
}

std::string NewRequestId() {
  std::array<uint8_t, 16> bytes;
  SURETY_CHECK_MSG(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "no random bytes");
  return "req_" + HexOf(bytes);
}

std::string Printable(std::string_view text, size_t max_bytes) {
  std::string out(text.substr(0, max_bytes));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  if (text.size() > max_bytes) out += "...";
  return out;
}

}  // namespace surety::http
