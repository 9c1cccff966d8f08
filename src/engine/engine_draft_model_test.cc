// A draft model beside the target: the text is the target's own, bit for bit, and a model that drafts for itself is
// always right, which it could not be if its cache, its positions or its random numbers were off by one anywhere.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/engine.h"

namespace surety::engine {
namespace {

std::string TinyModel(const std::string& name) { return std::string(SURETY_TESTDATA) + "/gguf/" + name + ".gguf"; }

Result<std::unique_ptr<LocalModel>> OpenWithDraft(const std::string& target, const std::string& draft) {
  LocalModelOptions options;
  options.path = TinyModel(target);
  options.n_threads = 2;
  if (!draft.empty()) options.draft_path = TinyModel(draft);
  return LocalModel::Open(FileSystem::Real(), options, [](const model::LoadProgress&) { return true; });
}

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  api::FinishReason finish = api::FinishReason::kNone;
  api::Usage usage;
};

class DraftModelTest : public ::testing::Test {
 protected:
  static std::unique_ptr<LocalModel> Open(const std::string& target, const std::string& draft) {
    auto model = OpenWithDraft(target, draft);
    EXPECT_TRUE(model.has_value()) << (model ? "" : model.error().ToString());
    return model ? *std::move(model) : nullptr;
  }

  static std::unique_ptr<Engine> MakeEngine(LocalModel& model, EngineOptions options) {
    auto engine = Engine::Make(model, options);
    EXPECT_TRUE(engine.has_value()) << (engine ? "" : engine.error().ToString());
    return engine ? *std::move(engine) : nullptr;
  }

  static EngineOptions Options() {
    EngineOptions options;
    options.context_tokens = 160;
    options.max_sequences = 6;
    options.speculation.lookup = false;
    options.speculation.whatever_it_costs = true;
    options.speculation.max_draft_tokens = 5;
    return options;
  }

  static api::GenerationRequest Prompt(const LocalModel& model, uint64_t seed, float temperature) {
    api::GenerationRequest request;
    request.has_tokens = true;
    const auto vocab = static_cast<uint64_t>(model.tokenizer().vocab_size());
    const uint64_t n = 3 + RandomBits({seed, 1000, RandomPurpose::kTest}) % 60;
    for (uint64_t i = 0; i < n; ++i) {  // a third of the prompts begin alike
      const uint64_t stream = seed % 3 == 0 && i < 40 ? 7 : seed;
      request.tokens.push_back(static_cast<int32_t>(RandomBits({stream, i, RandomPurpose::kTest}) % vocab));
    }
    request.sampling.temperature = temperature;
    request.sampling.seed = seed;
    if (seed % 4 == 1) request.sampling.top_k = 20;
    if (seed % 4 == 2) request.sampling.frequency_penalty = 0.7f;
    request.max_tokens = static_cast<int>(20 + seed % 50);
    request.ignore_end_of_text = true;
    request.n_logprobs = 0;
    request.scope.tenant = "t";
    return request;
  }

  // Answers in the order of the requests, which are sent all at once or one after the other.
  static std::vector<Answer> AnswersOf(Engine& engine, const std::vector<api::GenerationRequest>& requests,
                                       bool together) {
    std::map<api::RequestId, Answer> answers;
    std::vector<api::RequestId> ids;
    const auto run = [&] {
      while (!engine.idle()) {
        std::vector<api::Event> events;
        EXPECT_TRUE(engine.Step(events).ok());
        for (api::Event& event : events) {
          Answer& answer = answers[event.request];
          answer.tokens.insert(answer.tokens.end(), event.tokens.begin(), event.tokens.end());
          for (const api::TokenLogprob& l : event.logprobs) answer.logprobs.push_back(l.logprob);
          if (event.finish != api::FinishReason::kNone) answer.finish = event.finish;
          if (event.finish != api::FinishReason::kNone) answer.usage = event.usage;
        }
      }
    };
    for (const auto& request : requests) {
      ids.push_back(*engine.Submit(request));
      if (!together) run();
    }
    run();
    std::vector<Answer> result;
    for (const api::RequestId id : ids) result.push_back(answers[id]);
    return result;
  }

  static void ExpectEqual(const std::vector<Answer>& a, const std::vector<Answer>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].tokens, b[i].tokens) << i;
      EXPECT_EQ(a[i].logprobs, b[i].logprobs) << i;
      EXPECT_EQ(a[i].finish, b[i].finish) << i;
    }
  }

  static std::vector<api::GenerationRequest> Prompts(const LocalModel& model, int n) {
    std::vector<api::GenerationRequest> requests;
    for (int i = 0; i < n; ++i) requests.push_back(Prompt(model, static_cast<uint64_t>(i), i % 2 == 0 ? 0.0f : 0.9f));
    return requests;
  }

  // With drafts of each kind against without any: alone, together, with too few pages for all.
  static void ExpectTheTargetsOwnText(const std::string& target, const std::string& draft) {
    const auto plain_model = Open(target, "");
    const auto model = Open(target, draft);
    ASSERT_TRUE(plain_model != nullptr && model != nullptr);
    EngineOptions options = Options();
    EngineOptions off = options;
    off.speculation.max_draft_tokens = 0;
    const auto requests = Prompts(*model, 12);
    const auto expected = AnswersOf(*MakeEngine(*plain_model, off), requests, false);
    for (const bool together : {false, true}) {
      for (const bool few_pages : {false, true}) {
        SCOPED_TRACE(::testing::Message() << together << few_pages);
        options.max_rows = together ? 16 : 128;
        options.kv_budget_bytes = few_pages ? 0 : int64_t{64} << 20;
        const auto engine = MakeEngine(*model, options);
        ExpectEqual(AnswersOf(*engine, requests, together), expected);
        const SpeculationCounters& counters = engine->speculation();
        EXPECT_GT(counters.draft_tokens(), 50);
        EXPECT_GT(counters.accepted_tokens(), 0);
        EXPECT_GT(counters.draft_tokens(), counters.accepted_tokens());
        EXPECT_TRUE(engine->cache().Audit().ok());
      }
    }
  }
};

TEST_F(DraftModelTest, ADraftOfTheSameVocabularyNeverChangesTheText) {
  ExpectTheTargetsOwnText("tiny-llama-q8_0", "tiny-llama-q4_0");
}

TEST_F(DraftModelTest, ADraftOfAnotherVocabularyNeverChangesTheText) {
  ExpectTheTargetsOwnText("tiny-llama-q8_0", "tiny-qwen2-q5_0");
}

TEST_F(DraftModelTest, AModelThatDraftsForItselfIsAlwaysRight) {
  const auto model = Open("tiny-llama-q8_0", "tiny-llama-q8_0");
  ASSERT_NE(model, nullptr);
  for (const bool together : {false, true}) {
    EngineOptions options = Options();
    options.kv_budget_bytes = int64_t{64} << 20;
    options.speculation.max_branches = 1;
    const auto engine = MakeEngine(*model, options);
    auto requests = Prompts(*model, 24);
    for (auto& request : requests) request.sampling.frequency_penalty = 0;  // which the draft's own tokens would change
    const auto answers = AnswersOf(*engine, requests, together);
    const SpeculationCounters& counters = engine->speculation();
    EXPECT_GT(counters.draft_tokens(), 500);
    EXPECT_EQ(counters.accepted_tokens(), counters.draft_tokens());
    int64_t accepted = 0, tokens = 0;
    for (const Answer& answer : answers) {
      accepted += answer.usage.accepted_tokens;
      tokens += answer.usage.output_tokens;
    }
    EXPECT_EQ(accepted, counters.accepted_tokens());
    EXPECT_EQ(counters.passes + accepted, tokens);
  }
}

// Four tokens that a bias lifts far above all others: both models choose among them, each with its own mind.
constexpr int32_t kChoices[] = {40, 77, 111, 200};

// The law of the first four tokens, as the target's own log-probabilities give it.
std::map<std::vector<int32_t>, double> LawOfFourTokens(Engine& engine, const api::GenerationRequest& prompt) {
  std::map<std::vector<int32_t>, double> law = {{{}, 1.0}};
  for (int depth = 0; depth < 4; ++depth) {
    std::map<std::vector<int32_t>, double> longer;
    for (const auto& [tokens, probability] : law) {
      api::GenerationRequest request = prompt;
      request.tokens.insert(request.tokens.end(), tokens.begin(), tokens.end());
      request.n_logprobs = 512;  // all: raw ones, without the bias
      request.max_tokens = 1;
      EXPECT_TRUE(engine.Submit(request).has_value());
      while (!engine.idle()) {
        std::vector<api::Event> events;
        EXPECT_TRUE(engine.Step(events).ok());
        for (const api::Event& event : events) {
          for (const api::TokenLogprob& logprob : event.logprobs) {
            const std::map<int32_t, float> all(logprob.top.begin(), logprob.top.end());
            double sum = 0;
            for (const int32_t token : kChoices) sum += std::exp(static_cast<double>(all.at(token)));
            for (const int32_t token : kChoices) {
              std::vector<int32_t> next = tokens;
              next.push_back(token);
              longer[next] += probability * std::exp(static_cast<double>(all.at(token))) / sum;
            }
          }
        }
      }
    }
    law = longer;
  }
  return law;
}

// How many standard deviations the chi-square statistic of the seen counts lies above what the law leads to expect.
double DeviationsFrom(const std::map<std::vector<int32_t>, double>& law,
                      const std::map<std::vector<int32_t>, int>& seen, int n) {
  double statistic = 0;
  for (const auto& [tokens, probability] : law) {
    const auto found = seen.find(tokens);
    const double expected = n * probability, count = found == seen.end() ? 0 : found->second;
    statistic += (count - expected) * (count - expected) / expected;
  }
  for (const auto& [tokens, count] : seen) {
    if (!law.contains(tokens)) return 1e9;
  }
  const double degrees = static_cast<double>(law.size()) - 1;
  return (statistic - degrees) / std::sqrt(2 * degrees);
}

TEST_F(DraftModelTest, SampledAnswersHaveTheTargetsLawUnderBothExactRules) {
  const auto model = Open("tiny-llama-q8_0", "tiny-llama-q4_0");
  ASSERT_NE(model, nullptr);
  constexpr int kAnswers = 2500;
  EngineOptions options = Options();
  options.max_sequences = 16;
  options.speculation.max_draft_tokens = 3;
  options.speculation.max_draft_rows = 64;
  options.kv_budget_bytes = int64_t{64} << 20;
  api::GenerationRequest prompt = Prompt(*model, 5, 1.0f);
  prompt.sampling = {};
  for (const int32_t token : kChoices) prompt.sampling.logit_bias.emplace_back(token, 80.0f);
  const auto law = LawOfFourTokens(*MakeEngine(*model, options), prompt);
  ASSERT_EQ(law.size(), 256u);
  using Rule = api::Verification;
  for (const Rule rule : {Rule::kCoupled, Rule::kRejection, Rule::kLossyTypical}) {
    const auto engine = MakeEngine(*model, options);
    std::map<std::vector<int32_t>, int> seen;
    std::map<api::RequestId, std::vector<int32_t>> answers;
    for (int i = 0; i < kAnswers; ++i) {
      api::GenerationRequest request = prompt;
      request.sampling.seed = static_cast<uint64_t>(i);
      request.verification = rule;
      request.max_tokens = 5;
      request.n_logprobs = -1;
      ASSERT_TRUE(engine->Submit(request).has_value());
    }
    while (!engine->idle()) {
      std::vector<api::Event> events;
      ASSERT_TRUE(engine->Step(events).ok());
      for (const api::Event& event : events) {
        auto& tokens = answers[event.request];
        tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
      }
    }
    for (auto& [id, tokens] : answers) {
      tokens.resize(4);
      ++seen[tokens];
    }
    EXPECT_GT(engine->speculation().accepted_tokens(), kAnswers / 2);
    EXPECT_GT(engine->speculation().draft_tokens(), engine->speculation().accepted_tokens());
    const double deviations = DeviationsFrom(law, seen, kAnswers);
    if (rule == Rule::kLossyTypical) {
      EXPECT_GT(deviations, 50) << "the lossy rule is far from the law, or this test could not tell";
    } else {
      EXPECT_LT(deviations, 5) << static_cast<int>(rule);
    }
  }
}

// Symptom: four prompts filled a step of the draft to the last row, a fifth sequence had one row to catch up on, and a
// step of no rows stopped the process.
TEST_F(DraftModelTest, AStepOfTheDraftThatIsFullToTheLastRowLeavesOthersForLater) {
  const auto model = Open("tiny-llama-q8_0", "tiny-llama-q4_0");
  ASSERT_NE(model, nullptr);
  EngineOptions options = Options();  // six sequences: 262 rows
  options.itl_stretch = 1000;        // all four prompts in one step
  options.context_tokens = 128;
  options.kv_budget_bytes = int64_t{64} << 20;
  const auto engine = MakeEngine(*model, options);
  const auto request_of = [&](uint64_t seed, int n_prompt, int priority) {
    api::GenerationRequest request = Prompt(*model, seed, 1.0f);
    request.tokens.assign(static_cast<size_t>(n_prompt), static_cast<int32_t>(seed + 3));
    request.scope.tenant = "t" + std::to_string(seed);
    request.priority = priority;
    request.max_tokens = 60;
    return request;
  };
  ASSERT_TRUE(engine->Submit(request_of(1, 10, 5)).has_value());  // the least urgent: the last one to be asked
  std::vector<api::Event> events;
  for (int step = 0; step < 4; ++step) ASSERT_TRUE(engine->Step(events).ok());
  for (const uint64_t seed : {2, 3, 4, 5}) {  // with their first tokens 65 + 65 + 66 + 66 rows to read
    ASSERT_TRUE(engine->Submit(request_of(seed, seed < 4 ? 64 : 65, 0)).has_value());
  }
  while (!engine->idle()) ASSERT_TRUE(engine->Step(events).ok());
  EXPECT_EQ(std::count_if(events.begin(), events.end(),
                          [](const api::Event& e) { return e.finish == api::FinishReason::kLength; }), 5);
}

TEST_F(DraftModelTest, WhatCannotDraftIsRefusedWithTheReason) {
  const auto nonsense = OpenWithDraft("tiny-llama-q8_0", "no-such-model");
  ASSERT_FALSE(nonsense.has_value());
  EXPECT_NE(nonsense.error().ToString().find("no-such-model"), std::string::npos);
  const auto model = Open("tiny-llama-q8_0", "tiny-llama-q4_0");
  EngineOptions options = Options();
  options.speculation.max_draft_rows = -1;
  const auto engine = Engine::Make(*model, options);
  ASSERT_FALSE(engine.has_value());
  EXPECT_NE(engine.error().ToString().find("max_draft_rows"), std::string::npos);
}

}  // namespace
}  // namespace surety::engine
