#include "http/stream_asio.h"

#include <netinet/tcp.h>

#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <utility>

namespace surety::http {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using asio::ip::tcp;

IoResult ResultOf(const error_code& ec) {
  if (!ec) return IoResult::kOk;
  if (ec == asio::error::eof || ec == asio::ssl::error::stream_truncated) return IoResult::kEnd;
  return IoResult::kFailed;
}

// A peer that vanished without a word is found by probes, and by answers that nobody acknowledges.
void SetSocketOptions(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto set = [&](int name, int value) {
    (void)::setsockopt(socket.native_handle(), IPPROTO_TCP, name, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, 60);
  set(TCP_KEEPINTVL, 15);
  set(TCP_KEEPCNT, 4);
  set(TCP_USER_TIMEOUT, 120'000);
}

class SocketStream : public Stream {
 public:
  explicit SocketStream(tcp::socket& socket) : timer_(socket.get_executor()) {
    error_code ec;
    const auto remote = socket.remote_endpoint(ec);
    if (!ec) address_ = remote.address().to_string();
    SetSocketOptions(socket);
  }

  void Post(std::function<void()> task) override { asio::post(timer_.get_executor(), std::move(task)); }

  void StartTimer(int64_t delay_ms, std::function<void()> task) override {
    timer_.expires_after(std::chrono::milliseconds(delay_ms));
    // An expired timer's callback may be queued already when a new one replaces it.
    timer_.async_wait([this, number = ++timer_number_, task = std::move(task)](const error_code& ec) {
      if (!ec && number == timer_number_) task();
    });
  }

  int64_t NowNanos() const override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  }

  void Close() override {
    error_code ignored;
    ++timer_number_;
    timer_.cancel();
    Socket().close(ignored);
  }

  const std::string& remote_address() const override { return address_; }

 protected:
  virtual tcp::socket& Socket() = 0;

 private:
  asio::steady_timer timer_;
  uint64_t timer_number_ = 0;
  std::string address_;
};

class PlainStream : public SocketStream {
 public:
  explicit PlainStream(tcp::socket socket) : SocketStream(socket), socket_(std::move(socket)) {}

  void Handshake(Done done) override {
    Post([done = std::move(done)] { done(IoResult::kOk, 0); });
  }
  void ReadSome(char* buffer, size_t size, Done done) override {
    socket_.async_read_some(asio::buffer(buffer, size), [done = std::move(done)](const error_code& ec, size_t n) {
      done(ResultOf(ec), n);
    });
  }
  void WriteSome(const char* data, size_t size, Done done) override {
    socket_.async_write_some(asio::buffer(data, size), [done = std::move(done)](const error_code& ec, size_t n) {
      done(ResultOf(ec), n);
    });
  }
  void ShutdownSend(Done done) override {
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    Post([done = std::move(done)] { done(IoResult::kOk, 0); });
  }

 private:
  tcp::socket& Socket() override { return socket_; }
  tcp::socket socket_;
};

class TlsStream : public SocketStream {
 public:
  TlsStream(tcp::socket socket, asio::ssl::context& context)
      : SocketStream(socket), stream_(std::move(socket), context) {}

  void Handshake(Done done) override {
    stream_.async_handshake(asio::ssl::stream_base::server,
                            [done = std::move(done)](const error_code& ec) { done(ResultOf(ec), 0); });
  }
  void ReadSome(char* buffer, size_t size, Done done) override {
    stream_.async_read_some(asio::buffer(buffer, size), [done = std::move(done)](const error_code& ec, size_t n) {
      done(ResultOf(ec), n);
    });
  }
  void WriteSome(const char* data, size_t size, Done done) override {
    stream_.async_write_some(asio::buffer(data, size), [done = std::move(done)](const error_code& ec, size_t n) {
      done(ResultOf(ec), n);
    });
  }
  void ShutdownSend(Done done) override {
    stream_.async_shutdown([done = std::move(done)](const error_code& ec) { done(ResultOf(ec), 0); });
  }

 private:
  tcp::socket& Socket() override { return stream_.next_layer(); }
  asio::ssl::stream<tcp::socket> stream_;
};

}  // namespace

std::unique_ptr<Stream> MakeStream(tcp::socket socket, asio::ssl::context* tls) {
  if (tls != nullptr) return std::make_unique<TlsStream>(std::move(socket), *tls);
  return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace surety::http
