// The load generator's event loop: timers, and HTTP exchanges over kept-alive connections, plain or TLS.
//
// One thread does everything, with timers of the system's resolution; it never spins. A request goes out when Send is
// called, whatever is outstanding: nothing waits for a free connection.
// Threads: one. Owns: its connections; sinks are shared with the exchanges that report to them.
// Errors: Make answers kInvalidArgument (the address), kNotFound (the host), kIoError (certificates).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace surety::cli {

enum class ExchangeEnd {
  kComplete,
  kConnectFailed,
  kCut,           // the peer closed or reset before the answer was complete
  kBadHttp,
  kTimeout,
  kCancelled,     // by CancelAll
  kStopped,       // by the sink
  kNoConnection,  // max_connections are in use: nothing was sent
};

// What an exchange tells. Times are the loop's.
class ExchangeSink {
 public:
  virtual ~ExchangeSink() = default;
  virtual void OnSent(int64_t time_ns) = 0;  // once, just before the first byte is written
  virtual void OnHeader(int status, bool event_stream, double retry_after_s) = 0;
  // False: the rest is not wanted; OnEnd follows with kStopped.
  virtual bool OnBody(std::string_view bytes, int64_t time_ns) = 0;
  virtual void OnEnd(ExchangeEnd end, const std::string& message, int64_t time_ns) = 0;  // once, last
};

struct LoadTarget {
  std::string url = "http://127.0.0.1:8080";
  std::string api_key;  // empty: none
  std::string ca_file;  // empty: the system's
  bool insecure = false;
  double timeout_s = 600;
  int max_connections = 1024;
};

class LoadLoop {
 public:
  // Resolves the host's name; connects to nothing yet.
  static Result<std::unique_ptr<LoadLoop>> Make(const LoadTarget& target);
  virtual ~LoadLoop() = default;

  virtual int64_t Now() const = 0;  // monotonic nanoseconds
  virtual void At(int64_t time_ns, std::function<void()> work) = 0;
  virtual void Post(std::function<void()> work) = 0;  // when what is due has been done
  virtual void WhenReadable(int fd, std::function<void()> work) = 0;  // once; fd stays the caller's

  // Opens connections beforehand, so that the first requests need not. Returns how many there are: 0 unless all could
  // be tried before the timeout or an interrupt.
  virtual int Warm(int connections) = 0;
  // path: after the base, "/chat/completions". An empty body is a GET.
  virtual void Send(const std::string& path, std::string body, std::shared_ptr<ExchangeSink> sink) = 0;
  virtual void CancelAll() = 0;

  virtual void Run() = 0;   // until Stop, or nothing is left to wait for
  virtual void Stop() = 0;  // Run returns; pending timers are dropped
  virtual int64_t connections_opened() const = 0;
};

}  // namespace surety::cli
