// Speculation in the engine: whatever is drafted, in whatever company, no answer changes by a bit.
//
// The policy goes by the measured time of steps, so these tests bring their own: each look at the clock takes a random
// time, the same ones in each run. Which lengths are verified varies with it, and does not vary with the machine.
#include "engine/testing/speculation_fixture.h"

namespace surety::engine {
namespace {

using testing::DraftSums;
using testing::DrawSpeculationRequest;
using testing::kFormSchema;
using testing::RandomTickClock;
using testing::SeenAnswer;
using testing::SpeculationModels;

class EngineSpeculationTest : public testing::SpeculationFixture {};

struct SpeculationSetUp {
  const char* name;
  int places = 8, n_pages = 8 * 16, max_rows = 512, max_draft_tokens = 16, max_draft_rows = 32;
  int64_t host_pages = 0;
  bool whatever_it_costs = false;
};

constexpr SpeculationSetUp kSpeculationSetUps[] = {
    {.name = "a batch of eight"},
    {.name = "single file", .places = 4, .n_pages = 64},
    {.name = "a small pool", .n_pages = 24},
    {.name = "a small pool with a host tier", .n_pages = 24, .host_pages = 200},
    {.name = "chunks of 16 rows", .max_rows = 16},
    {.name = "chunks of 9 rows, short drafts", .max_rows = 9, .max_draft_tokens = 2, .max_draft_rows = 5,
     .whatever_it_costs = true},
    {.name = "all that is proposed", .whatever_it_costs = true},
    {.name = "all that is proposed in a small pool", .n_pages = 24, .whatever_it_costs = true},
    {.name = "the longest drafts", .places = 6, .max_draft_tokens = 63, .max_draft_rows = 200},
};

TEST_F(EngineSpeculationTest, NoAnswerChangesInAnyCompanyPoolOrChunk) {
  const auto requests = Requests(Llama(), 0, 60);
  const auto plain = RunPlain(Llama(), requests);
  for (const SpeculationSetUp& set_up : kSpeculationSetUps) {
    EngineOptions options = Options(Llama(), true, set_up.places, set_up.n_pages);
    options.max_rows = set_up.max_rows;
    options.speculation.max_draft_tokens = set_up.max_draft_tokens;
    options.speculation.max_draft_rows = set_up.max_draft_rows;
    options.speculation.whatever_it_costs = set_up.whatever_it_costs;
    options.host_cache_bytes = set_up.host_pages * Llama().config().KvLayoutFor(KvType::kF16, 16).PageStrideBytes();
    RandomTickClock clock;
    const auto engine = Make(Llama(), options, clock);
    // How many have drafts, even where rows, pages and time are short.
    const DraftSums first = ExpectAllSame(Run(*engine, requests), plain, set_up.name);
    EXPECT_GT(first.with_drafts, first.choices / 8) << set_up.name;
    EXPECT_GT(first.with_accepted, first.choices / 12) << set_up.name;
    EXPECT_GT(first.with_rejected, first.choices / 12) << set_up.name;
    // Now prompts are cached, and each answer is there to be looked up.
    const DraftSums again = ExpectAllSame(Run(*engine, requests), plain, set_up.name + std::string(" again"));
    EXPECT_GT(again.with_drafts, again.choices / 8) << set_up.name;
    EXPECT_GT(again.with_accepted, again.choices / 12) << set_up.name;
    if (set_up.n_pages < 32) {
      EXPECT_GT(engine->counters().preemptions, 0) << set_up.name;
    }
  }
}

TEST_F(EngineSpeculationTest, NoAnswerChangesWhenEachRunsAlone) {
  const auto requests = Requests(Llama(), 500, 60);
  const auto plain = RunPlain(Llama(), requests);
  std::vector<SeenAnswer> seen;
  for (const api::GenerationRequest& request : requests) {
    RandomTickClock clock;
    const auto engine = Make(Llama(), Options(Llama(), true, 4, 64), clock);
    for (SeenAnswer& answer : Run(*engine, {request})) seen.push_back(std::move(answer));
  }
  const DraftSums sums = ExpectAllSame(seen, plain, "alone");
  EXPECT_GT(sums.with_drafts, sums.choices / 6);
  EXPECT_GT(sums.with_accepted, sums.choices / 8);
  EXPECT_GT(sums.with_rejected, sums.choices / 12);
}

// Windows of attention, shared experts, latent keys: what a row sees must not depend on the rows beside it.
TEST_F(EngineSpeculationTest, NoAnswerChangesOnAnyArchitecture) {
  int with_rejected = 0;
  for (const char* name : {"/gguf/tiny-gemma3-q8_0.gguf", "/gguf/tiny-qwen2-q5_0.gguf", "/gguf/tiny-qwen3-f16.gguf",
                           "/gguf/tiny-llama-q4_k.gguf", "/tiny/gemma2", "/tiny/mistral", "/tiny/deepseek_v2",
                           "/tiny/deepseek_v3"}) {
    LocalModel& model = SpeculationModels::Get(name);
    std::vector<api::GenerationRequest> requests;
    for (uint64_t i = 0; i < 12; ++i) {
      requests.push_back(DrawSpeculationRequest(900 + i, model.tokenizer().vocab_size()));
      requests.back().constraint = {};
      requests.back().ignore_end_of_text = true;
      requests.back().max_tokens = 40;
    }
    const auto plain = RunPlain(model, requests);
    RandomTickClock clock;
    EngineOptions options = Options(model, true, 4, 64);
    options.context_tokens = 128;
    const auto engine = Make(model, options, clock);
    ExpectAllSame(Run(*engine, requests), plain, name);
    const DraftSums sums = ExpectAllSame(Run(*engine, requests), plain, std::string(name) + " again");
    EXPECT_GT(sums.with_accepted, sums.choices / 3) << name;
    with_rejected += sums.with_rejected;
  }
  EXPECT_GT(with_rejected, 0);
}

TEST_F(EngineSpeculationTest, ARequestThatWantsNoDraftsHasNone) {
  auto requests = Requests(Llama(), 0, 20);
  const auto plain = RunPlain(Llama(), requests);
  for (size_t i = 0; i < requests.size(); i += 2) requests[i].speculate = false;
  RandomTickClock clock;
  const auto engine = Make(Llama(), Options(Llama(), true, 4, 64), clock);
  Run(*engine, requests);
  const auto seen = Run(*engine, requests);
  ExpectAllSame(seen, plain, "half of them");
  size_t at = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    for (int choice = 0; choice < requests[i].n_choices; ++choice, ++at) {
      if (i % 2 == 0) {
        EXPECT_EQ(seen[at].usage.draft_tokens, 0) << i;
      }
    }
  }
}

// A constraint's state is that of each position: what breaks the grammar is never drafted through.
TEST_F(EngineSpeculationTest, AConstrainedAnswerHoldsWhateverWasDrafted) {
  std::vector<api::GenerationRequest> requests;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    api::GenerationRequest request;
    request.has_tokens = true;
    request.tokens = {3, 4, 5};
    request.sampling.temperature = seed % 3 == 0 ? 0.0f : 1.2f;
    request.sampling.seed = seed % 8;
    request.constraint.kind = api::Constraint::Kind::kJsonSchema;
    request.constraint.schema = boost::json::parse(kFormSchema);
    // What is expected breaks the schema at several places.
    request.prediction = R"({"ok":true,"kind":"card","n":301,"list":["yes","maybe","no","no","no","no"]} and so on)";
    request.scope.tenant = "t";
    requests.push_back(request);
  }
  const auto plain = RunPlain(Llama(), requests);
  RandomTickClock clock;
  const auto engine = Make(Llama(), Options(Llama(), true, 4, 64), clock);
  DraftSums all;
  for (int round = 0; round < 3; ++round) {
    const auto seen = Run(*engine, requests);
    const DraftSums sums = ExpectAllSame(seen, plain, "round " + std::to_string(round));
    all.drafted += sums.drafted;
    all.accepted += sums.accepted;
    for (const SeenAnswer& answer : seen) {
      ASSERT_EQ(answer.finish, api::FinishReason::kStop) << answer.text;
      boost::system::error_code error;
      const auto value = boost::json::parse(answer.text, error);
      ASSERT_FALSE(error) << answer.text;
      EXPECT_EQ(value.as_object().size(), 4u);
      EXPECT_LE(value.as_object().at("n").as_int64(), 300);
      EXPECT_LE(value.as_object().at("list").as_array().size(), 5u);
    }
  }
  EXPECT_GT(all.accepted, 200);
  EXPECT_GT(all.drafted, all.accepted);
}

}  // namespace
}  // namespace surety::engine
