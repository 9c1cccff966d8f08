// The engine behind its thread: every request ends once, whoever leaves when; refusals come at once; draining ends.
#include "engine/local_backend.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "base/random.h"

namespace surety::engine {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

// Gathers the events of many requests.
class Gatherer {
 public:
  struct Answer {
    std::vector<int32_t> tokens;
    std::map<int, int> ends;   // by choice
    api::FinishReason finish = api::FinishReason::kNone;
  };

  api::EventSink Sink() {
    return [this](api::Event event) {
      const std::lock_guard lock(mutex_);
      Answer& answer = answers_[event.request];
      answer.tokens.insert(answer.tokens.end(), event.tokens.begin(), event.tokens.end());
      if (event.finish != api::FinishReason::kNone) {
        ++answer.ends[event.choice];
        answer.finish = event.finish;
        ++n_ends_;
      }
      changed_.notify_all();
    };
  }
  bool WaitForEnds(int n) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return n_ends_ >= n; });
  }
  bool WaitForToken(api::RequestId id) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return !answers_[id].tokens.empty(); });
  }
  std::map<api::RequestId, Answer> answers() {
    const std::lock_guard lock(mutex_);
    return answers_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<api::RequestId, Answer> answers_;
  int n_ends_ = 0;
};

class LocalBackendTest : public ::testing::Test {
 protected:
  static std::unique_ptr<api::Backend> Make(BackendOptions options) {
    const std::string path = std::string(SURETY_TESTDATA) + "/gguf/tiny-llama-q8_0.gguf";
    auto model = LocalModel::Open(FileSystem::Real(), {.path = path, .n_threads = 1},
                                  [](const model::LoadProgress&) { return true; });
    EXPECT_TRUE(model.has_value());
    options.name = "tiny";
    options.engine.context_tokens = 128;
    auto backend = MakeLocalBackend(*std::move(model), options, nullptr);
    EXPECT_TRUE(backend.has_value()) << (backend ? "" : backend.error().ToString());
    return *std::move(backend);
  }

  static api::GenerationRequest Request(uint64_t seed, int n_prompt, int max_tokens) {
    api::GenerationRequest request;
    request.has_tokens = true;
    for (int i = 0; i < n_prompt; ++i) {
      request.tokens.push_back(
          static_cast<int32_t>(RandomBits({seed, static_cast<uint64_t>(i), RandomPurpose::kTest}) % 256));
    }
    request.sampling.seed = seed;
    request.max_tokens = max_tokens;
    request.ignore_end_of_text = true;
    request.scope.tenant = "t";
    return request;
  }
};

TEST_F(LocalBackendTest, ManyThreadsSubmitAndCancelAndEachChoiceEndsOnce) {
  BackendOptions options;
  options.engine.max_sequences = 4;
  options.engine.kv_budget_bytes = 0;
  options.max_waiting = 100'000;
  options.max_queue_wait_ms = 0;
  Gatherer gatherer;
  std::mutex mutex;
  std::map<api::RequestId, int> submitted;
  int n_choices = 0;
  {
    const auto backend = Make(options);
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t i = 0; i < 60; ++i) {
          const uint64_t bits = RandomBits({t, i, RandomPurpose::kTest});
          auto request = Request(bits, static_cast<int>(1 + bits % 60), static_cast<int>(1 + (bits >> 8) % 12));
          request.n_choices = 1 + static_cast<int>((bits >> 16) % 3);
          const int n = request.n_choices;
          const auto id = backend->Submit(std::move(request), gatherer.Sink());
          ASSERT_TRUE(id.has_value()) << id.error().status.ToString();
          {
            const std::lock_guard lock(mutex);
            submitted[*id] = n;
            n_choices += n;
          }
          if ((bits >> 24) % 3 == 0) backend->Cancel(*id);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(gatherer.WaitForEnds(n_choices));
  }
  for (const auto& [id, answer] : gatherer.answers()) {
    ASSERT_EQ(answer.ends.size(), static_cast<size_t>(submitted[id]));
    for (const auto& [choice, n] : answer.ends) EXPECT_EQ(n, 1);
  }
  EXPECT_EQ(gatherer.answers().size(), submitted.size());
}

TEST_F(LocalBackendTest, TheSameRequestGetsTheSameTokensWhateverElseRuns) {
  BackendOptions options;
  options.engine.max_sequences = 8;
  Gatherer gatherer;  // outlives the backend
  const auto backend = Make(options);
  std::vector<api::RequestId> twins;
  for (uint64_t i = 0; i < 20; ++i) {
    const auto id = backend->Submit(Request(i % 4 == 0 ? 99 : i, 20, 20), gatherer.Sink());
    ASSERT_TRUE(id.has_value());
    if (i % 4 == 0) twins.push_back(*id);
  }
  ASSERT_TRUE(gatherer.WaitForEnds(20));
  const auto answers = gatherer.answers();
  for (const api::RequestId id : twins) EXPECT_EQ(answers.at(id).tokens, answers.at(twins[0]).tokens);
}

TEST_F(LocalBackendTest, AFullQueueRefusesAtOnceAndSaysWhenToComeBack) {
  BackendOptions options;
  options.max_waiting = 3;
  options.max_waiting_per_tenant = 2;
  Gatherer gatherer;  // outlives the backend
  const auto backend = Make(options);
  const auto first = backend->Submit(Request(1, 10, 110), gatherer.Sink());
  ASSERT_TRUE(first.has_value());
  ASSERT_TRUE(gatherer.WaitForToken(*first));
  std::vector<api::Refusal> refusals;
  const auto start = std::chrono::steady_clock::now();
  int accepted = 0;
  for (int i = 0; i < 6; ++i) {
    auto request = Request(2, 10, 100);
    request.scope.tenant = i < 4 ? "greedy" : "modest";
    const auto id = backend->Submit(std::move(request), gatherer.Sink());
    if (id) {
      ++accepted;
    } else {
      refusals.push_back(id.error());
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_GE(accepted, 3);
  ASSERT_GE(refusals.size(), 1u);
  for (const api::Refusal& refusal : refusals) {
    EXPECT_EQ(refusal.status.code(), StatusCode::kResourceExhausted);
    EXPECT_GE(refusal.retry_after_s, 0);
  }
}

TEST_F(LocalBackendTest, BadRequestsAreRefusedWithTheReason) {
  Gatherer gatherer;
  const auto backend = Make({});
  const auto code = [&](api::GenerationRequest request) {
    const auto id = backend->Submit(std::move(request), gatherer.Sink());
    return id ? StatusCode::kOk : id.error().status.code();
  };
  EXPECT_EQ(code({}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Request(1, 200, 4)), StatusCode::kOutOfRange);
  auto many = Request(1, 4, 4);
  many.n_choices = 2;  // one sequence at a time
  EXPECT_EQ(code(many), StatusCode::kInvalidArgument);
  EXPECT_EQ(backend->Detokenize(std::vector<int32_t>{1, -5}).error().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(backend->Embed(std::vector<std::string>{"a"}).error().code(), StatusCode::kUnimplemented);
}

TEST_F(LocalBackendTest, DrainingLetsRunningRequestsEndAndRefusesNewOnes) {
  Gatherer gatherer;
  const auto backend = Make({});
  const auto id = backend->Submit(Request(1, 10, 30), gatherer.Sink());
  ASSERT_TRUE(id.has_value());
  backend->Drain(60'000);
  EXPECT_EQ(gatherer.answers()[*id].finish, api::FinishReason::kLength);
  EXPECT_EQ(backend->health(), api::Health::kDraining);
  const auto late = backend->Submit(Request(1, 10, 30), gatherer.Sink());
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().status.code(), StatusCode::kUnavailable);
}

TEST_F(LocalBackendTest, DrainingWithoutPatienceCancelsWhatRuns) {
  Gatherer gatherer;
  const auto backend = Make({});
  std::vector<api::RequestId> ids;
  for (uint64_t i = 0; i < 5; ++i) ids.push_back(*backend->Submit(Request(i, 10, 110), gatherer.Sink()));
  backend->Drain(0);
  for (const api::RequestId id : ids) EXPECT_EQ(gatherer.answers()[id].ends[0], 1);
}

TEST_F(LocalBackendTest, ForgetReportsWhatItOverwrote) {
  Gatherer gatherer;
  const auto backend = Make({});
  ASSERT_TRUE(backend->Submit(Request(1, 64, 4), gatherer.Sink()).has_value());
  ASSERT_TRUE(gatherer.WaitForEnds(1));
  const auto receipt = backend->Forget(Request(1, 1, 1).scope, api::ForgetExtent::kScope);
  ASSERT_TRUE(receipt.has_value());
  EXPECT_EQ(receipt->pages, 4);
  EXPECT_EQ(backend->Forget(Request(1, 1, 1).scope, api::ForgetExtent::kScope)->pages, 0);
}

}  // namespace
}  // namespace surety::engine
