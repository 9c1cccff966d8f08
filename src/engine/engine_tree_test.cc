// Draft trees in the engine: whatever tree is verified, on whatever branch the text goes on, no answer changes by a
// bit, the pages hold what plain decoding leaves there, and no page is lost.
#include <functional>

#include "engine/engine_options.h"
#include "engine/testing/speculation_fixture.h"
#include "engine/testing/tree_drafter.h"

namespace surety::engine {
namespace {

using testing::DraftSums;
using testing::DrawSpeculationRequest;
using testing::ExpectSameAnswer;
using testing::RandomTickClock;
using testing::SeenAnswer;
using testing::SpeculationModels;
using testing::TreeDrafter;
using testing::TreeDrafterOptions;

class EngineTreeTest : public testing::SpeculationFixture {
 protected:
  struct Rig {
    std::unique_ptr<Engine> engine;
    TreeDrafter* drafter = nullptr;
  };

  static EngineOptions TreeOptions(LocalModel& model, int places, int n_pages) {
    EngineOptions options = Options(model, true, places, n_pages);
    options.speculation.whatever_it_costs = true;
    options.speculation.max_draft_rows = 64;
    return options;
  }

  // An engine whose drafter knows the plain answers.
  static Rig MakeRig(LocalModel& model, const EngineOptions& options, Clock& clock, TreeDrafterOptions drafts,
                     const std::vector<api::GenerationRequest>& requests, const std::vector<SeenAnswer>& plain) {
    Rig rig;
    rig.engine = Make(model, options, clock);
    drafts.vocab = model.tokenizer().vocab_size();
    auto drafter = std::make_unique<TreeDrafter>(drafts);
    rig.drafter = drafter.get();
    rig.drafter->engine = rig.engine.get();
    size_t at = 0;
    for (const api::GenerationRequest& request : requests) {
      for (int choice = 0; choice < request.n_choices && at < plain.size(); ++choice, ++at) {
        rig.drafter->Learn(request.tokens, request.sampling.seed,
                           request.sampling.lane + static_cast<uint32_t>(choice), plain[at].tokens);
      }
    }
    rig.engine->AddDrafter(std::move(drafter));
    return rig;
  }

  static int64_t AcceptedBeside(const SpeculationCounters& counters) {
    int64_t sum = 0;
    for (const auto& method : counters.methods) {
      for (size_t rank = 1; rank < method.accepted_rank.size(); ++rank) sum += method.accepted_rank[rank];
    }
    return sum;
  }
};

struct TreeSetUp {
  const char* name;
  int places = 8, n_pages = 8 * 16, max_rows = 512, max_branches = 63, page_tokens = 16;
  KvType kv_type = KvType::kF16;
  int64_t host_pages = 0;
};

constexpr TreeSetUp kTreeSetUps[] = {
    {.name = "a batch of eight"},
    {.name = "few branches", .max_branches = 2},
    {.name = "single file", .places = 4, .n_pages = 64},
    {.name = "a small pool", .n_pages = 24},
    {.name = "a small pool with a host tier", .n_pages = 24, .host_pages = 200},
    {.name = "steps of 16 rows", .max_rows = 16},
    {.name = "long pages", .n_pages = 8 * 8, .page_tokens = 48},
    {.name = "keys of brain floats", .kv_type = KvType::kBF16},
    {.name = "keys of 32 bits", .n_pages = 8 * 32, .kv_type = KvType::kF32},
};

TEST_F(EngineTreeTest, NoAnswerChangesWhateverTreesAreVerified) {
  for (const TreeSetUp& set_up : kTreeSetUps) {
    EngineOptions options = TreeOptions(Llama(), set_up.places, set_up.n_pages);
    options.max_rows = set_up.max_rows;
    options.page_tokens = set_up.page_tokens;
    options.kv_type = set_up.kv_type;
    options.speculation.max_branches = set_up.max_branches;
    const KvLayout layout = Llama().config().KvLayoutFor(set_up.kv_type, set_up.page_tokens);
    options.kv_budget_bytes = set_up.n_pages * layout.PageStrideBytes();
    options.host_cache_bytes = set_up.host_pages * layout.PageStrideBytes();
    auto requests = Requests(Llama(), 3000, 40);
    std::vector<SeenAnswer> plain;
    for (const api::GenerationRequest& request : requests) {
      EngineOptions off = options;
      off.speculation.max_draft_tokens = 0;
      RandomTickClock clock;
      for (SeenAnswer& answer : Run(*Make(Llama(), off, clock), {request})) plain.push_back(std::move(answer));
    }
    RandomTickClock clock;
    const Rig rig = MakeRig(Llama(), options, clock, {.seed = 5, .wants_taps = true}, requests, plain);
    const DraftSums first = ExpectAllSame(Run(*rig.engine, requests), plain, set_up.name);
    EXPECT_GT(first.accepted, 100) << set_up.name;
    const SpeculationCounters& counters = rig.engine->speculation();
    const bool is_tight = set_up.n_pages < 32 || set_up.max_rows < 32;
    EXPECT_GT(counters.branches, is_tight ? 10 : 100) << set_up.name;
    EXPECT_GT(AcceptedBeside(counters), is_tight ? 5 : 50) << set_up.name;
    // With what the cache has now, and earlier answers to look up.
    ExpectAllSame(Run(*rig.engine, requests), plain, set_up.name + std::string(" again"));
    if (set_up.n_pages < 32 && set_up.host_pages == 0) {
      EXPECT_GT(rig.engine->counters().preemptions, 0) << set_up.name;
    }
    // Each position that was computed was told of, with the row that computed it.
    for (const auto& [choice, positions] : rig.drafter->seen_positions) {
      EXPECT_EQ(*positions.rbegin() + 1 - *positions.begin(), static_cast<int>(positions.size()));
    }
  }
}

// Windows of attention, latent keys, experts.
TEST_F(EngineTreeTest, NoAnswerChangesOnAnyArchitecture) {
  for (const char* name : {"/gguf/tiny-gemma3-q8_0.gguf", "/gguf/tiny-qwen2-q5_0.gguf", "/gguf/tiny-qwen3-f16.gguf",
                           "/tiny/gemma2", "/tiny/mistral", "/tiny/deepseek_v2", "/tiny/deepseek_v3"}) {
    LocalModel& model = SpeculationModels::Get(name);
    std::vector<api::GenerationRequest> requests;
    for (uint64_t i = 0; i < 10; ++i) {
      requests.push_back(DrawSpeculationRequest(4000 + i, model.tokenizer().vocab_size()));
      requests.back().constraint = {};
      requests.back().ignore_end_of_text = true;
      requests.back().max_tokens = 50;
    }
    const auto plain = RunPlain(model, requests);
    EngineOptions options = TreeOptions(model, 4, 64);
    options.context_tokens = 128;
    RandomTickClock clock;
    const Rig rig = MakeRig(model, options, clock, {.seed = 6}, requests, plain);
    ExpectAllSame(Run(*rig.engine, requests), plain, name);
    EXPECT_GT(AcceptedBeside(rig.engine->speculation()), 30) << name;
  }
}

// The pages of a sequence, as far as it is computed, hold the same bytes whether its tokens came one by one or from all
// kinds of branches.
TEST_F(EngineTreeTest, PagesHoldTheBytesThatPlainDecodingLeaves) {
  for (const char* name : {"/gguf/tiny-llama-q8_0.gguf", "/tiny/deepseek_v2", "/gguf/tiny-gemma3-q8_0.gguf"}) {
    LocalModel& model = SpeculationModels::Get(name);
    for (const KvType type : {KvType::kF16, KvType::kQ8_0}) {
      if (type == KvType::kQ8_0 && !model.config().KvLayoutFor(type, 16).Validate().ok()) continue;
      std::vector<api::GenerationRequest> requests;
      for (uint64_t i = 0; i < 6; ++i) {
        requests.push_back(DrawSpeculationRequest(5000 + i, model.tokenizer().vocab_size()));
        requests.back().constraint = {};
        requests.back().ignore_end_of_text = true;
        requests.back().n_choices = 1;
        requests.back().max_tokens = 60;
        requests.back().n_prompt_logprobs = -1;
      }
      using Image = std::vector<std::byte>;  // of all whole pages
      const auto images_of = [&](bool trees, const std::vector<SeenAnswer>& plain, int64_t* beside) {
        EngineOptions options = TreeOptions(model, 4, 64);
        options.context_tokens = 128;
        options.kv_type = type;
        options.kv_budget_bytes = 64 * model.config().KvLayoutFor(type, 16).PageStrideBytes();
        RandomTickClock clock;
        const Rig rig =
            MakeRig(model, options, clock, {.seed = 7, .only_wrong = !trees, .wants_taps = true}, requests, plain);
        std::map<std::pair<api::RequestId, int>, Image> images;  // by number of whole pages
        rig.drafter->on_rows = [&](const Sequence& sequence) {
          const int n_whole = sequence.n_computed / 16;
          Image& image = images[{sequence.state->id(), n_whole}];
          image.clear();
          for (int i = 0; i < n_whole; ++i) {
            const auto bytes = rig.engine->pages().Bytes(sequence.pages.pages()[static_cast<size_t>(i)]);
            image.insert(image.end(), bytes.begin(), bytes.end());
          }
        };
        if (!trees) {
          for (auto& request : requests) request.speculate = false;
        }
        const auto answers = Run(*rig.engine, requests);
        for (auto& request : requests) request.speculate = true;
        if (beside != nullptr) *beside = AcceptedBeside(rig.engine->speculation());
        return std::pair(images, answers);
      };
      const auto [plain_images, plain] = images_of(false, {}, nullptr);
      int64_t beside = 0;
      const auto [images, answers] = images_of(true, plain, &beside);
      ExpectAllSame(answers, plain, name);
      EXPECT_GT(beside, 8) << name;
      ASSERT_GT(images.size(), 10u);
      for (const auto& [key, image] : images) {
        const auto found = plain_images.find(key);
        ASSERT_NE(found, plain_images.end());
        EXPECT_TRUE(found->second == image) << name << ", request " << key.first << ", " << key.second << " pages";
      }
    }
  }
}

// Requests that are cancelled at any moment, in a pool that is far too small, with trees in each step.
TEST_F(EngineTreeTest, NoPageIsLostWhateverEnds) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    testing::RequestDraws draws(700 + seed);
    const auto requests = Requests(Llama(), 6000 + 20 * seed, 20);
    RandomTickClock clock;
    const Rig rig = MakeRig(Llama(), TreeOptions(Llama(), 6, 18 + 10 * static_cast<int>(seed)), clock, {.seed = seed},
                            requests, {});
    std::vector<api::RequestId> ids;
    for (const auto& request : requests) ids.push_back(*rig.engine->Submit(request));
    std::map<Choice, SeenAnswer> answers;
    while (!rig.engine->idle()) {
      if (draws.Percent(30)) rig.engine->Cancel(ids[static_cast<size_t>(draws.Below(static_cast<int>(ids.size())))]);
      std::vector<api::Event> events;
      ASSERT_TRUE(rig.engine->Step(events).ok());
      Collect(events, answers);
      ASSERT_TRUE(rig.engine->cache().Audit().ok());
      // Between steps no branch holds a page: all that is in use is a sequence's own or the cache's.
      int most = rig.engine->cache().n_pages();
      for (const Sequence* s : rig.engine->scheduler().running()) most += static_cast<int>(s->pages.pages().size());
      ASSERT_LE(rig.engine->pages().n_used(), most);
      for (const Sequence* s : rig.engine->scheduler().running()) ASSERT_TRUE(s->draft.branches.empty());
    }
    for (const auto& [choice, answer] : answers) EXPECT_EQ(answer.n_ends, 1);
    EXPECT_EQ(rig.engine->pages().n_used(), rig.engine->cache().n_pages());
    EXPECT_GT(rig.engine->speculation().branches, 20);
  }
}

// What a tree needs beyond the sequence's own pages, it takes only where nobody else runs on it.
TEST_F(EngineTreeTest, TreesNeverPushAnybodyOut) {
  auto requests = Requests(Llama(), 8000, 24);
  for (auto& request : requests) request.scope.tenant = "";  // nothing is kept
  int64_t preemptions[2];
  for (const bool trees : {false, true}) {
    EngineOptions options = TreeOptions(Llama(), 6, 40);
    if (!trees) options.speculation.max_draft_tokens = 0;
    RandomTickClock clock;
    const Rig rig = MakeRig(Llama(), options, clock, {.seed = 9, .only_wrong = true}, requests, {});
    Run(*rig.engine, requests);
    preemptions[trees ? 1 : 0] = rig.engine->counters().preemptions;
  }
  EXPECT_LE(preemptions[1], preemptions[0] + preemptions[0] / 4 + 1);
}

// Greedy laws are one-hot, so the lossy rule has nothing to be lossy about; what a constraint forbids it never takes,
// whichever branch it looks at.
TEST_F(EngineTreeTest, TheLossyRuleIsExactForGreedyRequestsAndKeepsConstraints) {
  auto requests = Requests(Llama(), 9000, 30);
  for (auto& request : requests) {
    request.verification = api::Verification::kLossyTypical;
    request.sampling.temperature = 0;
  }
  const auto plain = RunPlain(Llama(), requests);
  RandomTickClock clock;
  Rig rig = MakeRig(Llama(), TreeOptions(Llama(), 6, 120), clock, {.seed = 11}, requests, plain);
  ExpectAllSame(Run(*rig.engine, requests), plain, "greedy");
  EXPECT_GT(AcceptedBeside(rig.engine->speculation()), 50);
  requests.resize(1);
  requests[0] = {};
  requests[0].has_tokens = true;
  requests[0].tokens = {3, 4, 5};
  requests[0].verification = api::Verification::kLossyTypical;
  requests[0].sampling.temperature = 1.3f;
  requests[0].constraint.kind = api::Constraint::Kind::kJsonSchema;
  requests[0].constraint.schema = boost::json::parse(testing::kFormSchema);
  int n_ended = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    requests[0].sampling.seed = seed;
    const auto answers = RunPlain(Llama(), requests);
    rig = MakeRig(Llama(), TreeOptions(Llama(), 6, 120), clock, {.seed = seed}, requests, answers);
    const SeenAnswer seen = Run(*rig.engine, requests)[0];
    if (seen.finish == api::FinishReason::kLength) continue;  // white space may go on and on
    ++n_ended;
    boost::system::error_code error;
    const auto value = boost::json::parse(seen.text, error);
    ASSERT_FALSE(error) << seen.text;
    EXPECT_EQ(value.as_object().size(), 4u);
  }
  EXPECT_GT(n_ended, 10);
}

TEST_F(EngineTreeTest, AnEndTokenThatWasDraftedCountsAsAccepted) {
  int n_checked = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    api::GenerationRequest request;
    request.has_tokens = true;
    request.tokens = {5, 6, static_cast<int32_t>(7 + seed)};
    request.sampling.temperature = 0;
    request.max_tokens = 40;
    request.ignore_end_of_text = true;
    const SeenAnswer free = RunPlain(Llama(), {request})[0];
    request.stop_tokens = {free.tokens[4]};  // ends at its first place
    const SeenAnswer plain = RunPlain(Llama(), {request})[0];
    ASSERT_EQ(plain.finish, api::FinishReason::kStop);
    if (plain.tokens.size() < 2) continue;
    ++n_checked;
    EngineOptions options = TreeOptions(Llama(), 4, 64);
    options.speculation.lookup = false;
    options.speculation.max_branches = 1;
    RandomTickClock clock;
    const Rig rig = MakeRig(Llama(), options, clock, {.percent_right = 100, .most_children = 1}, {request}, {plain});
    const SeenAnswer seen = Run(*rig.engine, {request})[0];
    ExpectSameAnswer(seen, plain);
    const SpeculationCounters& counters = rig.engine->speculation();
    EXPECT_EQ(seen.usage.accepted_tokens, seen.usage.draft_tokens) << "each draft was right";
    EXPECT_EQ(counters.accepted_tokens(), seen.usage.accepted_tokens);
    EXPECT_GE(counters.passes + counters.accepted_tokens(), seen.usage.output_tokens);
  }
  EXPECT_GT(n_checked, 10);
}

}  // namespace
}  // namespace surety::engine
