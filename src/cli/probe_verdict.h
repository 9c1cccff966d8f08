// What the rounds of a probe come to: for each way in which a prompt's cache might be seen by somebody else, whether it
// was.
//
// A round has one measurement of each kind. A leak shows in the server's own count of cached tokens, or in times that
// differ from those of fresh prompts of the same caller. Times can only clear a server if they would have shown a leak:
// the caller's own repeated prompt must be found faster by the same test, and the interval of a difference must exclude
// half of that gap; else the answer is that one cannot tell.
//
// Units: milliseconds. Threads: any. Owns: values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

#include "cli/load_stats.h"
#include "cli/probe_stats.h"

namespace surety::cli {

// The prompts of a round. Names are part of the report: append.
enum class ProbeKind {
  kFresh,          // the first key, a prompt that nobody has sent
  kOtherFresh,     // the other key, another such prompt
  kRepeat,         // the first key, its own prompt again: the positive control
  kOtherKey,       // the other key, the first key's prompt
  kOtherKeySalt,   // the other key, a prompt that the first key sent under the same cache_salt
  kOtherSalt,      // the first key, that prompt under another cache_salt
};
inline constexpr int kProbeKinds = 6;
std::string_view ProbeKindName(ProbeKind kind);

struct ProbeSample {
  double ttft_ms = 0;
  int64_t cached_tokens = -1;  // -1: the server does not say
  int64_t prompt_tokens = -1;
};
using ProbeRound = std::array<ProbeSample, kProbeKinds>;

enum class ProbeAnswer { kNoLeak, kLeak, kCannotTell };
std::string_view ProbeAnswerName(ProbeAnswer answer);

// One kind against fresh prompts of the same key, paired by round: what the fresh ones took longer.
struct ProbeComparison {
  ProbeKind kind = ProbeKind::kRepeat;
  double median_ms = 0;        // of the kind itself
  double faster_ms = 0;        // median of the differences
  Interval interval;           // of that median, 95 %
  double gap_share = 0;        // faster_ms over that of the positive control: 1 is as fast as a hit
  SignedRank test;
  int64_t most_cached_tokens = -1;
  int rounds_with_hits = 0;    // with more cached tokens than any fresh prompt had
  bool differs = false;        // at the significance of one comparison
  ProbeAnswer answer = ProbeAnswer::kCannotTell;
  std::string reason;
};

struct ProbeReport {
  int rounds = 0;
  bool counts_tokens = false;  // the server tells cached tokens
  bool with_salt = true;
  double significance = 0;     // of all comparisons together
  double fresh_ms = 0;         // medians
  ProbeComparison control;
  std::vector<ProbeComparison> comparisons;
  ProbeAnswer answer = ProbeAnswer::kCannotTell;
  std::string reason;
};

// Not empty. `significance`: how often a server without a leak may be taken for one with, by its times.
ProbeReport JudgeProbe(const std::vector<ProbeRound>& rounds, bool with_salt, double significance);

std::string ProbeTable(const ProbeReport& report);
boost::json::object DescribeProbe(const ProbeReport& report);

}  // namespace surety::cli
