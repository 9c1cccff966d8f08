// The engine over a tiny real file: what a request gets does not depend on what else runs, and every request ends once.
#include "engine/engine.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "base/random.h"

namespace surety::engine {
namespace {

struct ChoiceOutcome {
  std::string text;
  std::vector<int32_t> tokens;
  int n_ends = 0;
  api::FinishReason finish = api::FinishReason::kNone;
  api::Usage usage;
};

class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = std::string(SURETY_TESTDATA) + "/gguf/tiny-llama-q8_0.gguf";
    auto model = LocalModel::Open(FileSystem::Real(), {.path = path, .n_threads = 2},
                                  [](const model::LoadProgress&) { return true; });
    ASSERT_TRUE(model.has_value()) << model.error().ToString();
    model_ = *std::move(model);
  }

  std::unique_ptr<Engine> MakeEngine(EngineOptions options) {
    auto engine = Engine::Make(*model_, options);
    EXPECT_TRUE(engine.has_value()) << (engine ? "" : engine.error().ToString());
    return engine ? *std::move(engine) : nullptr;
  }

  api::GenerationRequest Request(uint64_t seed, int n_prompt, int max_tokens, float temperature = 1.0f) {
    api::GenerationRequest request;
    request.has_tokens = true;
    for (int i = 0; i < n_prompt; ++i) {
      const uint64_t bits = RandomBits({seed, static_cast<uint64_t>(i), RandomPurpose::kTest});
      request.tokens.push_back(static_cast<int32_t>(bits % static_cast<uint64_t>(model_->config().vocab_size)));
    }
    request.sampling.temperature = temperature;
    request.sampling.seed = seed;
    request.max_tokens = max_tokens;
    request.ignore_end_of_text = true;
    return request;
  }

  static void Collect(const std::vector<api::Event>& events, std::map<api::RequestId, ChoiceOutcome>& outcomes) {
    for (const api::Event& event : events) {
      ChoiceOutcome& outcome = outcomes[event.request];
      outcome.text += event.text;
      outcome.tokens.insert(outcome.tokens.end(), event.tokens.begin(), event.tokens.end());
      if (event.finish == api::FinishReason::kNone) continue;
      ++outcome.n_ends;
      outcome.finish = event.finish;
      outcome.usage = event.usage;
    }
  }

  static std::map<api::RequestId, ChoiceOutcome> RunAll(Engine& engine) {
    std::map<api::RequestId, ChoiceOutcome> outcomes;
    for (int step = 0; !engine.idle() && step < 100'000; ++step) {
      std::vector<api::Event> events;
      EXPECT_TRUE(engine.Step(events).ok());
      Collect(events, outcomes);
    }
    EXPECT_TRUE(engine.idle());
    return outcomes;
  }

  ChoiceOutcome RunAlone(const api::GenerationRequest& request, EngineOptions options) {
    const auto engine = MakeEngine(options);
    const auto id = engine->Submit(request);
    EXPECT_TRUE(id.has_value()) << (id ? "" : id.error().ToString());
    return RunAll(*engine)[*id];
  }

  std::unique_ptr<LocalModel> model_;
};

TEST_F(EngineTest, ARequestGetsTheSameTokensAloneAndInAnyCompany) {
  std::vector<api::GenerationRequest> requests;
  std::vector<ChoiceOutcome> alone;
  for (uint64_t seed = 1; seed <= 9; ++seed) {
    requests.push_back(Request(seed, static_cast<int>(3 + 7 * seed), 20, seed % 2 == 0 ? 0.0f : 0.9f));
    alone.push_back(RunAlone(requests.back(), {.context_tokens = 128, .max_rows = 512}));
    EXPECT_EQ(alone.back().tokens.size(), 20u);
  }
  // Four at a time, chunks of at most eleven rows, pages for six contexts.
  const EngineOptions options = {.context_tokens = 128, .kv_budget_bytes = 0, .max_sequences = 4, .max_rows = 11};
  const auto engine = MakeEngine(options);
  std::map<api::RequestId, size_t> which;
  for (size_t i = 0; i < requests.size(); ++i) which[*engine->Submit(requests[i])] = i;
  const auto outcomes = RunAll(*engine);
  ASSERT_EQ(outcomes.size(), requests.size());
  for (const auto& [id, outcome] : outcomes) {
    EXPECT_EQ(outcome.tokens, alone[which[id]].tokens) << "request " << which[id];
    EXPECT_EQ(outcome.text, alone[which[id]].text);
    EXPECT_EQ(outcome.n_ends, 1);
  }
  EXPECT_EQ(engine->pages().n_used(), 0);
}

TEST_F(EngineTest, AConversationReusesItsKvAndSaysTheSameAsACold) {
  const EngineOptions options = {.context_tokens = 256};
  const auto engine = MakeEngine(options);
  api::GenerationRequest first = Request(5, 40, 12, 0.0f);
  const auto id = *engine->Submit(first, 7);
  const ChoiceOutcome turn1 = RunAll(*engine)[id];
  EXPECT_EQ(turn1.usage.cached_tokens, 0);
  api::GenerationRequest second = first;
  second.tokens.insert(second.tokens.end(), turn1.tokens.begin(), turn1.tokens.end());
  const auto tail = Request(6, 9, 0).tokens;
  second.tokens.insert(second.tokens.end(), tail.begin(), tail.end());
  const auto id2 = *engine->Submit(second, 7);
  const ChoiceOutcome turn2 = RunAll(*engine)[id2];
  // All but the last sampled token had its KV computed.
  EXPECT_EQ(turn2.usage.cached_tokens, 40 + 12 - 1);
  const ChoiceOutcome cold = RunAlone(second, options);
  EXPECT_EQ(turn2.tokens, cold.tokens);
  EXPECT_EQ(cold.usage.cached_tokens, 0);

  // A changed history is reused up to the change only; another conversation sees nothing.
  api::GenerationRequest edited = second;
  edited.tokens[20] = (edited.tokens[20] + 1) % model_->config().vocab_size;
  const auto id3 = *engine->Submit(edited, 7);
  const ChoiceOutcome turn3 = RunAll(*engine)[id3];
  EXPECT_EQ(turn3.usage.cached_tokens, 20);
  EXPECT_EQ(turn3.tokens, RunAlone(edited, options).tokens);
  const auto id4 = *engine->Submit(edited, 8);
  EXPECT_EQ(RunAll(*engine)[id4].usage.cached_tokens, 0);
  engine->Forget(7);
  engine->Forget(8);
  EXPECT_EQ(engine->pages().n_used(), 0);
}

TEST_F(EngineTest, CancelledRequestsEndOnceAndGiveTheirPagesBack) {
  const auto engine = MakeEngine({.context_tokens = 128, .max_sequences = 3, .max_rows = 16});
  std::map<api::RequestId, ChoiceOutcome> outcomes;
  std::set<api::RequestId> ids;
  uint64_t draw = 0;
  for (int round = 0; round < 400; ++round) {
    const uint64_t bits = RandomBits({3, draw++, RandomPurpose::kTest});
    if (bits % 3 == 0) {
      ids.insert(*engine->Submit(Request(draw, static_cast<int>(1 + (bits >> 8) % 60),
                                         static_cast<int>(1 + (bits >> 16) % 20)),
                                 (bits >> 32) % 4));
    }
    if (bits % 5 == 0 && !ids.empty()) {
      auto it = ids.begin();
      std::advance(it, (bits >> 24) % ids.size());
      engine->Cancel(*it);
      engine->Cancel(*it);  // twice does no harm, nor after the end
    }
    std::vector<api::Event> events;
    ASSERT_TRUE(engine->Step(events).ok());
    Collect(events, outcomes);
  }
  for (const auto& [id, outcome] : RunAll(*engine)) {
    outcomes[id].n_ends += outcome.n_ends;
  }
  for (api::RequestId id : ids) EXPECT_EQ(outcomes[id].n_ends, 1) << id;
  for (uint64_t conversation = 1; conversation < 4; ++conversation) engine->Forget(conversation);
  EXPECT_EQ(engine->pages().n_used(), 0);
}

TEST_F(EngineTest, StopStringsEndTheAnswerAndAreNotPartOfIt) {
  const EngineOptions options = {.context_tokens = 128};
  const ChoiceOutcome whole = RunAlone(Request(2, 10, 40, 0.8f), options);
  ASSERT_GT(whole.text.size(), 12u);
  const std::string stop = whole.text.substr(5, 3);
  api::GenerationRequest request = Request(2, 10, 40, 0.8f);
  request.stop = {stop};
  const ChoiceOutcome stopped = RunAlone(request, options);
  EXPECT_EQ(stopped.finish, api::FinishReason::kStop);
  EXPECT_EQ(stopped.text, whole.text.substr(0, whole.text.find(stop)));
}

TEST_F(EngineTest, RefusesWhatItCannotDoWithTheReason) {
  const auto engine = MakeEngine({.context_tokens = 64});
  const auto code = [&](const api::GenerationRequest& request) {
    const auto id = engine->Submit(request);
    return id ? StatusCode::kOk : id.error().code();
  };
  EXPECT_EQ(code(Request(1, 64, 4)), StatusCode::kOutOfRange);
  EXPECT_EQ(code(Request(1, 63, 4)), StatusCode::kOk);
  EXPECT_EQ(code(Request(1, 4, 0)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Request(1, 0, 4)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({}), StatusCode::kInvalidArgument);
  api::GenerationRequest bad_id = Request(1, 4, 4);
  bad_id.tokens[2] = model_->config().vocab_size;
  EXPECT_EQ(code(bad_id), StatusCode::kInvalidArgument);
  bad_id.tokens[2] = -1;
  EXPECT_EQ(code(bad_id), StatusCode::kInvalidArgument);
  api::GenerationRequest hot = Request(1, 4, 4);
  hot.sampling.temperature = -1;
  EXPECT_EQ(code(hot), StatusCode::kInvalidArgument);
  EXPECT_EQ(Engine::Make(*model_, {.context_tokens = 128, .kv_budget_bytes = 1}).error().code(),
            StatusCode::kResourceExhausted);
  const auto beyond_memory = Engine::Make(*model_, {.context_tokens = 128, .kv_budget_bytes = int64_t{1} << 44});
  ASSERT_FALSE(beyond_memory.has_value());
  EXPECT_EQ(beyond_memory.error().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Engine::Make(*model_, {.page_tokens = 20}).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Engine::Make(*model_, {.max_sequences = 8, .max_rows = 4}).error().code(), StatusCode::kInvalidArgument);
}

TEST_F(EngineTest, TextThatIsNotUtf8IsRefusedWithItsPlace) {
  const auto engine = MakeEngine({.context_tokens = 64});
  api::GenerationRequest request;
  request.has_prompt = true;
  request.prompt = "ab\xff";
  const auto refused = engine->Submit(request);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.error().message().find("byte 2"), std::string::npos) << refused.error().message();
}

// A folder with the tiny Llama's weights (256 embedding rows) and a tokenizer of 100 tokens.
class PaddedModelTest : public ::testing::Test {
 protected:
  PaddedModelTest() : folder_(std::filesystem::temp_directory_path() / ("surety-padded-" + std::to_string(getpid()))) {
    namespace fs = std::filesystem;
    fs::create_directories(folder_);
    for (const char* name : {"config.json", "model.safetensors"}) {
      fs::copy_file(fs::path(SURETY_TESTDATA) / "tiny/llama" / name, folder_ / name);
    }
    boost::json::object vocabulary;
    for (int i = 0; i < 100; ++i) {
      vocabulary[i < 26 ? std::string(1, static_cast<char>('A' + i)) : "token" + std::to_string(i)] = i;
    }
    std::ofstream(folder_ / "tokenizer.json") << boost::json::object{
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", boost::json::array()}}},
        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
        {"decoder", {{"type", "ByteLevel"}}}};
  }
  ~PaddedModelTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<LocalModel> Open() {
    auto model = LocalModel::Open(FileSystem::Real(), {.path = folder_.string(), .n_threads = 1},
                                  [](const model::LoadProgress&) { return true; });
    EXPECT_TRUE(model.has_value()) << (model ? "" : model.error().ToString());
    return model ? *std::move(model) : nullptr;
  }

  std::filesystem::path folder_;
};

TEST_F(PaddedModelTest, RowsBeyondTheVocabularyAreNeverSampled) {
  const auto model = Open();
  ASSERT_NE(model, nullptr);
  ASSERT_LT(model->tokenizer().vocab_size(), model->config().vocab_size);
  auto engine = *Engine::Make(*model, {.context_tokens = 128});
  api::GenerationRequest request;
  request.has_tokens = true;
  request.tokens = {1, 2, 3};
  request.max_tokens = 100;
  request.sampling.temperature = 100;  // every token is about as likely
  request.n_logprobs = 5;
  ASSERT_TRUE(engine->Submit(request).has_value());
  std::vector<api::Event> events;
  while (!engine->idle()) ASSERT_TRUE(engine->Step(events).ok());
  int n_tokens = 0;
  for (const api::Event& event : events) {
    for (const int32_t token : event.tokens) EXPECT_LT(token, model->tokenizer().vocab_size());
    n_tokens += static_cast<int>(event.tokens.size());
  }
  EXPECT_EQ(n_tokens, 100);
  request.sampling.logit_bias = {{model->tokenizer().vocab_size(), 1.0f}};
  EXPECT_EQ(engine->Submit(request).error().code(), StatusCode::kInvalidArgument);
  request.sampling.logit_bias.clear();
  request.tokens[1] = model->tokenizer().vocab_size();
  EXPECT_EQ(engine->Submit(request).error().code(), StatusCode::kInvalidArgument);
}

TEST_F(PaddedModelTest, LogitsThatAreNoNumbersFailTheRequest) {
  // NaN into the final norm: the tensor's place is in the header, whose length the first 8 bytes give.
  std::fstream file(folder_ / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  uint64_t header_bytes = 0;
  file.read(reinterpret_cast<char*>(&header_bytes), 8);
  std::string header(header_bytes, ' ');
  file.read(header.data(), static_cast<std::streamsize>(header_bytes));
  const auto entry = boost::json::parse(header).as_object().at("model.norm.weight").as_object();
  const auto offset = entry.at("data_offsets").as_array()[0].to_number<uint64_t>();
  file.seekp(static_cast<std::streamoff>(8 + header_bytes + offset));
  const float nan = NAN;
  file.write(reinterpret_cast<const char*>(&nan), 4);
  file.close();
  const auto model = Open();
  ASSERT_NE(model, nullptr);
  auto engine = *Engine::Make(*model, {.context_tokens = 128});
  api::GenerationRequest request;
  request.has_tokens = true;
  request.tokens = {1, 2, 3};
  ASSERT_TRUE(engine->Submit(request).has_value());
  std::vector<api::Event> events;
  while (!engine->idle()) ASSERT_TRUE(engine->Step(events).ok());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].finish, api::FinishReason::kError);
  EXPECT_EQ(events[0].error.code(), StatusCode::kDataLoss);
  EXPECT_TRUE(events[0].tokens.empty());
  EXPECT_EQ(engine->pages().n_used(), 0);
}

TEST_F(EngineTest, LogprobsDescribeTheRawDistribution) {
  api::GenerationRequest request = Request(4, 12, 6, 0.0f);
  request.n_logprobs = 3;
  const auto engine = MakeEngine({.context_tokens = 64});
  ASSERT_TRUE(engine->Submit(request).has_value());
  int n = 0;
  while (!engine->idle()) {
    std::vector<api::Event> events;
    ASSERT_TRUE(engine->Step(events).ok());
    for (const auto& event : events) {
      ASSERT_EQ(event.logprobs.size(), event.tokens.size());
      for (const auto& record : event.logprobs) {
        ASSERT_EQ(record.top.size(), 3u);
        EXPECT_LE(record.logprob, 0.0f);
        EXPECT_GE(record.top[0].second, record.top[2].second);
        ++n;
      }
    }
  }
  EXPECT_EQ(n, 6);
}

// Symptom (by reading): log-probabilities of a prompt were worked out before anything had looked whether its logits are
// numbers, and looking for the largest of none ended the process.
TEST_F(EngineTest, LogitsThatAreNoNumbersEndARequestWithAnError) {
  const auto folder = std::filesystem::temp_directory_path() / ("surety-damaged-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::filesystem::path path = folder / "damaged.gguf";
  std::filesystem::copy_file(std::string(SURETY_TESTDATA) + "/gguf/tiny-llama-q8_0.gguf", path,
                             std::filesystem::copy_options::overwrite_existing);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-4096, std::ios::end);
    file << std::string(4096, '\xFF');  // the scales among them are NaN
  }
  auto model = LocalModel::Open(FileSystem::Real(), {.path = path, .n_threads = 2},
                                [](const model::LoadProgress&) { return true; });
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(model.has_value()) << model.error().ToString();
  for (const int n_prompt_logprobs : {-1, 0, 3}) {
    auto engine = Engine::Make(**model, {.max_prompt_logprob_rows = 8});
    ASSERT_TRUE(engine.has_value());
    api::GenerationRequest request = Request(1, 40, 5);
    request.n_prompt_logprobs = n_prompt_logprobs;
    ASSERT_TRUE((*engine)->Submit(request).has_value());
    int n_ends = 0;
    for (int step = 0; !(*engine)->idle() && step < 100; ++step) {
      std::vector<api::Event> events;
      ASSERT_TRUE((*engine)->Step(events).ok());
      for (const api::Event& event : events) {
        if (event.finish == api::FinishReason::kNone) continue;
        ++n_ends;
        EXPECT_EQ(event.error.code(), StatusCode::kDataLoss);
        EXPECT_NE(event.error.message().find("not all finite"), std::string::npos) << event.error.ToString();
      }
    }
    EXPECT_EQ(n_ends, 1);
  }
}

}  // namespace
}  // namespace surety::engine
