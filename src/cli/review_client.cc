#include "cli/review_client.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include "cli/interrupt.h"
#include "gateway/http_client.h"

namespace surety::cli {
namespace {

namespace json = boost::json;

StatusCode ReviewCodeOf(int http_status) {
  switch (http_status) {
    case 400: case 405: case 422: return StatusCode::kInvalidArgument;
    case 401: return StatusCode::kUnauthenticated;
    case 403: return StatusCode::kPermissionDenied;
    case 404: return StatusCode::kNotFound;
    case 409: return StatusCode::kFailedPrecondition;
    case 429: return StatusCode::kResourceExhausted;
    default: return StatusCode::kUnavailable;
  }
}

// A code point of UTF-8 and its length; 0: none.
uint32_t ReviewCodePoint(std::string_view text, size_t& length) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  length = first < 0x80 ? 1 : (first >> 5) == 6 ? 2 : (first >> 4) == 14 ? 3 : (first >> 3) == 30 ? 4 : 0;
  if (length == 0 || length > text.size()) return length = 0, 0;
  uint32_t code = length == 1 ? first : first & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return length = 0, 0;
    code = (code << 6) | (byte(i) & 0x3F);
  }
  return code;
}

// Characters that move, hide or reorder what stands around them.
bool Deceives(uint32_t c) {
  return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0) || c == 0xAD || c == 0x61C || c == 0x180E ||
         (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) ||
         c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFB) || (c >= 0xE0000 && c <= 0xE007F);
}

std::string Names(const json::object& ticket, std::string_view name) {
  std::string out;
  const json::value* list = ticket.if_contains(name);
  if (list == nullptr || !list->is_array()) return out;
  for (const json::value& person : list->as_array()) {
    if (person.is_string()) out += (out.empty() ? "" : ", ") + VisibleText(person.as_string());
  }
  return out;
}

void Section(std::string& out, std::string_view title, const std::string& body) {
  if (body.empty()) return;
  out += fmt::format("\n== {}\n{}{}", title, body, body.ends_with('\n') ? "" : "\n");
}

// Evidence, whatever its members: texts as they are, all else as JSON, an item a line.
std::string ContextText(const json::value& value) {
  if (value.is_string()) return VisibleText(value.as_string()) + "\n";
  std::string out;
  if (value.is_array()) {
    for (const json::value& item : value.as_array()) out += "- " + ContextText(item);
    return out;
  }
  if (value.is_object()) {
    for (const auto& [name, member] : value.as_object()) {
      out += fmt::format("{}{}: {}", out.empty() ? "" : "  ", VisibleText(name),
                         member.is_structured() ? VisibleText(json::serialize(member)) + "\n" : ContextText(member));
    }
    return out.empty() ? "\n" : out;
  }
  return json::serialize(value) + "\n";
}

}  // namespace

Result<json::object> ReviewClient::Call(const gateway::ReviewCall& call) const {
  const gateway::ReviewRequest request = gateway::ReviewRequestOf(call);
  gateway::HttpCall http;
  http.method = request.method;
  http.url = (url_.ends_with('/') ? url_.substr(0, url_.size() - 1) : url_) + request.target;
  if (!key_.empty()) http.headers.emplace_back("Authorization", "Bearer " + key_);
  if (request.method == "POST") {
    http.headers.emplace_back("Content-Type", "application/json");
    http.body = json::serialize(request.body);
  }
  http.max_body_bytes = size_t{64} << 20;
  http.stop = [] { return Interrupted(); };
  SURETY_ASSIGN_OR_RETURN(const gateway::HttpReply reply, gateway::CallHttp(http));
  json::error_code error;
  json::parse_options options;
  options.max_depth = 256;
  json::value value = json::parse(reply.body, error, {}, options);
  const json::object* object = error ? nullptr : value.if_object();
  if (reply.status / 100 == 2) {
    if (object != nullptr) return *object;
    return Error(UnavailableError(fmt::format("{}: the answer is no JSON object", url_)));
  }
  std::string message = fmt::format("{} answered {}", url_, reply.status);
  if (const json::value* said = object == nullptr ? nullptr : object->if_contains("error"); said != nullptr) {
    if (const json::object* fault = said->if_object()) message = VisibleText(TextOf(*fault, "message"));
  }
  return Error(Status(ReviewCodeOf(reply.status), message));
}

std::string VisibleText(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    size_t length = 0;
    const uint32_t code = ReviewCodePoint(text, length);
    if (length == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
      length = 1;
    } else if (Deceives(code)) {
      out += code < 0x80 ? fmt::format("\\x{:02x}", code) : fmt::format("<U+{:04X}>", code);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string TextOf(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

int64_t WholeOf(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_int64() ? value->as_int64() : 0;
}

std::string TicketLine(const json::object& ticket) {
  std::string question = VisibleText(TextOf(ticket, "question"));
  for (char& c : question) c = c == '\n' || c == '\t' ? ' ' : c;
  constexpr size_t kShown = 60;
  if (question.size() > kShown) {
    size_t end = kShown;
    while (end > 0 && (static_cast<unsigned char>(question[end]) & 0xC0) == 0x80) --end;  // between characters
    question = question.substr(0, end) + "...";
  }
  const std::string holder = VisibleText(TextOf(ticket, "leased_by"));
  return fmt::format("{}  {}  {}  v{}  {}{}  {}\n", TextOf(ticket, "id"), TextOf(ticket, "state"),
                     VisibleText(TextOf(ticket, "queue")), WholeOf(ticket, "version"),
                     VisibleText(TextOf(ticket, "risk")), holder.empty() ? "" : "  leased by " + holder, question);
}

std::string TicketDocument(const json::object& ticket) {
  const auto shown = [&](std::string_view name) { return VisibleText(TextOf(ticket, name)); };
  std::string out = fmt::format("{}  version {}  {}  queue {}  route {}  risk {}\nfrom {} of {}, decision {}\n",
                                TextOf(ticket, "id"), WholeOf(ticket, "version"), shown("state"), shown("queue"),
                                shown("route"), shown("risk"), shown("subject"), shown("tenant"), shown("decision"));
  const std::string approvers = Names(ticket, "approvers"), editors = Names(ticket, "editors");
  const int64_t required = WholeOf(ticket, "approvals_required");
  if (required > 1 || !approvers.empty()) {
    out += fmt::format("approved by {} ({} needed)\n", approvers.empty() ? "nobody yet" : approvers, required);
  }
  if (!editors.empty()) out += fmt::format("edited by {}\n", editors);
  if (const std::string holder = shown("leased_by"); !holder.empty()) out += fmt::format("leased by {}\n", holder);
  if (const std::string who = shown("decided_by"); !who.empty()) {
    out += fmt::format("{} by {}: {} {}\n", shown("state"), who, shown("reason_code"), shown("reason"));
  }
  Section(out, "Question", shown("question"));
  if (const json::value* context = ticket.if_contains("context"); context != nullptr && context->is_object()) {
    for (const auto& [name, value] : context->as_object()) Section(out, VisibleText(name), ContextText(value));
  }
  if (TextOf(ticket, "draft") != TextOf(ticket, "text")) Section(out, "Draft, as the model made it", shown("draft"));
  Section(out, "Text that an approval releases", shown("text"));
  return out;
}

std::string ReviewStatsTable(const json::object& stats) {
  std::string out = fmt::format("{:<20} {:>6} {:>6} {:>8} {:>8} {:>8} {:>10} {:>10} {:>6}\n", "queue", "open", "leased",
                                "approved", "rejected", "oldest s", "review s", "decision s", "edit");
  const json::value* queues = stats.if_contains("queues");
  if (queues == nullptr || !queues->is_object()) return out;
  for (const auto& [name, value] : queues->as_object()) {
    if (!value.is_object()) continue;
    const json::object& queue = value.as_object();
    const auto real = [&](std::string_view member, int digits) -> std::string {
      const json::value* number = queue.if_contains(member);
      boost::system::error_code error;
      const double shown = number == nullptr || number->is_null() ? 0 : number->to_number<double>(error);
      return number == nullptr || number->is_null() || error ? "-" : fmt::format("{:.{}f}", shown, digits);
    };
    out += fmt::format("{:<20} {:>6} {:>6} {:>8} {:>8} {:>8} {:>10} {:>10} {:>6}\n", VisibleText(name),
                       WholeOf(queue, "open"), WholeOf(queue, "leased"), WholeOf(queue, "approved"),
                       WholeOf(queue, "rejected"), real("oldest_open_seconds", 0), real("review_seconds", 1),
                       real("decision_seconds", 0), real("edit_distance", 2));
  }
  return out + "\nreview, decision and edit are medians of decided tickets\n";
}

}  // namespace surety::cli
