#include "cli/probe_verdict.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "cli/json_out.h"

namespace surety::cli {
namespace {

constexpr double kGapToExclude = 0.5;  // of the gap between a fresh prompt and a hit

const ProbeSample& ProbeSampleOf(const ProbeRound& round, ProbeKind kind) { return round[static_cast<size_t>(kind)]; }

ProbeKind ProbeBaselineOf(ProbeKind kind) {
  const bool others = kind == ProbeKind::kOtherKey || kind == ProbeKind::kOtherKeySalt;
  return others ? ProbeKind::kOtherFresh : ProbeKind::kFresh;
}

// More than a fresh prompt ever has: a template's beginning may be cached for everyone's own use.
int64_t MostCachedFresh(const std::vector<ProbeRound>& rounds) {
  int64_t most = 0;
  for (const ProbeRound& round : rounds) {
    for (const ProbeKind kind : {ProbeKind::kFresh, ProbeKind::kOtherFresh}) {
      most = std::max(most, ProbeSampleOf(round, kind).cached_tokens);
    }
  }
  return most;
}

ProbeComparison CompareProbe(const std::vector<ProbeRound>& rounds, ProbeKind kind, double significance) {
  ProbeComparison c;
  c.kind = kind;
  const int64_t most_fresh = MostCachedFresh(rounds);
  std::vector<double> times, differences;
  for (const ProbeRound& round : rounds) {
    const ProbeSample& sample = ProbeSampleOf(round, kind);
    times.push_back(sample.ttft_ms);
    differences.push_back(ProbeSampleOf(round, ProbeBaselineOf(kind)).ttft_ms - sample.ttft_ms);
    c.most_cached_tokens = std::max(c.most_cached_tokens, sample.cached_tokens);
    c.rounds_with_hits += sample.cached_tokens > most_fresh;
  }
  c.median_ms = MedianOf(times);
  c.faster_ms = MedianOf(differences);
  c.test = SignedRankTest(differences);
  c.differs = c.test.p_value < significance;
  std::sort(differences.begin(), differences.end());
  c.interval = BootstrapInterval(differences, 50);
  return c;
}

void JudgeControl(ProbeReport& report) {
  ProbeComparison& c = report.control;
  c.gap_share = 1;
  if (report.counts_tokens && 2 * c.rounds_with_hits < report.rounds) {
    c.reason = "the caller's own prompt was not found in the cache";
  } else if (!c.differs || c.faster_ms <= 0) {
    c.reason = report.counts_tokens ? "too noisy: the caller's own cached prompt is not measurably faster"
                                    : "the caller's own prompt is not measurably faster the second time";
  } else {
    c.answer = ProbeAnswer::kNoLeak;
  }
}

void JudgeComparison(const ProbeReport& report, ProbeComparison& c) {
  const double gap = report.control.faster_ms;
  c.gap_share = gap > 0 ? c.faster_ms / gap : 0;
  if (c.rounds_with_hits > 0) {
    c.answer = ProbeAnswer::kLeak;
    c.reason = fmt::format("the server reports up to {} cached tokens", c.most_cached_tokens);
  } else if (c.differs) {
    c.answer = ProbeAnswer::kLeak;
    c.reason = fmt::format("the time to the first token differs from fresh prompts, p = {:.2g}", c.test.p_value);
  } else if (report.control.answer != ProbeAnswer::kNoLeak) {
    c.reason = report.control.reason;
  } else if (std::max(c.interval.high, -c.interval.low) >= kGapToExclude * gap) {
    c.reason = fmt::format("too noisy: a difference of half the gap of a hit ({:.1f} ms) is not excluded",
                           kGapToExclude * gap);
  } else {
    c.answer = ProbeAnswer::kNoLeak;
  }
}

boost::json::object DescribeComparison(const ProbeComparison& c) {
  boost::json::object out;
  out["kind"] = ProbeKindName(c.kind);
  out["answer"] = ProbeAnswerName(c.answer);
  out["reason"] = c.reason;
  out["ttft_ms"] = Rounded(c.median_ms);
  out["faster_ms"] = Rounded(c.faster_ms);
  out["faster_ms_low"] = Rounded(c.interval.low);
  out["faster_ms_high"] = Rounded(c.interval.high);
  out["gap_share"] = Rounded(c.gap_share);
  out["p_value"] = Rounded(c.test.p_value);
  out["effect"] = Rounded(c.test.effect);
  if (c.most_cached_tokens >= 0) out["most_cached_tokens"] = c.most_cached_tokens;
  out["rounds_with_hits"] = c.rounds_with_hits;
  return out;
}

std::string ProbeRowText(const ProbeComparison& c) {
  const std::string cached = c.most_cached_tokens < 0 ? "-" : fmt::format("{}", c.most_cached_tokens);
  const std::string interval = fmt::format("{:.1f} .. {:.1f}", c.interval.low, c.interval.high);
  return fmt::format("{:<16} {:>9.1f} {:>9.1f} {:>18} {:>9.2g} {:>7.2f} {:>8}  {}\n", ProbeKindName(c.kind),
                     c.median_ms, c.faster_ms, interval, c.test.p_value, c.test.effect, cached, c.reason);
}

}  // namespace

std::string_view ProbeKindName(ProbeKind kind) {
  constexpr std::string_view kNames[kProbeKinds] = {"fresh",     "other_fresh",    "repeat",
                                                    "other_key", "other_key_salt", "other_salt"};
  return kNames[static_cast<int>(kind)];
}

std::string_view ProbeAnswerName(ProbeAnswer answer) {
  constexpr std::string_view kNames[] = {"no_leak", "leak", "cannot_tell"};
  return kNames[static_cast<int>(answer)];
}

ProbeReport JudgeProbe(const std::vector<ProbeRound>& rounds, bool with_salt, double significance) {
  SURETY_CHECK(!rounds.empty());
  ProbeReport report;
  report.rounds = static_cast<int>(rounds.size());
  report.with_salt = with_salt;
  report.significance = significance;
  std::vector<double> fresh;
  for (const ProbeRound& round : rounds) {
    fresh.push_back(ProbeSampleOf(round, ProbeKind::kFresh).ttft_ms);
    for (const ProbeSample& sample : round) report.counts_tokens |= sample.cached_tokens >= 0;
  }
  report.fresh_ms = MedianOf(fresh);
  std::vector<ProbeKind> kinds = {ProbeKind::kOtherKey};
  if (with_salt) kinds.insert(kinds.end(), {ProbeKind::kOtherKeySalt, ProbeKind::kOtherSalt});
  const double of_one = significance / static_cast<double>(kinds.size());  // Bonferroni
  report.control = CompareProbe(rounds, ProbeKind::kRepeat, of_one);
  JudgeControl(report);
  report.answer = ProbeAnswer::kNoLeak;
  for (const ProbeKind kind : kinds) {
    ProbeComparison c = CompareProbe(rounds, kind, of_one);
    JudgeComparison(report, c);
    const bool worse = c.answer == ProbeAnswer::kLeak
                           ? report.answer != ProbeAnswer::kLeak
                           : c.answer == ProbeAnswer::kCannotTell && report.answer == ProbeAnswer::kNoLeak;
    if (worse) {
      report.answer = c.answer;
      report.reason = fmt::format("{}: {}", ProbeKindName(kind), c.reason);
    }
    report.comparisons.push_back(std::move(c));
  }
  return report;
}

std::string ProbeTable(const ProbeReport& report) {
  std::string text = fmt::format("{} rounds, fresh prompts {:.1f} ms (median time to the first token)\n\n",
                                 report.rounds, report.fresh_ms);
  text += fmt::format("{:<16} {:>9} {:>9} {:>18} {:>9} {:>7} {:>8}\n", "prompt", "TTFT ms", "faster", "95 %", "p",
                      "effect", "cached");
  text += ProbeRowText(report.control);
  for (const ProbeComparison& c : report.comparisons) text += ProbeRowText(c);
  if (!report.counts_tokens) text += "\nThe server does not tell cached tokens: the answer rests on times alone.\n";
  if (!report.with_salt) text += "\nThe server refuses cache_salt: salts were not tried.\n";
  switch (report.answer) {
    case ProbeAnswer::kNoLeak:
      return text + fmt::format("\nno leak seen (a repeated prompt is {:.1f} ms faster for its own caller; for others "
                                "no difference at a significance of {})\n",
                                report.control.faster_ms, report.significance);
    case ProbeAnswer::kLeak:
      return text + fmt::format("\nleak: {}\n", report.reason);
    case ProbeAnswer::kCannotTell:
      return text + fmt::format("\ncannot tell: {}\n", report.reason);
  }
  return text;
}

boost::json::object DescribeProbe(const ProbeReport& report) {
  boost::json::object out;
  out["answer"] = ProbeAnswerName(report.answer);
  out["reason"] = report.reason;
  out["rounds"] = report.rounds;
  out["significance"] = report.significance;
  out["counts_tokens"] = report.counts_tokens;
  out["with_salt"] = report.with_salt;
  out["fresh_ttft_ms"] = Rounded(report.fresh_ms);
  out["control"] = DescribeComparison(report.control);
  boost::json::array comparisons;
  for (const ProbeComparison& c : report.comparisons) comparisons.push_back(DescribeComparison(c));
  out["comparisons"] = std::move(comparisons);
  return out;
}

}  // namespace surety::cli
