#include "engine/serving_metrics.h"

#include "engine/scheduler.h"

namespace surety::engine {
namespace {

const std::vector<double> kLatency = {0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25, 0.5, 0.75,
                                      1,     2.5,    5,     7.5,  10,   20,   40,   80,   160, 640,  2560};
const std::vector<double> kTokens = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
const std::vector<double> kRows = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};

double Seconds(int64_t nanos) { return static_cast<double>(nanos) * 1e-9; }

}  // namespace

void ServingMetrics::Counters::Add(double value) {
  if (own == nullptr || value <= 0) return;
  own->Add(value);
  if (alias != nullptr) alias->Add(value);
}

void ServingMetrics::Gauges::Set(double value) {
  if (own == nullptr) return;
  own->Set(value);
  if (alias != nullptr) alias->Set(value);
}

void ServingMetrics::Histograms::Observe(double value) {
  if (own == nullptr) return;
  own->Observe(value);
  if (alias != nullptr) alias->Observe(value);
}

ServingMetrics::Counters ServingMetrics::MakeCounter(const std::string& name, const std::string& help,
                                                     const observe::Labels& extra, const observe::Labels& own_extra) {
  if (registry_ == nullptr) return {};
  observe::Labels own = labels_, alias = alias_labels_;
  own.insert(extra.begin(), extra.end());
  own.insert(own_extra.begin(), own_extra.end());
  alias.insert(extra.begin(), extra.end());
  return {&registry_->AddCounter("surety_" + name, help, own), &registry_->AddCounter("vllm:" + name, help, alias)};
}

ServingMetrics::Counters ServingMetrics::MakeOwnCounter(const std::string& name, const std::string& help,
                                                        const observe::Labels& extra) {
  if (registry_ == nullptr) return {};
  observe::Labels own = labels_;
  own.insert(extra.begin(), extra.end());
  return {&registry_->AddCounter("surety_" + name, help, own), nullptr};
}

ServingMetrics::Gauges ServingMetrics::MakeGauge(const std::string& name, const std::string& help,
                                                 const observe::Labels& extra) {
  if (registry_ == nullptr) return {};
  observe::Labels own = labels_, alias = alias_labels_;
  own.insert(extra.begin(), extra.end());
  alias.insert(extra.begin(), extra.end());
  return {&registry_->AddGauge("surety_" + name, help, own), &registry_->AddGauge("vllm:" + name, help, alias)};
}

ServingMetrics::Histograms ServingMetrics::MakeHistogram(const std::string& name, const std::string& help,
                                                         const std::vector<double>& bounds) {
  if (registry_ == nullptr) return {};
  return {&registry_->AddHistogram("surety_" + name, help, bounds, labels_),
          &registry_->AddHistogram("vllm:" + name, help, bounds, alias_labels_)};
}

ServingMetrics::ServingMetrics(observe::Registry* registry, const std::string& model_name,
                               const EngineOptions& options, int n_pages)
    : registry_(registry), labels_({{"model", model_name}}),
      alias_labels_({{"model_name", model_name}, {"engine", "0"}}) {
  MakeSeries(options, n_pages);
}

void ServingMetrics::MakeSeries(const EngineOptions& options, int n_pages) {
  prompt_tokens_ = MakeCounter("prompt_tokens_total", "Prompt tokens processed, cached ones included");
  cached_ = MakeCounter("prompt_tokens_cached_total", "Prompt tokens found in the KV cache");
  computed_ = MakeCounter("prompt_tokens_computed_total", "Prompt tokens computed, each once");
  recomputed_ = MakeCounter("tokens_recomputed_total", "Tokens computed again after a preemption");
  generation_tokens_ = MakeCounter("generation_tokens_total", "Tokens generated");
  preemptions_ = MakeCounter("num_preemptions_total", "Choices that lost their place in the batch");
  queries_ = MakeCounter("prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache");
  hits_ = MakeCounter("prefix_cache_hits_total", "Prompt tokens found in the prefix cache");
  const auto finished = [this](const char* reason) {
    return MakeCounter("request_success_total", "Choices that ended, by reason", {{"finished_reason", reason}});
  };
  finished_stop_ = finished("stop");
  finished_length_ = finished("length");
  finished_cancelled_ = finished("abort");
  finished_timeout_ = finished("timeout");
  finished_error_ = finished("error");
  const auto refused = [this](const char* reason) {
    return MakeCounter("requests_refused_total", "Requests refused at the door, by reason", {{"reason", reason}});
  };
  refused_load_ = refused("overload");
  refused_draining_ = refused("draining");
  refused_deadline_ = refused("deadline");
  refused_invalid_ = refused("invalid");
  running_ = MakeGauge("num_requests_running", "Choices in the batch");
  waiting_ = MakeGauge("num_requests_waiting", "Requests that wait");
  kv_usage_ = MakeGauge("kv_cache_usage_perc", "Share of KV pages in use, 0 to 1");
  ttft_ = MakeHistogram("time_to_first_token_seconds", "Arrival to first token", kLatency);
  itl_ = MakeHistogram("inter_token_latency_seconds", "Between two tokens of a choice", kLatency);
  tpot_ = MakeHistogram("request_time_per_output_token_seconds", "Mean over a choice, after its first token", kLatency);
  e2e_ = MakeHistogram("e2e_request_latency_seconds", "Arrival to end", kLatency);
  queue_ = MakeHistogram("request_queue_time_seconds", "Waiting, preemptions included", kLatency);
  prefill_ = MakeHistogram("request_prefill_time_seconds", "Taken up to first token", kLatency);
  decode_ = MakeHistogram("request_decode_time_seconds", "First to last token", kLatency);
  inference_ = MakeHistogram("request_inference_time_seconds", "Taken up to last token", kLatency);
  iteration_tokens_ = MakeHistogram("iteration_tokens_total", "Rows of a step", kRows);
  request_prompt_ = MakeHistogram("request_prompt_tokens", "Prompt tokens of a request", kTokens);
  request_generation_ = MakeHistogram("request_generation_tokens", "Tokens generated for a choice", kTokens);
  MakeGauge("cache_config_info", "The KV cache's shape, as labels",
            {{"block_size", std::to_string(options.page_tokens)}, {"num_gpu_blocks", std::to_string(n_pages)}})
      .Set(1);
  MakeSpeculation();
}

// Drafts are counted where a step verified them. vLLM's four names have no method, ours do.
void ServingMetrics::MakeSpeculation() {
  const auto make = [this](const std::string& method) {
    const observe::Labels by = {{"method", method}};
    SpeculationSeries series;
    series.n_drafts = MakeCounter("spec_decode_num_drafts_total", "Drafts verified", {}, by);
    series.draft_tokens = MakeCounter("spec_decode_num_draft_tokens_total", "Drafted tokens verified", {}, by);
    series.accepted_tokens = MakeCounter("spec_decode_num_accepted_tokens_total", "Drafted tokens that held", {}, by);
    for (size_t i = 0; i < series.accepted_at.size(); ++i) {
      const std::string position = std::to_string(i);
      series.drafted_at[i] = MakeOwnCounter("spec_decode_num_draft_tokens_per_pos_total",
                                            "Drafted tokens verified, by place in the draft",
                                            {{"position", position}, {"method", method}});
      series.accepted_at[i] = MakeCounter("spec_decode_num_accepted_tokens_per_pos_total",
                                          "Drafted tokens that held, by place in the draft",
                                          {{"position", position}}, by);
    }
    for (size_t i = 0; i < series.accepted_rank.size(); ++i) {
      const observe::Labels labels = {{"rank", std::to_string(i)}, {"method", method}};
      series.drafted_rank[i] = MakeOwnCounter("spec_decode_num_draft_tokens_per_rank_total",
                                              "Drafted tokens verified, by rank among siblings", labels);
      series.accepted_rank[i] = MakeOwnCounter("spec_decode_num_accepted_tokens_per_rank_total",
                                               "Drafted tokens that held, by rank among siblings", labels);
    }
    return series;
  };
  for (size_t i = 0; i < speculation_.size(); ++i) {
    speculation_[i] = make(std::string(NameOf(static_cast<DraftMethod>(i))));
  }
  decode_passes_ = MakeOwnCounter("spec_decode_passes_total",
                                  "Times that a choice got tokens from a step; generation_tokens_total over it is the "
                                  "tokens of a pass");
  draft_branches_ = MakeOwnCounter("spec_decode_branches_total", "Branches of drafts beyond the first of each");
  if (registry_ == nullptr) return;
  draft_alarm_.own = &registry_->AddGauge(
      "surety_spec_decode_alarm", "1: drafts hold more or less often than the model's law allows; no more are made",
      labels_);
  saved_seconds_.own = &registry_->AddGauge(
      "surety_spec_decode_saved_seconds", "Steps' time that drafts saved in sum, less what they cost; may shrink",
      labels_);
}

void ServingMetrics::AddSpeculation(SpeculationSeries& series, const SpeculationCounters::Method& now,
                                    const SpeculationCounters::Method& seen) {
  const auto add = [](Counters& counter, int64_t n) { counter.Add(static_cast<double>(n)); };
  add(series.n_drafts, now.n_drafts - seen.n_drafts);
  add(series.draft_tokens, now.draft_tokens - seen.draft_tokens);
  add(series.accepted_tokens, now.accepted_tokens - seen.accepted_tokens);
  for (size_t i = 0; i < series.accepted_at.size(); ++i) {
    add(series.drafted_at[i], now.drafted_at[i] - seen.drafted_at[i]);
    add(series.accepted_at[i], now.accepted_at[i] - seen.accepted_at[i]);
  }
  for (size_t i = 0; i < series.accepted_rank.size(); ++i) {
    add(series.drafted_rank[i], now.drafted_rank[i] - seen.drafted_rank[i]);
    add(series.accepted_rank[i], now.accepted_rank[i] - seen.accepted_rank[i]);
  }
}

void ServingMetrics::Refused(StatusCode reason) {
  switch (reason) {
    case StatusCode::kResourceExhausted: return refused_load_.Add(1);
    case StatusCode::kUnavailable: return refused_draining_.Add(1);
    case StatusCode::kDeadlineExceeded: return refused_deadline_.Add(1);
    default: return refused_invalid_.Add(1);
  }
}

void ServingMetrics::AfterStep(const Engine& engine, int n_waiting, double kv_usage) {
  if (registry_ == nullptr) return;
  const auto together = registry_->Together();
  const EngineCounters& now = engine.counters();
  const int64_t cached = now.prompt_tokens_cached - seen_.prompt_tokens_cached;
  const int64_t computed = now.prompt_tokens_computed - seen_.prompt_tokens_computed;
  const auto add = [](Counters& counter, int64_t n) { counter.Add(static_cast<double>(n)); };
  add(prompt_tokens_, cached + computed);
  add(cached_, cached);
  add(computed_, computed);
  add(queries_, now.prefix_queries - seen_.prefix_queries);
  add(hits_, cached);
  add(recomputed_, now.rows_recomputed - seen_.rows_recomputed);
  add(generation_tokens_, now.output_tokens - seen_.output_tokens);
  add(preemptions_, now.preemptions - seen_.preemptions);
  if (now.n_steps > seen_.n_steps) iteration_tokens_.Observe(engine.last_plan().n_rows());
  seen_ = now;
  const SpeculationCounters& drafts = engine.speculation();
  for (size_t i = 0; i < speculation_.size(); ++i) {
    AddSpeculation(speculation_[i], drafts.methods[i], seen_speculation_.methods[i]);
  }
  add(decode_passes_, drafts.passes - seen_speculation_.passes);
  add(draft_branches_, drafts.branches - seen_speculation_.branches);
  saved_seconds_.Set(drafts.saved_ns * 1e-9);
  draft_alarm_.Set(engine.speculation_monitor().alarm() ? 1 : 0);
  seen_speculation_ = drafts;
  running_.Set(static_cast<double>(engine.scheduler().running().size()));
  waiting_.Set(n_waiting);
  kv_usage_.Set(kv_usage);
}

void ServingMetrics::Arrived(api::RequestId id, int64_t now_ns, const api::GenerationRequest& request) {
  if (registry_ == nullptr) return;
  Open& open = open_[id];
  open.arrival_ns = now_ns;
  open.n_open = request.n_choices;
  open.last_token_ns.resize(static_cast<size_t>(request.n_choices));
}

void ServingMetrics::OnEvent(const api::Event& event, int64_t now_ns) {
  const auto it = open_.find(event.request);
  if (it == open_.end()) return;
  Open& open = it->second;
  int64_t& last = open.last_token_ns[static_cast<size_t>(event.choice)];
  if (!event.tokens.empty()) {
    if (last > 0) {
      if (now_ns > last) itl_.Observe(Seconds(now_ns - last));  // once a step, however many tokens it gave
    } else if (event.choice == 0) {
      ttft_.Observe(Seconds(now_ns - open.arrival_ns));
    }
    last = now_ns;
  }
  if (event.finish == api::FinishReason::kNone) return;
  switch (event.finish) {
    case api::FinishReason::kStop: finished_stop_.Add(1); break;
    case api::FinishReason::kLength: finished_length_.Add(1); break;
    case api::FinishReason::kCancelled: finished_cancelled_.Add(1); break;
    case api::FinishReason::kTimeout: finished_timeout_.Add(1); break;
    default: finished_error_.Add(1); break;
  }
  if (event.finish == api::FinishReason::kStop || event.finish == api::FinishReason::kLength) {
    const api::Timings& t = event.timings;
    e2e_.Observe(Seconds(now_ns - open.arrival_ns));
    queue_.Observe(Seconds(t.queue_ns));
    prefill_.Observe(Seconds(t.prefill_ns));
    decode_.Observe(Seconds(t.decode_ns));
    inference_.Observe(Seconds(t.prefill_ns + t.decode_ns));
    request_generation_.Observe(event.usage.output_tokens);
    if (event.choice == 0) request_prompt_.Observe(event.usage.prompt_tokens);
    if (event.usage.output_tokens > 1) tpot_.Observe(Seconds(t.decode_ns / (event.usage.output_tokens - 1)));
  }
  if (--open.n_open == 0) open_.erase(it);
}

}  // namespace surety::engine
