// One accepted connection as bytes, plain or TLS, and its timer: everything that a connection needs of the network
// library, so that only stream.cc and server.cc include it.
//
// Threads: Post from any thread; everything else, and every callback, on the stream's own strand, one at a time.
// Owns: the socket. A callback is called exactly once, also after Close (then with kFailed), and never from inside the
// call that took it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace surety::http {

enum class IoResult : uint8_t { kOk, kEnd, kFailed };  // kEnd: the peer sends nothing more

class Stream {
 public:
  using Done = std::function<void(IoResult result, size_t n_bytes)>;
  virtual ~Stream() = default;

  virtual void Post(std::function<void()> task) = 0;
  virtual void Handshake(Done done) = 0;
  // At least one byte into the buffer; one read at a time. The buffer must live until the callback.
  virtual void ReadSome(char* buffer, size_t size, Done done) = 0;
  // At least one byte of the buffer; one write at a time.
  virtual void WriteSome(const char* data, size_t size, Done done) = 0;
  // Tells the peer that nothing more is sent; reading goes on. With TLS `done` comes when the peer has said so too.
  virtual void ShutdownSend(Done done) = 0;
  virtual void Close() = 0;  // again: nothing

  // One timer: a new one replaces a running one, whose callback is dropped.
  virtual void StartTimer(int64_t delay_ms, std::function<void()> task) = 0;

  virtual int64_t NowNanos() const = 0;  // of the timer's clock
  virtual const std::string& remote_address() const = 0;  // "127.0.0.1", without the port
};

}  // namespace surety::http
