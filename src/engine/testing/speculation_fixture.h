// What tests of speculation share: a clock whose steps take random times, requests of all kinds, engines that speculate
// and such that do not, and the comparison of all that a caller sees.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "base/check.h"
#include "base/random.h"
#include "engine/engine.h"
#include "engine/scheduler.h"

namespace surety::engine::testing {

class RandomTickClock final : public Clock {
 public:
  explicit RandomTickClock(int64_t most_ns = 3000) : most_ns_(most_ns) {}
  int64_t NowNanos() const override {
    const uint64_t bits = RandomBits({9, n_++, RandomPurpose::kTest});
    return now_ += 1000 + static_cast<int64_t>(bits % static_cast<uint64_t>(most_ns_));
  }
  int64_t WallNanos() const override { return now_; }
  void SleepNanos(int64_t nanos) override { now_ += nanos; }

 private:
  int64_t most_ns_;
  mutable uint64_t n_ = 0;
  mutable int64_t now_ = 1'000'000'000;
};

// All that a caller sees of a choice but for times and what was cached.
struct SeenAnswer {
  std::string text, stop_text;
  std::vector<int32_t> tokens;
  std::vector<api::TokenLogprob> logprobs, prompt_logprobs;
  api::FinishReason finish = api::FinishReason::kNone;
  StatusCode error = StatusCode::kOk;
  int n_ends = 0;
  api::Usage usage;
};

inline void ExpectSameLogprobs(const std::vector<api::TokenLogprob>& a, const std::vector<api::TokenLogprob>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].token, b[i].token) << i;
    EXPECT_EQ(a[i].logprob, b[i].logprob) << i;  // the same bits: none is a NaN
    EXPECT_EQ(a[i].top, b[i].top) << i;
  }
}

inline void ExpectSameAnswer(const SeenAnswer& seen, const SeenAnswer& plain) {
  EXPECT_EQ(seen.tokens, plain.tokens);
  EXPECT_EQ(seen.text, plain.text);
  EXPECT_EQ(seen.stop_text, plain.stop_text);
  EXPECT_EQ(seen.finish, plain.finish);
  EXPECT_EQ(seen.error, plain.error);
  EXPECT_EQ(seen.n_ends, 1);
  EXPECT_EQ(seen.usage.output_tokens, plain.usage.output_tokens);
  ExpectSameLogprobs(seen.logprobs, plain.logprobs);
  ExpectSameLogprobs(seen.prompt_logprobs, plain.prompt_logprobs);
}

// What drafts came to, over choices.
struct DraftSums {
  int choices = 0, with_drafts = 0, with_accepted = 0, with_rejected = 0;
  int64_t drafted = 0, accepted = 0;
  void Add(const api::Usage& usage) {
    ++choices;
    with_drafts += usage.draft_tokens > 0 ? 1 : 0;
    with_accepted += usage.accepted_tokens > 0 ? 1 : 0;
    with_rejected += usage.accepted_tokens < usage.draft_tokens ? 1 : 0;
    drafted += usage.draft_tokens;
    accepted += usage.accepted_tokens;
  }
};

inline constexpr const char* kFormSchema = R"({"type":"object","properties":{"ok":{"type":"boolean"},
    "kind":{"enum":["card","loan","other"]},"n":{"type":"integer","minimum":-20,"maximum":300},
    "list":{"type":"array","items":{"enum":["yes","no"]},"minItems":2,"maxItems":5}},
    "required":["ok","kind","n","list"],"additionalProperties":false})";

// A folder with a tiny model's files and, since those have none, a tokenizer of as many tokens as it has embeddings.
class TinyFolder {
 public:
  explicit TinyFolder(const std::string& name) {
    namespace fs = std::filesystem;
    static int n_made = 0;
    path_ = fs::temp_directory_path() / ("surety-tiny-" + std::to_string(getpid()) + "-" + std::to_string(n_made++));
    fs::create_directories(path_);
    for (const auto& entry : fs::directory_iterator(std::string(SURETY_TESTDATA) + name)) {
      fs::create_symlink(fs::absolute(entry.path()), path_ / entry.path().filename());
    }
    boost::json::object vocabulary;
    for (int i = 0; i < 256; ++i) {
      vocabulary[i < 26 ? std::string(1, static_cast<char>('A' + i)) : "token" + std::to_string(i)] = i;
    }
    std::ofstream(path_ / "tokenizer.json") << boost::json::object{
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", boost::json::array()}}},
        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
        {"decoder", {{"type", "ByteLevel"}}}};
  }
  ~TinyFolder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

class SpeculationModels {
 public:
  // A GGUF file of testdata, or a folder of testdata/tiny.
  static LocalModel& Get(const std::string& name) {
    static std::map<std::string, std::unique_ptr<LocalModel>> models;
    std::unique_ptr<LocalModel>& model = models[name];
    if (model == nullptr) {
      std::optional<TinyFolder> folder;
      if (!name.ends_with(".gguf")) folder.emplace(name);
      const std::string path = folder ? folder->path() : std::string(SURETY_TESTDATA) + name;
      auto opened = LocalModel::Open(FileSystem::Real(), {.path = path, .n_threads = 2},
                                     [](const model::LoadProgress&) { return true; });
      SURETY_CHECK_MSG(opened.has_value(), opened ? "" : opened.error().ToString().c_str());
      model = *std::move(opened);
    }
    return *model;
  }
};

class RequestDraws {
 public:
  explicit RequestDraws(uint64_t seed) : seed_(seed) {}
  int Below(int n) {
    return static_cast<int>(RandomBits({seed_, n_++, RandomPurpose::kTest}) % static_cast<uint64_t>(n));
  }
  bool Percent(int percent) { return Below(100) < percent; }

 private:
  uint64_t seed_, n_ = 0;
};

inline void DrawSpeculationSampling(RequestDraws& draws, int vocabulary, api::SamplingParams& sampling) {
  sampling.seed = static_cast<uint64_t>(draws.Below(1'000'000));
  constexpr float kTemperatures[] = {0.0f, 0.0f, 0.2f, 0.7f, 1.0f, 1.5f};
  sampling.temperature = kTemperatures[draws.Below(6)];
  if (draws.Percent(30)) sampling.top_k = 1 + draws.Below(20);
  if (draws.Percent(25)) sampling.top_p = 0.3f + 0.1f * static_cast<float>(draws.Below(7));
  if (draws.Percent(15)) sampling.min_p = 0.05f;
  if (draws.Percent(10)) sampling.typical_p = 0.8f;
  if (draws.Percent(20)) sampling.repetition_penalty = 1.1f;
  if (draws.Percent(15)) sampling.frequency_penalty = 0.2f;
  if (draws.Percent(15)) sampling.presence_penalty = -0.3f;
  if (draws.Percent(10)) sampling.repetition_window = draws.Below(20);
  if (draws.Percent(15)) sampling.min_tokens = draws.Below(40);
  for (int i = draws.Percent(25) ? 4 : 0; i > 0; --i) {
    sampling.logit_bias.emplace_back(3 + draws.Below(vocabulary - 3), static_cast<float>(draws.Below(9) - 3));
  }
}

// Prompts of noise, of repetitions, and of both.
inline std::vector<int32_t> DrawSpeculationPrompt(RequestDraws& draws, int vocabulary) {
  std::vector<int32_t> motif, prompt;
  for (int n = 1 + draws.Below(12); n > 0; --n) motif.push_back(3 + draws.Below(vocabulary - 3));
  for (int n = draws.Below(20); n > 0; --n) prompt.push_back(3 + draws.Below(vocabulary - 3));
  for (int n = draws.Below(5); n > 0; --n) prompt.insert(prompt.end(), motif.begin(), motif.end());
  if (prompt.empty()) prompt = motif;
  return prompt;
}

inline api::GenerationRequest DrawSpeculationRequest(uint64_t seed, int vocabulary) {
  RequestDraws draws(1000 + seed);
  api::GenerationRequest request;
  request.has_tokens = true;
  request.tokens = DrawSpeculationPrompt(draws, vocabulary);
  request.max_tokens = 8 + draws.Below(56);
  DrawSpeculationSampling(draws, vocabulary, request.sampling);
  const int shape = draws.Below(8);
  if (shape == 0) {
    request.constraint.kind = api::Constraint::Kind::kJsonSchema;
    request.constraint.schema = boost::json::parse(kFormSchema);
    request.max_tokens = 100;
  } else if (shape == 1) {
    request.constraint.kind = api::Constraint::Kind::kGrammar;
    request.constraint.grammar = "root ::= (\"approve \" | \"decline \"){3,8} \"end\"";
  } else {
    request.ignore_end_of_text = draws.Percent(60);
  }
  if (draws.Percent(25)) request.n_logprobs = draws.Below(4);
  if (draws.Percent(10)) request.n_prompt_logprobs = draws.Below(3);
  if (draws.Percent(20)) request.stop_tokens.push_back(draws.Below(vocabulary));
  if (draws.Percent(25)) request.n_choices = 2 + draws.Below(3);
  request.scope.tenant = "t";
  return request;
}

class SpeculationFixture : public ::testing::Test {
 protected:
  using Choice = std::pair<api::RequestId, int>;

  static LocalModel& Llama() { return SpeculationModels::Get("/gguf/tiny-llama-q8_0.gguf"); }

  static EngineOptions Options(LocalModel& model, bool speculates, int places, int n_pages) {
    EngineOptions options;
    options.context_tokens = 256;
    options.max_sequences = places;
    options.kv_budget_bytes = n_pages * model.config().KvLayoutFor(KvType::kF16, 16).PageStrideBytes();
    if (!speculates) options.speculation.max_draft_tokens = 0;
    return options;
  }

  static std::unique_ptr<Engine> Make(LocalModel& model, const EngineOptions& options, Clock& clock) {
    auto engine = Engine::Make(model, options, clock);
    EXPECT_TRUE(engine.has_value()) << (engine ? "" : engine.error().ToString());
    return engine ? *std::move(engine) : nullptr;
  }

  static void Collect(const std::vector<api::Event>& events, std::map<Choice, SeenAnswer>& answers) {
    for (const api::Event& event : events) {
      SeenAnswer& answer = answers[{event.request, event.choice}];
      EXPECT_EQ(answer.n_ends, 0) << "an event after the end";
      EXPECT_LE(event.tokens.size(), 1u) << "tokens of a draft come one by one";
      answer.text += event.text;
      answer.tokens.insert(answer.tokens.end(), event.tokens.begin(), event.tokens.end());
      answer.logprobs.insert(answer.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
      answer.prompt_logprobs.insert(answer.prompt_logprobs.end(), event.prompt_logprobs.begin(),
                                    event.prompt_logprobs.end());
      if (event.finish == api::FinishReason::kNone) continue;
      ++answer.n_ends;
      answer.finish = event.finish;
      answer.stop_text = event.stop_text;
      answer.error = event.error.code();
      answer.usage = event.usage;
    }
  }

  // The answers of all choices, in the order of requests and choices.
  static std::vector<SeenAnswer> Run(Engine& engine, const std::vector<api::GenerationRequest>& requests) {
    std::map<Choice, SeenAnswer> answers;
    for (const api::GenerationRequest& request : requests) {
      const auto id = engine.Submit(request);
      EXPECT_TRUE(id.has_value()) << (id ? "" : id.error().ToString());
    }
    for (int step = 0; !engine.idle() && step < 100'000; ++step) {
      std::vector<api::Event> events;
      EXPECT_TRUE(engine.Step(events).ok());
      Collect(events, answers);
    }
    EXPECT_TRUE(engine.idle());
    EXPECT_TRUE(engine.cache().Audit().ok()) << engine.cache().Audit().ToString();
    EXPECT_EQ(engine.pages().n_used(), engine.cache().n_pages());
    std::vector<SeenAnswer> result;
    for (auto& [choice, answer] : answers) result.push_back(std::move(answer));
    return result;
  }

  // What each request gets alone, in an engine of its own that does not speculate.
  static std::vector<SeenAnswer> RunPlain(LocalModel& model, const std::vector<api::GenerationRequest>& requests) {
    std::vector<SeenAnswer> result;
    for (const api::GenerationRequest& request : requests) {
      RandomTickClock clock;
      const auto engine = Make(model, Options(model, false, 4, 64), clock);
      for (SeenAnswer& answer : Run(*engine, {request})) {
        EXPECT_EQ(answer.usage.draft_tokens, 0);
        result.push_back(std::move(answer));
      }
    }
    return result;
  }

  static DraftSums ExpectAllSame(const std::vector<SeenAnswer>& seen, const std::vector<SeenAnswer>& plain,
                                 const std::string& what) {
    DraftSums sums;
    EXPECT_EQ(seen.size(), plain.size()) << what;
    for (size_t i = 0; i < std::min(seen.size(), plain.size()); ++i) {
      SCOPED_TRACE(what + ", choice " + std::to_string(i));
      ExpectSameAnswer(seen[i], plain[i]);
      sums.Add(seen[i].usage);
    }
    return sums;
  }

  // Requests that stop at a text of their plain answers, where those are long enough.
  static void AddStopTexts(LocalModel& model, std::vector<api::GenerationRequest>& requests) {
    for (size_t i = 0; i < requests.size(); i += 3) {
      const std::string text = RunPlain(model, {requests[i]})[0].text;
      if (text.size() < 12) continue;
      size_t begin = text.size() / 2, end = begin + 3;
      while (begin > 0 && (text[begin] & 0xC0) == 0x80) --begin;  // whole characters
      while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
      requests[i].stop = {"never said", text.substr(begin, end - begin)};
    }
  }

  static std::vector<api::GenerationRequest> Requests(LocalModel& model, uint64_t first, int n) {
    std::vector<api::GenerationRequest> requests;
    for (int i = 0; i < n; ++i) {
      requests.push_back(DrawSpeculationRequest(first + static_cast<uint64_t>(i), model.tokenizer().vocab_size()));
    }
    AddStopTexts(model, requests);
    return requests;
  }
};

}  // namespace surety::engine::testing
