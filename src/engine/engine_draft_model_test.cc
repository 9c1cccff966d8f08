// A draft model beside the target: the text is the target's own, bit for bit, and a model that drafts for itself is
// always right, which it could not be if its cache, its positions or its random numbers were off by one anywhere.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/draft_model.h"
#include "engine/engine.h"
#include "engine/testing/answer_law.h"

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

// The same with trees: the first child is always the target's token, so no other one ever is, and a path holds as far
// as it was verified.
TEST_F(DraftModelTest, AModelThatDraftsTreesForItselfNeverNeedsASibling) {
  const auto model = Open("tiny-llama-q8_0", "tiny-llama-q8_0");
  ASSERT_NE(model, nullptr);
  EngineOptions options = Options();
  options.kv_budget_bytes = int64_t{64} << 20;
  const auto engine = MakeEngine(*model, options);
  auto requests = Prompts(*model, 24);
  for (auto& request : requests) request.sampling.frequency_penalty = 0;
  AnswersOf(*engine, requests, true);
  const SpeculationCounters& counters = engine->speculation();
  const SpeculationCounters::Method& method = counters.methods[static_cast<size_t>(DraftMethod::kModel)];
  EXPECT_GT(counters.branches, 100);
  EXPECT_GT(method.accepted_tokens, 300);
  // But for a few that were arranged behind a sibling which was thought more certain.
  EXPECT_GT(method.accepted_rank[0], 0.97 * static_cast<double>(method.accepted_tokens));
  EXPECT_GT(counters.accepted_tokens(), counters.passes);
}

// What is looked up is a trial of the rule only where whether it is one does not depend on the numbers that decide it.
// A draft model that is the target's twin proposes the very token that will win: were what was looked up a trial where
// the two differ, or where they agree, it would hold never, or always.
TEST_F(DraftModelTest, LookingUpBesideAModelLeavesTheTrialsUnbiased) {
  const auto model = Open("tiny-llama-q8_0", "tiny-llama-q8_0");
  ASSERT_NE(model, nullptr);
  EngineOptions options = Options();
  options.kv_budget_bytes = int64_t{64} << 20;
  options.speculation.lookup = true;
  options.speculation.max_branches = 1;  // or the model's second child stands beside the node that both propose
  const auto engine = MakeEngine(*model, options);
  std::vector<api::GenerationRequest> requests;
  for (uint64_t i = 0; i < 3000 / testing::kDrawsOver; ++i) {
    api::GenerationRequest request = Prompt(*model, 4 * i, 1.0f);  // neither top_k nor penalties
    request.seed_is_secret = true;
    request.sampling.seed = RandomBits({i, 77, RandomPurpose::kTest});
    request.sampling.top_k = 3;  // few tokens, so that the text repeats itself and is looked up
    request.sampling.logit_bias = {{40, 60.0f}, {77, 60.0f}, {90, 60.0f}};
    request.max_tokens = 90;
    requests.push_back(request);
  }
  AnswersOf(*engine, requests, true);
  const SpeculationCounters& counters = engine->speculation();
  EXPECT_GT(counters.methods[static_cast<size_t>(DraftMethod::kLookup)].draft_tokens, 300);
  EXPECT_GT(counters.methods[static_cast<size_t>(DraftMethod::kModel)].draft_tokens, 300);
  const spec::AcceptanceMonitor& monitor = engine->speculation_monitor();
  EXPECT_FALSE(monitor.alarm());
  // Each trial has a variance of 1/4 at most: five standard deviations of the mean. Without Offered::saw_noise
  // there are some 400 trials with a bias of 0.18.
  ASSERT_GT(monitor.n_trials(), 0);
  EXPECT_LT(std::abs(monitor.bias()), 2.5 / std::sqrt(static_cast<double>(monitor.n_trials())));
}

// Each node of a grown tree against a plain answer to the text and the node's path: were keys or values of a branch
// wrong anywhere, its children would be other tokens.
TEST_F(DraftModelTest, TheNodesOfATreeAreWhatTheDraftSaysBehindTheirPaths) {
  for (const char* draft : {"tiny-llama-q4_0", "tiny-qwen2-q5_0"}) {
    const auto model = Open("tiny-llama-q8_0", draft);
    const auto alone = Open(draft, "");
    ASSERT_TRUE(model != nullptr && alone != nullptr);
    EngineOptions off = Options();
    off.speculation.max_draft_tokens = 0;
    const auto plain = MakeEngine(*alone, off);
    const KvLayout layout = DraftModel::LayoutWith(*model, model->config().KvLayoutFor(KvType::kF16, 16));
    const auto pool = *kv::PagePool::Make(layout, 64);
    const auto drafter = *DraftModel::Make(*model, *pool, 4, 160);
    const spec::VocabularyMap& map = *model->draft_vocabulary();
    int n_checked = 0, n_on_branches = 0;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      RequestState state;
      state.prepared.request = Prompt(*model, seed, 0.0f);
      state.prepared.request.sampling.frequency_penalty = 0;
      state.prepared.prompt = state.prepared.request.tokens;
      state.prepared.max_tokens = 100;
      Sequence sequence(state, 0, state.prepared.prompt, model->tokenizer(), *pool);
      ASSERT_TRUE(sequence.pages.Extend(sequence.n_tokens() + 8));
      DraftProposal proposal;
      for (int round = 0; round < 2; ++round) {  // the second time all but the last token is there already
        proposal.Clear(sequence.tokens.back());
        DraftProposal* const proposals[] = {&proposal};
        const int n_free = pool->n_free();
        const DraftWish wish = {.sequence = &sequence, .max_nodes = 24, .max_depth = 5, .max_branches = 4,
                                .max_pages = 16};
        drafter->Draft({&wish, 1}, proposals);
        EXPECT_EQ(pool->n_free(), n_free);
        ASSERT_GT(proposal.tree.size(), 8);
        EXPECT_FALSE(proposal.tree.IsChain());
        for (int n = 0; n < proposal.tree.size(); ++n) {
          const auto children = proposal.tree.children(n);
          if (children.empty()) continue;
          api::GenerationRequest request = state.prepared.request;
          request.max_tokens = 1;
          std::vector<int32_t> path;
          for (int m = n; m > 0; m = proposal.tree.parent(m)) path.insert(path.begin(), proposal.tree.token(m));
          request.tokens.clear();
          for (const int32_t token : state.prepared.prompt) map.AppendDraftTokens(token, request.tokens);
          for (const int32_t token : path) request.tokens.push_back(map.ToDraft(token));
          request.n_logprobs = 512;
          const auto id = *plain->Submit(request);
          std::vector<api::Event> events;
          while (!plain->idle()) ASSERT_TRUE(plain->Step(events).ok());
          ASSERT_EQ(events.back().request, id);
          int32_t best = -1;  // of the tokens that both have
          for (const auto& event : events) {
            for (const auto& logprob : event.logprobs) {
              for (const auto& [token, value] : logprob.top) {
                if (best < 0) best = map.ToTarget(token);
              }
            }
          }
          bool found = false;
          for (const int child : children) found |= proposal.tree.token(child) == best;
          EXPECT_TRUE(found) << draft << ", seed " << seed << ", node " << n;
          ++n_checked;
          n_on_branches += n > 1 && proposal.tree.BeginsBranch(n) ? 1 : 0;
        }
      }
    }
    EXPECT_GT(n_checked, 100);
    EXPECT_GT(n_on_branches, 20);
  }
}

// Under rejection, what is verified is chosen by a tree's shape; did the shape know the tokens, answers would be off
// the law. With two tokens at most at each place, and one of them an end, the shape stays as it was laid down.
TEST_F(DraftModelTest, TheShapeOfADrawnTreeDoesNotDependOnItsTokens) {
  const auto model = Open("tiny-llama-q8_0", "tiny-llama-q4_0");
  ASSERT_NE(model, nullptr);
  const KvLayout layout = DraftModel::LayoutWith(*model, model->config().KvLayoutFor(KvType::kF16, 16));
  const auto pool = *kv::PagePool::Make(layout, 64);
  const auto drafter = *DraftModel::Make(*model, *pool, 4, 160);
  int n_free_places = 0, n_ends = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    RequestState state;
    state.prepared.request = Prompt(*model, 5, 1.0f);
    api::SamplingParams& sampling = state.prepared.request.sampling;
    sampling = {.temperature = 1, .seed = seed};
    state.prepared.request.ignore_end_of_text = false;
    sampling.top_k = 2;
    const int32_t end = model->tokenizer().spec().eos;
    sampling.logit_bias = {{end, 80.0f}, {40, 80.0f}, {77, 80.0f}};
    state.prepared.request.verification = api::Verification::kRejection;
    state.prepared.prompt = state.prepared.request.tokens;
    state.prepared.max_tokens = 100;
    Sequence sequence(state, 0, state.prepared.prompt, model->tokenizer(), *pool);
    ASSERT_TRUE(sequence.pages.Extend(sequence.n_tokens() + 8));
    DraftProposal proposal;
    proposal.Clear(sequence.tokens.back());
    DraftProposal* const proposals[] = {&proposal};
    const DraftWish wish = {.sequence = &sequence, .max_nodes = 20, .max_depth = 4, .max_branches = 6,
                            .max_pages = 16, .by_rejection = true};
    spec::DraftTree shape;
    spec::ShapeTree(wish.max_nodes, wish.max_depth, wish.max_branches, 0,
                    [&](int depth, int rank) { return drafter->MeanAcceptance(sequence, depth, rank); }, shape);
    drafter->Draft({&wish, 1}, proposals);
    ASSERT_EQ(proposal.kind, spec::ProposalKind::kWithoutReplacement);
    ASSERT_EQ(proposal.tree.size(), shape.size());
    // The same tree but for its tokens: node by node along the places.
    const std::function<void(int, int)> compare = [&](int n, int place) {
      std::vector<int> children, places;
      for (const int child : proposal.tree.children(n)) children.push_back(child);
      for (const int child : shape.children(place)) places.push_back(child);
      ASSERT_EQ(children.size(), places.size());
      size_t n_drawn = 0;
      for (size_t i = 0; i < children.size(); ++i) {
        EXPECT_EQ(proposal.tree.confidence(children[i]), shape.confidence(places[i]));
        const auto& law = proposal.laws[static_cast<size_t>(n)];
        const bool is_drawn = spec::ProbabilityOf(law, proposal.tree.token(children[i])) > 0;
        EXPECT_TRUE(!is_drawn || n_drawn == i) << "places that are free come last";
        n_drawn += is_drawn ? 1 : 0;
        n_free_places += is_drawn ? 0 : 1;
        n_ends += is_drawn && proposal.tree.token(children[i]) == end ? 1 : 0;
        compare(children[i], places[i]);
      }
    };
    compare(0, 0);
  }
  EXPECT_GT(n_free_places, 20);
  EXPECT_GT(n_ends, 5);
}

// Four tokens that a bias lifts far above all others: both models choose among them, each with its own mind.
constexpr int32_t kChoices[] = {40, 77, 111, 200};

TEST_F(DraftModelTest, SampledAnswersHaveTheTargetsLawUnderBothExactRules) {
  const auto model = Open("tiny-llama-q8_0", "tiny-llama-q4_0");
  ASSERT_NE(model, nullptr);
  // By hand 250,000, of four draws each.
  const char* wanted = std::getenv("SURETY_LAW_ANSWERS");
  const int n_answers = wanted != nullptr ? std::atoi(wanted) : 2500 / testing::kDrawsOver;
  EngineOptions options = Options();
  options.max_sequences = 16;
  options.speculation.max_draft_tokens = 3;
  options.speculation.max_draft_rows = 64;
  options.kv_budget_bytes = int64_t{64} << 20;
  api::GenerationRequest prompt = Prompt(*model, 5, 1.0f);
  prompt.sampling = {};
  for (const int32_t token : kChoices) prompt.sampling.logit_bias.emplace_back(token, 80.0f);
  const auto law = testing::LawOfTokens(*MakeEngine(*model, options), prompt, kChoices, 4);
  ASSERT_EQ(law.size(), 256u);
  using Rule = api::Verification;
  for (const Rule rule : {Rule::kCoupled, Rule::kRejection, Rule::kLossyTypical}) {
    const auto engine = MakeEngine(*model, options);
    testing::TextCounts seen;
    for (int i = 0; i < n_answers;) {
      for (const int end = std::min(i + 2500, n_answers); i < end; ++i) {
        api::GenerationRequest request = prompt;
        request.sampling.seed = static_cast<uint64_t>(i);
        request.verification = rule;
        request.max_tokens = 5;
        request.n_logprobs = -1;
        ASSERT_TRUE(engine->Submit(request).has_value());
      }
      std::map<api::RequestId, std::vector<int32_t>> answers;
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
    }
    EXPECT_GT(engine->speculation().accepted_tokens(), n_answers / 2);
    EXPECT_GT(engine->speculation().branches, n_answers / 8);
    EXPECT_GT(engine->speculation().draft_tokens(), engine->speculation().accepted_tokens());
    const double p_value = testing::PValueOf(law, seen);
    if (rule == Rule::kLossyTypical) {
      EXPECT_LT(p_value, testing::kOneInAMillion)
          << "the lossy rule is far from the law, or this test could not tell";
    } else {
      EXPECT_GT(p_value, testing::kOneInAMillion) << static_cast<int>(rule);
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
