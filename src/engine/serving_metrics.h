// The series of one served model, under our names and under the vllm: names that dashboards and autoscalers know.
//
// Counted at commit, from the engine's counters and events, so that sums balance:
//   prompt_tokens_total = prompt_tokens_cached_total + prompt_tokens_computed_total, at any time.
// Threads: the engine thread, but for the refusals. Owns: nothing; the registry owns the series.
#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/backend.h"
#include "engine/engine.h"
#include "observe/metrics.h"

namespace surety::engine {

class ServingMetrics {
 public:
  // Null registry: counts nothing.
  ServingMetrics(observe::Registry* registry, const std::string& model_name, const EngineOptions& options,
                 int n_pages);

  void Refused(StatusCode reason);
  // After a step: what it changed. `now_ns` is when its tokens were committed.
  void AfterStep(const Engine& engine, int n_waiting, double kv_usage);
  void SetWaiting(int n) { waiting_.Set(n); }
  void Arrived(api::RequestId id, int64_t now_ns, const api::GenerationRequest& request);
  void OnEvent(const api::Event& event, int64_t now_ns);

 private:
  // One series under two names.
  struct Counters {
    observe::Counter* own = nullptr;
    observe::Counter* alias = nullptr;
    void Add(double value);
  };
  struct Gauges {
    observe::Gauge* own = nullptr;
    observe::Gauge* alias = nullptr;
    void Set(double value);
  };
  struct Histograms {
    observe::Histogram* own = nullptr;
    observe::Histogram* alias = nullptr;
    void Observe(double value);
  };
  // Of one method of drafting.
  struct SpeculationSeries {
    Counters n_drafts, draft_tokens, accepted_tokens;
    std::array<Counters, SpeculationCounters::kPositions> drafted_at, accepted_at;
    std::array<Counters, SpeculationCounters::kRanks> drafted_rank, accepted_rank;
  };
  struct Open {
    int64_t arrival_ns = 0;
    int n_open = 0;
    std::vector<int64_t> last_token_ns;   // by choice; 0: none yet
  };
  // `own_extra`: labels that the alias does not have, which adds up what differs in them.
  Counters MakeCounter(const std::string& name, const std::string& help, const observe::Labels& extra = {},
                       const observe::Labels& own_extra = {});
  Counters MakeOwnCounter(const std::string& name, const std::string& help, const observe::Labels& extra = {});
  Gauges MakeGauge(const std::string& name, const std::string& help, const observe::Labels& extra = {});
  Histograms MakeHistogram(const std::string& name, const std::string& help, const std::vector<double>& bounds);
  void MakeSeries(const EngineOptions& options, int n_pages);
  void MakeSpeculation();
  static void AddSpeculation(SpeculationSeries& series, const SpeculationCounters::Method& now,
                             const SpeculationCounters::Method& seen);

  observe::Registry* registry_;
  observe::Labels labels_, alias_labels_;
  EngineCounters seen_;
  SpeculationCounters seen_speculation_;
  std::unordered_map<api::RequestId, Open> open_;

  Counters prompt_tokens_, cached_, computed_, recomputed_, generation_tokens_, preemptions_, queries_, hits_;
  Counters finished_stop_, finished_length_, finished_cancelled_, finished_timeout_, finished_error_;
  Counters refused_load_, refused_draining_, refused_deadline_, refused_invalid_;
  std::array<SpeculationSeries, kDraftMethods> speculation_;  // by DraftMethod
  Counters decode_passes_, draft_branches_;
  Gauges running_, waiting_, kv_usage_, saved_seconds_, draft_alarm_;
  Histograms ttft_, itl_, tpot_, e2e_, queue_, prefill_, decode_, inference_, iteration_tokens_, request_prompt_,
      request_generation_;
};

}  // namespace surety::engine
