// Tools behind HTTP. {name} in the address stands for an argument, percent-encoded; the other arguments are a JSON
// body. A read with no argument left for a body is a GET, everything else a POST.
#include <algorithm>
#include <array>
#include <set>

#include <boost/json.hpp>

#include "base/nearest_name.h"
#include "gateway/http_client.h"
#include "gateway/tool_call.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

void AppendPercentEncoded(std::string& out, std::string_view text) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || c == '.' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += kHex[static_cast<unsigned char>(c) >> 4];
      out += kHex[static_cast<unsigned char>(c) & 15];
    }
  }
}

// The pieces of an address: texts at even places, names of arguments at odd ones.
Result<std::vector<std::string>> AddressParts(const std::string& url) {
  std::vector<std::string> parts(1);
  size_t at = 0;
  while (at < url.size()) {
    const size_t open = url.find_first_of("{}", at);
    parts.back() += url.substr(at, open - at);
    if (open == std::string::npos) break;
    const size_t close = url.find_first_of("{}", open + 1);
    if (url[open] == '}' || close == std::string::npos || url[close] == '{') {
      return Error(InvalidArgumentError("'" + url + "': '{' and '}' come in pairs around an argument's name"));
    }
    parts.push_back(url.substr(open + 1, close - open - 1));
    parts.emplace_back();
    at = close + 1;
  }
  return parts;
}

// Statuses by which a server says that it did nothing. Others may stand at something done: 303 sends on to the result,
// 409 may say that this key was used before.
bool IsDefiniteRefusal(int status) {
  static constexpr std::array kRefusals = {400, 401, 403, 404, 405, 410, 413, 415, 422, 429};
  return std::ranges::find(kRefusals, status) != kRefusals.end();
}

}  // namespace

Status CheckHttpTool(const ToolSpec& spec) {
  SURETY_ASSIGN_OR_RETURN(const std::vector<std::string> parts, AddressParts(spec.url));
  std::string sample;
  for (size_t i = 0; i < parts.size(); ++i) {
    sample += i % 2 == 0 ? parts[i] : "x";
    if (i % 2 == 0 || std::ranges::find(spec.arguments, parts[i]) != spec.arguments.end()) continue;
    const std::string nearest = NearestName(parts[i], spec.arguments);
    return InvalidArgumentError("'" + spec.url + "': '" + parts[i] + "' is not in the tool's arguments" +
                                (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
  }
  SURETY_ASSIGN_OR_RETURN(const HttpAddress address, ParseHttpAddress(sample));
  const std::string origin = std::string(address.tls ? "https://" : "http://") + address.authority;
  if (parts.size() > 1 && (parts[0].size() <= origin.size() || !parts[0].starts_with(origin))) {
    return InvalidArgumentError("'" + spec.url + "': an argument cannot be part of the host");
  }
  return OkStatus();
}

ToolOutcome CallHttpTool(const ToolCall& call) {
  ToolOutcome outcome;
  const auto refused = [&](Status status) {
    outcome.value = Error(std::move(status));
    return outcome;
  };
  const Result<std::vector<std::string>> parts = AddressParts(call.spec.url);
  if (!parts) return refused(parts.error());
  HttpCall http;
  std::set<std::string> in_address;
  for (size_t i = 0; i < parts->size(); ++i) {
    const std::string& part = (*parts)[i];
    if (i % 2 == 0) {
      http.url += part;
      continue;
    }
    const auto argument = call.arguments.find(part);
    if (argument == call.arguments.end()) return refused(InvalidArgumentError("it needs the argument '" + part + "'"));
    // Servers take . and .. for steps in the path, encoded or not.
    if (argument->second.empty() || argument->second == "." || argument->second == "..") {
      return refused(InvalidArgumentError("argument '" + part + "' is empty or dots, which no address can carry"));
    }
    const bool in_path = http.url.find('?') == std::string::npos;
    if (in_path && argument->second.find_first_of("/\\%") != std::string::npos) {
      return refused(InvalidArgumentError("argument '" + part + "' holds /, \\ or %, which servers take for steps in "
                                          "the path, encoded or not; put it behind a ? or into the body"));
    }
    AppendPercentEncoded(http.url, argument->second);
    in_address.insert(part);
  }
  json::object body;
  for (const auto& [name, value] : call.arguments) {
    if (!in_address.contains(name)) body[name] = value;
  }
  const bool write = call.spec.kind == ToolSpec::Kind::kWrite;
  const bool all_in_address = std::ranges::all_of(call.spec.arguments, [&](const std::string& name) {
    return in_address.contains(name);
  });
  http.headers = {{"Accept", "application/json"}};
  if (write || !all_in_address) {
    http.method = "POST";
    http.body = json::serialize(body);
    http.headers.emplace_back("Content-Type", "application/json");
  }
  UseCredentials(call.credentials, http);
  if (write) {
    http.headers.emplace_back("Idempotency-Key", call.idempotency_key);
    http.fresh_connection = true;
  }
  http.deadline_ns = call.deadline_ns;
  http.max_body_bytes = kMaxToolBytes;
  http.stop = [stop = call.stop] { return stop->load(); };
  http.on_send = [&] {
    outcome.effect = ToolEffect::kUnknown;
    if (call.on_send) call.on_send();
  };
  const Result<HttpReply> reply = CallHttp(http);
  if (!reply) {
    const bool wrong_size = reply.error().code() == StatusCode::kResourceExhausted;
    return refused(wrong_size ? InvalidArgumentError(reply.error().message()) : reply.error());
  }
  if (reply->status < 200 || reply->status > 299) {
    if (IsDefiniteRefusal(reply->status)) outcome.effect = ToolEffect::kRefused;
    return refused(UnavailableError("its server answers with status " + std::to_string(reply->status)));
  }
  outcome.effect = ToolEffect::kDone;
  outcome.value = ParseToolObject(reply->body);
  return outcome;
}

}  // namespace surety::gateway
