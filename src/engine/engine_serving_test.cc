// The engine under load over a tiny real file: what a request gets does not depend on company, cache, preemption or
// chunks; choices share a prompt; counters balance; nothing is lost.
#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/engine.h"
#include "engine/scheduler.h"

namespace surety::engine {
namespace {

using Key = std::pair<api::RequestId, int>;

struct Outcome {
  std::vector<int32_t> tokens;
  std::vector<api::TokenLogprob> prompt_logprobs;
  int n_ends = 0;
  api::FinishReason finish = api::FinishReason::kNone;
  api::Usage usage;
  api::Timings timings;
};

class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t tick = 0) : tick_(tick) {}  // what each look at it takes
  int64_t NowNanos() const override { return now_ += tick_; }
  int64_t WallNanos() const override { return now_; }
  void SleepNanos(int64_t nanos) override { now_ += nanos; }

 private:
  int64_t tick_;
  mutable int64_t now_ = 1'000'000'000;
};

class EngineServingTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string path = std::string(SURETY_TESTDATA) + "/gguf/tiny-llama-q8_0.gguf";
    auto model = LocalModel::Open(FileSystem::Real(), {.path = path, .n_threads = 2},
                                  [](const model::LoadProgress&) { return true; });
    ASSERT_TRUE(model.has_value()) << model.error().ToString();
    model_ = model->release();
  }
  static void TearDownTestSuite() {
    delete model_;
    model_ = nullptr;
  }

  std::unique_ptr<Engine> MakeEngine(const EngineOptions& options, Clock& clock = Clock::Real()) {
    auto engine = Engine::Make(*model_, options, clock);
    EXPECT_TRUE(engine.has_value()) << (engine ? "" : engine.error().ToString());
    return engine ? *std::move(engine) : nullptr;
  }

  static int64_t PageBytes() { return model_->config().KvLayoutFor(KvType::kF16, 16).PageStrideBytes(); }

  static std::vector<int32_t> Tokens(uint64_t seed, int n) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < n; ++i) {
      const uint64_t bits = RandomBits({seed, static_cast<uint64_t>(i), RandomPurpose::kTest});
      tokens.push_back(static_cast<int32_t>(bits % static_cast<uint64_t>(model_->tokenizer().vocab_size())));
    }
    return tokens;
  }

  static api::GenerationRequest Request(std::vector<int32_t> prompt, uint64_t seed, int max_tokens) {
    api::GenerationRequest request;
    request.has_tokens = true;
    request.tokens = std::move(prompt);
    request.sampling.temperature = seed % 2 == 0 ? 0.0f : 0.9f;
    request.sampling.seed = seed;
    request.max_tokens = max_tokens;
    request.ignore_end_of_text = true;
    request.scope.tenant = "t";
    return request;
  }

  static void Collect(const std::vector<api::Event>& events, std::map<Key, Outcome>& outcomes) {
    for (const api::Event& event : events) {
      Outcome& o = outcomes[{event.request, event.choice}];
      EXPECT_EQ(o.n_ends, 0) << "an event after the end";
      o.tokens.insert(o.tokens.end(), event.tokens.begin(), event.tokens.end());
      o.prompt_logprobs.insert(o.prompt_logprobs.end(), event.prompt_logprobs.begin(), event.prompt_logprobs.end());
      if (event.finish == api::FinishReason::kNone) continue;
      ++o.n_ends;
      o.finish = event.finish;
      o.usage = event.usage;
      o.timings = event.timings;
    }
  }

  static std::map<Key, Outcome> RunAll(Engine& engine) {
    std::map<Key, Outcome> outcomes;
    for (int step = 0; !engine.idle() && step < 100'000; ++step) {
      std::vector<api::Event> events;
      EXPECT_TRUE(engine.Step(events).ok());
      Collect(events, outcomes);
    }
    EXPECT_TRUE(engine.idle());
    EXPECT_TRUE(engine.cache().Audit().ok()) << engine.cache().Audit().ToString();
    EXPECT_EQ(engine.pages().n_used(), engine.cache().n_pages());
    return outcomes;
  }

  Outcome RunAlone(const api::GenerationRequest& request, int context = 256) {
    EngineOptions options;
    options.context_tokens = context;
    const auto engine = MakeEngine(options);
    return RunOn(*engine, request);
  }
  static Outcome RunOn(Engine& engine, const api::GenerationRequest& request) {
    const auto id = engine.Submit(request);
    EXPECT_TRUE(id.has_value()) << (id ? "" : id.error().ToString());
    return RunAll(engine)[{*id, 0}];
  }

  static LocalModel* model_;
};

LocalModel* EngineServingTest::model_ = nullptr;

TEST_F(EngineServingTest, SixteenTogetherInAnyChunksGetWhatEachGetsAlone) {
  std::vector<api::GenerationRequest> requests;
  std::vector<Outcome> alone;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    requests.push_back(Request(Tokens(seed, static_cast<int>(5 + 6 * seed)), seed, 24));
    alone.push_back(RunAlone(requests.back()));
  }
  for (const int max_rows : {16, 33, 128, 512}) {
    EngineOptions options;
    options.context_tokens = 256;
    options.kv_budget_bytes = 16 * 16 * PageBytes();
    options.max_sequences = 16;
    options.max_rows = max_rows;
    options.min_chunk_rows = max_rows / 16;
    const auto engine = MakeEngine(options);
    std::map<api::RequestId, size_t> which;
    for (size_t i = 0; i < requests.size(); ++i) which[*engine->Submit(requests[i])] = i;
    for (const auto& [key, outcome] : RunAll(*engine)) {
      EXPECT_EQ(outcome.tokens, alone[which[key.first]].tokens) << "request " << which[key.first] << " of " << max_rows;
      EXPECT_EQ(outcome.n_ends, 1);
    }
  }
}

TEST_F(EngineServingTest, APrefixHitGivesTheSameTokensAndIsReportedInWholePages) {
  EngineOptions options;
  options.context_tokens = 256;
  options.kv_budget_bytes = 64 * PageBytes();
  const auto engine = MakeEngine(options);
  const auto shared = Tokens(1, 100);
  auto first = shared, second = shared;
  for (const int32_t t : Tokens(2, 20)) first.push_back(t);
  for (const int32_t t : Tokens(3, 20)) second.push_back(t);
  EXPECT_EQ(RunOn(*engine, Request(first, 4, 16)).usage.cached_tokens, 0);
  const Outcome hit = RunOn(*engine, Request(second, 4, 16));
  EXPECT_EQ(hit.usage.cached_tokens, 96);
  EXPECT_EQ(hit.tokens, RunAlone(Request(second, 4, 16)).tokens);
  // The whole prompt again: its last token is computed all the same.
  const Outcome again = RunOn(*engine, Request(second, 4, 16));
  EXPECT_EQ(again.usage.cached_tokens, 112);
  EXPECT_EQ(again.tokens, hit.tokens);
  // Another tenant, another salt, or a caller without a tenant finds nothing.
  api::GenerationRequest other = Request(second, 4, 16);
  other.scope.tenant = "u";
  EXPECT_EQ(RunOn(*engine, other).usage.cached_tokens, 0);
  api::GenerationRequest salted = Request(second, 4, 16);
  salted.scope.salt = "s";
  EXPECT_EQ(RunOn(*engine, salted).usage.cached_tokens, 0);
  api::GenerationRequest nobody = Request(second, 4, 16);
  nobody.scope.tenant = "";
  EXPECT_EQ(RunOn(*engine, nobody).usage.cached_tokens, 0);
  EXPECT_EQ(RunOn(*engine, nobody).usage.cached_tokens, 0);
  EXPECT_EQ(nobody.scope, api::Scope());
}

TEST_F(EngineServingTest, AnAnswerIsAPrefixOfTheNextTurn) {
  EngineOptions options;
  options.context_tokens = 256;
  options.kv_budget_bytes = 64 * PageBytes();
  const auto engine = MakeEngine(options);
  auto conversation = Tokens(8, 30);
  const Outcome turn1 = RunOn(*engine, Request(conversation, 2, 40));
  conversation.insert(conversation.end(), turn1.tokens.begin(), turn1.tokens.end());
  for (const int32_t t : Tokens(9, 10)) conversation.push_back(t);
  const Outcome turn2 = RunOn(*engine, Request(conversation, 2, 16));
  EXPECT_EQ(turn2.usage.cached_tokens, 64);  // of 70 tokens, 69 have KV
  EXPECT_EQ(turn2.tokens, RunAlone(Request(conversation, 2, 16)).tokens);
}

class PreemptionTest : public EngineServingTest, public ::testing::WithParamInterface<bool> {};

INSTANTIATE_TEST_SUITE_P(WithAndWithoutAHostTier, PreemptionTest, ::testing::Bool());

TEST_P(PreemptionTest, PreemptedRequestsContinueWithTheSameTokens) {
  std::vector<api::GenerationRequest> requests;
  std::vector<Outcome> alone;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    requests.push_back(Request(Tokens(100 + seed, 40), seed, 80));
    alone.push_back(RunAlone(requests.back()));
  }
  EngineOptions options;
  options.context_tokens = 256;
  options.kv_budget_bytes = 32 * PageBytes();  // twelve need 8 pages each
  options.host_cache_bytes = GetParam() ? 200 * PageBytes() : 0;
  options.max_sequences = 12;
  ManualClock clock;  // no step and no copy takes time, so that copying is never the dearer way
  const auto engine = MakeEngine(options, clock);
  // Short answers first, so that long ones are not expected.
  for (uint64_t i = 0; i < 64; ++i) ASSERT_TRUE(engine->Submit(Request(Tokens(i, 5), i, 2)).has_value());
  RunAll(*engine);
  std::map<api::RequestId, size_t> which;
  for (size_t i = 0; i < requests.size(); ++i) which[*engine->Submit(requests[i])] = i;
  const auto outcomes = RunAll(*engine);
  ASSERT_EQ(outcomes.size(), requests.size());
  for (const auto& [key, outcome] : outcomes) {
    EXPECT_EQ(outcome.tokens, alone[which[key.first]].tokens) << "request " << which[key.first];
    EXPECT_EQ(outcome.finish, api::FinishReason::kLength);
  }
  EXPECT_GT(engine->counters().preemptions, 0);
  // With host memory to move to, nothing is computed twice.
  if (GetParam()) {
    EXPECT_EQ(engine->counters().rows_recomputed, 0);
    EXPECT_GT(engine->counters().pages_swapped, 0);
  } else {
    EXPECT_GT(engine->counters().rows_recomputed, 0);
  }
}

TEST_F(EngineServingTest, TimeSpentPreemptedIsCountedOnce) {
  EngineOptions options;
  options.context_tokens = 256;
  options.kv_budget_bytes = 32 * PageBytes();
  options.max_sequences = 12;
  ManualClock clock(1000);
  const auto engine = MakeEngine(options, clock);
  for (uint64_t i = 0; i < 64; ++i) ASSERT_TRUE(engine->Submit(Request(Tokens(i, 5), i, 2)).has_value());
  RunAll(*engine);
  std::map<api::RequestId, int64_t> submitted;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const int64_t now = clock.NowNanos();
    submitted[*engine->Submit(Request(Tokens(100 + seed, 40), seed, 80))] = now;
  }
  while (!engine->idle()) {
    std::vector<api::Event> events;
    ASSERT_TRUE(engine->Step(events).ok());
    const int64_t now = clock.NowNanos();
    for (const api::Event& event : events) {
      if (event.finish == api::FinishReason::kNone) continue;
      const api::Timings& t = event.timings;
      EXPECT_LE(t.queue_ns + t.prefill_ns + t.decode_ns, now - submitted[event.request]);
      // Nothing is missing either: what is not in it was spent after its last token.
      EXPECT_GE(t.queue_ns + t.prefill_ns + t.decode_ns, now - submitted[event.request] - 1'000'000);
      EXPECT_GT(t.decode_ns, 0);
    }
  }
  EXPECT_GT(engine->counters().preemptions, 0);
}

TEST_F(EngineServingTest, EachPromptTokenIsCountedOnceAsCachedOrComputed) {
  EngineOptions options;
  options.context_tokens = 256;
  options.kv_budget_bytes = 40 * PageBytes();
  options.max_sequences = 6;
  options.max_rows = 64;
  const auto engine = MakeEngine(options);
  int64_t prompt_tokens = 0, cached = 0, output_tokens = 0;
  const auto shared = Tokens(1, 48);
  for (uint64_t i = 0; i < 40; ++i) {
    auto prompt = shared;
    prompt.resize(16 * (1 + i % 3));
    for (const int32_t t : Tokens(50 + i % 7, static_cast<int>(3 + i % 40))) prompt.push_back(t);
    ASSERT_TRUE(engine->Submit(Request(prompt, i, static_cast<int>(1 + i * 3 % 90))).has_value());
  }
  for (const auto& [key, outcome] : RunAll(*engine)) {
    prompt_tokens += outcome.usage.prompt_tokens;
    cached += outcome.usage.cached_tokens;
    output_tokens += outcome.usage.output_tokens;
  }
  const EngineCounters& c = engine->counters();
  EXPECT_EQ(c.prompt_tokens_cached + c.prompt_tokens_computed, prompt_tokens);
  EXPECT_EQ(c.prompt_tokens_cached, cached);
  EXPECT_EQ(c.output_tokens, output_tokens);
  EXPECT_EQ(c.prefix_queries, prompt_tokens);
  EXPECT_GT(cached, 0);
  // Rows that steps had: prompts computed, one for each further output token, those computed again, and drafts that
  // did not hold.
  const SpeculationCounters& s = engine->speculation();
  EXPECT_EQ(c.prefill_rows + c.decode_rows, c.prompt_tokens_computed + (output_tokens - 40) + c.rows_recomputed +
                                                s.draft_tokens() - s.accepted_tokens());
}

TEST_F(EngineServingTest, EqualPromptsAtTheSameTimeAreComputedOnce) {
  EngineOptions options;
  options.context_tokens = 256;
  options.kv_budget_bytes = 200 * PageBytes();
  options.max_sequences = 8;
  options.max_rows = 64;
  const auto engine = MakeEngine(options);
  const auto prompt = Tokens(5, 100);
  for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(engine->Submit(Request(prompt, 2 * i, 4)).has_value());
  const auto outcomes = RunAll(*engine);
  for (const auto& [key, outcome] : outcomes) EXPECT_EQ(outcome.tokens, outcomes.begin()->second.tokens);
  // 96 tokens in whole pages once, the last 4 by each.
  EXPECT_EQ(engine->counters().prompt_tokens_computed, 96 + 8 * 4);
}

TEST_F(EngineServingTest, ChoicesShareThePromptAndDifferByLane) {
  for (const int places : {4, 8}) {
    EngineOptions options;
    options.context_tokens = 256;
    options.kv_budget_bytes = 100 * PageBytes();
    options.max_sequences = places;
    const auto engine = MakeEngine(options);
    api::GenerationRequest request = Request(Tokens(3, 53), 7, 20);
    request.n_choices = 4;
    const auto company = engine->Submit(Request(Tokens(4, 20), 1, 60));  // so that not all find a place at once
    const auto id = engine->Submit(request);
    ASSERT_TRUE(company.has_value() && id.has_value());
    auto outcomes = RunAll(*engine);
    std::set<std::vector<int32_t>> distinct;
    for (int choice = 0; choice < 4; ++choice) {
      api::GenerationRequest single = request;
      single.n_choices = 1;
      single.sampling.lane = static_cast<uint32_t>(choice);
      const Outcome& outcome = outcomes[Key(*id, choice)];
      EXPECT_EQ(outcome.tokens, RunAlone(single).tokens) << choice;
      EXPECT_EQ(outcome.n_ends, 1);
      distinct.insert(outcome.tokens);
    }
    EXPECT_EQ(distinct.size(), 4u);
    EXPECT_EQ(engine->counters().prompt_tokens_computed, 53 + 20);
  }
}

TEST_F(EngineServingTest, ChoicesThatHaveNotBegunEndToo) {
  EngineOptions options;
  options.context_tokens = 256;
  options.max_sequences = 4;
  options.max_rows = 16;
  const auto engine = MakeEngine(options);
  api::GenerationRequest request = Request(Tokens(3, 100), 7, 20);
  request.n_choices = 3;
  const auto id = *engine->Submit(request);
  std::map<Key, Outcome> outcomes;
  std::vector<api::Event> events;
  ASSERT_TRUE(engine->Step(events).ok());
  engine->Cancel(id);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(engine->Step(events).ok());
  Collect(events, outcomes);
  ASSERT_EQ(outcomes.size(), 3u);
  for (const auto& [key, outcome] : outcomes) {
    EXPECT_EQ(outcome.n_ends, 1);
    EXPECT_EQ(outcome.finish, api::FinishReason::kCancelled);
  }
  EXPECT_TRUE(engine->idle());
}

TEST_F(EngineServingTest, ATimeLimitEndsWaitingAndRunningRequests) {
  ManualClock clock;
  EngineOptions options;
  options.context_tokens = 256;
  const auto engine = MakeEngine(options, clock);
  api::GenerationRequest running = Request(Tokens(1, 10), 1, 200);
  running.timeout_ms = 100;
  api::GenerationRequest waiting = Request(Tokens(2, 10), 1, 200);
  waiting.timeout_ms = 50;
  const auto a = *engine->Submit(running), b = *engine->Submit(waiting);
  std::map<Key, Outcome> outcomes;
  for (int ms = 0; ms < 120; ms += 10) {
    std::vector<api::Event> events;
    ASSERT_TRUE(engine->Step(events).ok());
    Collect(events, outcomes);
    if (ms == 40) {
      EXPECT_EQ(outcomes.count(Key(b, 0)), 0u);
    }
    clock.SleepNanos(10'000'000);
  }
  EXPECT_EQ(outcomes[Key(a, 0)].finish, api::FinishReason::kTimeout);
  EXPECT_EQ(outcomes[Key(a, 0)].tokens.size(), 10u);  // one a step, from 0 to 90 ms
  EXPECT_EQ(outcomes[Key(b, 0)].finish, api::FinishReason::kTimeout);
  EXPECT_TRUE(outcomes[Key(b, 0)].tokens.empty());
  EXPECT_TRUE(engine->idle());
}

TEST_F(EngineServingTest, PromptLogprobsAreThoseOfEachTokenAfterItsPredecessors) {
  const auto prompt = Tokens(6, 40);
  api::GenerationRequest request = Request(prompt, 2, 3);
  request.n_prompt_logprobs = 2;
  EngineOptions options;
  options.context_tokens = 256;
  options.max_prompt_logprob_rows = 7;
  const auto engine = MakeEngine(options);
  RunOn(*engine, Request(prompt, 2, 3));  // its cached KV must not be used: all rows' logits are needed
  const Outcome outcome = RunOn(*engine, request);
  ASSERT_EQ(outcome.prompt_logprobs.size(), prompt.size());
  EXPECT_EQ(outcome.usage.cached_tokens, 0);
  for (size_t i = 1; i < prompt.size(); i += 5) {
    api::GenerationRequest before = Request({prompt.begin(), prompt.begin() + static_cast<int64_t>(i)}, 2, 1);
    before.n_logprobs = model_->tokenizer().vocab_size();
    const auto alone = MakeEngine(options);
    ASSERT_TRUE(alone->Submit(before).has_value());
    std::vector<api::Event> events;
    while (!alone->idle()) ASSERT_TRUE(alone->Step(events).ok());
    const auto& top = events.front().logprobs.front().top;
    const auto it = std::find_if(top.begin(), top.end(), [&](const auto& e) { return e.first == prompt[i]; });
    ASSERT_NE(it, top.end());
    EXPECT_EQ(outcome.prompt_logprobs[i].token, prompt[i]);
    EXPECT_EQ(outcome.prompt_logprobs[i].logprob, it->second) << i;
    EXPECT_EQ(outcome.prompt_logprobs[i].top.size(), 2u);
    EXPECT_EQ(outcome.prompt_logprobs[i].top[0], top[0]);
  }
}

TEST_F(EngineServingTest, AStopTokenEndsTheAnswer) {
  const Outcome whole = RunAlone(Request(Tokens(2, 10), 1, 30));
  api::GenerationRequest request = Request(Tokens(2, 10), 1, 30);
  request.stop_tokens = {whole.tokens[11]};
  const Outcome stopped = RunAlone(request);
  EXPECT_EQ(stopped.finish, api::FinishReason::kStop);
  const auto first = std::find(whole.tokens.begin(), whole.tokens.end(), whole.tokens[11]);
  EXPECT_EQ(stopped.tokens, std::vector<int32_t>(whole.tokens.begin(), first + 1));
  request.stop_tokens = {model_->tokenizer().vocab_size()};
  EngineOptions options;
  options.context_tokens = 64;
  EXPECT_EQ(MakeEngine(options)->Submit(request).error().code(), StatusCode::kInvalidArgument);
}

TEST_F(EngineServingTest, AMoreImportantRequestTakesThePlaceOfALessImportantOne) {
  EngineOptions options;
  options.context_tokens = 256;
  options.max_sequences = 1;
  const auto engine = MakeEngine(options);
  api::GenerationRequest batch = Request(Tokens(1, 30), 3, 100);
  batch.priority = 5;
  const auto low = *engine->Submit(batch);
  std::map<Key, Outcome> outcomes;
  std::vector<api::Event> events;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(engine->Step(events).ok());
  const auto high = *engine->Submit(Request(Tokens(2, 10), 1, 10));
  std::vector<api::RequestId> order;
  while (!engine->idle()) {
    ASSERT_TRUE(engine->Step(events).ok());
  }
  Collect(events, outcomes);
  for (const api::Event& event : events) {
    if (event.finish != api::FinishReason::kNone) order.push_back(event.request);
  }
  EXPECT_EQ(order, (std::vector<api::RequestId>{high, low}));
  EXPECT_EQ(outcomes[Key(low, 0)].tokens, RunAlone(batch).tokens);
  EXPECT_EQ(engine->counters().preemptions, 1);
}

TEST_F(EngineServingTest, ImportanceAndAgeCannotTakeEachOthersPlaceForEver) {
  ManualClock clock;
  EngineOptions options;
  options.context_tokens = 128;
  options.max_sequences = 2;
  const auto engine = MakeEngine(options, clock);  // pages for one whole context
  for (uint64_t i = 0; i < 64; ++i) ASSERT_TRUE(engine->Submit(Request(Tokens(i, 5), i, 2)).has_value());
  RunAll(*engine);  // so that short answers are expected and both are let in
  api::GenerationRequest old = Request(Tokens(1, 40), 2, 80);
  old.priority = 1;
  const auto a = *engine->Submit(old);
  std::map<Key, Outcome> outcomes;
  std::vector<api::Event> events;
  ASSERT_TRUE(engine->Step(events).ok());
  clock.SleepNanos(3 * WaitQueue::kPriorityStepNs);
  const auto b = *engine->Submit(Request(Tokens(2, 40), 2, 80));
  for (int step = 0; !engine->idle() && step < 1000; ++step) ASSERT_TRUE(engine->Step(events).ok());
  EXPECT_TRUE(engine->idle());
  Collect(events, outcomes);
  EXPECT_EQ(outcomes[Key(a, 0)].tokens.size(), 80u);
  EXPECT_EQ(outcomes[Key(b, 0)].tokens.size(), 80u);
}

TEST_F(EngineServingTest, ForgettingAScopeLeavesNothingOfItInMemory) {
  EngineOptions options;
  options.context_tokens = 256;
  options.kv_budget_bytes = 64 * PageBytes();
  const auto engine = MakeEngine(options);
  const auto prompt = Tokens(1, 100);
  RunOn(*engine, Request(prompt, 2, 20));
  api::GenerationRequest other = Request(prompt, 2, 20);
  other.scope.tenant = "other";
  RunOn(*engine, other);
  const int before = engine->cache().n_pages();
  const auto receipt = engine->ForgetScope(Request({}, 0, 0).scope, api::ForgetExtent::kScope);
  ASSERT_TRUE(receipt.has_value());
  EXPECT_EQ(receipt->pages, before / 2);
  const int64_t kept_answer_bytes = 20 * 4;  // token ids that drafts were looked up in
  EXPECT_EQ(receipt->bytes,
            before / 2 * model_->config().KvLayoutFor(KvType::kF16, 16).PageBytes() + kept_answer_bytes);
  EXPECT_EQ(RunOn(*engine, Request(prompt, 2, 20)).usage.cached_tokens, 0);
  EXPECT_EQ(RunOn(*engine, other).usage.cached_tokens, 96);
  api::Scope nobody;
  EXPECT_EQ(engine->ForgetScope(nobody, api::ForgetExtent::kTenant).error().code(), StatusCode::kFailedPrecondition);
}

// How many pages that nobody holds have something in them.
int FreePagesWithContents(kv::PagePool& pages) {
  int n = 0;
  for (int32_t page = 0; page < pages.n_pages(); ++page) {
    const auto bytes = pages.Bytes(page);
    n += pages.RefCount(page) == 0 &&
         std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
  }
  return n;
}

// Choices after the first got pages without the mark: what they computed stayed in memory. Of the long prompt there is
// no page left to copy its last, partial one to.
TEST_F(EngineServingTest, UnderZeroOnReleaseNoChoiceLeavesAnythingInFreePages) {
  for (const int n_prompt : {21, 123}) {
    EngineOptions options;
    options.context_tokens = 128;
    options.kv_budget_bytes = 8 * PageBytes();
    options.max_sequences = 4;
    options.cache_policy.zero_on_release = true;
    const auto engine = MakeEngine(options);
    api::GenerationRequest request = Request(Tokens(3, n_prompt), 7, 5);
    request.n_choices = 4;
    RunOn(*engine, request);
    EXPECT_EQ(engine->counters().prompt_tokens_computed, n_prompt);
    EXPECT_EQ(FreePagesWithContents(engine->pages()), 0);
    EXPECT_GT(engine->ForgetScope(request.scope, api::ForgetExtent::kScope)->pages, 0);
    EXPECT_EQ(engine->pages().n_used(), 0);
    EXPECT_EQ(FreePagesWithContents(engine->pages()), 0);
  }
}

// The last page of a running choice is in no cache yet: it stayed in memory when the choice ended before it was full.
TEST_F(EngineServingTest, ForgettingAScopeReachesTheLastPagesOfWhatRuns) {
  EngineOptions options;
  options.context_tokens = 256;
  options.max_sequences = 4;
  const auto engine = MakeEngine(options);
  api::GenerationRequest request = Request(Tokens(3, 21), 7, 40);
  request.n_choices = 3;
  const auto id = *engine->Submit(request);
  std::vector<api::Event> events;
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(engine->Step(events).ok());
  ASSERT_TRUE(engine->ForgetScope(request.scope, api::ForgetExtent::kTenant).has_value());
  engine->Cancel(id);
  ASSERT_TRUE(engine->Step(events).ok());
  EXPECT_EQ(engine->pages().n_used(), 0);
  EXPECT_EQ(FreePagesWithContents(engine->pages()), 0);
}

TEST_F(EngineServingTest, RandomAbortsUnderPagePressureLoseNothing) {
  EngineOptions options;
  options.context_tokens = 128;
  options.kv_budget_bytes = 20 * PageBytes();
  options.max_sequences = 6;
  options.max_rows = 24;
  const auto engine = MakeEngine(options);
  std::map<Key, Outcome> outcomes;
  std::map<api::RequestId, int> submitted;
  for (uint64_t round = 0; round < 3000; ++round) {
    const uint64_t bits = RandomBits({9, round, RandomPurpose::kTest});
    if (bits % 4 == 0) {
      api::GenerationRequest request = Request(Tokens(bits >> 40 & 3, static_cast<int>(1 + (bits >> 8) % 90)), bits,
                                               static_cast<int>(1 + (bits >> 16) % 30));
      request.n_choices = 1 + static_cast<int>((bits >> 24) % 3);
      request.priority = static_cast<int>((bits >> 28) % 3);
      request.scope.tenant = (bits >> 32) % 2 == 0 ? "a" : "b";
      if ((bits >> 34) % 8 == 0) request.n_prompt_logprobs = 1;
      const auto id = engine->Submit(request);
      ASSERT_TRUE(id.has_value());
      submitted[*id] = request.n_choices;
    }
    if (bits % 7 == 0 && !submitted.empty()) {
      auto it = submitted.begin();
      std::advance(it, (bits >> 20) % submitted.size());
      engine->Cancel(it->first);
    }
    std::vector<api::Event> events;
    ASSERT_TRUE(engine->Step(events).ok());
    Collect(events, outcomes);
    if (round % 100 == 0) {
      ASSERT_TRUE(engine->cache().Audit().ok()) << engine->cache().Audit().ToString();
    }
  }
  for (auto& [key, outcome] : RunAll(*engine)) outcomes[key].n_ends += outcome.n_ends;
  size_t n_choices = 0;
  for (const auto& [id, n] : submitted) {
    n_choices += static_cast<size_t>(n);
    for (int choice = 0; choice < n; ++choice) EXPECT_EQ(outcomes[Key(id, choice)].n_ends, 1) << id << " " << choice;
  }
  EXPECT_EQ(outcomes.size(), n_choices);
  EXPECT_GT(engine->counters().preemptions, 0);
}

}  // namespace
}  // namespace surety::engine
