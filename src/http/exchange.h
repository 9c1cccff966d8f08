// One request being answered: what the handler's writer and the connection share. The writer fills it from any thread,
// the connection empties it on its strand.
//
// Threads: any. Owns: bytes that are not yet handed to the socket. Invariants: (1) one answer: what comes after a
// complete one is ignored. (2) After Detach nothing of the connection is touched again. (3) No call blocks: a lock is
// held only while bytes are moved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "http/handler.h"
#include "http/request_head.h"

namespace surety::http {

// The side of the connection. Called with the exchange's lock held: it posts, and does nothing else.
class ExchangeHost {
 public:
  virtual ~ExchangeHost() = default;
  virtual void WakeForOutput() = 0;
};

struct ExchangeOptions {
  size_t max_buffer_bytes = 1 << 20;  // more than this unsent, and a stream's reader is too slow
  bool head_only = false;             // the request was HEAD
  bool http_1_1 = true;
  bool keep_alive = true;
  std::string request_id;
  HeaderList common_headers;          // with every answer, e.g. CORS
  const Clock* clock = nullptr;
};

class Exchange {
 public:
  Exchange(ExchangeHost& host, ExchangeOptions options) : host_(&host), options_(std::move(options)) {}

  // A writer for the handler. When it is destroyed without an answer, a 500 is sent; in the middle of a stream, the
  // connection is cut so that the client sees that something is missing.
  static std::shared_ptr<ResponseWriter> MakeWriter(std::shared_ptr<Exchange> exchange);

  void Send(int status, std::string_view content_type, std::string body, HeaderList headers);
  void SendError(const Refused& refused, HeaderList headers = {});
  void StartStream(int status, std::string_view content_type, HeaderList headers);
  bool Write(std::string data);
  void FinishStream();
  void OnDisconnect(std::function<void()> callback);
  void Abandon();

  // What follows is for the connection, on its strand.
  struct Output {
    std::vector<std::string> pieces;
    bool complete = false;   // nothing comes after these pieces
    bool cut = false;        // give up the connection: a reader too slow, or a stream without an end
  };
  Output Take();
  void OnSent(size_t n_bytes);
  // The answer is out, or the connection ends: no more calls to the host. If the answer is not complete, the
  // callback of OnDisconnect runs, here.
  void Detach();
  void ForbidKeepAlive();    // if the head is not out yet

  int status() const;        // 0: nothing was answered yet
  bool keep_alive() const;
  bool complete() const;     // the handler has said everything
  bool overflowed() const;   // cut because the reader was too slow

 private:
  enum class State : uint8_t { kOpen, kStreaming, kComplete };

  std::string Head(int status, std::string_view content_type, const HeaderList& headers, int64_t length);
  void Append(std::string data);
  void Wake();

  mutable std::mutex mutex_;
  ExchangeHost* host_;       // null after Detach
  ExchangeOptions options_;
  State state_ = State::kOpen;
  bool chunked_ = false;
  bool no_body_ = false;
  bool cut_ = false;
  bool overflowed_ = false;
  bool woken_ = false;
  int status_ = 0;
  size_t unsent_bytes_ = 0;  // waiting here or in the connection's hands
  std::vector<std::string> pieces_;
  std::function<void()> on_disconnect_;
};

}  // namespace surety::http
