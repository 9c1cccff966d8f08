#include "observe/span_exporter.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <utility>

namespace surety::observe {
namespace {

constexpr int64_t kTellEveryNs = 60'000'000'000;

Counter& DroppedCounter(Registry& metrics, const char* reason) {
  return metrics.AddCounter("surety_spans_dropped_total", "Spans that did not reach the collector.",
                            {{"reason", reason}});
}

bool MayRetry(int status) {
  return status == 0 || status == 429 || status == 502 || status == 503 || status == 504;
}

int64_t SteadyNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

SpanExporter::SpanExporter(SpanExporterOptions options, std::unique_ptr<SpanTransport> transport, Registry& metrics)
    : options_(std::move(options)),
      transport_(std::move(transport)),
      exported_(metrics.AddCounter("surety_spans_exported_total", "Spans that the collector took.")),
      dropped_full_(DroppedCounter(metrics, "queue_full")),
      dropped_unreachable_(DroppedCounter(metrics, "unreachable")),
      dropped_rejected_(DroppedCounter(metrics, "rejected")),
      dropped_shutdown_(DroppedCounter(metrics, "shutdown")) {
  thread_ = std::thread([this] { Run(); });
}

SpanExporter::~SpanExporter() { Shutdown(0); }

void SpanExporter::Take(std::vector<Span> spans) {
  size_t n_full = 0, n_late = 0;
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      n_late = spans.size();
    } else {
      const size_t room = options_.max_queued_spans - std::min(options_.max_queued_spans, queue_.size());
      const size_t n_taken = std::min(room, spans.size());
      n_full = spans.size() - n_taken;
      const bool was_empty = queue_.empty();
      std::move(spans.begin(), spans.begin() + static_cast<ptrdiff_t>(n_taken), std::back_inserter(queue_));
      wake = (was_empty && n_taken > 0) || queue_.size() >= options_.batch_spans;
    }
  }
  if (wake) wake_.notify_all();
  if (n_full > 0) dropped_full_.Add(static_cast<double>(n_full));
  if (n_late > 0) dropped_shutdown_.Add(static_cast<double>(n_late));
}

void SpanExporter::Shutdown(int64_t limit_ms) {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
    if (!ended_wake_.wait_for(lock, std::chrono::milliseconds(limit_ms), [this] { return ended_; })) {
      abandoned_ = true;
      wake_.notify_all();
    }
  }
  if (!thread_.joinable()) return;
  transport_->Abort();
  thread_.join();
  const std::lock_guard lock(mutex_);
  if (!queue_.empty()) dropped_shutdown_.Add(static_cast<double>(queue_.size()));
  queue_.clear();
}

void SpanExporter::Run() {
  for (;;) {
    const std::vector<Span> batch = NextBatch();
    if (batch.empty()) break;
    try {
      Deliver(batch);
    } catch (const std::exception& e) {  // out of memory
      dropped_unreachable_.Add(static_cast<double>(batch.size()));
      Tell(e.what());
    }
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  ended_wake_.notify_all();
}

std::vector<Span> SpanExporter::NextBatch() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
  wake_.wait_for(lock, std::chrono::milliseconds(options_.batch_delay_ms),
                 [this] { return stopping_ || queue_.size() >= options_.batch_spans; });
  std::vector<Span> batch;
  if (abandoned_) return batch;
  const size_t n = std::min(queue_.size(), options_.batch_spans);
  std::move(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(n), std::back_inserter(batch));
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(n));
  return batch;
}

void SpanExporter::Deliver(const std::vector<Span>& batch) {
  const std::string body = OtlpTracesJson(batch, options_.source);
  const auto n = static_cast<double>(batch.size());
  for (int attempt = 1;; ++attempt) {
    const bool ending = stopping();
    const SpanTransport::Reply reply = transport_->Post(body, options_.post_timeout_ms);
    if (reply.status >= 200 && reply.status < 300) {
      const double rejected = std::clamp(static_cast<double>(RejectedSpans(reply.body)), 0.0, n);
      exported_.Add(n - rejected);
      if (rejected == 0) return;
      dropped_rejected_.Add(rejected);
      return Tell("the collector refused some spans");
    }
    if (!MayRetry(reply.status)) {
      dropped_rejected_.Add(n);
      return Tell("the collector answered with status " + std::to_string(reply.status));
    }
    if (attempt < options_.max_attempts && WaitToRetry(attempt, reply.retry_after_s, ending)) continue;
    {
      const std::lock_guard lock(mutex_);
      (abandoned_ ? dropped_shutdown_ : dropped_unreachable_).Add(n);
    }
    return Tell(reply.status == 0 ? reply.problem
                                  : "the collector answered with status " + std::to_string(reply.status));
  }
}

bool SpanExporter::stopping() {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

bool SpanExporter::WaitToRetry(int attempt, double retry_after_s, bool ending) {
  int64_t wait_ms = options_.first_backoff_ms;
  for (int i = 1; i < attempt && wait_ms < options_.max_backoff_ms; ++i) wait_ms *= 2;
  if (retry_after_s >= 0) {
    const double most_s = static_cast<double>(options_.max_backoff_ms) / 1000;
    wait_ms = static_cast<int64_t>(std::min(retry_after_s, most_s) * 1000);
  }
  wait_ms = std::min(wait_ms, options_.max_backoff_ms);
  std::unique_lock lock(mutex_);
  // The end cuts a wait short once: one more attempt at once, then by the clock again, until Shutdown gives up.
  wake_.wait_for(lock, std::chrono::milliseconds(wait_ms), [&] { return abandoned_ || (stopping_ && !ending); });
  return !abandoned_;
}

void SpanExporter::Tell(const std::string& problem) {
  const int64_t now = SteadyNanos();
  if (!options_.on_problem || (told_ns_ >= 0 && now - told_ns_ < kTellEveryNs)) return;
  told_ns_ = now;
  options_.on_problem(problem);
}

}  // namespace surety::observe
