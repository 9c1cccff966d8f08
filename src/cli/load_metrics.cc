#include "cli/load_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

namespace surety::cli {
namespace {

constexpr double kStallMs = 200, kStallTpots = 5;
constexpr double kPercents[] = {50, 95, 99};

double Millis(int64_t nanos) { return static_cast<double>(nanos) * 1e-6; }

LatencySummary SummaryOf(std::vector<double> values) {
  LatencySummary out;
  out.count = static_cast<int64_t>(values.size());
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  out.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  out.least = values.front();
  out.most = values.back();
  for (size_t i = 0; i < 3; ++i) {
    out.percentiles[i] = {kPercents[i], NearestRank(values, kPercents[i]), BootstrapInterval(values, kPercents[i])};
  }
  return out;
}

bool Smaller(const GroupedValue& a, const GroupedValue& b) { return a.value < b.value; }

LatencySummary SummaryOf(GroupedValues all, uint64_t seed) {
  LatencySummary out;
  if (all.values.empty()) return out;
  std::sort(all.values.begin(), all.values.end(), Smaller);
  double sum = 0;
  for (const GroupedValue& value : all.values) {
    out.count += value.times;
    sum += value.value * value.times;
  }
  out.mean = sum / static_cast<double>(out.count);
  out.least = all.values.front().value;
  out.most = all.values.back().value;
  for (size_t i = 0; i < 3; ++i) {
    out.percentiles[i] = {kPercents[i], GroupedNearestRank(all.values, kPercents[i]),
                          GroupBootstrapInterval(all, kPercents[i], seed)};
  }
  return out;
}

void AddGroup(GroupedValues& all, std::vector<GroupedValue> values) {
  for (GroupedValue& value : values) {
    value.group = all.groups;
    all.values.push_back(value);
  }
  ++all.groups;
}

std::vector<GroupedValue> OnceEach(const std::vector<double>& values) {
  std::vector<GroupedValue> out;
  for (const double value : values) out.push_back({value, 1, 0});
  return out;
}

bool Within(const std::optional<double>& limit, const std::optional<double>& value) {
  return !limit || !value || *value <= *limit;
}

std::optional<double> Change(double first, double second) {
  const double mean = (first + second) / 2;
  return mean > 0 ? std::optional((second - first) / mean) : std::nullopt;
}

std::optional<double> MedianOf(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return NearestRank(values, 50);
}

class Summariser {
 public:
  Summariser(const LoadWindow& window, std::span<const Slo> slos) : middle_((window.start_ns + window.end_ns) / 2) {
    out_.window = window;
    out_.slos.push_back({"complete", 0, 0, 0, {}});
    limits_.emplace_back();
    for (const Slo& slo : slos) {
      out_.slos.push_back({slo.text, 0, 0, 0, {}});
      limits_.push_back(slo);
    }
  }

  void Add(const LoadRecord& record) {
    AddByTime(record);
    if (!out_.window.Holds(record.intended_ns)) {
      out_.warmup_arrivals += record.intended_ns < out_.window.start_ns;
      return;
    }
    ++out_.arrivals;
    ++out_.outcomes[static_cast<size_t>(record.outcome)];
    const RequestLatency latency = LatencyOf(record);
    if (latency.lag_ms) lag_.push_back(*latency.lag_ms);
    if (latency.ttft_ms) {
      ttft_.push_back(*latency.ttft_ms);
      ttft_half_[record.intended_ns >= middle_].push_back(*latency.ttft_ms);
    }
    if (latency.service_ttft_ms) service_ttft_.push_back(*latency.service_ttft_ms);
    if (latency.tpot_ms) tpot_.push_back(*latency.tpot_ms);
    if (latency.e2e_ms) e2e_.push_back(*latency.e2e_ms);
    AddGroup(itl_, latency.itl_ms);
    AddGroup(icl_, OnceEach(latency.icl_ms));
    out_.stalls += latency.stalls;
    out_.stalled_requests += latency.stalls > 0;
    if (record.outcome == LoadOutcome::kRefused) refusals_.push_back(Millis(record.end_ns - record.intended_ns));
    if (record.outcome == LoadOutcome::kOk) AddTokens(record);
    for (size_t i = 0; i < limits_.size(); ++i) out_.slos[i].met += Meets(record, latency, limits_[i]);
  }

  LoadSummary Finish(uint64_t seed) {
    out_.lag_ms = SummaryOf(std::move(lag_));
    out_.ttft_ms = SummaryOf(std::move(ttft_));
    out_.service_ttft_ms = SummaryOf(std::move(service_ttft_));
    out_.tpot_ms = SummaryOf(std::move(tpot_));
    out_.e2e_ms = SummaryOf(std::move(e2e_));
    out_.refusal_ms = SummaryOf(std::move(refusals_));
    out_.itl_ms = SummaryOf(std::move(itl_), seed);
    out_.icl_ms = SummaryOf(std::move(icl_), seed);
    const double seconds = out_.window.seconds();
    const double per_second = seconds > 0 ? 1 / seconds : 0;
    for (SloSummary& slo : out_.slos) {
      slo.goodput = static_cast<double>(slo.met) * per_second;
      slo.attainment = out_.arrivals > 0 ? static_cast<double>(slo.met) / static_cast<double>(out_.arrivals) : 0;
      slo.interval = WilsonInterval(slo.met, out_.arrivals);
    }
    out_.requests_per_s = static_cast<double>(completed_) * per_second;
    out_.prompt_tok_per_s = static_cast<double>(prompt_tokens_) * per_second;
    out_.output_tok_per_s = static_cast<double>(output_half_[0] + output_half_[1]) * per_second;
    out_.in_flight_mean = busy_s_ * per_second;
    CheckSteady();
    CheckValid();
    return std::move(out_);
  }

 private:
  // What counts by when it happened, whenever its request arrived.
  void AddByTime(const LoadRecord& record) {
    const LoadWindow& window = out_.window;
    completed_ += record.outcome == LoadOutcome::kOk && window.Holds(record.end_ns);
    if (!record.events.empty() && window.Holds(record.events.front().time_ns)) {
      prompt_tokens_ += record.prompt_tokens >= 0 ? record.prompt_tokens : record.planned_prompt_tokens;
    }
    for (const TokenEvent& event : record.events) {
      if (window.Holds(event.time_ns)) output_half_[event.time_ns >= middle_] += event.tokens;
    }
    if (record.sent_ns >= 0 && record.end_ns >= 0) {
      const int64_t from = std::max(record.sent_ns, window.start_ns), to = std::min(record.end_ns, window.end_ns);
      busy_s_ += static_cast<double>(std::max<int64_t>(0, to - from)) * 1e-9;
    }
  }

  void AddTokens(const LoadRecord& record) {
    out_.prompt_tokens += std::max<int64_t>(0, record.prompt_tokens);
    out_.cached_tokens += std::max<int64_t>(0, record.cached_tokens);
    out_.output_tokens += record.output_tokens;
    out_.planned_prompt_tokens += record.planned_prompt_tokens;
    out_.planned_output_tokens += record.planned_output_tokens;
    out_.counted_by_usage += record.counted == TokenCount::kUsage;
    out_.counted_by_chunks += record.counted == TokenCount::kChunks;
  }

  void CheckSteady() {
    out_.output_change = Change(static_cast<double>(output_half_[0]), static_cast<double>(output_half_[1]));
    const auto first = MedianOf(std::move(ttft_half_[0])), second = MedianOf(std::move(ttft_half_[1]));
    if (first && second) out_.ttft_change = Change(*first, *second);
    const auto small = [](const std::optional<double>& change) { return change && std::abs(*change) <= kSteadyShare; };
    out_.steady = small(out_.output_change) && small(out_.ttft_change);
  }

  void CheckValid() {
    const int64_t not_sent = out_.outcomes[static_cast<size_t>(LoadOutcome::kNotSent)];
    if (out_.arrivals == 0) {
      out_.invalid.emplace_back("no request arrived in the measured window");
      return;
    }
    if (not_sent > 0) {
      out_.invalid.push_back(fmt::format(
          "{} requests were not sent because all connections (--max-connections) were in use", not_sent));
    }
    if (out_.outcomes[static_cast<size_t>(LoadOutcome::kOk)] == 0) {
      out_.invalid.emplace_back("no request got a complete answer");
    }
    if (out_.lag_ms.count == 0) return;
    const double ttft_p50 = out_.ttft_ms.count > 0 ? out_.ttft_ms.percentiles[0].value : 0;
    const double limit = std::max(kMaxLagMs, kMaxLagOfTtft * ttft_p50);
    if (const double lag = out_.lag_ms.percentiles[2].value; lag > limit) {
      out_.invalid.push_back(fmt::format(
          "requests were sent too late: the 99th percentile of the send lag is {:.1f} ms, the limit {:.1f} ms; "
          "this machine is too busy, or connections take long to open", lag, limit));
    }
  }

  LoadSummary out_;
  int64_t middle_;
  std::vector<Slo> limits_;
  std::vector<double> lag_, ttft_, service_ttft_, tpot_, e2e_, refusals_;
  std::vector<double> ttft_half_[2];
  GroupedValues itl_, icl_;
  int64_t completed_ = 0, prompt_tokens_ = 0, output_half_[2] = {0, 0};
  double busy_s_ = 0;
};

}  // namespace

RequestLatency LatencyOf(const LoadRecord& record) {
  RequestLatency out;
  if (record.sent_ns >= 0) out.lag_ms = Millis(record.sent_ns - record.intended_ns);
  if (record.outcome == LoadOutcome::kOk) out.e2e_ms = Millis(record.end_ns - record.intended_ns);
  if (record.events.empty()) return out;
  const TokenEvent& first = record.events.front();
  out.ttft_ms = Millis(first.time_ns - record.intended_ns);
  out.service_ttft_ms = Millis(first.time_ns - record.sent_ns);
  const int64_t after_first = record.output_tokens - first.tokens;
  if (record.outcome == LoadOutcome::kOk && after_first > 0) {
    out.tpot_ms = Millis(record.events.back().time_ns - first.time_ns) / static_cast<double>(after_first);
  }
  const double stall = std::max(kStallMs, kStallTpots * out.tpot_ms.value_or(0));
  for (size_t i = 1; i < record.events.size(); ++i) {
    const TokenEvent& event = record.events[i];
    const double gap = Millis(event.time_ns - record.events[i - 1].time_ns);
    out.icl_ms.push_back(gap);
    if (event.tokens > 0) out.itl_ms.push_back({gap / event.tokens, event.tokens, 0});
    out.stalls += gap > stall;
  }
  return out;
}

bool Meets(const LoadRecord& record, const RequestLatency& latency, const Slo& slo) {
  if (record.outcome != LoadOutcome::kOk) return false;
  std::optional<double> itl;
  if (slo.itl_ms && !latency.itl_ms.empty()) {
    std::vector<GroupedValue> sorted = latency.itl_ms;
    std::sort(sorted.begin(), sorted.end(), Smaller);
    itl = GroupedNearestRank(sorted, 99);
  }
  return Within(slo.ttft_ms, latency.ttft_ms) && Within(slo.service_ttft_ms, latency.service_ttft_ms) &&
         Within(slo.tpot_ms, latency.tpot_ms) && Within(slo.e2e_ms, latency.e2e_ms) && Within(slo.itl_ms, itl);
}

LoadSummary Summarise(std::span<const LoadRecord> records, const LoadWindow& window, std::span<const Slo> slos,
                      uint64_t seed) {
  Summariser summariser(window, slos);
  for (const LoadRecord& record : records) summariser.Add(record);
  return summariser.Finish(seed);
}

}  // namespace surety::cli
