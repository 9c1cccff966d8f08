#include "gateway/review_service.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/nearest_name.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr int64_t kReviewListDefault = 50;
constexpr std::string_view kReviewRoot = "/v1/review/";

struct ReviewAction {
  std::string_view name;
  std::vector<std::string> members, required;
};

const std::vector<ReviewAction>& ReviewActions() {
  static const std::vector<ReviewAction> kActions = {
      {"list", {"queue", "state", "limit"}, {}},
      {"free", {"queue", "limit"}, {}},
      {"get", {"id"}, {"id"}},
      {"lease", {"queue", "id", "version"}, {}},
      {"release", {"id", "version"}, {"id", "version"}},
      {"edit", {"id", "version", "text"}, {"id", "version", "text"}},
      {"approve", {"id", "version", "reason_code", "reason"}, {"id", "version"}},
      {"reject", {"id", "version", "reason_code", "reason"}, {"id", "version"}},
      {"stats", {}, {}}};
  return kActions;
}

std::string ReviewHint(std::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

// The arguments of one call, checked against its action.
class ReviewArguments {
 public:
  static Result<ReviewArguments> Make(std::string_view action, const json::object& members) {
    const auto found = std::ranges::find(ReviewActions(), action, &ReviewAction::name);
    if (found == ReviewActions().end()) {
      std::vector<std::string> names;
      for (const ReviewAction& known : ReviewActions()) names.emplace_back(known.name);
      return Error(InvalidArgumentError(fmt::format("no review action '{}'{}", action, ReviewHint(action, names))));
    }
    for (const auto& [name, value] : members) {
      if (std::ranges::find(found->members, std::string_view(name)) != found->members.end()) continue;
      return Error(InvalidArgumentError(fmt::format("{}: unknown member '{}'{}", action, std::string_view(name),
                                                    ReviewHint(name, found->members))));
    }
    ReviewArguments arguments;
    for (const auto& [name, value] : members) {
      if (value.is_null()) continue;
      const std::string_view key = name;
      if (key == "version" || key == "limit") {
        SURETY_ASSIGN_OR_RETURN(arguments.numbers_[std::string(key)], Whole(key, value));
      } else if (value.is_string()) {
        arguments.texts_[std::string(key)] = std::string(value.as_string());
      } else {
        return Error(InvalidArgumentError(fmt::format("{}: it must be a string", key)));
      }
    }
    for (const std::string& name : found->required) {
      if (!arguments.Has(name)) return Error(InvalidArgumentError(fmt::format("{}: '{}' is missing", action, name)));
    }
    return arguments;
  }

  bool Has(const std::string& name) const { return texts_.contains(name) || numbers_.contains(name); }
  std::string Text(const std::string& name) const {
    const auto found = texts_.find(name);
    return found == texts_.end() ? "" : found->second;
  }
  int64_t Number(const std::string& name, int64_t otherwise = 0) const {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? otherwise : found->second;
  }

 private:
  static Result<int64_t> Whole(std::string_view name, const json::value& value) {
    boost::system::error_code error;
    const auto number = value.to_number<int64_t>(error);
    if (!error && number >= 1) return number;
    return Error(InvalidArgumentError(fmt::format("{}: it must be a whole number from 1", name)));
  }

  std::map<std::string, std::string> texts_;
  std::map<std::string, int64_t> numbers_;
};

json::value ReviewTime(int64_t wall_ns) {
  return wall_ns == 0 ? json::value(nullptr) : json::value(wall_ns / 1'000'000'000);
}

// `whole`: with evidence and texts as they are; else for a list.
json::object TicketJson(const Ticket& ticket, const std::map<std::string, ReviewQueueSpec>& queues, bool whole) {
  const auto spec = queues.find(ticket.queue);
  json::object out{{"object", "review.ticket"}, {"id", ticket.id}, {"version", ticket.version},
                   {"state", NameOf(ticket.state)}, {"queue", ticket.queue}, {"route", ticket.route},
                   {"decision", ticket.decision}, {"tenant", ticket.tenant}, {"subject", ticket.subject},
                   {"risk", ticket.risk}, {"question", ticket.question}};
  out["created_at"] = ReviewTime(ticket.created_ns);
  out["decided_at"] = ReviewTime(ticket.decided_ns);
  out["leased_by"] = ticket.leased_by.empty() ? json::value(nullptr) : json::value(ticket.leased_by);
  out["lease_expires_at"] = ReviewTime(ticket.lease_until_ns);
  out["approvals_required"] = spec == queues.end() ? 1 : std::max(1, spec->second.approvals);
  out["approvers"] = json::value_from(ticket.approvers);
  out["editors"] = json::value_from(ticket.editors);
  if (!whole) return out;
  out["draft"] = ticket.draft;
  out["text"] = ticket.text;
  out["context"] = ticket.context;
  out["reason_code"] = ticket.reason_code;
  out["reason"] = ticket.reason;
  out["decided_by"] = ticket.decided_by;
  out["edit_distance"] = ticket.edit_distance;
  out["review_seconds"] = NanosToSeconds(ticket.review_ns);
  return out;
}

Result<TicketState> StateNamed(const std::string& name) {
  std::vector<std::string> names;
  for (const TicketState state : {TicketState::kOpen, TicketState::kApproved, TicketState::kRejected,
                                  TicketState::kErased}) {
    if (name == NameOf(state)) return state;
    names.emplace_back(NameOf(state));
  }
  return Error(InvalidArgumentError(fmt::format("state: '{}' is none of open, approved, rejected, erased{}", name,
                                                ReviewHint(name, names))));
}

Result<Ticket> ChangeTicket(ReviewStore& store, const Reviewer& reviewer, std::string_view action,
                            const ReviewArguments& a) {
  const std::string id = a.Text("id");
  const int64_t version = a.Number("version");
  if (action == "get") return store.Get(reviewer, id);
  if (action == "release") return store.Release(reviewer, id, version);
  if (action == "edit") return store.Edit(reviewer, id, version, a.Text("text"));
  if (action == "approve") return store.Approve(reviewer, id, version, a.Text("reason_code"), a.Text("reason"));
  if (action == "reject") return store.Reject(reviewer, id, version, a.Text("reason_code"), a.Text("reason"));
  if (a.Has("id") && a.Has("version") && !a.Has("queue")) return store.LeaseTicket(reviewer, id, version);
  if (a.Has("queue") && !a.Has("id") && !a.Has("version")) return store.Lease(reviewer, a.Text("queue"));
  return Error(InvalidArgumentError("lease: give 'queue' for its oldest ticket, or 'id' and 'version' for that one"));
}

// "%2F" and "+" in a query; nothing for a broken escape.
std::optional<std::string> UnescapedPart(std::string_view text, bool query) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = HexDigitValue(text[i + 1]), low = HexDigitValue(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += query && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

std::string EscapedPart(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                       c == '_' || c == '.' || c == '~';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

Status AddArgument(json::object& arguments, std::string name, std::string value) {
  if (arguments.contains(name)) return InvalidArgumentError(fmt::format("'{}' is given twice", name));
  int64_t number = 0;
  const char* end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, number);
  const bool whole = !value.empty() && parsed.ec == std::errc() && parsed.ptr == end;
  if ((name == "limit" || name == "version") && whole) {
    arguments[name] = number;
  } else {
    arguments[name] = std::move(value);
  }
  return OkStatus();
}

Status AddQuery(json::object& arguments, std::string_view query) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    const auto name = UnescapedPart(pair.substr(0, equals), true);
    const auto value = UnescapedPart(equals == std::string_view::npos ? "" : pair.substr(equals + 1), true);
    if (!name || !value) return InvalidArgumentError("the query has a broken %-escape");
    SURETY_RETURN_IF_ERROR(AddArgument(arguments, *name, *value));
  }
  return OkStatus();
}

}  // namespace

ReviewService::ReviewService(ReviewStore& store, std::map<std::string, ReviewQueueSpec> queues, Hooks hooks)
    : store_(store), queues_(std::move(queues)), hooks_(std::move(hooks)) {}

void ReviewService::UseQueues(std::map<std::string, ReviewQueueSpec> queues) {
  const std::lock_guard lock(mutex_);
  queues.insert(queues_.begin(), queues_.end());
  queues_ = std::move(queues);
}

std::map<std::string, ReviewQueueSpec> ReviewService::Queues() const {
  const std::lock_guard lock(mutex_);
  return queues_;
}

Result<json::object> ReviewService::Handle(const Reviewer& reviewer, std::string_view action,
                                           const json::object& arguments) const {
  SURETY_ASSIGN_OR_RETURN(const ReviewArguments a, ReviewArguments::Make(action, arguments));
  if (action == "stats") {
    SURETY_ASSIGN_OR_RETURN(json::object queues, store_.Stats(reviewer));
    return json::object{{"object", "review.stats"}, {"queues", std::move(queues)}};
  }
  if (action == "list" || action == "free") {
    SURETY_ASSIGN_OR_RETURN(const TicketState state, StateNamed(a.Has("state") ? a.Text("state") : "open"));
    const auto limit = static_cast<int>(std::min<int64_t>(a.Number("limit", kReviewListDefault), 1'000'000));
    SURETY_ASSIGN_OR_RETURN(const auto tickets, action == "free"
                                                    ? store_.ListFree(reviewer, a.Text("queue"), limit)
                                                    : store_.List(reviewer, a.Text("queue"), state, limit));
    json::array data;
    const auto queues = Queues();
    for (const Ticket& ticket : tickets) data.push_back(TicketJson(ticket, queues, /*whole=*/false));
    return json::object{{"object", "list"}, {"data", std::move(data)}};
  }
  if (action == "approve" && hooks_.before_approval) {
    SURETY_ASSIGN_OR_RETURN(const Ticket seen, store_.Get(reviewer, a.Text("id")));
    // Another version is refused by the store: what is looked at is what is approved.
    const bool same = seen.version == a.Number("version") && seen.state == TicketState::kOpen && !seen.text.empty();
    if (same) SURETY_RETURN_IF_ERROR(hooks_.before_approval(seen));
  }
  SURETY_ASSIGN_OR_RETURN(const Ticket ticket, ChangeTicket(store_, reviewer, action, a));
  json::object out = TicketJson(ticket, Queues(), /*whole=*/true);
  const bool vote = action == "approve" || action == "reject";
  if (vote && ticket.state != TicketState::kOpen && hooks_.on_decided) out["release"] = hooks_.on_decided(ticket);
  return out;
}

Result<ReviewCall> ReviewCallOf(std::string_view method, std::string_view target, const json::object& body) {
  const std::string_view path = target.substr(0, target.find('?'));
  const std::string_view query = path.size() == target.size() ? "" : target.substr(path.size() + 1);
  const auto unknown = [&] { return Error(NotFoundError("no such path under /v1/review")); };
  if (!path.starts_with(kReviewRoot)) return unknown();
  const std::string_view rest = path.substr(kReviewRoot.size());
  ReviewCall call{"", body};
  std::string_view wanted = "POST";
  constexpr std::string_view kTickets = "tickets/";
  if (rest == "tickets" || rest == "free" || rest == "stats") {
    call.action = rest == "tickets" ? "list" : rest;
    wanted = "GET";
  } else if (rest == "lease") {
    call.action = "lease";
  } else if (rest.starts_with(kTickets)) {
    const std::string_view part = rest.substr(kTickets.size());
    const std::string_view id_part = part.substr(0, part.find('/'));
    const auto id = UnescapedPart(id_part, false);
    if (!id || id->empty()) return unknown();
    if (body.contains("id")) return Error(InvalidArgumentError("'id' stands in the path; leave it out of the body"));
    call.arguments["id"] = *id;
    if (id_part.size() == part.size()) {
      call.action = "get";
      wanted = "GET";
    } else {
      call.action = part.substr(id_part.size() + 1);
      constexpr std::array<std::string_view, 5> kOfOne = {"lease", "release", "edit", "approve", "reject"};
      if (std::ranges::find(kOfOne, call.action) == kOfOne.end()) return unknown();
    }
  } else {
    return unknown();
  }
  if (method != wanted) return Error(UnimplementedError(fmt::format("{} takes {}, not {}", path, wanted, method)));
  SURETY_RETURN_IF_ERROR(AddQuery(call.arguments, query));
  return call;
}

ReviewRequest ReviewRequestOf(const ReviewCall& call) {
  ReviewRequest request{"POST", std::string(kReviewRoot), call.arguments};
  if (call.action == "stats") {
    request.method = "GET";
    request.target += "stats";
  } else if (call.action == "list" || call.action == "free") {
    request.method = "GET";
    request.target += call.action == "list" ? "tickets" : "free";
    char separator = '?';
    for (const auto& [name, value] : call.arguments) {
      const std::string text = value.is_string() ? std::string(value.as_string()) : json::serialize(value);
      request.target += fmt::format("{}{}={}", separator, std::string_view(name), EscapedPart(text));
      separator = '&';
    }
    request.body.clear();
  } else if (const json::value* id = call.arguments.if_contains("id"); id != nullptr && id->is_string()) {
    request.target += "tickets/" + EscapedPart(id->as_string());
    request.body.erase("id");
    if (call.action == "get") {
      request.method = "GET";
    } else {
      request.target += "/" + call.action;
    }
  } else {
    request.target += call.action;
  }
  return request;
}

json::object AuditBodyOf(const ReviewVote& vote) {
  const Ticket& ticket = vote.ticket;
  const auto digest = Sha256Of(std::as_bytes(std::span(ticket.text)));
  return {{"id", ticket.id}, {"version", ticket.version}, {"decision", ticket.decision}, {"tenant", ticket.tenant},
          {"queue", ticket.queue}, {"vote", vote.approval ? "approve" : "reject"}, {"reviewer", vote.reviewer},
          {"state", NameOf(ticket.state)}, {"approvers", json::value_from(ticket.approvers)},
          {"reason_code", ticket.reason_code}, {"text_sha256", HexOf(digest)}};
}

bool TookEffect(const json::object& body, const Ticket& ticket, bool newest) {
  const json::value* version = body.if_contains("version");
  const json::value* id = body.if_contains("id");
  if (version == nullptr || id == nullptr || !id->is_string() || id->as_string() != ticket.id) return false;
  boost::system::error_code error;
  const auto number = version->to_number<int64_t>(error);
  return !error && newest && std::ranges::find(ticket.votes, number) != ticket.votes.end();
}

}  // namespace surety::gateway
