// Earlier answers and predictions as drafts: for their own scope alone, and not for ever.
#include <functional>
#include <set>
#include <tuple>

#include "engine/testing/speculation_fixture.h"

namespace surety::engine {
namespace {

using testing::ExpectSameAnswer;
using testing::RandomTickClock;
using testing::SeenAnswer;

// Whose earlier answers are drafts. The answers repeat nothing within themselves or their prompts, so alone they have
// no draft at all; and each draft that is looked up holds, as the same request has the same answer.
class DraftScopeTest : public testing::SpeculationFixture {
 protected:
  void SetUp() override { engine_ = Make(Llama(), AllDrafts(64), clock_); }

  static EngineOptions AllDrafts(int n_pages) {
    EngineOptions options = Options(Llama(), true, 2, n_pages);
    options.speculation.whatever_it_costs = true;
    return options;
  }
  // The seed-th request whose answer has no two tokens twice.
  static api::GenerationRequest Unrepeating() {
    for (uint64_t seed = 0; seed < 100; ++seed) {
      api::GenerationRequest request;
      request.has_tokens = true;
      request.tokens = {11, 12, 13, 14, 15, static_cast<int32_t>(16 + seed)};
      request.sampling.temperature = 0;
      request.sampling.frequency_penalty = request.sampling.presence_penalty = 2;
      request.max_tokens = 40;
      request.ignore_end_of_text = true;
      request.scope.tenant = "a";
      std::vector<int32_t> all = request.tokens;
      const auto answer = RunPlain(Llama(), {request})[0].tokens;
      all.insert(all.end(), answer.begin(), answer.end());
      std::set<std::pair<int32_t, int32_t>> pairs;
      for (size_t i = 1; i < all.size(); ++i) pairs.emplace(all[i - 1], all[i]);
      if (pairs.size() + 1 == all.size()) return request;
    }
    ADD_FAILURE() << "each answer repeats itself";
    return {};
  }

  api::Usage Ask(const api::GenerationRequest& request) { return Run(*engine_, {request})[0].usage; }
  // The engine has seen steps of its own, so that drafts may pay.
  void WarmUp() {
    api::GenerationRequest other = request_;
    other.tokens = {40, 41};
    other.sampling.seed = 77;
    other.scope.tenant = "warm";
    Ask(other);
  }

  RandomTickClock clock_{1};
  std::unique_ptr<Engine> engine_;
  const api::GenerationRequest request_ = Unrepeating();
};

TEST_F(DraftScopeTest, AnAnswerIsADraftForItsOwnScopeAndForNoOther) {
  WarmUp();
  EXPECT_EQ(Ask(request_).draft_tokens, 0);
  const std::vector<std::function<void(api::Scope&)>> changes = {
      [](api::Scope& s) { s.tenant = "b"; },          [](api::Scope& s) { s.tenant = ""; },
      [](api::Scope& s) { s.salt = "x"; },            [](api::Scope& s) { s.region = "x"; },
      [](api::Scope& s) { s.permissions = {"x"}; },   [](api::Scope& s) { s.product = "x"; },
      [](api::Scope& s) { s.policy_version = "x"; },  [](api::Scope& s) { s.language = "x"; },
      [](api::Scope& s) { s.eligibility = "x"; },     [](api::Scope& s) { s.effective_date = "x"; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    api::GenerationRequest other = request_;
    changes[i](other.scope);
    EXPECT_EQ(Ask(other).draft_tokens, 0) << i;
    const api::Usage own = Ask(other);  // its own answer is there now, unless it belongs to nobody
    EXPECT_EQ(own.accepted_tokens > 20, !other.scope.tenant.empty()) << i;
  }
  const api::Usage again = Ask(request_);
  EXPECT_GT(again.accepted_tokens, 20);
  EXPECT_EQ(again.accepted_tokens, again.draft_tokens);
}

TEST_F(DraftScopeTest, AfterForgettingThereIsNoDraft) {
  WarmUp();
  api::GenerationRequest salted = request_, elsewhere = request_, other = request_;
  salted.scope.salt = "s";
  elsewhere.scope.region = "r";
  other.scope.tenant = "b";
  const std::vector<api::GenerationRequest> all = {request_, salted, elsewhere, other};
  api::Scope one = request_.scope;
  one.salt = "s";
  const std::vector<std::tuple<api::Scope, api::ForgetExtent, std::vector<bool>>> cases = {
      {one, api::ForgetExtent::kScope, {false, true, false, false}},
      {request_.scope, api::ForgetExtent::kScope, {true, true, false, false}},
      {request_.scope, api::ForgetExtent::kTenant, {true, true, true, false}}};
  for (const auto& [scope, extent, gone] : cases) {
    for (const auto& request : all) Ask(request);
    for (const auto& request : all) EXPECT_GT(Ask(request).accepted_tokens, 20);
    const auto receipt = engine_->ForgetScope(scope, extent);
    ASSERT_TRUE(receipt.has_value());
    EXPECT_GT(receipt->bytes, 0);
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(Ask(all[i]).draft_tokens == 0, gone[i]) << i;
  }
}

// Symptom: a choice that ran while its scope was forgotten left its answer, begun before, to be looked up.
TEST_F(DraftScopeTest, AnAnswerThatRanWhileItsScopeWasForgottenIsNoDraft) {
  WarmUp();
  for (const int n_prompt_logprobs : {-1, 1}) {
    api::GenerationRequest request = request_;
    request.n_prompt_logprobs = n_prompt_logprobs;
    ASSERT_TRUE(engine_->Submit(request).has_value());
    std::vector<api::Event> events;
    for (int i = 0; i < 15; ++i) ASSERT_TRUE(engine_->Step(events).ok());
    ASSERT_TRUE(engine_->ForgetScope(request.scope, api::ForgetExtent::kScope).has_value());
    while (!engine_->idle()) ASSERT_TRUE(engine_->Step(events).ok());
    EXPECT_EQ(Ask(request_).draft_tokens, 0) << n_prompt_logprobs;
    ASSERT_TRUE(engine_->ForgetScope(request.scope, api::ForgetExtent::kScope).has_value());
  }
}

// Symptom: one that still waited then was computed afterwards, and its KV and its answer stayed.
TEST_F(DraftScopeTest, AnAnswerThatWaitedWhileItsScopeWasForgottenLeavesNothing) {
  WarmUp();
  api::GenerationRequest longer = request_;
  while (longer.tokens.size() < 64) longer.tokens.push_back(static_cast<api::TokenId>(30 + longer.tokens.size() % 17));
  for (const bool forgets : {true, false}) {
    ASSERT_TRUE(engine_->Submit(longer).has_value());
    ASSERT_TRUE(engine_->Submit(request_).has_value());
    if (forgets) {
      ASSERT_TRUE(engine_->ForgetScope(request_.scope, api::ForgetExtent::kScope).has_value());
    }
    std::vector<api::Event> events;
    while (!engine_->idle()) ASSERT_TRUE(engine_->Step(events).ok());
    EXPECT_EQ(Ask(request_).draft_tokens == 0, forgets);
    EXPECT_EQ(Ask(longer).cached_tokens == 0, forgets);
    ASSERT_TRUE(engine_->ForgetScope(request_.scope, api::ForgetExtent::kScope).has_value());
  }
}

TEST_F(DraftScopeTest, APastAnswerIsNoDraftPastItsTime) {
  EngineOptions options = AllDrafts(64);
  options.cache_policy.ttl_ns = 60'000'000'000;
  engine_ = Make(Llama(), options, clock_);
  WarmUp();
  Ask(request_);
  clock_.SleepNanos(59'000'000'000);
  EXPECT_GT(Ask(request_).accepted_tokens, 20);  // which is an answer of this time
  clock_.SleepNanos(59'000'000'000);
  // The half that holds both goes as a whole when the first is past its time.
  EXPECT_EQ(Ask(request_).draft_tokens, 0);
  EXPECT_GT(Ask(request_).accepted_tokens, 20);
  clock_.SleepNanos(61'000'000'000);
  EXPECT_EQ(Ask(request_).draft_tokens, 0);
}

TEST_F(DraftScopeTest, AScopeThatLeavesNothingBehindLeavesNoDrafts) {
  EngineOptions options = AllDrafts(64);
  options.cache_policy.zero_on_release = true;
  engine_ = Make(Llama(), options, clock_);
  WarmUp();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Ask(request_).draft_tokens, 0);
}

TEST_F(DraftScopeTest, AnswersThatWereBrokenOffAreNoDrafts) {
  WarmUp();
  const auto id = *engine_->Submit(request_);
  std::vector<api::Event> events;
  for (int i = 0; i < 25; ++i) ASSERT_TRUE(engine_->Step(events).ok());
  engine_->Cancel(id);
  while (!engine_->idle()) ASSERT_TRUE(engine_->Step(events).ok());
  EXPECT_EQ(Ask(request_).draft_tokens, 0);
}

TEST_F(DraftScopeTest, WithoutRoomForEarlierAnswersThereAreNone) {
  EngineOptions options = AllDrafts(64);
  options.speculation.store.tokens_per_scope = 0;
  engine_ = Make(Llama(), options, clock_);
  WarmUp();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Ask(request_).draft_tokens, 0);
}

// Symptom: drafts from an earlier answer with the same seed hold always, which the monitor of acceptance took for a
// bias; after a few repetitions of one request there were no more drafts for anybody.
TEST_F(DraftScopeTest, RepeatingASeededRequestIsNoBias) {
  api::GenerationRequest seeded = request_;
  seeded.sampling = {.temperature = 2, .seed = 5};
  for (int i = 0; i < 30; ++i) Ask(seeded);
  EXPECT_GT(Ask(seeded).accepted_tokens, 20);
}

// Symptom: once cached prefixes filled the pool, which is its usual state, a draft that needed a page was given up as
// if somebody ran on that page, and a stream had a third of the speed of one on a new server.
TEST_F(DraftScopeTest, CachedPrefixesGiveWayToDrafts) {
  std::vector<int> accepted;
  for (const int n_other : {0, 60}) {
    EngineOptions options = AllDrafts(32);
    options.speculation.max_draft_tokens = options.speculation.max_draft_rows = 63;
    engine_ = Make(Llama(), options, clock_);
    for (int i = 0; i < n_other; ++i) {
      api::GenerationRequest other = request_;
      other.scope.tenant = "b";
      other.tokens.assign(40, 3 + i);
      other.max_tokens = 2;
      Ask(other);
    }
    Ask(request_);
    accepted.push_back(Ask(request_).accepted_tokens);
    EXPECT_EQ(engine_->cache().n_pages() > 20, n_other > 0);
  }
  EXPECT_EQ(accepted[1], accepted[0]);
}

// The text of the answer itself as its prediction: what its tokens have in common with the answer's holds.
TEST_F(DraftScopeTest, APredictedTextGivesDraftsThatHold) {
  WarmUp();
  int n_with_drafts = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    api::GenerationRequest request = request_;
    request.scope.tenant = "";  // nothing from before
    request.sampling = {.temperature = 0.8f, .seed = seed};
    const SeenAnswer plain = RunPlain(Llama(), {request})[0];
    const auto without = Run(*engine_, {request})[0];
    request.prediction = "Before it comes: " + plain.text + " and after it.";
    const auto with = Run(*engine_, {request})[0];
    ExpectSameAnswer(without, plain);
    ExpectSameAnswer(with, plain);
    n_with_drafts += with.usage.accepted_tokens > without.usage.accepted_tokens ? 1 : 0;
    request.prediction = "Something else altogether, of no use to anyone.";
    ExpectSameAnswer(Run(*engine_, {request})[0], plain);
  }
  EXPECT_GT(n_with_drafts, 5);
}

}  // namespace
}  // namespace surety::engine
