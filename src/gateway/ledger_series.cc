#include "gateway/ledger_series.h"

#include <algorithm>
#include <array>
#include <vector>

#include "gateway/ledger_sums.h"

namespace surety::gateway {
namespace {

constexpr size_t kMaxLabelValues = 64;

// 1 ms to 5 minutes, three a decade.
const std::vector<double> kLedgerSecondsBounds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
                                                  1,     2,     5,     10,   20,   50,   100, 300};
const std::vector<double> kDecodeRateBounds = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};
// The bounds that the OpenTelemetry conventions for generative AI advise.
const std::vector<double> kGenAiSecondsBounds = {0.01, 0.02, 0.04, 0.08,  0.16,  0.32,  0.64,
                                                 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92};
const std::vector<double> kGenAiTokenBounds = {1,     4,      16,      64,      256,      1024,    4096,
                                               16384, 65536,  262144,  1048576, 4194304,  16777216, 67108864};

std::string_view LedgerVerdictName(Verdict::Outcome outcome) {
  switch (outcome) {
    case Verdict::Outcome::kPass: return "pass";
    case Verdict::Outcome::kFail: return "fail";
    case Verdict::Outcome::kError: return "error";
  }
  return "error";
}

// The series, made when it is first asked for.
template <typename Series, typename Make>
Series& HeldSeries(Series*& held, Make&& make) {
  if (held == nullptr) held = &make();
  return *held;
}

}  // namespace

std::string LedgerSeries::Bounded(const std::string& list, const std::string& value) {
  std::lock_guard lock(mutex_);
  std::set<std::string>& seen = seen_[list];
  if (seen.contains(value)) return value;
  if (seen.size() >= kMaxLabelValues) return "other";
  seen.insert(value);
  return value;
}

void LedgerSeries::Count(const std::string& name, const std::string& help, const observe::Labels& labels, double by) {
  registry_.AddCounter(name, help, labels).Add(by);
}

void LedgerSeries::Seconds(const std::string& name, const std::string& help, const observe::Labels& labels,
                           double seconds) {
  SecondsOf(name, help, labels).Observe(std::max(seconds, 0.0));
}

observe::Histogram& LedgerSeries::SecondsOf(const std::string& name, const std::string& help,
                                            const observe::Labels& labels) {
  return registry_.AddHistogram(name, help, kLedgerSecondsBounds, labels);
}

observe::Counter& LedgerSeries::CacheLookups(OfRoute& of, const std::string& cache, const std::string& route) {
  if (const auto found = of.cache.find(cache); found != of.cache.end()) return *found->second;
  const size_t colon = cache.find(':');
  const std::string reason = colon == std::string::npos ? "" : cache.substr(colon + 1);
  observe::Counter& counter = registry_.AddCounter(
      "surety_cache_lookups_total", "Look-ups of ready answers.",
      {{"route", route}, {"outcome", Bounded("cache", cache.substr(0, colon))},
       {"reason", Bounded("cache_reason", reason)}});
  if (of.cache.size() < kMaxLabelValues) of.cache.emplace(cache, &counter);
  return counter;
}

void LedgerSeries::Record(const DecisionRecord& record, const std::string& route) {
  const auto together = registry_.Together();
  const api::Decision& decision = record.decision;
  OfRoute& of = routes_[route];
  HeldSeries(of.outcomes.at(static_cast<size_t>(decision.outcome)), [&]() -> observe::Counter& {
    return registry_.AddCounter("surety_route_total", "Decisions by route and by what became of the answer.",
                                {{"route", route}, {"outcome", std::string(api::NameOf(decision.outcome))}});
  }).Add(1);
  CacheLookups(of, decision.cache, route).Add(1);
  const std::array<double, 7> parts = PartsOf(record.cost);
  for (size_t i = 0; i < parts.size(); ++i) {
    HeldSeries(of.costs[i], [&]() -> observe::Counter& {
      return registry_.AddCounter("surety_task_cost_total", "What decisions cost, in the policy's currency.",
                                  {{"route", route}, {"component", std::string(kCostNames[i])}});
    }).Add(parts[i]);
  }
  if (record.avoided_cost > 0) {
    Count("surety_avoided_cost_total", "What answers from the cache would have cost.", {{"route", route}},
          record.avoided_cost);
  }
  HeldSeries(of.accepted, [&]() -> observe::Counter& {
    return registry_.AddCounter("surety_tasks_accepted_total", "Answers released without a person, or approved.",
                                {{"route", route}});
  }).Add(AcceptedWithoutReview(record) ? 1 : 0);
  if (ServiceFailed(record)) {
    Count("surety_failures_total", "Decisions that the service failed in, by code.",
          {{"route", route}, {"cause", Bounded("error", ErrorCodeOf(record))}});
  }
  RecordTimes(of, record, route);
  RecordVerdicts(record, route);
  RecordAttempts(record, route);
  RecordTokens(record);
}

void LedgerSeries::RecordTimes(OfRoute& of, const DecisionRecord& record, const std::string& route) {
  const StageTimes& times = record.times;
  const auto observe = [&](observe::Histogram*& held, const char* name, const char* help, int64_t took_ns) {
    HeldSeries(held, [&]() -> observe::Histogram& { return SecondsOf(name, help, {{"route", route}}); })
        .Observe(std::max(NanosToSeconds(took_ns), 0.0));
  };
  observe(of.queue, "surety_queue_wait_seconds", "Waiting for workers and for the backend.", times.queue_ns);
  if (times.prefill_ns > 0) {
    Seconds("surety_prefill_seconds", "Reading the prompt.", {{"route", route}}, NanosToSeconds(times.prefill_ns));
  }
  if (times.decode_ns > 0 && record.usage.output_tokens > 1) {  // the first token is the prefill's
    registry_
        .AddHistogram("surety_decode_tokens_per_second", "Speed of answers.", kDecodeRateBounds, {{"route", route}})
        .Observe((record.usage.output_tokens - 1) / NanosToSeconds(times.decode_ns));
  }
  if (times.first_useful_ns > 0) {
    observe(of.first_useful, "surety_time_to_first_useful_answer_seconds",
            "To the first verified or released sentence.", times.first_useful_ns);
  }
  if (record.decision.outcome == api::Outcome::kHeld) {
    observe(of.hold, "surety_hold_seconds", "From a held answer's last token to its release: checks and audit.",
            times.verify_ns + times.release_ns);
  }
  const std::string error = ErrorCodeOf(record);   // of a closed list
  HeldSeries(of.task[error], [&]() -> observe::Histogram& {
    return registry_.AddHistogram("gen_ai_workflow_duration_seconds", "A whole governed task.", kGenAiSecondsBounds,
                                  {{"gen_ai_workflow_name", route}, {"error_type", Bounded("error", error)}});
  }).Observe(NanosToSeconds(std::max<int64_t>(times.total_ns, 0)));
}

void LedgerSeries::RecordVerdicts(const DecisionRecord& record, const std::string& route) {
  for (const Verdict& verdict : record.verdicts) {
    Seconds("surety_verifier_seconds", "Checks of answers.",
            {{"route", route},
             {"verifier", Bounded("verifier", verdict.verifier)},
             {"verdict", std::string(LedgerVerdictName(verdict.outcome))}},
            NanosToSeconds(verdict.duration_ns));
  }
}

void LedgerSeries::RecordAttempts(const DecisionRecord& record, const std::string& route) {
  const std::string timeouts = "surety_timeout_total", timeouts_help = "Deadlines that passed, by stage.";
  const std::vector<Attempt> attempts = AttemptsOf(record);
  for (size_t i = 0; i < attempts.size(); ++i) {
    if (attempts[i].outcome == "timeout") Count(timeouts, timeouts_help, {{"route", route}, {"stage", "generate"}});
    if (i == 0) continue;
    const std::string from = Bounded("attempt_route", attempts[i - 1].route);
    const std::string cause = Bounded("cause", attempts[i - 1].outcome);
    if (attempts[i].route == attempts[i - 1].route) {
      Count("surety_retry_total", "Further attempts on the same route, by what the one before came to.",
            {{"route", from}, {"cause", cause}});
    } else {
      Count("surety_fallback_total", "Attempts that went on to another route, by what the one before came to.",
            {{"from", from}, {"to", Bounded("attempt_route", attempts[i].route)}, {"cause", cause}});
    }
  }
  if (ErrorCodeOf(record) == StatusCodeName(StatusCode::kDeadlineExceeded)) {
    Count(timeouts, timeouts_help, {{"route", route}, {"stage", "request"}});
  }
}

void LedgerSeries::RecordTokens(const DecisionRecord& record) {
  if (record.usage.prompt_tokens <= 0 && record.usage.output_tokens <= 0) return;
  const std::string model = Bounded("model", record.model);
  for (const auto& [type, n] : {std::pair("input", record.usage.prompt_tokens),
                                std::pair("output", record.usage.output_tokens)}) {
    registry_
        .AddHistogram("gen_ai_client_token_usage", "Tokens of a governed task; input includes cached ones.",
                      kGenAiTokenBounds,
                      {{"gen_ai_operation_name", "chat"}, {"gen_ai_request_model", model}, {"gen_ai_token_type", type}})
        .Observe(n);
  }
}

void LedgerSeries::Record(const ReviewOutcome& outcome, const std::string& route) {
  const auto together = registry_.Together();
  const LedgerSums sums = SumsOf(outcome);
  const char* became = !outcome.approved ? "rejected" : sums[Sum::kEdited] > 0 ? "edited" : "approved";
  Count("surety_review_total", "Reviews that ended.", {{"route", route}, {"outcome", became}});
  Seconds("surety_review_seconds", "People's time for a review.", {{"route", route}}, sums[Sum::kReviewSeconds]);
  Count("surety_task_cost_total", "What decisions cost, in the policy's currency.",
        {{"route", route}, {"component", "review"}}, sums[Sum::kReviewCost]);
  Count("surety_tasks_accepted_total", "Answers released without a person, or approved.", {{"route", route}},
        sums[Sum::kAccepted]);
}

void LedgerSeries::Record(const ShadowOutcome& outcome, const std::string& route) {
  static constexpr std::array<const char*, 3> kResults = {"same", "different", "dropped"};
  const auto together = registry_.Together();
  Count("surety_cache_shadow_total", "Answers from the cache that were computed again, by what came of it.",
        {{"route", route}, {"outcome", kResults[static_cast<size_t>(outcome.result)]}});
  Count("surety_task_cost_total", "What decisions cost, in the policy's currency.",
        {{"route", route}, {"component", "shadow"}}, SumsOf(outcome)[Sum::kShadowCost]);
}

}  // namespace surety::gateway
