#include "gateway/governance.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <span>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/hash.h"
#include "gateway/circumstances.h"
#include "gateway/personal_data.h"
#include "gateway/policy_check.h"
#include "gateway/policy_reader.h"
#include "gateway/remote_backend.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr size_t kMaxSubjectScopes = 100'000;
constexpr int64_t kFinishWithinNanos = int64_t{30} * 24 * 3600 * 1'000'000'000;  // of a vote, after a crash
constexpr int kMaxShownFaults = 5;
constexpr int64_t kMaxReplayMs = 300'000;
constexpr int64_t kMaxQuotaFileBytes = 64 << 20;

// What a model's backend is made of; a reload makes a new one where any of it changed. Held in memory alone: it has the
// secrets in it, so that one that was replaced is read anew.
Result<std::string> ModelKey(const ModelSpec& spec, const std::string& directory) {
  std::string key = fmt::format("{}\n{}\n{}\n{}\n", spec.name, spec.weights, spec.draft_model, spec.draft_head);
  if (spec.engine == ModelSpec::Engine::kLocal) return key;
  SURETY_ASSIGN_OR_RETURN(const RemoteOptions options, RemoteOptionsOf(spec, directory));
  key += fmt::format("{}\n{}\n{}\n{}\n", options.base_url, options.api_key, options.timeout_ns, options.max_parallel);
  key += options.tls.ca_file + '\n' + options.tls.certificate + '\n' + options.tls.key + '\n';
  for (const auto& [name, value] : options.headers) key.append(name).append(": ").append(value).append("\n");
  return key;
}

// One that is there stays as its owner made it.
Status MakePrivateDirectory(const std::filesystem::path& directory) {
  std::error_code failed;
  if (std::filesystem::is_directory(directory, failed)) return OkStatus();
  std::filesystem::create_directories(directory.parent_path(), failed);
  if (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return OkStatus();
  return IoError("'" + directory.string() + "': " + std::strerror(errno));
}

// Tickets of a queue that `after` lacks would wait for nobody.
Status CheckQueuesLeft(ReviewStore& store, const Policy& before, const Policy& after) {
  constexpr int kNamed = 5;
  for (const auto& [name, queue] : before.review) {
    if (after.review.contains(name)) continue;
    const Reviewer all{"reload", {queue.permission}, "*"};
    SURETY_ASSIGN_OR_RETURN(const auto open, store.List(all, name, TicketState::kOpen, kNamed + 1));
    if (open.empty()) continue;
    std::string tickets;
    for (size_t i = 0; i < open.size() && i < kNamed; ++i) tickets += (i == 0 ? "" : ", ") + open[i].id;
    if (open.size() > kNamed) tickets += " and others";
    return FailedPreconditionError("the new policy has no review queue '" + name + "', in which tickets are open: " +
                                   tickets + "; let them be decided first, or keep the queue");
  }
  return OkStatus();
}

// A ledger that tells of each decision besides.
class TellingLedger final : public Ledger {
 public:
  TellingLedger(std::unique_ptr<Ledger> ledger, std::function<void(const DecisionRecord&)> tell)
      : ledger_(std::move(ledger)), tell_(std::move(tell)) {}
  void Record(const DecisionRecord& record) override {
    ledger_->Record(record);
    tell_(record);
  }
  void Record(const ReviewOutcome& outcome) override { ledger_->Record(outcome); }
  void Record(const ShadowOutcome& outcome) override { ledger_->Record(outcome); }
  void UsePolicy(const Policy& policy) override { ledger_->UsePolicy(policy); }
  json::object Report() const override { return ledger_->Report(); }

 private:
  std::unique_ptr<Ledger> ledger_;
  std::function<void(const DecisionRecord&)> tell_;
};

// What cannot be shown before anybody is served is not served.
Status MayServe(const Policy& policy, FileSystem& files, int64_t now_ns) {
  std::string faults;
  int n_faults = 0;
  for (const Obligation& obligation : CheckPolicy(policy, files, now_ns)) {
    for (const std::string& fault : obligation.faults) {
      if (++n_faults > kMaxShownFaults) continue;
      faults += "\n  " + std::to_string(obligation.number) + " " + obligation.name + ": " + fault;
    }
  }
  if (n_faults == 0) return OkStatus();
  if (n_faults > kMaxShownFaults) faults += "\n  and " + std::to_string(n_faults - kMaxShownFaults) + " more";
  return FailedPreconditionError("policy '" + policy.path + "' cannot be served; surety check shows all:" + faults);
}

// Of the same tenant and subject, who still has the permissions with which he asked. Permissions that the request named
// are less than those of its caller, so his own are not theirs to compare.
bool IsOfCaller(const DecisionRecord& record, const Policy& policy, const api::Caller& caller, int64_t now_ns) {
  std::vector<Dimension> asked = {Dimension::kTenant};
  const auto from = policy.identity[static_cast<size_t>(Dimension::kPermissions)].from;
  const bool own_permissions = from != DimensionSource::From::kMetadata && from != DimensionSource::From::kTool;
  if (own_permissions) asked.push_back(Dimension::kPermissions);
  const auto own = ReadDimensions(policy, caller, now_ns, asked);
  if (!own || caller.subject != record.subject) return false;
  if (own->text[static_cast<size_t>(Dimension::kTenant)].value_or("") != record.tenant) return false;
  return !own_permissions ||
         std::ranges::includes(own->permissions.value_or(std::vector<std::string>()), record.permissions);
}

std::string StateName(const DecisionRecord& record, const Ticket* ticket, const ReleaseOutcome* finished) {
  if (record.decision.outcome == api::Outcome::kRefused) return "refused";
  if (record.decision.outcome != api::Outcome::kReview) return "released";
  if (ticket == nullptr) return "review_pending";
  switch (ticket->state) {
    case TicketState::kApproved: return finished == nullptr ? "review_pending" : std::string(NameOf(finished->state));
    case TicketState::kRejected: return "rejected";
    case TicketState::kErased: return "erased";
    case TicketState::kOpen: break;
  }
  return "review_pending";
}

}  // namespace

Governance::~Governance() {
  if (backend_ != nullptr) backend_->Drain(0);
  {
    const std::lock_guard lock(keeper_mutex_);
    stopping_ = true;
  }
  keeper_wakes_.notify_all();
  if (keeper_.joinable()) keeper_.join();
}

Result<std::unique_ptr<Governance>> Governance::Open(Options options) {
  auto governance = std::unique_ptr<Governance>(new Governance(std::move(options)));
  SURETY_RETURN_IF_ERROR(governance->OpenParts());
  SURETY_RETURN_IF_ERROR(governance->RestoreQuota());
  governance->keeper_ = std::thread([raw = governance.get()] { raw->Keep(); });
  return governance;
}

Result<std::shared_ptr<const PolicyRuntime>> Governance::ReadRuntime() {
  SURETY_ASSIGN_OR_RETURN(Policy read, ReadPolicy(*options_.files, options_.policy_path));
  if (options_.amend) options_.amend(read);
  auto policy = std::make_shared<const Policy>(std::move(read));
  SURETY_RETURN_IF_ERROR(MayServe(*policy, *options_.files, options_.clock->WallNanos()));
  // Those that no policy in force and no request uses any more. They end here, never on a thread of their own.
  std::erase_if(models_, [](const auto& model) { return model.second == nullptr || model.second.use_count() == 1; });
  RuntimeParts parts;
  parts.embed = options_.embed;
  parts.embed_model = options_.embed_model;
  for (const auto& [name, spec] : policy->models) {
    SURETY_ASSIGN_OR_RETURN(const std::string key, ModelKey(spec, DirectoryOf(*policy)));
    std::shared_ptr<api::Backend>& model = models_[key];
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
  SURETY_RETURN_IF_ERROR(MakePrivateDirectory(directory));
  const auto in_state = [&](const std::string& name) { return (directory / name).string(); };
  AuditLog::Options log;
  log.path = policy.state.audit.empty() ? in_state("audit.log")
                                        : (std::filesystem::path(DirectoryOf(policy)) / policy.state.audit).string();
  quota_path_ = in_state("budgets.json");
  log.max_waiting = policy.state.max_waiting_audit_rows;
  log.rotate_at_bytes = policy.state.audit_rotate_at;
  log.rotate_every_ns = policy.state.audit_rotate_every_ns;
  AuditIo& io = options_.audit_io != nullptr ? *options_.audit_io : AuditIo::Real();
  SURETY_ASSIGN_OR_RETURN(auto audit, OpenAuditLog(std::move(log), *options_.clock, io));
  audit_ = std::move(audit);
  SURETY_ASSIGN_OR_RETURN(auto vault, PayloadVault::Open(in_state("vault.db"), in_state("vault.key")));
  vault_ = std::move(vault);
  auto ledger = Ledger::Make(policy, *options_.metrics, *options_.clock);
  if (options_.on_decision) ledger = std::make_unique<TellingLedger>(std::move(ledger), options_.on_decision);
  ledger_ = std::move(ledger);
  approved_ = std::make_unique<ApprovedRelease>(*audit_, *ledger_, [this] { return backend_->runtime(); });
  const std::string& given = policy.state.review_database;
  const bool elsewhere = given.find("://") != std::string::npos || given == ":memory:";
  const std::string beside = (std::filesystem::path(DirectoryOf(policy)) / given).string();
  const std::string database = given.empty() ? in_state("review.db") : elsewhere ? given : beside;
  SURETY_ASSIGN_OR_RETURN(auto review,
                          ReviewStore::Open(database, policy.review, *options_.clock,
                                            [this](const ReviewVote& vote) { return BeforeDecide(vote); }));
  review_store_ = std::move(review);
  ReviewService::Hooks hooks;
  hooks.before_approval = [this](const Ticket& ticket) { return approved_->MayApprove(ticket); };
  hooks.on_decided = [this](const Ticket& ticket) {
    const auto done = approved_->Finish(ticket);  // not done: made good when the answer is asked for, and at start
    return done ? done->ToJson() : json::object{{"state", "review_pending"}, {"error", done.error().message()}};
  };
  review_service_ = std::make_unique<ReviewService>(*review_store_, policy.review, std::move(hooks));
  cache_ = ResponseCache::Make(policy.state.cache_bytes, *options_.clock);
  scopes_ = std::make_shared<SubjectScopes>(kMaxSubjectScopes, !options_.kept_kv);
  json::object start{{"id", policy.id}, {"version", policy.version}, {"digest", policy.digest}};
  SURETY_ASSIGN_OR_RETURN(const AuditRow row, audit_->Append("policy", std::move(start)));
  SURETY_RETURN_IF_ERROR(CheckStores());
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
  FinishOldApprovals();
  CountWhatMustNotBe();
  return OkStatus();
}

void Governance::CountWhatMustNotBe() {
  const auto must_be_zero = [&](const char* name, const char* what, int64_t (GovernedBackend::*read)() const) {
    observe::Counter& counter = options_.metrics->AddCounter(name, what);
    options_.metrics->AddCollector([&counter, read, seen = int64_t{0}, weak = std::weak_ptr(backend_)]() mutable {
      const auto governed = weak.lock();
      if (governed == nullptr) return;
      const int64_t now = ((*governed).*read)();
      if (now > seen) counter.Add(static_cast<double>(now - std::exchange(seen, now)));
    });
  };
  must_be_zero("surety_cache_cross_partition_hits_total",
               "Answers found in a partition that was not asked: must be 0.", &GovernedBackend::cross_partition_hits);
  must_be_zero("surety_decisions_without_row_total", "Requests that ended without a row of the audit log: must be 0.",
               &GovernedBackend::decisions_without_row);
}

// What log and vault keep must come back, seen before the first request is taken: a row, and a text sealed in it.
Status Governance::CheckStores() {
  const std::string id = "start_" + NewDecisionId(options_.clock->WallNanos()).substr(4), text = "surety " + id;
  SURETY_ASSIGN_OR_RETURN(json::object sealed, vault_->Seal("", "surety", id, text));
  json::object start{{"id", id}, {"payload", std::move(sealed)}};
  SURETY_ASSIGN_OR_RETURN(const AuditRow written, audit_->Append("start", std::move(start)));
  auto row = audit_->Find("start", id);
  if (!row) return row.error().WithContext("reading back a row of the audit log");
  if (row->hash != written.hash) return DataLossError("a row of the audit log does not come back as it was written");
  SURETY_ASSIGN_OR_RETURN(const std::string back, vault_->Unseal(row->body.at("payload").as_object(), id));
  if (back != text) return DataLossError("a sealed text does not come back as it was written");
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
  SURETY_RETURN_IF_ERROR(CheckQueuesLeft(*review_store_, *before, *after));
  json::object row{{"id", after->id}, {"version", after->version}, {"digest", after->digest},
                   {"before", before->digest}};
  SURETY_ASSIGN_OR_RETURN(const AuditRow written, audit_->Append("policy", std::move(row)));
  const bool changed = before->digest != after->digest;
  json::object out{{"object", "surety.policy"}, {"policy", after->id},   {"version", after->version},
                   {"digest", after->digest},   {"changed", changed}};
  review_store_->UseQueues(after->review);  // first: the next request may send a ticket there
  review_service_->UseQueues(after->review);
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
  SURETY_RETURN_IF_ERROR(approved_->MayDecide(vote));
  SURETY_ASSIGN_OR_RETURN(const AuditRow row, audit_->Append("review", AuditBodyOf(vote)));
  return OkStatus();
}

Result<json::object> Governance::SettleWrite(const std::string& decision, int step, const std::string& state,
                                             const std::string& by, const std::string& reason) {
  SURETY_ASSIGN_OR_RETURN(const Ticket ticket, review_store_->GetForDecision(decision));
  if (ticket.state != TicketState::kApproved) {
    return Error(FailedPreconditionError("ticket " + ticket.id + " is " + std::string(NameOf(ticket.state)) +
                                         ": only an approved one has writes to settle"));
  }
  SURETY_RETURN_IF_ERROR(approved_->Settle(ticket, step, state, by, reason));
  SURETY_ASSIGN_OR_RETURN(const ReleaseOutcome outcome, approved_->Finish(ticket));
  json::object out = outcome.ToJson();
  out["object"] = "surety.write_settlement";
  out["decision"] = decision;
  return out;
}

json::object Governance::UnfinishedWrites() const {
  return {{"object", "list"}, {"data", approved_->Unfinished()}};
}

Result<Reviewer> Governance::ReviewerOf(const api::Caller& caller) const {
  const auto runtime = backend_->runtime();
  static constexpr std::array kWho = {Dimension::kTenant, Dimension::kPermissions};
  const auto who = ReadDimensions(*runtime->policy, caller, options_.clock->WallNanos(), kWho);
  if (!who && !caller.is_admin) return Error(who.error());
  Reviewer reviewer;
  reviewer.name = caller.subject;
  if (who && who->permissions) reviewer.permissions = *who->permissions;
  reviewer.tenant = caller.is_admin ? "*" : who->text[static_cast<size_t>(Dimension::kTenant)].value_or("");
  return reviewer;
}

// A second of spending is what a crash can forget.
void Governance::Keep() {
  std::string saved;
  std::unique_lock lock(keeper_mutex_);
  while (!stopping_) {
    keeper_wakes_.wait_for(lock, std::chrono::seconds(1));
    lock.unlock();
    saved = SaveQuota(saved);
    lock.lock();
  }
  lock.unlock();
  SaveQuota(saved);
}

std::string Governance::SaveQuota(const std::string& before) const {
  std::string now = json::serialize(backend_->SavedBudgets());
  if (now == before) return now;
  const Status written = options_.files->WriteAll(quota_path_, now);
  return written.ok() ? now : before;  // tried again in a second
}

Status Governance::RestoreQuota() {
  auto text = options_.files->ReadAll(quota_path_, kMaxQuotaFileBytes);
  if (!text && text.error().code() == StatusCode::kNotFound) return OkStatus();
  if (!text) return text.error();
  boost::system::error_code failed;
  const json::value saved = json::parse(*text, failed);
  const Status restored = !failed && saved.is_object() ? backend_->RestoreBudgets(saved.get_object())
                                                       : DataLossError("it is no JSON object");
  if (restored.ok()) return restored;
  return restored.WithContext("'" + quota_path_ + "', what budgets have spent; without the file they begin at 0");
}

// What a crash left between a vote and its release: nobody may ever ask for it, and its writes are due.
void Governance::FinishOldApprovals() {
  const auto decided = review_store_->DecidedSince(options_.clock->WallNanos() - kFinishWithinNanos);
  if (!decided) return;  // the store is asked again with each answer
  for (const std::string& decision : *decided) {
    if (audit_->Find("release", decision)) continue;
    const auto ticket = review_store_->GetForDecision(decision);
    if (!ticket) continue;
    const auto finished = approved_->Finish(*ticket);
    (void)finished.has_value();  // what is not done stands in UnfinishedWrites
  }
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
    if (!IsOfCaller(record, *runtime->policy, caller, options_.clock->WallNanos())) return Error(unknown);
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
  std::optional<ReleaseOutcome> finished;
  if (ticket && (ticket->state == TicketState::kApproved || ticket->state == TicketState::kRejected)) {
    if (auto done = approved_->Finish(*ticket)) finished = *std::move(done);  // does nothing where it was done
  }
  out["state"] = StateName(record, ticket ? &*ticket : nullptr, finished ? &*finished : nullptr);
  if (finished && finished->state == ReleaseState::kReleased) {
    SURETY_ASSIGN_OR_RETURN(out["answer"], OpenApproved(ReleaseToken::ForApproval(decision, finished->text_sha256),
                                                        decision, ticket->text));
  } else if (caller.is_admin && !record.error.empty()) {
    const auto texts = TextsOf(*row, decision);
    if (texts && texts->contains("error")) out["error"] = texts->at("error");
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
  if (request.timeout_ms <= 0 || request.timeout_ms > kMaxReplayMs) request.timeout_ms = kMaxReplayMs;
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

Result<json::object> Governance::ForgetDecision(const std::string& decision) {
  CacheForgetReceipt cached = cache_->ForgetDecision(decision);
  // Who saw the wrong answer knows the decision of the hit; the entry has that of who caused it.
  std::string origin;
  if (const auto row = RowOf(decision)) {
    SURETY_ASSIGN_OR_RETURN(const DecisionRecord record, DecisionRecord::FromJson(*row));
    constexpr std::string_view kFromCache = "cache:";
    if (record.model.starts_with(kFromCache)) origin = record.model.substr(kFromCache.size());
  }
  if (!origin.empty()) {
    const CacheForgetReceipt more = cache_->ForgetDecision(origin);
    cached.entries += more.entries;
    cached.vectors += more.vectors;
    cached.bytes += more.bytes;
  }
  json::object row{{"id", decision}, {"answers", cached.entries}, {"vectors", cached.vectors}};
  if (!origin.empty()) row["cached_by"] = origin;
  SURETY_ASSIGN_OR_RETURN(const AuditRow written, audit_->Append("erasure", row));
  row["object"] = "surety.forget_receipt";
  row["audit_seq"] = written.seq;
  return row;
}

}  // namespace surety::gateway
