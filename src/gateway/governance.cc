#include "gateway/governance.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <span>
#include <utility>

#include <boost/json.hpp>

#include "base/hash.h"
#include "gateway/circumstances.h"
#include "gateway/personal_data.h"
#include "gateway/policy_reader.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr size_t kMaxSubjectScopes = 100'000;

std::string ModelKey(const ModelSpec& spec) {
  return spec.name + '\n' + spec.weights + '\n' + spec.api_base + '\n' + spec.api_key_env;
}

std::string SubjectDigest(const std::string& tenant, const std::string& subject) {
  std::string bytes;
  AppendField(bytes, 1, tenant);
  AppendField(bytes, 2, subject);
  return HexOf(Sha256Of(std::as_bytes(std::span(bytes))));
}

std::string TextSha256(std::string_view text) { return HexOf(Sha256Of(std::as_bytes(std::span(text)))); }

bool SameQueues(const std::map<std::string, ReviewQueueSpec>& a, const std::map<std::string, ReviewQueueSpec>& b) {
  const auto same = [](const auto& x, const auto& y) {
    const auto fields = [](const ReviewQueueSpec& q) {
      return std::tie(q.name, q.lease_ns, q.approvals, q.exclude_author, q.reasons_required, q.permission,
                      q.minute_cost);
    };
    return fields(x.second) == fields(y.second);
  };
  return std::ranges::equal(a, b, same);
}

std::string StateName(const DecisionRecord& record, const Ticket* ticket, bool released) {
  if (record.decision.outcome == api::Outcome::kRefused) return "refused";
  if (record.decision.outcome != api::Outcome::kReview) return "released";
  if (ticket == nullptr) return "review_pending";
  switch (ticket->state) {
    case TicketState::kApproved: return released ? "released" : "review_pending";
    case TicketState::kRejected: return "rejected";
    case TicketState::kErased: return "erased";
    case TicketState::kOpen: break;
  }
  return "review_pending";
}

}  // namespace

Governance::~Governance() {
  if (backend_ != nullptr) backend_->Drain(0);
}

Result<std::unique_ptr<Governance>> Governance::Open(Options options) {
  auto governance = std::unique_ptr<Governance>(new Governance(std::move(options)));
  SURETY_RETURN_IF_ERROR(governance->OpenParts());
  return governance;
}

Result<std::shared_ptr<const PolicyRuntime>> Governance::ReadRuntime() {
  SURETY_ASSIGN_OR_RETURN(Policy read, ReadPolicy(*options_.files, options_.policy_path));
  auto policy = std::make_shared<const Policy>(std::move(read));
  RuntimeParts parts;
  parts.embed = options_.embed;
  for (const auto& [name, spec] : policy->models) {
    std::shared_ptr<api::Backend>& model = models_[ModelKey(spec)];
    if (model == nullptr) {
      SURETY_ASSIGN_OR_RETURN(model, options_.load(spec));
    }
    parts.models[name] = model;
  }
  return MakeRuntime(std::move(policy), std::move(parts), *options_.clock);
}

Status Governance::OpenParts() {
  SURETY_ASSIGN_OR_RETURN(auto runtime, ReadRuntime());
  const Policy& policy = *runtime->policy;
  const std::filesystem::path directory = std::filesystem::path(DirectoryOf(policy)) / policy.state.directory;
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  if (failed) return IoError("'" + directory.string() + "': " + failed.message());
  const auto in_state = [&](const std::string& name) { return (directory / name).string(); };
  AuditLog::Options log;
  log.path = policy.state.audit.empty() ? in_state("audit.log")
                                        : (std::filesystem::path(DirectoryOf(policy)) / policy.state.audit).string();
  log.max_waiting = policy.state.max_waiting_audit_rows;
  SURETY_ASSIGN_OR_RETURN(auto audit, AuditLog::Open(std::move(log), *options_.clock));
  audit_ = std::move(audit);
  SURETY_ASSIGN_OR_RETURN(auto vault, PayloadVault::Open(in_state("vault.db"), in_state("vault.key")));
  vault_ = std::move(vault);
  const std::string database = policy.state.review_database.empty() ? in_state("review.db")
                                                                    : policy.state.review_database;
  SURETY_ASSIGN_OR_RETURN(auto review,
                          ReviewStore::Open(database, policy.review, *options_.clock,
                                            [this](const ReviewVote& vote) { return BeforeDecide(vote); }));
  review_store_ = std::move(review);
  review_service_ = std::make_unique<ReviewService>(*review_store_, policy.review, [this](const Ticket& ticket) {
    const Status done = OnDecided(ticket);
    (void)done.ok();  // not done: made good when the answer is asked for
  });
  cache_ = ResponseCache::Make(policy.state.cache_bytes, *options_.clock);
  scopes_ = std::make_shared<SubjectScopes>(kMaxSubjectScopes, !options_.kept_kv);
  ledger_ = Ledger::Make(policy, *options_.metrics, *options_.clock);
  json::object start{{"id", policy.id}, {"version", policy.version}, {"digest", policy.digest}};
  SURETY_ASSIGN_OR_RETURN(const AuditRow row, audit_->Append("policy", std::move(start)));
  GovernedBackend::Options backend;
  backend.name = policy.id;
  backend.n_workers = options_.n_workers;
  backend.clock = options_.clock;
  backend.cache = cache_;
  backend.audit = audit_;
  backend.review = review_store_;
  backend.ledger = ledger_;
  backend.vault = vault_;
  backend.scopes = scopes_;
  backend.personal = [](std::string_view text) {
    std::vector<std::string> kinds;
    for (const PersonalItem& item : FindPersonalData(text)) kinds.emplace_back(NameOf(item.kind));
    return kinds;
  };
  SURETY_ASSIGN_OR_RETURN(backend_, GovernedBackend::Make(std::move(backend), std::move(runtime)));
  return OkStatus();
}

Result<json::object> Governance::Reload() {
  const std::lock_guard lock(reload_mutex_);
  SURETY_ASSIGN_OR_RETURN(auto runtime, ReadRuntime());
  const auto before = backend_->runtime()->policy;
  const auto& after = runtime->policy;
  const auto fixed = [](const Policy& policy) {
    return std::tie(policy.state.directory, policy.state.audit, policy.state.review_database, policy.id);
  };
  if (fixed(*before) != fixed(*after)) {
    return Error(FailedPreconditionError("a reload cannot change the policy's id or where its state lies: restart"));
  }
  if (!SameQueues(before->review, after->review)) {
    return Error(FailedPreconditionError("a reload cannot change the review queues: restart"));
  }
  json::object row{{"id", after->id}, {"version", after->version}, {"digest", after->digest},
                   {"before", before->digest}};
  SURETY_ASSIGN_OR_RETURN(const AuditRow written, audit_->Append("policy", std::move(row)));
  const bool changed = before->digest != after->digest;
  json::object out{{"object", "surety.policy"}, {"policy", after->id},   {"version", after->version},
                   {"digest", after->digest},   {"changed", changed}};
  backend_->Use(std::move(runtime));
  if (changed) cache_->Clear();  // nothing of it could be found again: the digest is part of every key
  return out;
}

json::object Governance::Describe() const {
  const auto runtime = backend_->runtime();
  json::array routes;
  for (const RouteSpec& route : runtime->policy->routes) routes.push_back(json::string(route.name));
  return {{"object", "surety.policy"},          {"policy", runtime->policy->id},
          {"version", runtime->policy->version}, {"digest", runtime->policy->digest},
          {"routes", std::move(routes)},         {"state", backend_->DebugState()}};
}

json::object Governance::Slo() const { return ledger_->Report(); }

Status Governance::BeforeDecide(const ReviewVote& vote) {
  SURETY_ASSIGN_OR_RETURN(const AuditRow row, audit_->Append("review", AuditBodyOf(vote)));
  return OkStatus();
}

// Once a ticket: the row of the release makes the answer visible.
Status Governance::OnDecided(const Ticket& ticket) {
  if (audit_->Find("release", ticket.decision)) return OkStatus();
  const bool approved = ticket.state == TicketState::kApproved;
  json::array outcomes;
  if (approved) {
    const json::value* writes = ticket.context.if_contains("writes");
    const auto runtime = backend_->runtime();
    for (size_t i = 0; writes != nullptr && i < writes->as_array().size(); ++i) {
      const json::object& write = writes->as_array()[i].as_object();
      ToolArguments arguments;
      for (const auto& argument : write.at("arguments").as_object()) {
        arguments[argument.key()] = std::string(argument.value().as_string());
      }
      const ToolResult result = runtime->tools->Write(std::string(write.at("tool").as_string()), ticket.decision,
                                                      std::to_string(i), arguments, ticket.approvers, *audit_);
      outcomes.push_back(json::object{{"tool", result.tool}, {"ok", result.status.ok()},
                                      {"error", result.status.message()}});
    }
  }
  json::object row{{"id", ticket.decision},
                   {"ticket", ticket.id},
                   {"state", NameOf(ticket.state)},
                   {"version", ticket.version},
                   {"text_sha256", TextSha256(ticket.text)},
                   {"writes", std::move(outcomes)}};
  SURETY_ASSIGN_OR_RETURN(const AuditRow written, audit_->Append("release", std::move(row)));
  const auto queues = backend_->runtime()->policy->review;
  const auto queue = queues.find(ticket.queue);
  ReviewOutcome outcome;
  outcome.route = ticket.route;
  outcome.queue = ticket.queue;
  outcome.approved = approved;
  outcome.edit_distance = ticket.edit_distance;
  outcome.review_ns = ticket.review_ns;
  outcome.cost = queue == queues.end() ? 0 : static_cast<double>(ticket.review_ns) / 60e9 * queue->second.minute_cost;
  ledger_->Record(outcome);
  return OkStatus();
}

Result<json::object> Governance::RowOf(const std::string& decision) const {
  SURETY_ASSIGN_OR_RETURN(AuditRow row, audit_->Find("decision", decision));
  return std::move(row.body);
}

Result<json::object> Governance::TextsOf(const json::object& row, const std::string& decision) const {
  const json::value* sealed = row.if_contains("payload");
  if (sealed == nullptr || !sealed->is_object()) return Error(NotFoundError("the log holds no texts of this decision"));
  SURETY_ASSIGN_OR_RETURN(const std::string text, vault_->Unseal(sealed->get_object(), decision));
  boost::system::error_code failed;
  json::value parsed = json::parse(text, failed);
  if (failed || !parsed.is_object()) return Error(DataLossError("the texts of '" + decision + "' are no object"));
  return std::move(parsed.get_object());
}

Result<json::object> Governance::StateOf(const std::string& decision, const api::Caller& caller) {
  const Status unknown = NotFoundError("no decision '" + decision + "' of this caller");
  const auto row = RowOf(decision);
  if (!row) return Error(row.error().code() == StatusCode::kNotFound ? unknown : row.error());
  SURETY_ASSIGN_OR_RETURN(const DecisionRecord record, DecisionRecord::FromJson(*row));
  if (!caller.is_admin) {
    const auto runtime = backend_->runtime();
    const auto own = ReadCircumstances(*runtime->policy, caller, options_.clock->WallNanos(), nullptr, nullptr);
    const bool same = own && own->text[static_cast<size_t>(Dimension::kTenant)].value_or("") == record.tenant &&
                      caller.subject == record.subject;
    if (!same) return Error(unknown);
  }
  json::object out{{"object", "surety.decision"},
                   {"id", decision},
                   {"route", record.decision.route},
                   {"policy_version", record.decision.policy_version},
                   {"release", api::NameOf(record.decision.outcome)}};
  std::optional<Ticket> ticket;
  if (!record.decision.review_ticket.empty()) {
    out["review_ticket"] = record.decision.review_ticket;
    if (auto found = review_store_->GetForDecision(decision)) ticket = *std::move(found);
  }
  bool released = false;
  if (ticket && (ticket->state == TicketState::kApproved || ticket->state == TicketState::kRejected)) {
    released = OnDecided(*ticket).ok();  // does nothing where it was done
  }
  out["state"] = StateName(record, ticket ? &*ticket : nullptr, released);
  if (ticket && ticket->state == TicketState::kApproved && released) {
    out["answer"] = ticket->text;
  } else if (record.decision.outcome == api::Outcome::kHeld || record.decision.outcome == api::Outcome::kTemplate) {
    const auto texts = TextsOf(*row, decision);
    if (texts) out["answer"] = texts->at("answer");
  }
  return out;
}

Result<json::object> Governance::Replay(const std::string& decision) {
  SURETY_ASSIGN_OR_RETURN(const json::object row, RowOf(decision));
  SURETY_ASSIGN_OR_RETURN(const DecisionRecord record, DecisionRecord::FromJson(row));
  SURETY_ASSIGN_OR_RETURN(const json::object texts, TextsOf(row, decision));
  const json::value* asked = texts.if_contains("request");
  if (asked == nullptr || !asked->is_object() || asked->get_object().empty()) {
    return Error(FailedPreconditionError("no model answered decision '" + decision + "' (" + record.model + ")"));
  }
  SURETY_ASSIGN_OR_RETURN(api::GenerationRequest request, RequestFromJson(asked->get_object()));
  request.scope.salt = "replay\x1f" + decision;  // from nothing, into nothing
  const auto runtime = backend_->runtime();
  api::Backend* model = runtime->FindModel(record.model);
  if (model == nullptr) {
    return Error(FailedPreconditionError("model '" + record.model + "' of decision '" + decision +
                                         "' is not being served"));
  }
  struct Shared {
    AnswerText answer;
    std::promise<api::Event> ended;
  };
  auto shared = std::make_shared<Shared>();
  const auto id = model->Submit(std::move(request), [shared](api::Event event) {
    shared->answer.text += event.text;
    for (const api::ToolCallDelta& delta : event.tool_calls) {
      const auto index = static_cast<size_t>(std::max(delta.index, 0));
      if (index >= shared->answer.calls.size()) shared->answer.calls.resize(index + 1);
      shared->answer.calls[index].name += delta.name;
      shared->answer.calls[index].arguments += delta.arguments;
    }
    if (event.finish != api::FinishReason::kNone) shared->ended.set_value(std::move(event));
  });
  if (!id) return Error(id.error().status);
  const api::Event last = shared->ended.get_future().get();
  if (last.finish == api::FinishReason::kError) return Error(last.error);
  const std::string digest = DigestOf(shared->answer);
  return json::object{{"object", "surety.replay"},
                      {"id", decision},
                      {"model", record.model},
                      {"model_revision", record.model_revision},
                      {"same_revision", model->description().digest == record.model_revision},
                      {"recorded_digest", record.answer_digest},
                      {"digest", digest},
                      {"same", digest == record.answer_digest},
                      {"answer", shared->answer.text}};
}

Result<api::ForgetReceipt> Governance::ForgetKv(const std::string& tenant, const std::string& subject) {
  const auto known = scopes_->Take(tenant, subject, options_.clock->NowNanos());
  if (!known) {
    api::Scope scope;
    scope.tenant = tenant;
    return backend_->Forget(scope, api::ForgetExtent::kTenant);
  }
  api::ForgetReceipt sum;
  for (const api::Scope& scope : *known) {
    SURETY_ASSIGN_OR_RETURN(const api::ForgetReceipt one, backend_->Forget(scope, api::ForgetExtent::kScope));
    sum.pages += one.pages;
    sum.bytes += one.bytes;
    sum.pages_in_use += one.pages_in_use;
  }
  return sum;
}

Result<json::object> Governance::ForgetSubject(const std::string& tenant, const std::string& subject) {
  // First: from here on nothing of it is kept.
  SURETY_ASSIGN_OR_RETURN(const api::ForgetReceipt kv, ForgetKv(tenant, subject));
  const CacheForgetReceipt cached = cache_->ForgetSubject(tenant, subject);
  SURETY_ASSIGN_OR_RETURN(const int64_t tickets, review_store_->Forget(tenant, subject));
  SURETY_ASSIGN_OR_RETURN(const int keys, vault_->Erase(tenant, subject));
  json::object receipt{{"id", "era_" + NewDecisionId(options_.clock->WallNanos()).substr(4)},
                       {"subject_sha256", SubjectDigest(tenant, subject)},
                       {"answers", cached.entries},
                       {"vectors", cached.vectors},
                       {"cache_bytes", cached.bytes},
                       {"kv_pages", kv.pages},
                       {"kv_bytes", kv.bytes},
                       {"kv_pages_in_use", kv.pages_in_use},
                       {"review_tickets", tickets},
                       {"audit_keys", keys}};
  SURETY_ASSIGN_OR_RETURN(const AuditRow row, audit_->Append("erasure", receipt));
  receipt["object"] = "surety.erasure_receipt";
  receipt["audit_seq"] = row.seq;
  receipt["audit_hash"] = row.hash;
  return receipt;
}

Result<json::object> Governance::ForgetDecision(const std::string& decision) {
  const CacheForgetReceipt cached = cache_->ForgetDecision(decision);
  json::object row{{"id", decision}, {"answers", cached.entries}, {"vectors", cached.vectors}};
  SURETY_ASSIGN_OR_RETURN(const AuditRow written, audit_->Append("erasure", row));
  row["object"] = "surety.forget_receipt";
  row["audit_seq"] = written.seq;
  return row;
}

}  // namespace surety::gateway
