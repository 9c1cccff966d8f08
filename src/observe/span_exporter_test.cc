#include "observe/span_exporter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include <boost/json.hpp>

namespace surety::observe {
namespace {

using Reply = SpanTransport::Reply;

// What the transport of a test saw, and how it answers. Outlives the exporter.
class Collector {
 public:
  // Answers in their order, the last one for ever.
  explicit Collector(std::vector<Reply> answers) : answers_(std::move(answers)) {}

  std::unique_ptr<SpanTransport> Transport() { return std::make_unique<FakeTransport>(*this); }

  // While held, a Post does not return, but by Abort.
  void Hold(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  bool WaitForPosts(size_t n) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return bodies_.size() >= n; });
  }
  std::vector<std::string> bodies() {
    const std::lock_guard lock(mutex_);
    return bodies_;
  }

 private:
  class FakeTransport : public SpanTransport {
   public:
    explicit FakeTransport(Collector& owner) : owner_(owner) {}
    Reply Post(const std::string& body, int64_t) override { return owner_.Answer(body); }
    void Abort() override {
      const std::lock_guard lock(owner_.mutex_);
      owner_.aborted_ = true;
      owner_.changed_.notify_all();
    }

   private:
    Collector& owner_;
  };

  Reply Answer(const std::string& body) {
    std::unique_lock lock(mutex_);
    if (aborted_) return {0, -1, "", "given up"};
    bodies_.push_back(body);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_ || aborted_; });
    if (held_) return {0, -1, "", "given up"};
    return answers_[std::min(bodies_.size(), answers_.size()) - 1];
  }

  const std::vector<Reply> answers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false, aborted_ = false;
  std::vector<std::string> bodies_;
};

std::vector<Span> Spans(int n) {
  std::vector<Span> spans(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) spans[static_cast<size_t>(i)].name = "span " + std::to_string(i);
  return spans;
}

std::vector<std::string> NamesIn(const std::string& body) {
  std::vector<std::string> names;
  const boost::json::value all = boost::json::parse(body);
  for (const auto& span : all.at_pointer("/resourceSpans/0/scopeSpans/0/spans").as_array()) {
    names.emplace_back(span.at("name").as_string());
  }
  return names;
}

SpanExporterOptions Quick() {
  SpanExporterOptions options;
  options.batch_delay_ms = 1;
  options.first_backoff_ms = 1;
  options.max_backoff_ms = 4;
  return options;
}

struct Counts {
  explicit Counts(Registry& metrics)
      : exported(metrics.AddCounter("surety_spans_exported_total", "Spans that the collector took.").value()),
        full(Dropped(metrics, "queue_full")),
        unreachable(Dropped(metrics, "unreachable")),
        rejected(Dropped(metrics, "rejected")),
        shutdown(Dropped(metrics, "shutdown")) {}

  static double Dropped(Registry& metrics, const char* reason) {
    return metrics.AddCounter("surety_spans_dropped_total", "Spans that did not reach the collector.",
                              {{"reason", reason}}).value();
  }
  double sum() const { return exported + full + unreachable + rejected + shutdown; }

  double exported, full, unreachable, rejected, shutdown;
};

TEST(SpanExporterTest, SendsBatchesInOrderAndAllAtTheEnd) {
  auto metrics = Registry::Make();
  Collector collector({{200, -1, "{}", ""}});
  SpanExporterOptions options = Quick();
  options.batch_spans = 4;
  options.batch_delay_ms = 60'000;  // what is not a full batch goes at the end alone
  SpanExporter exporter(options, collector.Transport(), *metrics);
  exporter.Take(Spans(10));
  ASSERT_TRUE(collector.WaitForPosts(2));
  exporter.Shutdown(10'000);
  const auto bodies = collector.bodies();
  ASSERT_EQ(bodies.size(), 3u);
  EXPECT_EQ(NamesIn(bodies[0]), (std::vector<std::string>{"span 0", "span 1", "span 2", "span 3"}));
  EXPECT_EQ(NamesIn(bodies[2]), (std::vector<std::string>{"span 8", "span 9"}));
  EXPECT_EQ(Counts(*metrics).exported, 10);
  EXPECT_EQ(Counts(*metrics).sum(), 10);
}

TEST(SpanExporterTest, TheQueueIsBoundedAndTakeDoesNotWait) {
  auto metrics = Registry::Make();
  Collector collector({{200, -1, "", ""}});
  collector.Hold(true);
  SpanExporterOptions options = Quick();
  options.max_queued_spans = 8;
  options.batch_spans = 2;
  SpanExporter exporter(options, collector.Transport(), *metrics);
  exporter.Take(Spans(2));
  ASSERT_TRUE(collector.WaitForPosts(1));  // two are under way, none waits
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) exporter.Take(Spans(1));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(Counts(*metrics).full, 92);
  collector.Hold(false);
  exporter.Shutdown(10'000);
  EXPECT_EQ(Counts(*metrics).exported, 10);
  EXPECT_EQ(Counts(*metrics).sum(), 102);
}

TEST(SpanExporterTest, TriesAgainWhereThatMayHelp) {
  for (const int status : {0, 429, 502, 503, 504}) {
    auto metrics = Registry::Make();
    Collector collector({{status, -1, "", "gone"}, {status, 0.001, "", "gone"}, {200, -1, "", ""}});
    SpanExporter exporter(Quick(), collector.Transport(), *metrics);
    exporter.Take(Spans(3));
    ASSERT_TRUE(collector.WaitForPosts(3)) << status;
    exporter.Shutdown(10'000);
    const auto bodies = collector.bodies();
    ASSERT_EQ(bodies.size(), 3u);
    EXPECT_EQ(bodies[0], bodies[2]);
    EXPECT_EQ(Counts(*metrics).exported, 3) << status;
    EXPECT_EQ(Counts(*metrics).sum(), 3);
  }
}

TEST(SpanExporterTest, GivesUpAfterSoManyAttemptsAndSaysSoOnce) {
  auto metrics = Registry::Make();
  Collector collector({{503, -1, "", ""}});
  std::vector<std::string> told;
  SpanExporterOptions options = Quick();
  options.max_attempts = 3;
  options.batch_spans = 2;
  options.on_problem = [&](const std::string& problem) { told.push_back(problem); };
  SpanExporter exporter(options, collector.Transport(), *metrics);
  exporter.Take(Spans(4));
  ASSERT_TRUE(collector.WaitForPosts(6));
  exporter.Shutdown(10'000);
  EXPECT_EQ(collector.bodies().size(), 6u);
  EXPECT_EQ(Counts(*metrics).unreachable, 4);
  EXPECT_EQ(Counts(*metrics).sum(), 4);
  EXPECT_EQ(told, std::vector<std::string>{"the collector answered with status 503"});
}

TEST(SpanExporterTest, WhatIsRefusedIsNotTriedAgain) {
  for (const int status : {301, 400, 401, 404, 413, 500, 501}) {
    auto metrics = Registry::Make();
    Collector collector({{status, -1, "", ""}, {200, -1, "", ""}});
    SpanExporter exporter(Quick(), collector.Transport(), *metrics);
    exporter.Take(Spans(2));
    ASSERT_TRUE(collector.WaitForPosts(1));
    exporter.Shutdown(10'000);
    EXPECT_EQ(collector.bodies().size(), 1u) << status;
    EXPECT_EQ(Counts(*metrics).rejected, 2) << status;
    EXPECT_EQ(Counts(*metrics).sum(), 2);
  }
}

TEST(SpanExporterTest, APartialSuccessIsCountedAndNotTriedAgain) {
  auto metrics = Registry::Make();
  Collector collector({{200, -1, R"({"partialSuccess":{"rejectedSpans":"2"}})", ""}});
  SpanExporter exporter(Quick(), collector.Transport(), *metrics);
  exporter.Take(Spans(5));
  exporter.Shutdown(10'000);
  EXPECT_EQ(collector.bodies().size(), 1u);
  EXPECT_EQ(Counts(*metrics).exported, 3);
  EXPECT_EQ(Counts(*metrics).rejected, 2);
}

TEST(SpanExporterTest, TheEndDoesNotWaitLongerThanItsLimit) {
  auto metrics = Registry::Make();
  Collector collector({{200, -1, "", ""}});
  collector.Hold(true);  // a collector that never answers
  SpanExporterOptions options = Quick();
  options.batch_spans = 2;
  SpanExporter exporter(options, collector.Transport(), *metrics);
  exporter.Take(Spans(6));
  ASSERT_TRUE(collector.WaitForPosts(1));
  const auto begin = std::chrono::steady_clock::now();
  exporter.Shutdown(50);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  exporter.Take(Spans(1));
  exporter.Shutdown(50);
  EXPECT_EQ(Counts(*metrics).shutdown, 7);
  EXPECT_EQ(Counts(*metrics).sum(), 7);
}

TEST(SpanExporterTest, TheEndCutsAWaitForTheNextAttemptShort) {
  auto metrics = Registry::Make();
  Collector collector({{503, 3600, "", ""}, {200, -1, "", ""}});
  SpanExporterOptions options = Quick();
  options.max_backoff_ms = 3'600'000;
  SpanExporter exporter(options, collector.Transport(), *metrics);
  exporter.Take(Spans(1));
  ASSERT_TRUE(collector.WaitForPosts(1));
  const auto begin = std::chrono::steady_clock::now();
  exporter.Shutdown(20'000);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(Counts(*metrics).exported, 1);
}

TEST(SpanExporterTest, EverySpanOfManyThreadsIsCountedOnce) {
  auto metrics = Registry::Make();
  Collector collector({{200, -1, "", ""}, {0, -1, "", "gone"}, {200, -1, "", ""}});
  SpanExporterOptions options = Quick();
  options.max_queued_spans = 64;
  options.batch_spans = 16;
  SpanExporter exporter(options, collector.Transport(), *metrics);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) exporter.Take(Spans(3));
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  exporter.Shutdown(5);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(Counts(*metrics).sum(), 2400);
}

}  // namespace
}  // namespace surety::observe
