#include "cli/load_client.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include "base/clock.h"
#include "cli/interrupt.h"
#include "cli/load_http_reply.h"
#include "cli/load_url.h"

namespace surety::cli {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using SteadyClock = std::chrono::steady_clock;

constexpr int64_t kLookNanos = 100'000'000;  // between looks at an interrupt, where nothing else wakes the loop

SteadyClock::time_point TimePoint(int64_t nanos) { return SteadyClock::time_point(std::chrono::nanoseconds(nanos)); }

struct Connection {
  explicit Connection(asio::io_context& io) : socket(io) {}
  void Close() {
    ErrorCode ignored;
    socket.close(ignored);
  }
  // Nothing to read, not closed by the peer. Over TLS something to read may be the protocol's own.
  bool Usable() {
    char byte;
    const ssize_t n = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n < 0 ? errno == EAGAIN || errno == EWOULDBLOCK : n > 0 && tls.has_value();
  }

  tcp::socket socket;
  std::optional<asio::ssl::stream<tcp::socket&>> tls;
  std::array<char, 16384> buffer;
};
using ConnectionPtr = std::shared_ptr<Connection>;

class Exchange;

// What the exchanges of a loop share.
struct Shared {
  asio::io_context io{1};
  LoadTarget target;
  LoadUrl url;
  tcp::resolver::results_type endpoints;
  std::optional<asio::ssl::context> tls;
  std::vector<ConnectionPtr> idle;
  std::unordered_set<std::shared_ptr<Exchange>> active;
  int64_t opened = 0;

  static int64_t Now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(SteadyClock::now().time_since_epoch()).count();
  }

  // Calls done(error, what failed).
  void Open(const ConnectionPtr& connection, std::function<void(ErrorCode, const char*)> done) {
    asio::async_connect(connection->socket, endpoints,
                        [this, connection, done = std::move(done)](ErrorCode error, const tcp::endpoint&) {
      if (error) return done(error, "cannot connect");
      ++opened;
      ErrorCode ignored;
      connection->socket.set_option(tcp::no_delay(true), ignored);
      if (!tls) return done(error, "");
      connection->tls.emplace(connection->socket, *tls);
      SSL_set_tlsext_host_name(connection->tls->native_handle(), url.host.c_str());
      if (!target.insecure) {
        connection->tls->set_verify_callback(asio::ssl::host_name_verification(url.host), ignored);
      }
      connection->tls->async_handshake(asio::ssl::stream_base::client, [connection, done](ErrorCode handshake_error) {
        done(handshake_error, "TLS handshake failed");
      });
    });
  }

  ConnectionPtr TakeIdle() {
    while (!idle.empty()) {
      ConnectionPtr connection = std::move(idle.back());
      idle.pop_back();
      if (connection->Usable()) return connection;
      connection->Close();
    }
    return nullptr;
  }
};

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Shared& shared, std::string head, std::string body, std::shared_ptr<ExchangeSink> sink)
      : shared_(shared), head_(std::move(head)), body_(std::move(body)), sink_(std::move(sink)), deadline_(shared.io) {
    parser_ = HttpReplyParser::Make({
        [this](int status, bool event_stream, double retry_after_s) {
          sink_->OnHeader(status, event_stream, retry_after_s);
        },
        [this](std::string_view bytes) { stopped_ = stopped_ || !sink_->OnBody(bytes, read_time_); }});
  }

  void Start() {
    deadline_.expires_after(std::chrono::nanoseconds(SecondsToNanos(shared_.target.timeout_s)));
    deadline_.async_wait([self = shared_from_this()](ErrorCode error) {
      if (!error) self->Finish(ExchangeEnd::kTimeout, fmt::format("no end after {} s", self->shared_.target.timeout_s));
    });
    connection_ = shared_.TakeIdle();
    reused_ = connection_ != nullptr;
    if (reused_) return Write();
    Connect();
  }

  void Finish(ExchangeEnd end, const std::string& message) {
    if (ended_) return;
    ended_ = true;
    const auto self = shared_from_this();  // the set below may hold the last reference
    deadline_.cancel();
    shared_.active.erase(self);
    if (end == ExchangeEnd::kComplete && written_ && parser_->keep_alive()) {
      shared_.idle.push_back(connection_);
    } else if (connection_) {
      connection_->Close();
    }
    sink_->OnEnd(end, message, Shared::Now());
  }

 private:
  void Connect() {
    connection_ = std::make_shared<Connection>(shared_.io);
    shared_.Open(connection_, [self = shared_from_this()](ErrorCode error, const char* what) {
      if (self->ended_) return;
      if (error) return self->Finish(ExchangeEnd::kConnectFailed, fmt::format("{}: {}", what, error.message()));
      self->Write();
    });
  }

  void Write() {
    if (!sent_) sink_->OnSent(Shared::Now());
    sent_ = true;
    const std::array<asio::const_buffer, 2> buffers = {asio::buffer(head_), asio::buffer(body_)};
    // A failed write is not the end: a server may answer and close before it has read everything. Reading tells.
    auto done = [self = shared_from_this(), connection = connection_](ErrorCode error, size_t) {
      if (connection == self->connection_) self->written_ = !error;
    };
    if (connection_->tls) {
      asio::async_write(*connection_->tls, buffers, std::move(done));
    } else {
      asio::async_write(connection_->socket, buffers, std::move(done));
    }
    Read();
  }

  void Read() {
    auto done = [self = shared_from_this(), connection = connection_](ErrorCode error, size_t n) {
      if (!self->ended_) self->OnRead(error, n);
    };
    if (connection_->tls) {
      connection_->tls->async_read_some(asio::buffer(connection_->buffer), std::move(done));
    } else {
      connection_->socket.async_read_some(asio::buffer(connection_->buffer), std::move(done));
    }
  }

  void OnRead(ErrorCode error, size_t n) {
    read_time_ = Shared::Now();
    if (n > 0) {
      got_bytes_ = true;
      const bool good = parser_->Feed(std::string_view(connection_->buffer.data(), n));
      if (stopped_) return Finish(ExchangeEnd::kStopped, "");
      if (!good) return Finish(ExchangeEnd::kBadHttp, "no HTTP response: " + parser_->error());
      if (parser_->complete()) return Finish(ExchangeEnd::kComplete, "");
    }
    if (!error) return Read();
    if (reused_ && !got_bytes_) {  // the server had closed a kept connection: not an answer to this request
      reused_ = false;
      written_ = false;
      connection_->Close();
      return Connect();
    }
    const bool closed = error == asio::error::eof || error == asio::ssl::error::stream_truncated;
    if (closed && parser_->FeedEnd()) return Finish(ExchangeEnd::kComplete, "");
    Finish(ExchangeEnd::kCut, closed ? "the server closed the connection" : error.message());
  }

  Shared& shared_;
  std::string head_, body_;
  std::shared_ptr<ExchangeSink> sink_;
  asio::steady_timer deadline_;
  ConnectionPtr connection_;
  std::unique_ptr<HttpReplyParser> parser_;
  int64_t read_time_ = 0;
  bool reused_ = false, sent_ = false, written_ = false, got_bytes_ = false, stopped_ = false, ended_ = false;
};

class AsioLoop final : public LoadLoop {
 public:
  // Sinks of exchanges that still run hear no more.
  ~AsioLoop() override {
    shared_.active.clear();
    for (const ConnectionPtr& connection : shared_.idle) connection->Close();
  }

  Status Init(const LoadTarget& target) {
    shared_.target = target;
    SURETY_ASSIGN_OR_RETURN(shared_.url, ParseLoadUrl(target.url));
    if (target.api_key.find_first_of("\r\n") != std::string::npos) {
      return InvalidArgumentError("the API key holds a line break");
    }
    ErrorCode error;
    tcp::resolver resolver(shared_.io);
    shared_.endpoints = resolver.resolve(shared_.url.host, shared_.url.port, error);
    if (error) return NotFoundError(fmt::format("{}: {}", shared_.url.host, error.message()));
    if (shared_.url.tls) SURETY_RETURN_IF_ERROR(InitTls());
    RaiseDescriptorLimit();
    return OkStatus();
  }

  int64_t Now() const override { return Shared::Now(); }

  void At(int64_t time_ns, std::function<void()> work) override {
    auto timer = std::make_shared<asio::steady_timer>(shared_.io, TimePoint(time_ns));
    timer->async_wait([timer, work = std::move(work)](ErrorCode error) {
      if (!error) work();
    });
  }

  void Post(std::function<void()> work) override { asio::post(shared_.io, std::move(work)); }

  void WhenReadable(int fd, std::function<void()> work) override {
    const int own = ::dup(fd);  // closed with the descriptor below
    if (own < 0) return;
    auto descriptor = std::make_shared<asio::posix::stream_descriptor>(shared_.io, own);
    descriptor->async_wait(asio::posix::stream_descriptor::wait_read,
                           [descriptor, work = std::move(work)](ErrorCode error) {
      if (!error) work();
    });
  }

  int Warm(int connections) override {
    int waiting = connections;
    const int64_t deadline = Now() + SecondsToNanos(shared_.target.timeout_s);
    std::vector<ConnectionPtr> opening;
    for (int i = 0; i < connections; ++i) {
      opening.push_back(std::make_shared<Connection>(shared_.io));
      shared_.Open(opening.back(), [this, &waiting, connection = opening.back()](ErrorCode error, const char*) {
        --waiting;
        if (!error) shared_.idle.push_back(connection);
      });
    }
    shared_.io.restart();
    while (waiting > 0 && Now() < deadline && !Interrupted()) {
      shared_.io.run_one_until(TimePoint(std::min(deadline, Now() + kLookNanos)));
    }
    const size_t ready = shared_.idle.size();
    if (waiting > 0) {
      for (const ConnectionPtr& connection : opening) connection->Close();
      shared_.idle.clear();
      while (waiting > 0 && shared_.io.run_one() > 0) {
      }
      return 0;
    }
    return static_cast<int>(ready);
  }

  void Send(const std::string& path, std::string body, std::shared_ptr<ExchangeSink> sink) override {
    if (shared_.active.size() >= static_cast<size_t>(shared_.target.max_connections)) {
      sink->OnEnd(ExchangeEnd::kNoConnection,
                  fmt::format("all {} connections were in use", shared_.target.max_connections), Now());
      return;
    }
    const LoadUrl& url = shared_.url;
    std::string head = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: surety/{}\r\n",
                                   body.empty() ? "GET" : "POST", url.base, path, url.authority, SURETY_VERSION);
    if (!shared_.target.api_key.empty()) head += fmt::format("Authorization: Bearer {}\r\n", shared_.target.api_key);
    if (!body.empty()) {
      head += fmt::format("Content-Type: application/json\r\nAccept: text/event-stream\r\nContent-Length: {}\r\n",
                          body.size());
    }
    head += "\r\n";
    auto exchange = std::make_shared<Exchange>(shared_, std::move(head), std::move(body), std::move(sink));
    shared_.active.insert(exchange);
    exchange->Start();
  }

  void CancelAll() override {
    const std::vector<std::shared_ptr<Exchange>> all(shared_.active.begin(), shared_.active.end());
    for (const auto& exchange : all) exchange->Finish(ExchangeEnd::kCancelled, "");
  }

  void Run() override {
    shared_.io.restart();
    shared_.io.run();
  }
  void Stop() override { shared_.io.stop(); }
  int64_t connections_opened() const override { return shared_.opened; }

 private:
  Status InitTls() {
    shared_.tls.emplace(asio::ssl::context::tls_client);
    ErrorCode error;
    if (shared_.target.insecure) {
      shared_.tls->set_verify_mode(asio::ssl::verify_none, error);
      return OkStatus();
    }
    shared_.tls->set_verify_mode(asio::ssl::verify_peer, error);
    const std::string& file = shared_.target.ca_file;
    if (file.empty()) {
      shared_.tls->set_default_verify_paths(error);
    } else {
      shared_.tls->load_verify_file(file, error);
    }
    if (!error) return OkStatus();
    const std::string where = file.empty() ? "the system" : file;
    return IoError(fmt::format("{}: cannot read certificates: {}", where, error.message()));
  }

  static void RaiseDescriptorLimit() {
    rlimit limit = {};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
  }

  Shared shared_;
};

}  // namespace

Result<std::unique_ptr<LoadLoop>> LoadLoop::Make(const LoadTarget& target) {
  auto loop = std::make_unique<AsioLoop>();
  SURETY_RETURN_IF_ERROR(loop->Init(target));
  return loop;
}

}  // namespace surety::cli
