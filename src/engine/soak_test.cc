// Random requests for a long time, through the backend and its threads, with callers who leave at any moment, scopes
// that are forgotten meanwhile, and far too few pages: nothing leaks, every choice ends exactly once, sums balance.
//
// SURETY_SOAK_REQUESTS says how many requests (make soak: 600,000), SURETY_SOAK_SEED which ones.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <queue>
#include <thread>

#include <gtest/gtest.h>

#include "base/memory_info.h"
#include "engine/local_backend.h"
#include "engine/testing/soak_requests.h"

namespace surety::engine {
namespace {

using testing::SoakCancel;
using testing::SoakRequest;

constexpr int kSoakSubmitters = 2;
constexpr auto kSoakPatience = std::chrono::seconds(60);
// The resident set of the second half, over the most that the first half had: the allocator's own unevenness.
constexpr int64_t kSoakGrowthBytes = 4 << 20;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSoakMeasuresMemory = false;  // freed memory is kept aside there
constexpr uint64_t kShortSoakRequests = 500;
#else
constexpr bool kSoakMeasuresMemory = true;
constexpr uint64_t kShortSoakRequests = 1500;
#endif

uint64_t SoakNumber(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// One request as it went. The submitter writes before Submit, the engine thread afterwards.
struct SoakRecord {
  uint8_t n_choices = 0;       // 0: refused
  uint8_t ends[4] = {};
  uint8_t n_events = 0;
  int8_t known = -1;
  bool lonely = false, left = false, has_time_limit = false;
  SoakCancel cancel = SoakCancel::kNever;
  uint8_t event = 0;
  uint64_t answers[4] = {};    // digest of tokens, text and the way it ended
};

uint64_t MixDigest(uint64_t digest, uint64_t value) {
  return (digest ^ value) * 0x9E3779B97F4A7C15ull + (digest >> 29);
}

uint64_t DigestOfEvent(uint64_t digest, const api::Event& event) {
  for (const api::TokenId token : event.tokens) digest = MixDigest(digest, static_cast<uint64_t>(token) + 1);
  for (const char c : event.text) digest = MixDigest(digest, static_cast<unsigned char>(c) + 0x10000u);
  for (const auto& call : event.tool_calls) {
    const std::string text = call.name + call.arguments;
    for (const char c : text) digest = MixDigest(digest, static_cast<unsigned char>(c) + 0x20000u);
  }
  return event.finish == api::FinishReason::kNone ? digest : MixDigest(digest, static_cast<uint64_t>(event.finish));
}

struct SoakSetting {
  const char* name;
  int pages, host_pages, disk_pages;
  bool zero;             // whatever is released is overwritten, and expires
  int64_t max_wait_ms;
};

void PrintTo(const SoakSetting& setting, std::ostream* out) { *out << setting.name; }

class SoakTest : public ::testing::TestWithParam<SoakSetting> {
 protected:
  SoakTest()
      : seed_(SoakNumber("SURETY_SOAK_SEED", 1)), n_requests_(SoakNumber("SURETY_SOAK_REQUESTS", kShortSoakRequests)),
        records_(n_requests_), model_path_(::testing::TempDir() + "soak-" + GetParam().name + ".gguf") {
    const std::string plain = std::string(SURETY_TESTDATA) + "/gguf/tiny-llama-q8_0.gguf";
    EXPECT_TRUE(testing::WriteModelWithTools(plain, model_path_).ok());
    vocabulary_.has_tools = true;
  }
  ~SoakTest() override { std::remove(model_path_.c_str()); }

  std::unique_ptr<api::Backend> MakeSoakBackend(const SoakSetting& setting, observe::Registry* metrics) {
    auto model = LocalModel::Open(FileSystem::Real(), {.path = model_path_, .n_threads = 1},
                                  [](const model::LoadProgress&) { return true; });
    EXPECT_TRUE(model.has_value());
    if (!model) return nullptr;
    const int64_t page_bytes = (*model)->config().KvLayoutFor(KvType::kF16, 16).PageStrideBytes();
    EXPECT_EQ(vocabulary_.size, (*model)->tokenizer().vocab_size());
    BackendOptions options;
    options.name = "tiny";
    options.max_waiting = 40;
    options.max_waiting_per_tenant = 20;
    options.max_queue_wait_ms = setting.max_wait_ms;
    options.tenant_weights = {{"a", 2.0}};
    EngineOptions& e = options.engine;
    e.context_tokens = testing::kSoakContext;
    e.max_sequences = testing::kSoakPlaces;
    e.max_rows = 24;
    e.max_prompt_logprob_rows = 8;
    e.kv_budget_bytes = setting.pages * page_bytes;
    e.host_cache_bytes = setting.host_pages * page_bytes;
    if (setting.disk_pages > 0) e.disk_cache_folder = ::testing::TempDir();
    e.disk_cache_bytes = setting.disk_pages * page_bytes;
    e.cache_policy.zero_on_release = setting.zero;
    e.cache_policy.ttl_ns = setting.zero ? 400'000'000 : 0;
    auto backend = MakeLocalBackend(*std::move(model), options, metrics);
    EXPECT_TRUE(backend.has_value()) << (backend ? "" : backend.error().ToString());
    return backend ? *std::move(backend) : nullptr;
  }

  void ComputeKnownAnswers();
  api::EventSink SinkOf(uint64_t index);
  void SubmitSome();
  void CancelLater(api::RequestId id, int micros);
  void RunCancels();
  void Disturb();
  bool Watch();
  void CheckRecords();
  void CheckState();
  void CheckSums(const observe::Registry& metrics);
  void Sample(double done);

  const uint64_t seed_, n_requests_;
  std::vector<SoakRecord> records_;
  const std::string model_path_;
  testing::SoakVocabulary vocabulary_;
  uint64_t known_[testing::kSoakKnown][4] = {};
  std::unique_ptr<api::Backend> backend_;

  std::atomic<uint64_t> next_{0}, n_ended_{0}, n_accepted_{0}, n_refused_{0}, n_choices_{0}, n_faults_{0};
  std::atomic<int64_t> n_open_{0};
  std::atomic<bool> over_{false};
  // Written by the engine thread, read when it is gone.
  int64_t n_calls_ = 0, n_late_ = 0;   // pieces of tool calls, choices that a time limit ended
  int64_t tokens_seen_ = 0, output_tokens_ = 0, cached_tokens_ = 0, complete_prompt_tokens_ = 0, prompt_tokens_ = 0;
  std::atomic<uint64_t> n_first_come_hits_{0};

  std::mutex mutex_;
  std::condition_variable room_, cancels_changed_;
  using Due = std::pair<std::chrono::steady_clock::time_point, api::RequestId>;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> cancels_;
  int64_t most_bytes_[2] = {};
};

// Each alone, with room for everything.
void SoakTest::ComputeKnownAnswers() {
  const auto alone = MakeSoakBackend({"alone", 64, 0, 0, false, 0}, nullptr);
  ASSERT_NE(alone, nullptr);
  for (int known = 0; known < testing::kSoakKnown; ++known) {
    api::GenerationRequest request = testing::MakeKnownRequest(seed_, known, vocabulary_);
    std::mutex mutex;
    std::condition_variable ended;
    int n_open = request.n_choices;
    const auto id = alone->Submit(request, [&](api::Event event) {
      const std::lock_guard lock(mutex);
      uint64_t& digest = known_[known][event.choice];
      digest = DigestOfEvent(digest, event);
      if (event.finish != api::FinishReason::kNone && --n_open == 0) ended.notify_all();
    });
    ASSERT_TRUE(id.has_value()) << id.error().status.ToString();
    std::unique_lock lock(mutex);
    ASSERT_TRUE(ended.wait_for(lock, kSoakPatience, [&] { return n_open == 0; }));
  }
}

api::EventSink SoakTest::SinkOf(uint64_t index) {
  return [this, index](api::Event event) {
    SoakRecord& record = records_[index];
    const auto choice = static_cast<size_t>(event.choice);
    if (choice >= record.n_choices || record.ends[choice] > 0) {
      ++n_faults_;
      return;
    }
    record.answers[choice] = DigestOfEvent(record.answers[choice], event);
    n_calls_ += static_cast<int64_t>(event.tool_calls.size());
    n_late_ += event.finish == api::FinishReason::kTimeout;
    tokens_seen_ += static_cast<int64_t>(event.tokens.size());
    const bool is_cancelled = record.cancel == SoakCancel::kAtEvent && record.n_events == record.event;
    if (record.n_events < 255) ++record.n_events;
    if (event.finish == api::FinishReason::kNone) {
      if (is_cancelled) backend_->Cancel(event.request);
      return;
    }
    ++record.ends[choice];
    const bool cut = event.finish == api::FinishReason::kCancelled || event.finish == api::FinishReason::kTimeout;
    record.left |= cut;
    if (cut && record.cancel == SoakCancel::kNever && !record.has_time_limit) ++n_faults_;
    output_tokens_ += event.usage.output_tokens;
    if (event.choice == 0) {
      cached_tokens_ += event.usage.cached_tokens;
      prompt_tokens_ += event.usage.prompt_tokens;
      if (event.usage.output_tokens > 0) complete_prompt_tokens_ += event.usage.prompt_tokens;
    }
    if (record.lonely && event.usage.cached_tokens > 0) ++n_first_come_hits_;
    const auto n_ends = std::count_if(record.ends, record.ends + 4, [](uint8_t n) { return n > 0; });
    if (n_ends < record.n_choices) return;
    if (record.cancel == SoakCancel::kAfterEnd) backend_->Cancel(event.request);
    {
      const std::lock_guard lock(mutex_);
      --n_open_;
      ++n_ended_;
    }
    room_.notify_all();
  };
}

void SoakTest::CancelLater(api::RequestId id, int micros) {
  {
    const std::lock_guard lock(mutex_);
    cancels_.emplace(std::chrono::steady_clock::now() + std::chrono::microseconds(micros), id);
  }
  cancels_changed_.notify_all();
}

void SoakTest::RunCancels() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    if (cancels_.empty()) {
      cancels_changed_.wait(lock);
    } else if (const Due due = cancels_.top(); due.first > std::chrono::steady_clock::now()) {
      cancels_changed_.wait_until(lock, due.first);
    } else {
      cancels_.pop();
      lock.unlock();
      backend_->Cancel(due.second);
      lock.lock();
    }
  }
}

// Bursts: up to some number of requests at once, then a pause until few are open.
void SoakTest::SubmitSome() {
  while (true) {
    const uint64_t index = next_++;
    if (index >= n_requests_) return;
    SoakRequest soak = MakeSoakRequest(seed_, index, vocabulary_);
    testing::SoakDraws pace(seed_, index, 1);
    if (pace.Percent(6)) {
      const int64_t most = pace.Percent(20) ? 0 : pace.Below(30);
      std::unique_lock lock(mutex_);
      room_.wait(lock, [&] { return n_open_ <= most || over_; });
    }
    if (over_) return;
    SoakRecord& record = records_[index];
    record.n_choices = static_cast<uint8_t>(std::min(soak.request.n_choices, 4));
    record.known = static_cast<int8_t>(soak.known);
    record.lonely = soak.lonely;
    record.cancel = soak.cancel;
    record.event = static_cast<uint8_t>(soak.event);
    record.has_time_limit = soak.request.timeout_ms > 0;
    const int n_choices = soak.request.n_choices;
    ++n_open_;
    const auto id = backend_->Submit(std::move(soak.request), SinkOf(index));
    if (!id) {
      record.n_choices = 0;
      ++n_refused_;
      if (id.error().status.message().empty()) ++n_faults_;
      const std::lock_guard lock(mutex_);
      --n_open_;
      room_.notify_all();
      continue;
    }
    ++n_accepted_;
    n_choices_ += static_cast<uint64_t>(n_choices);
    if (soak.cancel == SoakCancel::kAtOnce || soak.cancel == SoakCancel::kTwice) backend_->Cancel(*id);
    if (soak.cancel == SoakCancel::kAfterTime || soak.cancel == SoakCancel::kTwice) CancelLater(*id, soak.micros);
    if (pace.Percent(1)) backend_->Cancel(*id + 1'000'000'000);  // nobody's
  }
}

// What an operator does meanwhile: forgets scopes, looks at the state, has the invariants checked.
void SoakTest::Disturb() {
  const std::vector<api::Scope> scopes = testing::SoakScopes();
  testing::SoakDraws draws(seed_, 0, 2);
  while (!over_) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + draws.Below(30)));
    if (draws.Percent(20)) {
      api::Scope scope = scopes[static_cast<size_t>(draws.Below(static_cast<int>(scopes.size())))];
      const auto extent = draws.Percent(20) ? api::ForgetExtent::kTenant : api::ForgetExtent::kScope;
      if (!backend_->Forget(scope, extent).has_value()) ++n_faults_;
    }
    if (draws.Percent(20)) (void)backend_->RecentSteps(1 + draws.Below(50));
    const Status status = AuditLocalBackend(*backend_, GetParam().zero);
    if (!status.ok()) {
      ADD_FAILURE() << "after " << n_ended_ << " requests: " << status.ToString();
      return;
    }
    if (backend_->health() != api::Health::kReady) ++n_faults_;
  }
}

// The most memory in use from a tenth of the way to its middle, and from there to its end.
void SoakTest::Sample(double done) {
  if (done < 0.1) return;
  int64_t& most = most_bytes_[done < 0.5 ? 0 : 1];
  most = std::max(most, ResidentBytes());
}

// Until all have ended. False: nothing has happened for too long.
bool SoakTest::Watch() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  Clock::time_point moved = start, told = start;
  uint64_t last = 0;
  while (n_ended_ + n_refused_ < n_requests_) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const Clock::time_point now = Clock::now();
    const uint64_t done = n_ended_ + n_refused_;
    Sample(static_cast<double>(done) / static_cast<double>(n_requests_));
    if (done != last) moved = now;
    last = done;
    if (now - moved > kSoakPatience || HasFailure()) {
      ADD_FAILURE() << "stopped, or nothing moves: " << boost::json::serialize(backend_->DebugState());
      return false;
    }
    if (now - told < std::chrono::seconds(5)) continue;
    told = now;
    const double seconds = std::chrono::duration<double>(now - start).count();
    std::printf("  %s: %llu of %llu requests, %.0f/s, %llu refused, %.1f MiB resident\n", GetParam().name,
                static_cast<unsigned long long>(done), static_cast<unsigned long long>(n_requests_),
                static_cast<double>(done) / seconds, static_cast<unsigned long long>(n_refused_.load()),
                static_cast<double>(ResidentBytes()) / (1 << 20));
    std::fflush(stdout);
  }
  return true;
}

void SoakTest::CheckRecords() {
  EXPECT_EQ(n_faults_, 0u) << "events after an end, ends without a cause, refusals without a reason";
  EXPECT_EQ(n_first_come_hits_, 0u) << "something was cached for a scope that is used once";
  uint64_t wrong_ends = 0, wrong_answers = 0, n_known = 0;
  for (const SoakRecord& record : records_) {
    for (int choice = 0; choice < 4; ++choice) {
      wrong_ends += record.ends[choice] != (choice < record.n_choices ? 1 : 0);
      if (record.known < 0 || choice >= record.n_choices) continue;
      ++n_known;
      wrong_answers += record.left || record.answers[choice] != known_[record.known][choice];
    }
  }
  EXPECT_EQ(wrong_ends, 0u);
  EXPECT_EQ(wrong_answers, 0u) << "of " << n_known << " answers that are known";
  EXPECT_GT(n_known, 0u);
  if (n_requests_ < 10'000) return;  // too few for what is rare
  EXPECT_GT(n_calls_, 0) << "no tool was called";
  EXPECT_GT(n_late_, 0) << "no time limit was reached";
}

// Nothing runs any more: what is in use is the cache's, and goes with it.
void SoakTest::CheckState() {
  EXPECT_TRUE(AuditLocalBackend(*backend_, GetParam().zero).ok());
  const boost::json::object before = backend_->DebugState();
  for (const char* zero : {"requests_open", "requests_waiting", "sequences_running"}) {
    EXPECT_EQ(before.at(zero).to_number<int64_t>(), 0) << zero;
  }
  const auto used = [](const boost::json::object& state) {
    return state.at("pages").to_number<int64_t>() - state.at("pages_free").to_number<int64_t>();
  };
  EXPECT_EQ(used(before), before.at("cache_pages").to_number<int64_t>());
  EXPECT_GT(before.at("preemptions").to_number<int64_t>(), 0);
  EXPECT_GT(before.at("cache_evicted_pages").to_number<int64_t>(), 0);
  if (GetParam().host_pages > 0) {
    EXPECT_GT(before.at("cache_restored_pages").to_number<int64_t>(), 0);
  }
  for (api::Scope scope : testing::SoakScopes()) {
    scope.salt.clear();
    EXPECT_TRUE(backend_->Forget(scope, api::ForgetExtent::kScope).has_value());
  }
  EXPECT_EQ(used(backend_->DebugState()), 0);
  EXPECT_TRUE(AuditLocalBackend(*backend_, GetParam().zero).ok());
  std::printf("  %s: %llu accepted, %llu refused, state at the end %s\n", GetParam().name,
              static_cast<unsigned long long>(n_accepted_.load()), static_cast<unsigned long long>(n_refused_.load()),
              boost::json::serialize(before).c_str());
}

// The sum of the series of a name in Prometheus' text.
double SumOfSeries(const std::string& text, const std::string& name) {
  double sum = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (line.starts_with(name + "{")) sum += std::strtod(line.c_str() + line.rfind(' '), nullptr);
    at = end + 1;
  }
  return sum;
}

void SoakTest::CheckSums(const observe::Registry& metrics) {
  const std::string text = metrics.Expose();
  const auto sum = [&](const char* name) { return SumOfSeries(text, std::string("surety_") + name); };
  EXPECT_EQ(n_accepted_ + n_refused_, n_requests_);
  EXPECT_EQ(n_ended_, n_accepted_);
  EXPECT_EQ(sum("requests_refused_total"), static_cast<double>(n_refused_));
  EXPECT_EQ(sum("request_success_total"), static_cast<double>(n_choices_));
  EXPECT_EQ(sum("prompt_tokens_total"), sum("prompt_tokens_cached_total") + sum("prompt_tokens_computed_total"));
  EXPECT_EQ(sum("generation_tokens_total"), static_cast<double>(output_tokens_));
  EXPECT_EQ(tokens_seen_, output_tokens_);
  EXPECT_EQ(sum("prompt_tokens_cached_total"), static_cast<double>(cached_tokens_));
  // Of a prompt that was left half-way a part is counted.
  EXPECT_GE(sum("prompt_tokens_total"), static_cast<double>(complete_prompt_tokens_));
  EXPECT_LE(sum("prompt_tokens_total"), static_cast<double>(prompt_tokens_));
  EXPECT_GT(n_refused_, n_requests_ / 200) << "queue bounds were not reached";
}

TEST_P(SoakTest, NothingLeaksAndEveryChoiceEndsOnceWhateverCallersDo) {
  ASSERT_NO_FATAL_FAILURE(ComputeKnownAnswers());
  const auto metrics = observe::Registry::Make();
  backend_ = MakeSoakBackend(GetParam(), metrics.get());
  ASSERT_NE(backend_, nullptr);
  std::vector<std::thread> threads;
  for (int i = 0; i < kSoakSubmitters; ++i) threads.emplace_back([this] { SubmitSome(); });
  threads.emplace_back([this] { RunCancels(); });
  threads.emplace_back([this] { Disturb(); });
  const bool moved = Watch();
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  room_.notify_all();
  cancels_changed_.notify_all();
  for (std::thread& thread : threads) thread.join();
  if (moved) CheckState();
  backend_.reset();
  if (!moved) return;
  CheckRecords();
  CheckSums(*metrics);
  std::printf("  %s: at most %.2f MiB resident in the first half, %.2f in the second\n", GetParam().name,
              static_cast<double>(most_bytes_[0]) / (1 << 20), static_cast<double>(most_bytes_[1]) / (1 << 20));
  if (kSoakMeasuresMemory) {
    EXPECT_LE(most_bytes_[1], most_bytes_[0] + kSoakGrowthBytes);
  }
}

// A whole context is 8 pages; six choices of full length would need 48.
INSTANTIATE_TEST_SUITE_P(Tiers, SoakTest,
                         ::testing::Values(SoakSetting{"pool", 20, 0, 0, false, 0},
                                           SoakSetting{"host", 14, 24, 0, true, 60},
                                           SoakSetting{"disk", 16, 10, 60, false, 0}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(SoakRequestsTest, EqualSeedsGiveEqualRequestsAndOthersOthers) {
  const testing::SoakVocabulary vocabulary;
  int n_different = 0;
  for (uint64_t index = 0; index < 200; ++index) {
    const std::string one = DescribeSoakRequest(MakeSoakRequest(5, index, vocabulary));
    EXPECT_EQ(one, DescribeSoakRequest(MakeSoakRequest(5, index, vocabulary)));
    n_different += one != DescribeSoakRequest(MakeSoakRequest(6, index, vocabulary));
  }
  EXPECT_EQ(n_different, 200);
}

}  // namespace
}  // namespace surety::engine
