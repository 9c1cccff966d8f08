#include "gateway/audit_row.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>
#include <utf8proc.h>

#include "base/check.h"
#include "base/hash.h"

namespace surety::gateway {
namespace {

constexpr std::string_view kAuditHashMember = ",\"hash\":\"";
constexpr size_t kAuditHashChars = 64;
constexpr size_t kAuditTailChars = kAuditHashMember.size() + kAuditHashChars + 2;  // and "}

std::string AuditHashOf(std::string_view head) {
  Sha256 sha;
  sha.Update(std::as_bytes(std::span(head)));
  sha.Update(std::as_bytes(std::span("}", 1)));
  return HexOf(sha.Finish());
}

bool TakeAuditText(std::string_view& rest, std::string_view expected) {
  if (!rest.starts_with(expected)) return false;
  rest.remove_prefix(expected.size());
  return true;
}

// As the writer spells it: no leading zeros, no minus zero.
bool TakeAuditNumber(std::string_view& rest, int64_t& value) {
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc()) return false;
  const std::string_view digits(rest.data(), static_cast<size_t>(end - rest.data()));
  if (digits != std::to_string(value)) return false;
  rest.remove_prefix(digits.size());
  return true;
}

bool IsAuditHash(std::string_view text) {
  return text.size() == kAuditHashChars &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsAuditAscii(std::string_view text) {
  uint64_t seen = 0;
  size_t i = 0;
  for (; i + sizeof(seen) <= text.size(); i += sizeof(seen)) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, text.data() + i, sizeof(bytes));
    seen |= bytes;
  }
  for (; i < text.size(); ++i) seen |= static_cast<unsigned char>(text[i]);
  return (seen & 0x8080808080808080) == 0;
}

// The index behind a text that begins with a quotation mark at `i`.
size_t EndOfAuditString(std::string_view json, size_t i) {
  for (++i; i < json.size();) {
    const size_t quote = json.find('"', i);
    if (quote == std::string_view::npos) break;
    const size_t escape = json.substr(i, quote - i).find('\\');
    if (escape == std::string_view::npos) return quote + 1;
    i += escape + 2;
  }
  return json.size();
}

int DepthOfAuditText(std::string_view json) {
  int depth = 0, deepest = 0;
  for (size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '"') {
      i = EndOfAuditString(json, i) - 1;
    } else if (json[i] == '{' || json[i] == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (json[i] == '}' || json[i] == ']') {
      --depth;
    }
  }
  return deepest;
}

Result<boost::json::value> ParseAuditJson(std::string_view text) {
  boost::json::parse_options options;
  options.max_depth = kMaxAuditBodyDepth + 8;
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(text, error, {}, options);
  if (error) return Error(DataLossError("its body is no JSON: " + error.message()));
  return value;
}

}  // namespace

const std::string& AuditChainStart() {
  static const std::string start(kAuditHashChars, '0');
  return start;
}

// Bytes that are no UTF-8 become U+FFFD, one by one.
std::string AuditUtf8(std::string text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  if (IsAuditAscii(text)) return text;
  std::string out;
  size_t kept = 0;
  for (size_t i = 0; i < text.size();) {
    if (bytes[i] < 0x80) {
      ++i;
      continue;
    }
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t n = utf8proc_iterate(bytes + i, static_cast<utf8proc_ssize_t>(text.size() - i), &code);
    if (n > 0) {
      i += static_cast<size_t>(n);
      continue;
    }
    out.append(text, kept, i - kept).append("\xEF\xBF\xBD");
    kept = ++i;
  }
  if (kept == 0) return text;
  return out.append(text, kept);
}

Result<std::string> AuditBodyText(const boost::json::object& body) {
  return AuditBodyText(boost::json::serialize(body));
}

Result<std::string> AuditBodyText(std::string serialized) {
  std::string text = AuditUtf8(std::move(serialized));
  if (text.size() > kMaxAuditRowBytes - 1024) {
    return Error(InvalidArgumentError(fmt::format("an audit row of {} bytes; at most {} fit", text.size(),
                                                  kMaxAuditRowBytes - 1024)));
  }
  if (const int depth = DepthOfAuditText(text); depth > kMaxAuditBodyDepth) {
    return Error(InvalidArgumentError(fmt::format("an audit row nested {} deep; at most {} is read again", depth,
                                                  kMaxAuditBodyDepth)));
  }
  return text;
}

Status CheckAuditKind(std::string_view kind) {
  const bool good = !kind.empty() && kind.size() <= 32 &&
                    std::ranges::all_of(kind, [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
  if (good) return OkStatus();
  return InvalidArgumentError(fmt::format("'{}' is no kind of an audit row: 1 to 32 of a-z and _", kind));
}

std::string AuditLine(const AuditRowText& text, std::string& hash) {
  std::string line;
  line.reserve(text.body.size() + 320);
  AppendAuditLine(line, text, hash);
  return line;
}

void AppendAuditLine(std::string& out, const AuditRowText& text, std::string& hash) {
  const size_t begin = out.size();
  fmt::format_to(std::back_inserter(out), R"({{"seq":{},"time":{},"prev":"{}","kind":"{}","body":)", text.seq,
                 text.time_ns, text.prev, text.kind);
  out.append(text.body).append("}");
  hash = HexOf(Sha256Of(std::as_bytes(std::span(std::string_view(out).substr(begin)))));
  out.pop_back();
  out.append(kAuditHashMember).append(hash).append("\"}");
}

Result<AuditRowText> ParseAuditLine(std::string_view line) {
  const auto no_row = [](std::string_view why) { return Error(DataLossError(fmt::format("no row: {}", why))); };
  if (line.size() < kAuditTailChars) return no_row("the line is too short");
  const std::string_view head = line.substr(0, line.size() - kAuditTailChars);
  AuditRowText row;
  std::string_view tail = line.substr(head.size());
  if (!TakeAuditText(tail, kAuditHashMember)) return no_row("it does not end with a hash");
  row.hash = tail.substr(0, kAuditHashChars);
  if (!IsAuditHash(row.hash) || tail.substr(kAuditHashChars) != "\"}") return no_row("it does not end with a hash");
  // First the hash: a line that was changed is told as that, wherever the change is.
  if (AuditHashOf(head) != row.hash) return Error(DataLossError("its hash does not fit what it says: it was changed"));
  std::string_view rest = head;
  if (!TakeAuditText(rest, "{\"seq\":") || !TakeAuditNumber(rest, row.seq)) return no_row("it has no number");
  if (!TakeAuditText(rest, ",\"time\":") || !TakeAuditNumber(rest, row.time_ns)) return no_row("it has no time");
  if (!TakeAuditText(rest, ",\"prev\":\"")) return no_row("it has no hash of the row before");
  row.prev = rest.substr(0, kAuditHashChars);
  rest.remove_prefix(row.prev.size());
  if (!IsAuditHash(row.prev) || !TakeAuditText(rest, "\",\"kind\":\"")) return no_row("it has no kind");
  row.kind = rest.substr(0, rest.find('"'));
  rest.remove_prefix(row.kind.size());
  if (!CheckAuditKind(row.kind).ok() || !TakeAuditText(rest, "\",\"body\":")) return no_row("it has no body");
  if (!rest.starts_with('{') || !rest.ends_with('}')) return no_row("its body is no object");
  row.body = rest;
  return row;
}

Result<AuditRow> AuditRowOf(const AuditRowText& text) {
  SURETY_ASSIGN_OR_RETURN(boost::json::value body, ParseAuditJson(text.body));
  if (!body.is_object()) return Error(DataLossError("its body is no object"));
  AuditRow row;
  row.seq = text.seq;
  row.time_ns = text.time_ns;
  row.kind = text.kind;
  row.hash = text.hash;
  row.body = std::move(body.get_object());
  return row;
}

// For logs that keep objects.
void AuditLog::AppendTextHere(std::string_view kind, std::string body, std::function<void(Result<AuditRow>)> done) {
  auto value = ParseAuditJson(AuditUtf8(std::move(body)));
  SURETY_CHECK_MSG(value && value->is_object(), "the body of a row is no object of JSON");
  AppendAsync(kind, std::move(value->get_object()), std::move(done));
}

std::string AuditTextMember(std::string_view body, std::string_view name) {
  int depth = 0;
  for (size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c != '"') continue;
    const size_t end = EndOfAuditString(body, i);
    const bool is_key = depth == 1 && end < body.size() && body[end] == ':';
    if (is_key && body.substr(i + 1, end - i - 2) == name && end + 1 < body.size() && body[end + 1] == '"') {
      const size_t value_end = EndOfAuditString(body, end + 1);
      const bool whole = value_end >= end + 3 && body[value_end - 1] == '"';
      const std::string_view text = whole ? body.substr(end + 2, value_end - end - 3) : std::string_view();
      const auto plain = [](char c) { return c >= ' ' && c < 0x7F && c != '\\'; };
      if (std::ranges::all_of(text, plain)) return std::string(text);
      const auto value = ParseAuditJson(body.substr(end + 1, value_end - end - 1));
      return value && value->is_string() ? std::string(value->get_string()) : std::string();
    }
    i = end - 1;
  }
  return {};
}

}  // namespace surety::gateway
