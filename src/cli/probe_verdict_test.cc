// The answers of a probe for servers that are made up: what is seen, what is not, and when one cannot tell.
#include "cli/probe_verdict.h"

#include <vector>

#include <gtest/gtest.h>

#include "cli/load_random.h"

namespace surety::cli {
namespace {

// A server's times: 100 ms for a prompt that is computed, 20 ms for one that is found, and noise.
struct MadeUpServer {
  bool leaks_keys = false, leaks_salts = false, caches = true, counts = true;
  double noise_ms = 3;
  int64_t template_tokens = 0;  // cached for everyone
  double leak_gain_ms = 80;

  std::vector<ProbeRound> Rounds(int n, uint64_t seed) const {
    std::vector<ProbeRound> rounds(static_cast<size_t>(n));
    for (size_t r = 0; r < rounds.size(); ++r) {
      RandomStream stream(seed, r, LoadLane::kLengths);
      for (int k = 0; k < kProbeKinds; ++k) {
        const auto kind = static_cast<ProbeKind>(k);
        const bool other = kind == ProbeKind::kOtherKey || kind == ProbeKind::kOtherKeySalt;
        const bool own = kind == ProbeKind::kRepeat && caches;
        const bool leak = (other && leaks_keys) || (kind == ProbeKind::kOtherSalt && leaks_salts);
        ProbeSample& sample = rounds[r][static_cast<size_t>(k)];
        sample.ttft_ms = 100 - (own ? 80 : leak ? leak_gain_ms : 0) + noise_ms * stream.Normal();
        if (counts) sample.cached_tokens = own || (leak && leak_gain_ms > 40) ? 512 : template_tokens;
      }
    }
    return rounds;
  }
};

ProbeReport JudgeServer(const MadeUpServer& server, int rounds = 30, uint64_t seed = 1) {
  return JudgeProbe(server.Rounds(rounds, seed), true, 0.01);
}

TEST(ProbeVerdictTest, AServerThatKeepsCallersApartShowsNoLeak) {
  for (const bool counts : {true, false}) {
    const ProbeReport report = JudgeServer({.counts = counts, .template_tokens = 32});
    EXPECT_EQ(report.answer, ProbeAnswer::kNoLeak) << report.reason;
    EXPECT_EQ(report.counts_tokens, counts);
    EXPECT_EQ(report.comparisons.size(), 3u);
    EXPECT_NEAR(report.control.faster_ms, 80, 5);
  }
}

TEST(ProbeVerdictTest, ALeakIsSeenByCountsAndByTimesAlone) {
  for (const bool counts : {true, false}) {
    const ProbeReport report = JudgeServer({.leaks_keys = true, .counts = counts}, 12);
    EXPECT_EQ(report.answer, ProbeAnswer::kLeak);
    EXPECT_EQ(report.comparisons[0].answer, ProbeAnswer::kLeak);
    EXPECT_NEAR(report.comparisons[0].gap_share, 1, 0.1);
    EXPECT_EQ(report.comparisons[0].rounds_with_hits, counts ? 12 : 0);
    EXPECT_EQ(report.comparisons[2].answer, ProbeAnswer::kNoLeak);  // another salt
  }
  EXPECT_EQ(JudgeServer({.leaks_salts = true}).comparisons[2].answer, ProbeAnswer::kLeak);
}

TEST(ProbeVerdictTest, ALeakOfAFewMillisecondsIsSeenWhereTimesAreSteady) {
  const ProbeReport report = JudgeServer({.leaks_keys = true, .counts = false, .noise_ms = 2, .leak_gain_ms = 8}, 60);
  EXPECT_EQ(report.answer, ProbeAnswer::kLeak);
  EXPECT_NEAR(report.comparisons[0].gap_share, 0.1, 0.03);
}

TEST(ProbeVerdictTest, WithoutAHitOfTheCallersOwnOneCannotTell) {
  for (const bool counts : {true, false}) {
    const ProbeReport report = JudgeServer({.caches = false, .counts = counts});
    EXPECT_EQ(report.answer, ProbeAnswer::kCannotTell);
    EXPECT_NE(report.reason.find("own prompt"), std::string::npos) << report.reason;
  }
}

TEST(ProbeVerdictTest, NoiseThatHidesAHitIsNoAllClear) {
  const ProbeReport report = JudgeServer({.noise_ms = 2000}, 12);
  EXPECT_EQ(report.answer, ProbeAnswer::kCannotTell);
  EXPECT_NE(report.reason.find("too noisy"), std::string::npos) << report.reason;
}

// Of servers without a leak, the share that is taken for one with.
TEST(ProbeVerdictTest, FalseAlarmsKeepToTheSignificance) {
  int alarms = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    alarms += JudgeServer({.counts = false}, 20, seed).answer == ProbeAnswer::kLeak;
  }
  // 10 expected at most; six standard errors are 19.
  EXPECT_LE(alarms, 29);
}

TEST(ProbeVerdictTest, TheTableSaysTheAnswer) {
  EXPECT_NE(ProbeTable(JudgeServer({})).find("no leak seen"), std::string::npos);
  EXPECT_NE(ProbeTable(JudgeServer({.leaks_keys = true})).find("leak: other_key: the server reports up to 512"),
            std::string::npos);
  EXPECT_NE(ProbeTable(JudgeServer({.caches = false})).find("cannot tell: "), std::string::npos);
}

}  // namespace
}  // namespace surety::cli
