// Draft trees under the rejection rule, through the engine: answers have the target's law, whatever is proposed and
// however often a caller comes back with an answer and the seed that made it.
#include "engine/testing/answer_law.h"
#include "engine/testing/speculation_fixture.h"
#include "engine/testing/tree_drafter.h"

namespace surety::engine {
namespace {

using testing::kOneInAMillion;
using testing::LawOfTokens;
using testing::RandomTickClock;
using testing::TextCounts;
using testing::TextLaw;
using testing::TreeDrafter;

class EngineTreeRejectionTest : public testing::SpeculationFixture {
 protected:
  static EngineOptions AllTrees() {
    EngineOptions options = Options(Llama(), true, 16, 16 * 8);
    options.speculation.whatever_it_costs = true;
    options.speculation.max_draft_rows = 160;
    options.speculation.max_draft_tokens = 4;
    return options;
  }

  static api::GenerationRequest Prompt(std::span<const int32_t> choices) {
    api::GenerationRequest request;
    request.has_tokens = true;
    request.tokens = {11, 50, 12, 90, 13};
    request.verification = api::Verification::kRejection;
    request.ignore_end_of_text = true;
    for (const int32_t token : choices) request.sampling.logit_bias.emplace_back(token, 80.0f);
    return request;
  }

  // The tokens of each request's answer.
  static std::vector<std::vector<int32_t>> AnswersOf(Engine& engine,
                                                     const std::vector<api::GenerationRequest>& requests) {
    std::vector<std::vector<int32_t>> answers;
    for (auto& answer : Run(engine, requests)) answers.push_back(std::move(answer.tokens));
    return answers;
  }

  static double PValueOf(const TextLaw& law, const std::vector<std::vector<int32_t>>& answers) {
    const size_t length = law.begin()->first.size();
    TextCounts seen;
    for (const auto& answer : answers) ++seen[{answer.begin(), answer.begin() + static_cast<int64_t>(length)}];
    return testing::PValueOf(law, seen);
  }
};

constexpr int32_t kThree[] = {40, 77, 200};

TEST_F(EngineTreeRejectionTest, AnswersHaveTheTargetsLawForChosenAndForDrawnTrees) {
  constexpr int kAnswers = 6000 / testing::kDrawsOver;
  RandomTickClock clock;
  const auto law = LawOfTokens(*Make(Llama(), AllTrees(), clock), Prompt(kThree), kThree, 4);
  ASSERT_EQ(law.size(), 81u);
  for (const api::Verification rule : {api::Verification::kRejection, api::Verification::kCoupled}) {
    for (const bool draws : {false, true}) {
      EngineOptions options = AllTrees();
      options.speculation.lookup = false;
      const auto engine = Make(Llama(), options, clock);
      auto made = std::make_unique<TreeDrafter>(testing::TreeDrafterOptions{
          .seed = 3, .most_children = 3, .tokens = {kThree[0], kThree[1], kThree[2], 111}, .draws = draws});
      made->engine = engine.get();
      engine->AddDrafter(std::move(made));
      std::vector<api::GenerationRequest> requests(kAnswers, Prompt(kThree));
      for (size_t i = 0; i < requests.size(); ++i) {
        requests[i].sampling.seed = i;
        requests[i].max_tokens = 6;
        requests[i].verification = rule;
        requests[i].seed_is_secret = true;
      }
      EXPECT_GT(PValueOf(law, AnswersOf(*engine, requests)), kOneInAMillion) << static_cast<int>(rule) << draws;
      EXPECT_GT(engine->speculation().branches, kAnswers);
      EXPECT_GT(engine->speculation().accepted_tokens(), kAnswers);
      // Under the coupled rule one position in eight is looked at; what was drawn is no such trial.
      const bool has_trials = rule == api::Verification::kCoupled || !draws;
      EXPECT_EQ(engine->speculation_monitor().n_trials() > kAnswers / 8, has_trials);
      EXPECT_LT(engine->speculation_monitor().strain(), 0.8);
    }
  }
}

// Four tokens whose texts are read as these tokens again, whatever stands before them.
std::vector<int32_t> TokensThatReadBack(const model::Tokenizer& tokenizer, size_t n) {
  std::vector<int32_t> tokens;
  for (int32_t token = 3; token < tokenizer.vocab_size() && tokens.size() < n; ++token) {
    std::vector<int32_t> all = tokens;
    all.push_back(token);
    bool reads_back = true;
    for (const int32_t a : all) {
      for (const int32_t b : all) {
        const std::vector<int32_t> text = {a, b, token, a, token, b, b};
        const auto again = tokenizer.Encode(tokenizer.Decode(text), false, {.add_special = false});
        reads_back &= again.size() >= text.size() && std::equal(text.rbegin(), text.rend() - 1, again.rbegin());
      }
    }
    if (reads_back) tokens = all;
  }
  return tokens;
}

// Symptom: who gave a seed its own answer back as the prediction made drafts of the very numbers that verified them,
// and from the third time on answers were off the law.
TEST_F(EngineTreeRejectionTest, ASeedThatMeetsItsOwnAnswerStaysExact) {
  constexpr int kAnswers = 5000 / testing::kDrawsOver;
  const model::Tokenizer& tokenizer = Llama().tokenizer();
  const std::vector<int32_t> choices = TokensThatReadBack(tokenizer, 3);
  ASSERT_EQ(choices.size(), 3u);
  RandomTickClock clock;
  EngineOptions options = AllTrees();
  const auto law = LawOfTokens(*Make(Llama(), options, clock), Prompt(choices), choices, 5);
  ASSERT_EQ(law.size(), 243u);
  const auto engine = Make(Llama(), options, clock);
  std::vector<api::GenerationRequest> requests(kAnswers, Prompt(choices));
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].sampling.seed = i;
    requests[i].max_tokens = 6;
  }
  int64_t accepted = 0;
  for (int round = 0; round < 5; ++round) {
    const auto answers = AnswersOf(*engine, requests);
    EXPECT_GT(PValueOf(law, answers), kOneInAMillion) << "round " << round;
    for (size_t i = 0; i < requests.size(); ++i) requests[i].prediction = tokenizer.Decode(answers[i]);
    accepted = engine->speculation().accepted_tokens();
  }
  EXPECT_GT(accepted, kAnswers);
  // The same request has the same answer.
  EXPECT_EQ(AnswersOf(*engine, {requests[0]}), AnswersOf(*engine, {requests[0]}));
}

}  // namespace
}  // namespace surety::engine
