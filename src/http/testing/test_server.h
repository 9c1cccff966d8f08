// A server with routes that tests use, on free ports. Threads: the handlers of the routes run on I/O threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <string>
#include <vector>

#include "http/server.h"

namespace surety::http {

// Routes: GET /hello; POST /echo (the body); GET /stream?n=3 ("piece 0".. from a thread); GET /wait (the writer goes to
// NextWaiting); GET /idle (a stream with one event, kept open in NextWaiting); GET /fail (a handler that throws);
// GET /drop (a writer that is dropped); GET /cut (a stream without an end); GET /admin (administrators); GET /public;
// GET /things/*; POST /method.
class TestServer {
 public:
  struct Options {
    ServerOptions server;
    const Authenticator* authenticator = nullptr;
    const Clock* clock = nullptr;  // null: the real one
  };
  explicit TestServer(Options options);
  TestServer() : TestServer(Options{}) {}
  ~TestServer();

  Server& server() { return *server_; }
  observe::Registry& metrics() { return *metrics_; }
  int port() const { return server_->port("api"); }
  int admin_port() const { return server_->port("admin"); }

  // The next writer that /wait or /idle received; null after ten seconds.
  std::shared_ptr<ResponseWriter> NextWaiting();
  bool WaitForDisconnects(int n, int limit_ms);  // of requests to /wait and /idle
  int n_disconnects() const { return n_disconnects_; }
  int n_calls() const { return n_calls_; }       // of any handler
  std::vector<std::string> log_lines() const;
  HttpRequest last_request() const;

 private:
  std::vector<Route> Routes();
  Handler Recorded(Handler handler);
  void Park(std::shared_ptr<ResponseWriter> writer);

  std::unique_ptr<observe::Registry> metrics_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<ResponseWriter>> waiting_;
  std::vector<std::string> log_lines_;
  HttpRequest last_request_;
  std::atomic<int> n_disconnects_ = 0;
  std::atomic<int> n_calls_ = 0;
  std::vector<std::thread> threads_;
  std::unique_ptr<Server> server_;
};

}  // namespace surety::http
