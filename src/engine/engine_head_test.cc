// Draft heads in the engine: no answer changes, right heads are believed, pages are given back.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include <gtest/gtest.h>

#include "engine/head_drafter.h"
#include "engine/testing/speculation_fixture.h"
#include "spec/testing/laws.h"

namespace surety::engine {
namespace {

using namespace testing;  // NOLINT: the fixture's names

// Heads that know nothing, and heads that know all, with their targets.
struct HeadCase {
  const char* target;
  const char* head;
};

// Of random weights: they know nothing.
const HeadCase kHeadCases[] = {
    {"/tiny/llama", "/heads/eagle1"},
    {"/tiny/llama", "/heads/eagle3"},
    {"/tiny/llama", "/heads/eagle3_speculators"},
    {"/tiny/llama", "/heads/eagle3_narrow"},
    {"/tiny/llama", "/heads/medusa"},
    {"/tiny/llama", "/heads/medusa_vllm"},
};
// Of a target whose next token depends on the last alone; their weights are made to know it.
const HeadCase kRightHeads[] = {
    {"/heads/markov/target", "/heads/markov/eagle1"},
    {"/heads/markov/target", "/heads/markov/eagle3"},
    {"/heads/markov/target", "/heads/markov/medusa"},
};

std::string HeadCaseName(const HeadCase& c) {
  std::string name = std::string(c.head).substr(std::strlen("/heads/"));
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

LocalModel& WithHead(const HeadCase& c) {
  static std::map<std::string, std::unique_ptr<LocalModel>> models;
  std::unique_ptr<LocalModel>& model = models[c.head];
  if (model == nullptr) {
    TinyFolder folder(c.target);
    LocalModelOptions options = {.path = folder.path(), .n_threads = 2};
    options.head.path = std::string(SURETY_TESTDATA) + c.head;
    options.head_check.floor = 0;
    auto opened = LocalModel::Open(FileSystem::Real(), options, [](const model::LoadProgress&) { return true; });
    SURETY_CHECK_MSG(opened.has_value(), opened ? "" : opened.error().ToString().c_str());
    model = *std::move(opened);
  }
  return *model;
}

class EngineHeadTest : public SpeculationFixture, public ::testing::WithParamInterface<HeadCase> {
 protected:
  static EngineOptions HeadOptionsFor(LocalModel& model, int places, int n_pages, int max_branches) {
    EngineOptions options = Options(model, true, places, n_pages);
    const KvLayout layout = HeadDrafter::LayoutWith(model, model.config().KvLayoutFor(KvType::kF16, 16));
    options.kv_budget_bytes = n_pages * layout.PageStrideBytes();
    options.speculation.lookup = false;
    options.speculation.whatever_it_costs = true;
    options.speculation.max_branches = max_branches;
    return options;
  }
  // The requests of a seed and what they get without a head, once for each target.
  struct Truth {
    std::vector<api::GenerationRequest> requests;
    std::vector<SeenAnswer> plain;
  };
  static const Truth& TruthOf(const HeadCase& c, uint64_t seed, int n) {
    static std::map<std::string, Truth> truths;
    Truth& truth = truths[c.target + std::to_string(seed)];
    if (truth.requests.empty()) {
      LocalModel& target = SpeculationModels::Get(c.target);
      truth.requests = Requests(target, seed, n);
      truth.plain = RunPlain(target, truth.requests);
    }
    return truth;
  }
  static const SpeculationCounters::Method& Counted(const Engine& engine, LocalModel& model) {
    const bool medusa = model.head()->recipe().method == model::HeadMethod::kMedusa;
    return engine.speculation().methods[static_cast<size_t>(medusa ? DraftMethod::kMedusa : DraftMethod::kEagle)];
  }
};

class RightHeadTest : public EngineHeadTest {};

TEST_P(EngineHeadTest, AnswersAreThoseWithoutIt) {
  LocalModel& model = WithHead(GetParam());
  const auto& [requests, plain] = TruthOf(GetParam(), 500, 10);
  for (const auto& [places, width] : std::vector<std::pair<int, int>>{{6, 1}, {4, 4}}) {
    RandomTickClock clock;
    const auto engine = Make(model, HeadOptionsFor(model, places, 200, width), clock);
    ASSERT_NE(engine, nullptr);
    const DraftSums sums = ExpectAllSame(Run(*engine, requests), plain,
                                         "places " + std::to_string(places) + " width " + std::to_string(width));
    EXPECT_GT(sums.with_drafts, sums.choices / 2);
    EXPECT_GT(Counted(*engine, model).draft_tokens, 0);
    if (width > 1) continue;
    // The same ones again find their prefixes in the cache, with the head's part.
    ExpectAllSame(Run(*engine, requests), plain, "again");
  }
}

TEST_P(EngineHeadTest, AnswersAreThoseWithoutItWhenPagesAreShort) {
  LocalModel& model = WithHead(GetParam());
  const auto& [requests, plain] = TruthOf(GetParam(), 700, 8);
  RandomTickClock clock;
  const auto engine = Make(model, HeadOptionsFor(model, 4, 22, 3), clock);
  ASSERT_NE(engine, nullptr);
  ExpectAllSame(Run(*engine, requests), plain, "short of pages");
}

TEST_P(RightHeadTest, IsBelieved) {
  LocalModel& model = WithHead(GetParam());
  for (const float temperature : {0.0f, 1.0f}) {
    RandomTickClock clock;
    const auto engine = Make(model, HeadOptionsFor(model, 2, 200, 1), clock);
    std::vector<api::GenerationRequest> requests(2);
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].has_tokens = true;
      requests[i].tokens = {5, 9, static_cast<int32_t>(20 + i)};
      requests[i].max_tokens = 120;
      requests[i].sampling.temperature = temperature;
      requests[i].sampling.seed = 7 + i;
      requests[i].ignore_end_of_text = true;
    }
    Run(*engine, requests);
    const auto& counted = Counted(*engine, model);
    ASSERT_GT(counted.drafted_at[0], 10);
    // The head's law is the target's but for rounding to 8 bits; Medusa's where the tokens between are the likely ones.
    const bool medusa = model.head()->recipe().method == model::HeadMethod::kMedusa;
    const double floor = temperature == 0 ? 0.99 : medusa ? 0.3 : 0.8;
    EXPECT_GE(static_cast<double>(counted.accepted_at[0]), floor * static_cast<double>(counted.drafted_at[0]));
    EXPECT_GE(static_cast<double>(counted.accepted_at[1]), floor * floor * static_cast<double>(counted.drafted_at[1]));
  }
}

TEST_P(EngineHeadTest, WhereNothingIsDraftedPagesHaveNoRoomForIt) {
  LocalModel& model = WithHead(GetParam());
  const auto& [requests, plain] = TruthOf(GetParam(), 500, 10);
  RandomTickClock clock;
  EngineOptions options = HeadOptionsFor(model, 4, 200, 1);
  options.speculation.max_draft_tokens = 0;
  const auto engine = Make(model, options, clock);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->pages().layout().companion_bytes, 0);
  EXPECT_EQ(ExpectAllSame(Run(*engine, requests), plain, "no drafts").drafted, 0);
}

// A long piece of a prompt leaves no more states than drafts can use, a request that drafts nothing none, and a
// forgotten one none.
TEST_P(EngineHeadTest, NoMoreStatesAreKeptThanAreOfUse) {
  LocalModel& model = WithHead(GetParam());
  const auto pool = *kv::PagePool::Make(
      HeadDrafter::LayoutWith(model, model.config().KvLayoutFor(KvType::kF16, 16)), 64);
  const auto drafter = *HeadDrafter::Make(model, *pool, 4, 256);
  constexpr int kRows = 150;
  const size_t width = static_cast<size_t>(model.head()->recipe().feature_dim());
  std::vector<float> taps(kRows * width);
  for (size_t i = 0; i < taps.size(); ++i) taps[i] = 0.01f * static_cast<float>(i % 199) - 1;
  RequestState state;
  for (int i = 0; i < kRows; ++i) state.prepared.prompt.push_back(3 + i % 90);
  state.prepared.max_tokens = 50;
  Sequence sequence(state, 0, state.prepared.prompt, model.tokenizer(), *pool);
  ASSERT_TRUE(sequence.pages.Extend(kRows + 16));
  CommittedRows step;
  step.sequence = &sequence;
  for (int i = 0; i < kRows; ++i) step.rows.push_back(i);
  const auto kept = [&] { return StateOf<HeadState>(sequence.drafters, drafter->method()); };
  const auto after_step = [&] {
    drafter->AfterStep({&step, 1}, ConstMatrixF(taps.data(), kRows, static_cast<int64_t>(width)));
  };
  state.prepared.request.speculate = false;
  after_step();
  EXPECT_EQ(kept(), nullptr);
  state.prepared.request.speculate = true;
  const bool medusa = drafter->method() == DraftMethod::kMedusa;
  for (const bool is_read : {true, false}) {
    after_step();
    ASSERT_NE(kept(), nullptr);
    EXPECT_EQ(kept()->end(), kRows);
    EXPECT_EQ(kept()->kept.size(), is_read || medusa ? 1 : 16);
    EXPECT_LE(kept()->kept.capacity_bytes(), (medusa ? 1 : 24) * width * sizeof(float));
    EXPECT_EQ(std::memcmp(kept()->kept.Last(), &taps[(kRows - 1) * width], width * sizeof(float)), 0);
    // Asked for nothing in so many steps it reads no more.
    for (int i = 0; i < 200; ++i) drafter->AfterStep({}, ConstMatrixF(taps.data(), 0, static_cast<int64_t>(width)));
  }
  drafter->Drop(sequence);
  EXPECT_TRUE(kept()->kept.empty());
  EXPECT_EQ(kept()->kept.capacity_bytes(), 0u);
}

Result<std::unique_ptr<LocalModel>> OpenChecked(const std::string& target, const std::string& head,
                                                const std::function<void(LocalModelOptions&)>& change = {}) {
  TinyFolder folder(target);
  LocalModelOptions options = {.path = folder.path(), .n_threads = 2};
  options.head.path = std::string(SURETY_TESTDATA) + head;
  options.head_check.n_tokens = 120;
  if (change) change(options);
  return LocalModel::Open(FileSystem::Real(), options, [](const model::LoadProgress&) { return true; });
}

TEST(HeadCheckTest, RightHeadsPassWithTheMeasuredShare) {
  for (const char* head : {"/heads/markov/eagle1", "/heads/markov/eagle3", "/heads/markov/medusa"}) {
    const auto opened = OpenChecked("/heads/markov/target", head);
    ASSERT_TRUE(opened.has_value()) << opened.error().ToString();
    EXPECT_GE((*opened)->head_acceptance(), 0.97) << head;
  }
}

TEST(HeadCheckTest, HeadsBelowTheFloorAreRefusedWithTheFigure) {
  const auto random = OpenChecked("/tiny/llama", "/heads/eagle1");
  ASSERT_FALSE(random.has_value());
  EXPECT_EQ(random.error().code(), StatusCode::kFailedPrecondition);
  for (const char* part : {"/heads/eagle1'", "tokens that the model wrote", "below the floor of 35.0 %", "EAGLE-1/2"}) {
    EXPECT_NE(random.error().message().find(part), std::string::npos) << part << ": " << random.error().message();
  }
  // A floor of 0 tries nothing.
  const auto untried = OpenChecked("/tiny/llama", "/heads/eagle1", [](auto& o) { o.head_check.floor = 0; });
  ASSERT_TRUE(untried.has_value());
  EXPECT_LT((*untried)->head_acceptance(), 0);
}

TEST(HeadCheckTest, ANeighbouringRecipeThatIsBetterIsNamed) {
  const auto flipped = OpenChecked("/heads/markov/target", "/heads/markov/eagle3",
                                   [](auto& o) { o.head.norm_before_residual = false; });
  ASSERT_FALSE(flipped.has_value());
  EXPECT_NE(flipped.error().message().find("with norm_before_residual true it would be 100.0 %"), std::string::npos)
      << flipped.error().message();
}

TEST(HeadCheckTest, AHeadAndADraftModelExcludeEachOther) {
  const std::string draft = std::string(SURETY_TESTDATA) + "/gguf/tiny-llama-q8_0.gguf";
  const auto both = OpenChecked("/tiny/llama", "/heads/eagle1", [&](auto& o) { o.draft_path = draft; });
  ASSERT_FALSE(both.has_value());
  EXPECT_EQ(both.error().code(), StatusCode::kInvalidArgument);
}

// Under rejection a head's choices are one-hot. The law of each token of the Markov target is known from its weights:
// each draw's probability depends on the token before alone, so frequencies are compared with it.
TEST_P(RightHeadTest, RejectionKeepsTheLaw) {
  LocalModel& model = WithHead(GetParam());
  constexpr int kFirst = 17, kTokens = 4;
  // Truth without any draft: the next token's frequencies at each place, by plain sampling with other seeds.
  const auto run = [&](bool drafts, uint64_t seed0, int n) {
    RandomTickClock clock;
    EngineOptions options = HeadOptionsFor(model, 8, 200, 3);
    if (!drafts) options.speculation.max_draft_tokens = 0;
    const auto engine = Make(model, options, clock);
    std::vector<api::GenerationRequest> requests(static_cast<size_t>(n));
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].has_tokens = true;
      requests[i].tokens = {5, kFirst};
      requests[i].max_tokens = kTokens + 1;
      requests[i].sampling.temperature = 1.0f;
      requests[i].sampling.top_k = 5;
      requests[i].sampling.seed = seed0 + i;
      requests[i].ignore_end_of_text = true;
      requests[i].verification = api::Verification::kRejection;
    }
    std::vector<SeenAnswer> answers = Run(*engine, requests);
    if (drafts) {
      EXPECT_GT(Counted(*engine, model).accepted_tokens, n / 4);
    }
    return answers;
  };
  constexpr int n = 1500;
  const auto with = run(true, 1'000'000, n), without = run(false, 5'000'000, n);
  for (int place = 0; place < kTokens; ++place) {
    std::map<int32_t, std::pair<double, double>> counts;
    for (const SeenAnswer& answer : with) ++counts[answer.tokens[static_cast<size_t>(place)]].first;
    for (const SeenAnswer& answer : without) ++counts[answer.tokens[static_cast<size_t>(place)]].second;
    // Two samples of one law: chi-square over tokens seen often, the rest taken together.
    double statistic = 0, rest_with = 0, rest_without = 0;
    int degrees = 0;
    for (const auto& [token, pair] : counts) {
      if (pair.first + pair.second < 20) {
        rest_with += pair.first;
        rest_without += pair.second;
        continue;
      }
      statistic += (pair.first - pair.second) * (pair.first - pair.second) / (pair.first + pair.second);
      ++degrees;
    }
    if (rest_with + rest_without > 0) {
      statistic += (rest_with - rest_without) * (rest_with - rest_without) / (rest_with + rest_without);
      ++degrees;
    }
    EXPECT_GT(spec::testing::ChiSquareTail(statistic, degrees), 1e-6) << "place " << place;
  }
}

std::string HeadTestName(const ::testing::TestParamInfo<HeadCase>& info) { return HeadCaseName(info.param); }

INSTANTIATE_TEST_SUITE_P(Heads, EngineHeadTest, ::testing::ValuesIn(kHeadCases), HeadTestName);
INSTANTIATE_TEST_SUITE_P(RightHeads, EngineHeadTest, ::testing::ValuesIn(kRightHeads), HeadTestName);
INSTANTIATE_TEST_SUITE_P(RightHeads, RightHeadTest, ::testing::ValuesIn(kRightHeads), HeadTestName);

}  // namespace
}  // namespace surety::engine
