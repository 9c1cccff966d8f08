// What the records of a run come to. The definitions are those of docs/load.md, and are held to them by tests.
//
// Units: milliseconds and seconds as the names say. Threads: any.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/load_options.h"
#include "cli/load_record.h"
#include "cli/load_stats.h"

namespace surety::cli {

// Of one request. Empty where it did not come to that.
struct RequestLatency {
  std::optional<double> lag_ms, ttft_ms, service_ttft_ms, tpot_ms, e2e_ms;
  std::vector<double> icl_ms;  // gaps between events
  std::vector<GroupedValue> itl_ms;  // a gap to an event of n tokens counts n times as its n-th part
  int stalls = 0;              // gaps above the larger of 200 ms and 5 TPOT
};
RequestLatency LatencyOf(const LoadRecord& record);
// Complete, and within every limit that is set.
bool Meets(const LoadRecord& record, const RequestLatency& latency, const Slo& slo);

struct Percentile {
  double percent = 50, value = 0;
  Interval interval;
};
struct LatencySummary {
  int64_t count = 0;  // 0: the rest is without meaning
  double mean = 0, least = 0, most = 0;
  std::array<Percentile, 3> percentiles;  // 50, 95, 99
};

struct SloSummary {
  std::string text;
  int64_t met = 0;
  double goodput = 0;  // requests a second
  double attainment = 0;
  Interval interval;
};

struct LoadWindow {
  int64_t start_ns = 0, end_ns = 0;  // both belong to it
  double seconds() const { return static_cast<double>(end_ns - start_ns) * 1e-9; }
  bool Holds(int64_t time_ns) const { return time_ns >= start_ns && time_ns <= end_ns; }
};

struct LoadSummary {
  LoadWindow window;
  int64_t arrivals = 0, warmup_arrivals = 0;
  std::array<int64_t, kLoadOutcomes> outcomes{};  // of the measured arrivals
  LatencySummary lag_ms, ttft_ms, service_ttft_ms, tpot_ms, itl_ms, icl_ms, e2e_ms, refusal_ms;
  int64_t stalled_requests = 0, stalls = 0;
  std::vector<SloSummary> slos;  // the first: complete answers, without limits
  double requests_per_s = 0, prompt_tok_per_s = 0, output_tok_per_s = 0;
  double in_flight_mean = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;  // of complete answers
  int64_t planned_prompt_tokens = 0, planned_output_tokens = 0;
  int64_t counted_by_usage = 0, counted_by_chunks = 0;
  // Second half of the window against the first, as a share of their mean.
  std::optional<double> output_change, ttft_change;
  bool steady = false;
  std::vector<std::string> invalid;  // why the figures do not hold; empty: they do
};

inline constexpr double kMaxLagMs = 10, kMaxLagOfTtft = 0.01, kSteadyShare = 0.05;

LoadSummary Summarise(std::span<const LoadRecord> records, const LoadWindow& window, std::span<const Slo> slos,
                      uint64_t seed);

}  // namespace surety::cli
