// A thread that sends finished spans to a collector, in batches, without ever holding up who finished them.
//
// Threads: Take from any, it only moves values under a lock; Shutdown from one. Owns: its thread, the transport.
// Errors: a span that cannot be delivered is counted in surety_spans_dropped_total with the reason (queue_full,
// unreachable, rejected, shutdown), and told to on_problem at most once a minute. Invariants: (1) at most
// max_queued_spans wait. (2) Every span taken is counted once, as exported or as dropped, when Shutdown has returned.
// Source: OpenTelemetry protocol 1.x, OTLP/HTTP: which answers are tried again, Retry-After, partial success.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "observe/metrics.h"
#include "observe/otlp_json.h"
#include "observe/trace.h"

namespace surety::observe {

// How a batch travels.
class SpanTransport {
 public:
  struct Reply {
    int status = 0;              // of HTTP; 0: there was no answer
    double retry_after_s = -1;   // < 0: not said
    std::string body;
    std::string problem;         // without an answer: why
  };
  virtual ~SpanTransport() = default;
  // On the exporter's thread; returns within about timeout_ms.
  virtual Reply Post(const std::string& body, int64_t timeout_ms) = 0;
  // From any thread: a Post under way returns at once, and so do all later ones.
  virtual void Abort() = 0;
};

struct SpanExporterOptions {
  size_t max_queued_spans = 4096;
  size_t batch_spans = 512;
  int64_t batch_delay_ms = 1000;    // a batch that is not full waits for more
  int64_t post_timeout_ms = 10'000;
  int max_attempts = 5;
  int64_t first_backoff_ms = 1000;  // doubled with each attempt
  int64_t max_backoff_ms = 30'000;  // also of a Retry-After
  SpanSource source;
  std::function<void(const std::string&)> on_problem;  // on the exporter's thread; may be empty
};

class SpanExporter final : public SpanSink {
 public:
  SpanExporter(SpanExporterOptions options, std::unique_ptr<SpanTransport> transport, Registry& metrics);
  ~SpanExporter() override;  // as Shutdown(0)

  void Take(std::vector<Span> spans) override;
  // Sends what waits, for up to `limit_ms`; what is left then is dropped, as is all that comes later. Again: nothing.
  void Shutdown(int64_t limit_ms);

 private:
  void Run();
  std::vector<Span> NextBatch();  // empty: the end
  void Deliver(const std::vector<Span>& batch);
  bool stopping();
  // `ending`: the end had begun when the attempt did. False: no further attempt.
  bool WaitToRetry(int attempt, double retry_after_s, bool ending);
  void Tell(const std::string& problem);

  const SpanExporterOptions options_;
  const std::unique_ptr<SpanTransport> transport_;
  Counter& exported_;
  Counter& dropped_full_;
  Counter& dropped_unreachable_;
  Counter& dropped_rejected_;
  Counter& dropped_shutdown_;

  std::mutex mutex_;
  std::condition_variable wake_, ended_wake_;
  std::deque<Span> queue_;
  bool stopping_ = false;   // send what is left, then end
  bool abandoned_ = false;  // end now
  bool ended_ = false;
  int64_t told_ns_ = -1;    // the exporter's thread's
  std::thread thread_;
};

}  // namespace surety::observe
