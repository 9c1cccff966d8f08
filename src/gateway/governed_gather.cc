// The part of a governed request before a model is asked: response cache, passages, tools.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <span>
#include <utility>

#include "base/hash.h"
#include "gateway/governed_task.h"
#include "gateway/tools.h"

namespace surety::gateway {
namespace {

std::string BasisDigest(std::string_view text) { return HexOf(Sha256Of(std::as_bytes(std::span(text)))); }

Result<Retrieved> RunSearch(const PolicyRuntime& runtime, const RetrieverSpec& spec, ReadRights rights,
                            const std::string& question, std::vector<float> vector, SearchLimit limit) {
  using By = RetrieverSpec::By;
  if (spec.by != By::kText && vector.empty()) {
    SURETY_ASSIGN_OR_RETURN(auto vectors, runtime.embed(std::span(&question, 1)));
    if (vectors.size() == 1) vector = std::move(vectors.front());
  }
  if (spec.by == By::kText) vector.clear();
  const std::string_view query = spec.by == By::kVector ? std::string_view() : std::string_view(question);
  return runtime.stores.at(spec.name)->Retrieve(std::move(rights), query, vector, spec.top_k, limit);
}

std::string ConflictText(const Conflict& conflict) {
  std::string text = "invariant '" + conflict.invariant + "' is violated:";
  for (const std::string& source : conflict.violated_by) text += " " + source + ";";
  return text;
}

}  // namespace

// Shared with its thread. One that is late is given up: not begun where it still waits, else its result is dropped.
struct GovernedTask::Search {
  std::promise<Result<Retrieved>> result;
  std::atomic<bool> given_up = false;
  bool late = false;        // it ran on the worker, and was not done in time
  int64_t deadline_ns = 0;
};

// A search of texts alone takes less than handing it over, and ends at its deadline by itself. Should the disk hang, no
// more workers hang with it than may search at once.
bool GovernedTask::SearchHere(const RetrieverSpec& spec, FunctionRef<void()> run) const {
  if (spec.by != RetrieverSpec::By::kText || !setup_.runtime->stores.at(spec.name)->keeps_deadlines()) return false;
  std::atomic<int>& n = *services_.searches_here;
  const bool may = n.fetch_add(1) < services_.max_searches_here;
  if (may) run();
  --n;
  return may;
}

// All that decides the answer besides the circumstances and the question.
AnswerBasis GovernedTask::BasisOf(const RouteSpec& route) {
  AnswerBasis basis;
  basis.route = route.name;
  basis.policy_digest = policy().digest;
  const auto& description = setup_.runtime->models.at(route.model)->description();
  basis.model_revision = description.name + "@" + description.digest;
  basis.prompt_template = BasisDigest(route.system + '\0' + description.chat_template);
  basis.decoding = DecodingOf(setup_.request);
  basis.verifiers = setup_.runtime->verifiers->Versions(route.verify);
  const auto store = setup_.runtime->stores.find(route.retrieve);
  if (store != setup_.runtime->stores.end()) basis.retrieval_snapshot = store->second->Snapshot();
  basis.audience = route.release.audience == ReleaseSpec::Audience::kCustomer ? "customer" : "internal";
  basis.channel = setup_.request.has_prompt ? "text" : "chat";
  if (route.cache.subject_bound) basis.subject = record_.subject;
  basis.risk = NameOf(signals_.risk);
  basis.conversation = conversation_.canonical;
  return basis;
}

std::optional<CacheHit> GovernedTask::FindCached(const RouteSpec& route, bool& exact) {
  std::optional<CacheHit> hit;
  if (route.cache.mode != CacheSpec::Mode::kSemantic) {
    hit = services_.cache->Find(*partition_, *basis_, conversation_.question, as_of_ns_);
  }
  exact = hit.has_value();
  const auto intent = signals_.values.find("intent");
  const bool alike = route.cache.mode != CacheSpec::Mode::kExact && intent != signals_.values.end() &&
                     std::ranges::find(route.cache.intents, intent->second.label) != route.cache.intents.end();
  if (!hit && alike && setup_.runtime->embed) {
    const std::string question = conversation_.question;
    if (auto vectors = setup_.runtime->embed(std::span(&question, 1)); vectors && vectors->size() == 1) {
      question_vector_ = std::move(vectors->front());
      hit = services_.cache->FindSimilar(*partition_, *basis_, conversation_.question, question_vector_,
                                         route.cache.similarity, as_of_ns_);
    }
  }
  return hit;
}

// True if the answer came from the cache. Nothing is looked up that could not also be stored.
bool GovernedTask::TryCache(const RouteSpec& route) {
  std::string& outcome = record_.decision.cache;
  if (route.cache.mode == CacheSpec::Mode::kOff || route.answer != RouteSpec::Answer::kModel) {
    outcome = "bypass:off";
  } else if (!partition_) {
    outcome = "bypass:no_partition";
  } else if (route.cache.subject_bound && record_.subject.empty()) {
    outcome = "bypass:no_subject";
  } else if (conversation_.has_tools || !route.tools.empty()) {
    outcome = "bypass:tools";
  } else if (signals_.risk == Level::kHigh || !route.release.review.empty()) {
    outcome = "bypass:risk";
  } else {
    outcome = "miss";
  }
  if (outcome != "miss") return false;
  basis_ = BasisOf(route);
  bool exact = false;
  std::optional<CacheHit> hit = FindCached(route, exact);
  // A candidate: what it holds must be what was stored, and be valid now.
  if (!hit || !hit->answer.validity.Contains(as_of_ns_) ||
      DigestOf(hit->answer.answer) != hit->answer.answer_digest) {
    return false;
  }
  if (!IsOfThisPartition(*hit)) {
    outcome = "bypass:partition";
    basis_.reset();
    return false;
  }
  if (exact) PlanShadow(route, *hit);
  outcome = "hit";
  record_.model = "cache:" + hit->answer.decision;
  record_.avoided_cost = hit->answer.cost;
  record_.passages = hit->answer.documents;
  record_.decision.outcome = api::Outcome::kHeld;
  record_.times.gather_ns += Now() - stage_ns_;
  stage_ns_ = Now();
  Spent(&StageTimes::cache_ns);
  basis_.reset();
  ReleaseToken token = ReleaseToken::ForCacheHit(setup_.decision, hit->answer.answer_digest);
  Release(std::move(token), std::move(hit->answer.answer), api::FinishReason::kStop);
  return true;
}

Result<std::shared_ptr<GovernedTask::Search>> GovernedTask::StartSearch(const RouteSpec& route, bool alone) {
  if (!setup_.runtime->stores.contains(route.retrieve)) {
    return Error(NotFoundError("retriever '" + route.retrieve + "' is not open"));
  }
  const RetrieverSpec& spec = policy().retrievers.at(route.retrieve);
  ReadRights rights;
  const auto text = [&](Dimension dimension) {
    return circumstances_.text[static_cast<size_t>(dimension)].value_or("");
  };
  rights.tenant = text(Dimension::kTenant);
  if (circumstances_.permissions) rights.permissions = *circumstances_.permissions;
  rights.region = text(Dimension::kRegion);
  rights.product = text(Dimension::kProduct);
  rights.language = text(Dimension::kLanguage);
  rights.as_of_ns = as_of_ns_;
  auto search = std::make_shared<Search>();
  search->deadline_ns = Now() + std::min(spec.deadline_ns, Left());
  auto run = [runtime = setup_.runtime, &spec, rights = std::move(rights), question = conversation_.question,
              vector = question_vector_, search, clock = services_.clock] {
    if (search->given_up) return;
    search->result.set_value(RunSearch(*runtime, spec, rights, question, vector,
                                       SearchLimit{clock, search->deadline_ns}));
  };
  if (alone && SearchHere(spec, run)) {
    search->late = Now() > search->deadline_ns;
    return search;
  }
  if (!services_.post_search(std::move(run))) return Error(ResourceExhaustedError("too many searches wait"));
  return search;
}

Status GovernedTask::FinishSearch(const RouteSpec& route, Search& search) {
  std::future<Result<Retrieved>> future = search.result.get_future();
  const std::chrono::nanoseconds left(std::max<int64_t>(search.deadline_ns - Now(), 0));
  if (search.late || future.wait_for(left) != std::future_status::ready) {
    search.given_up = true;
    return Status(StatusCode::kDeadlineExceeded, "retriever '" + route.retrieve + "' was not done in time");
  }
  SURETY_ASSIGN_OR_RETURN(Retrieved found, future.get());
  evidence_->passages = std::move(found.passages);
  evidence_->retrieval_snapshot = std::move(found.snapshot);
  // An answer found in a store must not outlive the next change of what is valid there.
  if (found.boundary) {
    evidence_->validity = evidence_->validity.Intersect({std::numeric_limits<int64_t>::min(), *found.boundary});
  }
  for (const Passage& passage : evidence_->passages) {
    evidence_->validity = evidence_->validity.Intersect(passage.validity);
    record_.passages.push_back(passage.document + ":" + passage.chunk + "@" + passage.version);
  }
  return OkStatus();
}

// What the tools list, and nothing else.
ToolArguments GovernedTask::ArgumentsFor(const std::vector<std::string>& tools) const {
  ToolArguments all = Arguments(), listed;
  for (const std::string& tool : tools) {
    for (const std::string& name : policy().tools.at(tool).arguments) {
      if (const auto found = all.find(name); found != all.end()) listed.insert(*found);
    }
  }
  return listed;
}

// Of what has one name the better vouched for counts: metadata, then signals, then the identity.
ToolArguments GovernedTask::Arguments() const {
  ToolArguments arguments;
  for (const auto& member : setup_.request.caller.metadata) {
    if (member.value().is_string()) arguments[member.key()] = std::string(member.value().get_string());
  }
  for (const auto& [name, value] : signals_.values) arguments[name] = value.label;
  for (int i = 0; i < kDimensionCount; ++i) {
    // One that has a source, but no value in this request, is not what the body says either.
    const bool verified = policy().identity[static_cast<size_t>(i)].from != DimensionSource::From::kUnset;
    if (verified) arguments.erase(std::string(NameOf(static_cast<Dimension>(i))));
  }
  for (auto& [name, text] : DimensionTexts(circumstances_)) arguments[name] = text;
  if (circumstances_.permissions) {
    std::string& all = arguments["permissions"] = "";
    for (const std::string& one : *circumstances_.permissions) all += (all.empty() ? "" : " ") + one;
  }
  arguments["subject"] = record_.subject;   // of the identity, whatever the metadata says
  arguments["tenant"] = record_.tenant;
  return arguments;
}

// Results that are there, fresh and of one mind; anything else goes to a person with the facts, and no model is asked
// why.
bool GovernedTask::CheckTools(const RouteSpec& route) {
  std::string problem;
  for (const ToolResult& result : evidence_->tools) {
    record_.tool_digests.push_back(result.tool + ":" + result.digest);
    if (!result.status.ok() && policy().tools.at(result.tool).mandatory) {
      problem += "tool '" + result.tool + "': " + result.status.message() + "; ";
    }
  }
  problem += StaleResult(policy(), evidence_->tools, services_.clock->WallNanos());
  std::vector<InvariantSpec> invariants;
  for (const std::string& name : route.invariants) invariants.push_back(policy().invariants.at(name));
  if (auto conflicts = FindConflicts(invariants, evidence_->tools); conflicts) {
    record_.conflicts = *std::move(conflicts);
  } else {
    problem += conflicts.error().message();
  }
  for (const Conflict& conflict : record_.conflicts) problem += ConflictText(conflict) + " ";
  if (problem.empty()) return true;
  record_.error = FailedPreconditionError(problem).ToString();
  record_.action = "evidence_pack";
  SendToReview(ReviewQueueOf(route), "");
  return false;
}

bool GovernedTask::Gather(const RouteSpec& route) {
  Spent(&StageTimes::cache_ns);
  std::vector<std::string> reads;
  for (const std::string& name : route.tools) {
    if (policy().tools.at(name).kind == ToolSpec::Kind::kRead) reads.push_back(name);
  }
  // The search runs while the tools are asked.
  Result<std::shared_ptr<Search>> search = nullptr;
  if (!route.retrieve.empty()) search = StartSearch(route, /*alone=*/reads.empty());
  if (!reads.empty() && search) {
    const int64_t deadline = Now() + std::max<int64_t>(Left(), 0);
    evidence_->tools = setup_.runtime->tools->Gather(reads, ArgumentsFor(reads), deadline);
  }
  Spent(&StageTimes::tools_ns);
  Status retrieved = search ? OkStatus() : search.error();
  if (search && *search != nullptr) retrieved = FinishSearch(route, **search);
  Spent(&StageTimes::retrieve_ns);  // what it took longer
  if (!retrieved.ok()) {
    const bool late = retrieved.code() == StatusCode::kDeadlineExceeded;
    FallBack(late ? FallbackSpec::Cause::kTimeout : FallbackSpec::Cause::kError, retrieved);
    return false;
  }
  if (!reads.empty() && !CheckTools(route)) return false;
  return !Stopped();
}

}  // namespace surety::gateway
