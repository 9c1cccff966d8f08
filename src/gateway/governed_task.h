// One governed request from its submission to its last event: identity, signals, route, quota, cache, evidence,
// context, generation, verification, release or review, audit, cost. One decision id, one owner of retries. Time counts
// from the submission on: the caller's limit bounds all, each route that generates has its deadline from where the one
// before it ended, and every stage is cut off by both.
//
//   RECEIVED -> CLASSIFIED -> AUTHORISED -> GATHERING -> BUDGETED -> GENERATING -> HELD or STREAMING -> VERIFYING ->
//   RELEASED, REPAIR, REVIEW, REFUSED or EVIDENCE PACK
//
// Threads: its steps run on the workers, one at a time; events of a generation come on the backend's thread and hand
// over to a worker with the last one. Cancel may be called from any thread. Owns: itself, through the steps that are
// posted and the sinks that it gave away.
// Invariants: (1) the caller's sink gets exactly one last event. (2) The row of the decision is on disk before that
// event (before the first piece, where pieces are streamed: a row of its own). (3) Every reservation is settled. (4) A
// judgement is made over the whole answer, and nothing else opens the sink.
#pragma once

#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/backend.h"
#include "base/clock.h"
#include "base/function_ref.h"
#include "base/worker_pool.h"
#include "gateway/audit_log.h"
#include "gateway/circumstances.h"
#include "gateway/context_builder.h"
#include "gateway/conversation.h"
#include "gateway/decision_record.h"
#include "gateway/ledger.h"
#include "gateway/payload_vault.h"
#include "gateway/policy_runtime.h"
#include "gateway/progress_ticker.h"
#include "gateway/quota.h"
#include "gateway/release.h"
#include "gateway/response_cache.h"
#include "gateway/review_store.h"
#include "gateway/subject_scopes.h"

namespace surety::gateway {

// An answer from the cache that has been released and is computed again, to be compared.
struct CacheShadow {
  std::string decision, first;          // that had it from the cache; that it was made for
  std::string route;
  std::string key;                      // digest of partition, basis and question
  std::string answer_digest;
};

// What outlives a policy. Each is there for as long as a task runs.
struct GovernanceServices {
  const Clock* clock = nullptr;
  PostTask post;                        // a task's next step, when this one ends: refused only when the server ends
  PostTask post_search;                 // for passages: a pool of its own, so that a slow index holds up nothing else
  std::atomic<int>* searches_here = nullptr;  // that run on the workers themselves
  int max_searches_here = 0;
  ResponseCache* cache = nullptr;
  AuditLog* audit = nullptr;
  ReviewStore* review = nullptr;
  Ledger* ledger = nullptr;
  PayloadVault* vault = nullptr;        // null: texts do not enter the log at all
  SubjectScopes* scopes = nullptr;      // null: nobody asks
  ProgressTicker* ticker = nullptr;     // null: no progress is told
  // Begins to compute it again. False: another one runs, or the server is draining.
  std::function<bool(std::shared_ptr<const PolicyRuntime>, api::GenerationRequest, CacheShadow)> start_shadow;
  std::atomic<int64_t>* cross_partition_hits = nullptr;
  std::atomic<int64_t>* decision_rows = nullptr;   // written
  PersonalDataFinder personal;
};

class GovernedTask : public std::enable_shared_from_this<GovernedTask> {
 public:
  struct Setup {
    GovernanceServices* services = nullptr;
    std::shared_ptr<const PolicyRuntime> runtime;
    std::shared_ptr<Quota> quota;
    api::GenerationRequest request;
    api::EventSink sink;
    api::RequestId id = 0;
    std::string decision;                 // its id
    std::optional<CacheShadow> shadow;    // set: nothing is reserved, released, reviewed or kept
    std::function<void()> ended;          // after the last event
  };
  explicit GovernedTask(Setup setup);

  void Start();    // on a worker
  void Cancel();

 private:
  struct Generation {                     // one call of a model
    std::string model;
    api::GenerationRequest request;
    AnswerText answer;
    api::Event last;
    int64_t begun_ns = 0;
    bool streamed = false;                // a piece has left
  };

  // governed_task.cc
  void Decide();
  Status ReadIdentity();
  bool ReserveQuota(const RouteSpec& route);   // false: over a budget, and it has gone on elsewhere
  void NoteStanding();
  std::shared_ptr<Evidence> FreshEvidence() const;
  void ForgetAnswer();                    // what the row says of an attempt that another one follows
  // Empty, or what `next` lacks of that which the routes taken so far promise.
  std::string BrokenPromise(const RouteSpec& next) const;
  void RunRoute(const RouteSpec& route);
  void RunTemplate(const RouteSpec& route);
  void FallBack(FallbackSpec::Cause cause, Status why);
  bool Stopped();                         // cancelled or past the deadline: then it has ended
  int64_t Left() const;                   // nanoseconds to the route's deadline, or the caller's if that is sooner
  void EnterStage(api::Stage stage);
  std::optional<int64_t> TellProgress();  // on the ticker's thread; when it is due again
  RoutingFacts Facts() const;
  std::map<std::string, std::string> TemplateValues(std::string_view text) const;

  // governed_gather.cc
  bool TryCache(const RouteSpec& route);
  AnswerBasis BasisOf(const RouteSpec& route);
  bool Gather(const RouteSpec& route);    // false: it has ended, or gone on elsewhere
  std::optional<CacheHit> FindCached(const RouteSpec& route, bool& exact);
  struct Search;                          // one that runs on the search pool
  bool SearchHere(const RetrieverSpec& spec, FunctionRef<void()> run) const;   // false: not run
  Result<std::shared_ptr<Search>> StartSearch(const RouteSpec& route, bool alone);  // alone: nothing runs beside it
  Status FinishSearch(const RouteSpec& route, Search& search);
  ToolArguments Arguments() const;
  ToolArguments ArgumentsFor(const std::vector<std::string>& tools) const;
  bool CheckTools(const RouteSpec& route);

  // governed_shadow.cc
  bool IsOfThisPartition(const CacheHit& hit);
  std::string CacheKeyDigest(const AnswerBasis& basis) const;
  void PlanShadow(const RouteSpec& route, const CacheHit& hit);
  void StartShadow();                     // after the release of a hit
  void ComputeShadow();
  void EndShadow(const AnswerText* answer);   // null: not computed

  // governed_generate.cc
  Status CheckFields(const RouteSpec& route) const;   // of the request, against what the route does with them
  std::string KvSalt(const RouteSpec& route) const;
  void Generate(const RouteSpec& route);
  Status PrepareGeneration(const RouteSpec& route);
  void OnEvent(api::Event event);
  void OnGenerated();
  void Charge(const api::Usage& usage);

  // governed_release.cc
  void Verify();
  Judgement JudgeAnswer(std::shared_ptr<const AnswerText> answer);
  void Conclude(std::shared_ptr<const AnswerText> answer, Judgement judgement);
  void Release(ReleaseToken token, AnswerText answer, api::FinishReason finish);
  void SendToReview(const std::string& queue, std::string draft);
  void Refuse(api::FinishReason finish, Status error, api::Outcome outcome);
  void EndStream(api::FinishReason finish, Status error);
  // Writes the decision's row, then calls `deliver` on a worker; without a row, the caller gets an error instead.
  void Record(std::function<void(api::Event)> deliver, api::Event last);
  // What a row holds of the texts that were taken out of the record.
  struct RowTexts {
    std::string text;
    bool erased = false;                  // their subject is, so nothing of them is kept
    Status sealed;                        // why they could not be sealed
  };
  std::string RowOfDecision(RowTexts& texts);
  std::string RowWithoutTexts(const RowTexts& texts) const;
  // Runs `keep`, which stores something of the subject; false: the subject was erased meanwhile, and nothing is stored.
  bool Keep(FunctionRef<void()> keep);
  void RefuseErased();
  void Settle(api::FinishReason finish);
  void StoreInCache();
  std::string ReviewQueueOf(const RouteSpec& route) const;
  std::shared_ptr<const api::Decision> Note() const;

  const Policy& policy() const { return *setup_.runtime->policy; }
  int64_t Now() const { return services_.clock->NowNanos(); }
  // What went by since the last such call was this part's.
  void Spent(int64_t StageTimes::*part) {
    const int64_t now = Now();
    record_.times.*part += now - std::exchange(part_ns_, now);
  }

  Setup setup_;
  GovernanceServices& services_;
  CallerSink sink_;
  std::optional<StreamingSink> stream_;
  DecisionRecord record_;
  int64_t start_ns_ = 0, as_of_ns_ = 0, route_begun_ns_ = 0, stage_ns_ = 0, part_ns_ = 0;
  int64_t caller_deadline_ns_ = std::numeric_limits<int64_t>::max();

  Conversation conversation_;
  Signals signals_;
  Circumstances circumstances_;
  std::vector<ToolResult> identity_tools_;
  std::optional<Partition> partition_;
  std::string no_partition_;              // why there is none
  const RouteSpec* route_ = nullptr;
  std::vector<std::string> routes_taken_;
  std::optional<QuotaSubject> quota_subject_;   // set once a reservation was asked for
  std::unique_ptr<Quota::Reservation> reservation_;
  QuotaAmount used_;

  std::shared_ptr<SubjectScopes::Request> running_;  // null: nobody asks
  std::shared_ptr<Evidence> evidence_;
  std::vector<float> question_vector_;
  std::optional<AnswerBasis> basis_;      // set where the answer may be stored
  std::string repair_;
  std::string setback_;    // why the last attempt came to nothing, for whoever answers instead
  AnswerText released_;                   // for the cache
  std::optional<CacheShadow> shadow_due_;
  bool release_done_ = false;

  std::mutex progress_mutex_;             // what the ticker's thread tells
  api::Decision progress_;
  int64_t progress_every_ns_ = 0, progress_due_ns_ = 0;
  bool progress_begun_ = false;

  std::mutex generation_mutex_;           // generation_, between the backend's thread and workers
  std::unique_ptr<Generation> generation_;
  std::atomic<bool> cancelled_ = false;
  std::mutex backend_mutex_;              // what Cancel passes on to
  api::Backend* running_on_ = nullptr;
  api::RequestId running_id_ = 0;
};

}  // namespace surety::gateway
