// Answers from the cache are computed again, and never cross a partition, whatever the cache does.
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include <gtest/gtest.h>

#include "gateway/testing/governed_world.h"

namespace surety::gateway {
namespace {

using ShadowResult = ShadowOutcome::Result;

constexpr char kShadowQuestion[] = "@route=cached What is it?";

Policy ShadowPolicy(double share) {
  Policy policy = WorldPolicy();
  policy.state.cache_shadow = share;
  return policy;
}

std::string ShadowField(const AuditRow& row, const char* name) { return std::string(row.body.at(name).as_string()); }

// The outcomes, once there are `n`.
std::vector<ShadowOutcome> ShadowsOf(const GovernedWorld& world, size_t n) {
  for (int i = 0; i < 5000 && world.ledger->shadows().size() < n; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return world.ledger->shadows();
}

TEST(GovernedShadowTest, WhatIsTheSameStaysAndIsNobodysDecision) {
  Policy policy = ShadowPolicy(1);
  BudgetSpec budget;
  budget.rpm_limit = 3;
  policy.budgets.push_back(budget);
  GovernedWorld world(policy);
  world.script = [](const api::GenerationRequest&) {
    ScriptedAnswer answer{.pieces = {"An answer."}};
    answer.usage = {100, 0, 10, 0, 0};
    return answer;
  };
  const Reply first = world.Send(kShadowQuestion);
  const Reply hit = world.Send(kShadowQuestion);
  EXPECT_EQ(hit.decision().cache, "hit");
  EXPECT_EQ(hit.decision().cost, 0);  // what is computed afterwards is not the caller's
  const auto shadows = ShadowsOf(world, 1);
  ASSERT_EQ(shadows.size(), 1u);
  EXPECT_EQ(shadows[0].result, ShadowResult::kSame);
  EXPECT_EQ(shadows[0].route, "cached");
  EXPECT_DOUBLE_EQ(shadows[0].cost, first.decision().cost);
  const auto requests = world.model->requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].messages, requests[0].messages);
  EXPECT_NE(requests[1].scope, requests[0].scope);  // nothing that was computed before helps
  EXPECT_GT(requests[1].priority, requests[0].priority);
  EXPECT_EQ(world.audit->rows("shadow").size(), 0u);
  EXPECT_EQ(world.audit->rows("decision").size(), 2u);
  EXPECT_EQ(world.ledger->records().size(), 2u);
  EXPECT_EQ(world.Send(kShadowQuestion).decision().cache, "hit");  // the third of three requests
}

TEST(GovernedShadowTest, WhatDiffersWasReleasedIsTakenOutAndWrittenDown) {
  GovernedWorld world(ShadowPolicy(1));
  std::atomic<int> n = 0;
  world.script = [&](const api::GenerationRequest&) {
    return ScriptedAnswer{.pieces = {"Answer " + std::to_string(n++) + "."}};
  };
  const Reply first = world.Send(kShadowQuestion);
  const Reply hit = world.Send(kShadowQuestion);
  EXPECT_EQ(hit.text, "Answer 0.");
  EXPECT_EQ(hit.events.size(), 1u);
  const auto shadows = ShadowsOf(world, 1);
  ASSERT_EQ(shadows.size(), 1u);
  EXPECT_EQ(shadows[0].result, ShadowResult::kDifferent);
  const auto rows = world.audit->rows("shadow");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(ShadowField(rows[0], "id"), hit.decision().id);
  EXPECT_EQ(ShadowField(rows[0], "first"), first.decision().id);
  AnswerText answer;
  answer.text = "Answer 0.";
  EXPECT_EQ(ShadowField(rows[0], "released_digest"), DigestOf(answer));
  answer.text = "Answer 1.";
  EXPECT_EQ(ShadowField(rows[0], "computed_digest"), DigestOf(answer));
  const Reply after = world.Send(kShadowQuestion);
  EXPECT_EQ(after.decision().cache, "miss");
  EXPECT_EQ(after.text, "Answer 2.");
}

TEST(GovernedShadowTest, OneRunsAtATimeAndTheRestIsDropped) {
  GovernedWorld world(ShadowPolicy(1));
  std::atomic<bool> slow = false;
  world.script = [&](const api::GenerationRequest&) {
    return ScriptedAnswer{.pieces = {"An answer."}, .delay_ms = slow ? 60'000 : 0};
  };
  world.Send(kShadowQuestion);
  slow = true;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(world.Send(kShadowQuestion).decision().cache, "hit");
  const auto shadows = ShadowsOf(world, 3);
  ASSERT_EQ(shadows.size(), 3u);
  for (const ShadowOutcome& shadow : shadows) EXPECT_EQ(shadow.result, ShadowResult::kDropped);
  EXPECT_LE(world.model->n_requests(), 2);
  world.backend->Drain(10);  // ends the one that runs, which compares nothing
  EXPECT_EQ(ShadowsOf(world, 4).back().result, ShadowResult::kDropped);
  EXPECT_EQ(world.audit->rows("shadow").size(), 0u);
}

TEST(GovernedShadowTest, AShareOfHitsIsDrawn) {
  for (const double share : {0.0, 0.25, 1.0}) {
    GovernedWorld world(ShadowPolicy(share));
    constexpr int kHits = 300;
    world.Send(kShadowQuestion);
    for (int i = 0; i < kHits; ++i) world.Send(kShadowQuestion);
    world.backend->Drain(10'000);
    const auto n = static_cast<double>(world.ledger->shadows().size());
    // Six standard deviations of a binomial law.
    EXPECT_NEAR(n, share * kHits, 6 * std::sqrt(share * (1 - share) * kHits) + 1e-9);
  }
}

// What a single generation does not make again is not compared: a repaired answer, another company's model.
TEST(GovernedShadowTest, OnlyWhatMustComeAgainIsCompared) {
  Policy policy = ShadowPolicy(1);
  policy.verifiers["promises"].fail = VerifierSpec::Action::kRepair;
  for (RouteSpec& route : policy.routes) {
    if (route.name == "cached") route.max_attempts = 2;
  }
  GovernedWorld repaired(policy);
  std::atomic<int> n = 0;
  repaired.script = [&](const api::GenerationRequest&) {
    return ScriptedAnswer{.pieces = {n++ == 0 ? "we guarantee" : "we try"}};
  };
  repaired.Send(kShadowQuestion);
  EXPECT_EQ(repaired.Send(kShadowQuestion).decision().cache, "hit");
  repaired.backend->Drain(10'000);
  EXPECT_EQ(repaired.ledger->shadows().size(), 0u);

  policy = ShadowPolicy(1);
  policy.models["fast"].engine = ModelSpec::Engine::kRemote;
  GovernedWorld remote(policy);
  remote.Send(kShadowQuestion);
  EXPECT_EQ(remote.Send(kShadowQuestion).decision().cache, "hit");
  remote.backend->Drain(10'000);
  EXPECT_EQ(remote.ledger->shadows().size(), 0u);
}

// A cache that has forgotten what partitions are: whoever asks gets what is there.
class LeakyCache final : public ResponseCache {
 public:
  explicit LeakyCache(const Clock& clock) : inner_(Make(1 << 20, clock)) {}
  std::optional<CacheHit> Find(const Partition&, const AnswerBasis& basis, std::string_view question,
                               int64_t as_of_ns) override {
    return stored_ ? inner_->Find(*stored_, basis, question, as_of_ns) : std::nullopt;
  }
  std::optional<CacheHit> FindSimilar(const Partition&, const AnswerBasis&, std::string_view, std::span<const float>,
                                      double, int64_t) override {
    return std::nullopt;
  }
  Status Store(const Partition& partition, const AnswerBasis& basis, std::string_view question,
               std::span<const float> vector, CachedAnswer answer, int64_t ttl_ns) override {
    if (!stored_) stored_ = partition;
    return inner_->Store(partition, basis, question, vector, std::move(answer), ttl_ns);
  }
  CacheForgetReceipt ForgetSubject(std::string_view t, std::string_view s) override {
    return inner_->ForgetSubject(t, s);
  }
  CacheForgetReceipt ForgetDocument(std::string_view document) override { return inner_->ForgetDocument(document); }
  CacheForgetReceipt ForgetDecision(std::string_view decision) override { return inner_->ForgetDecision(decision); }
  CacheForgetReceipt Clear() override { return inner_->Clear(); }
  int64_t n_entries() const override { return inner_->n_entries(); }
  int64_t bytes() const override { return inner_->bytes(); }
  ResponseCacheCounters counters() const override { return inner_->counters(); }

 private:
  std::unique_ptr<ResponseCache> inner_;
  std::optional<Partition> stored_;
};

TEST(GovernedShadowTest, AnAnswerOfAnotherPartitionIsRefusedWhateverTheCacheSays) {
  WallClock clock;
  std::vector<std::pair<const char*, boost::json::value>> others = {
      {"tenant", "other"},      {"region", "EU-DE"},
      {"product", "loan"},      {"language", "es"},
      {"eligibility", "other"}, {"effective_date", "2025-11-29"},
      {"permissions", boost::json::array{"cases", "sar"}}};
  for (const auto& [claim, value] : others) {
    GovernedWorld world(ShadowPolicy(0), std::make_shared<LeakyCache>(clock));
    std::atomic<int> n = 0;
    world.script = [&](const api::GenerationRequest&) {
      return ScriptedAnswer{.pieces = {"Secret " + std::to_string(n++)}};
    };
    const Reply first = world.Send(kShadowQuestion);
    EXPECT_EQ(world.Send(kShadowQuestion).decision().cache, "hit");  // the control: her own
    EXPECT_EQ(world.backend->cross_partition_hits(), 0);
    api::Caller other = GovernedWorld::Anna();
    other.claims[claim] = value;
    const Reply reply = world.Send(kShadowQuestion, other);
    EXPECT_EQ(reply.text, "Secret 1") << claim;
    EXPECT_EQ(reply.decision().cache, "bypass:partition");
    EXPECT_EQ(world.backend->cross_partition_hits(), 1);
    EXPECT_EQ(world.backend->DebugState().at("cross_partition_hits"), 1);
    const auto rows = world.audit->rows("cross_partition");
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(ShadowField(rows[0], "id"), reply.decision().id);
    EXPECT_EQ(ShadowField(rows[0], "first"), first.decision().id);
    EXPECT_EQ(world.Send(kShadowQuestion).decision().cache, "miss");  // it is not trusted any longer
  }
}

}  // namespace
}  // namespace surety::gateway
