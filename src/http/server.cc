#include "http/server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "http/connection.h"
#include "http/stream_asio.h"
#include "http/tls.h"

namespace surety::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kBacklog = 1024;
constexpr int64_t kAcceptRetryMs = 100;   // after running out of file descriptors
constexpr int kMaxRefusalsAtOnce = 64;    // polite 503s; beyond, connections are just closed

Status FromSystem(const error_code& ec, const std::string& what) {
  const std::string message = what + ": " + ec.message();
  if (ec == asio::error::address_in_use) {
    return {StatusCode::kAlreadyExists, message + "; another program uses this port, choose another one or 0"};
  }
  if (ec == asio::error::access_denied) return {StatusCode::kPermissionDenied, message};
  if (ec == boost::system::errc::address_not_available) return NotFoundError(message + "; no such address here");
  return IoError(message);
}

// Live connections of all listeners, so that Stop can reach and await them.
class ConnectionTable {
 public:
  void Add(uint64_t id, const std::shared_ptr<Connection>& connection) {
    std::lock_guard lock(mutex_);
    connections_.emplace(id, connection);
  }
  void Remove(uint64_t id) {
    std::lock_guard lock(mutex_);
    connections_.erase(id);
    if (connections_.empty()) empty_.notify_all();
  }
  int size() const {
    std::lock_guard lock(mutex_);
    return static_cast<int>(connections_.size());
  }
  template <typename Call>
  void ForEach(Call call) {
    std::vector<std::shared_ptr<Connection>> all;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [id, weak] : connections_) {
        if (auto connection = weak.lock()) all.push_back(std::move(connection));
      }
    }
    for (const auto& connection : all) call(*connection);
  }
  bool WaitUntilEmpty(int64_t limit_ms) {
    std::unique_lock lock(mutex_);
    return empty_.wait_for(lock, std::chrono::milliseconds(limit_ms), [&] { return connections_.empty(); });
  }
  void WaitUntilEmpty() {
    std::unique_lock lock(mutex_);
    empty_.wait(lock, [&] { return connections_.empty(); });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  std::unordered_map<uint64_t, std::weak_ptr<Connection>> connections_;
};

struct Shared {
  ServerOptions options;
  Server::Dependencies dependencies;
  FailureBrake brake;
  std::atomic<int64_t> buffered_body_bytes = 0;
  std::unique_ptr<asio::ssl::context> tls;
  asio::io_context io;
  ConnectionTable connections;
  std::atomic<uint64_t> next_id = 1;
};

class Listener {
 public:
  Listener(Shared& shared, ListenerOptions options, Router router)
      : shared_(shared),
        options_(std::move(options)),
        gate_(std::move(router),
              {options_.host, options_.open_role, shared.options.cors_origins, shared.options.allowed_hosts},
              shared.dependencies.authenticator),
        log_(*shared.dependencies.metrics, options_.name, gate_.router(), shared.dependencies.access_log,
             *shared.dependencies.clock),
        context_{shared.options.limits, gate_, log_, shared.brake, shared.buffered_body_bytes,
                 *shared.dependencies.clock},
        strand_(asio::make_strand(shared.io)),
        acceptor_(strand_),
        retry_(strand_) {}

  Status Open() {
    error_code ec;
    const std::string where = "listening on " + options_.host + " port " + std::to_string(options_.port);
    tcp::resolver resolver(shared_.io);
    const auto found = resolver.resolve(options_.host, std::to_string(options_.port),
                                        tcp::resolver::passive | tcp::resolver::numeric_service, ec);
    if (ec || found.empty()) {
      return InvalidArgumentError("'" + options_.host + "' is no address of this machine: " + ec.message());
    }
    tcp::endpoint endpoint = found.begin()->endpoint();
    for (const auto& entry : found) {
      if (entry.endpoint().address().is_v4()) endpoint = entry.endpoint();
    }
    if (!endpoint.address().is_loopback() && shared_.dependencies.authenticator == nullptr) {
      return FailedPreconditionError("refusing to listen on " + endpoint.address().to_string() + " ('" +
                                     options_.name + "') without keys: everybody who reaches it could use it. Give the "
                                     "server a file of API keys or a key set for tokens, or listen on 127.0.0.1");
    }
    acceptor_.open(endpoint.protocol(), ec);
    if (!ec) acceptor_.set_option(tcp::acceptor::reuse_address(true), ec);
    if (!ec) acceptor_.bind(endpoint, ec);
    if (!ec) acceptor_.listen(kBacklog, ec);
    if (ec) return FromSystem(ec, where);
    local_ = acceptor_.local_endpoint(ec);
    return ec ? FromSystem(ec, where) : OkStatus();
  }

  void Run() { asio::post(strand_, [this] { Accept(); }); }

  void Close() {
    asio::post(strand_, [this] {
      error_code ignored;
      stopping_ = true;
      retry_.cancel();
      acceptor_.close(ignored);
    });
  }

  const std::string& name() const { return options_.name; }
  int port() const { return local_.port(); }
  std::string url() const {
    const std::string address = local_.address().to_string();
    return (shared_.tls ? "https://" : "http://") + (local_.address().is_v6() ? "[" + address + "]" : address) + ":" +
           std::to_string(local_.port());
  }

 private:
  void Accept() {
    if (stopping_) return;
    acceptor_.async_accept(asio::make_strand(shared_.io), [this](const error_code& ec, tcp::socket socket) {
      if (stopping_) return;
      if (!ec) {
        try {
          Admit(std::move(socket));
        } catch (...) {  // out of memory: this client is lost, the next may have more luck
        }
        return Accept();
      }
      if (ec == asio::error::connection_aborted) return Accept();
      retry_.expires_after(std::chrono::milliseconds(kAcceptRetryMs));
      retry_.async_wait([this](const error_code& wait_ec) {
        if (!wait_ec) Accept();
      });
    });
  }

  void Admit(tcp::socket socket) {
    const int n_open = shared_.connections.size();
    const int limit = shared_.options.limits.max_connections;
    const bool refused = n_open >= limit;
    if (refused && (shared_.tls || n_open >= limit + kMaxRefusalsAtOnce)) {
      log_.ConnectionRefused();
      return;  // closes the socket
    }
    const uint64_t id = shared_.next_id++;
    auto connection = std::make_shared<Connection>(MakeStream(std::move(socket), shared_.tls.get()), context_,
                                                   [this, id] { shared_.connections.Remove(id); });
    shared_.connections.Add(id, connection);
    refused ? connection->StartRefused() : connection->Start();
  }

  Shared& shared_;
  ListenerOptions options_;
  Gate gate_;
  RequestLog log_;
  ConnectionContext context_;
  asio::strand<asio::io_context::executor_type> strand_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  tcp::endpoint local_;
  bool stopping_ = false;  // on the strand
};

class AsioServer : public Server {
 public:
  AsioServer(ServerOptions options, Dependencies dependencies) : work_(shared_.io.get_executor()) {
    shared_.options = std::move(options);
    shared_.dependencies = std::move(dependencies);
  }
  ~AsioServer() override { StopNow(0); }

  Status Open(std::vector<ListenerOptions> listeners) {
    if (shared_.options.tls) {
      SURETY_ASSIGN_OR_RETURN(shared_.tls, MakeTlsContext(*shared_.options.tls));
    }
    for (ListenerOptions& options : listeners) {
      if (options.port < 0 || options.port > 65535) {
        return InvalidArgumentError("port " + std::to_string(options.port) + " is not between 0 and 65535");
      }
      if (port(options.name) >= 0) return InvalidArgumentError("two listeners are named '" + options.name + "'");
      SURETY_ASSIGN_OR_RETURN(Router router, Router::Make(std::move(options.routes)));
      listeners_.push_back(std::make_unique<Listener>(shared_, std::move(options), std::move(router)));
      SURETY_RETURN_IF_ERROR(listeners_.back()->Open());
    }
    return OkStatus();
  }

  void Run() {
    for (const auto& listener : listeners_) listener->Run();
    for (int i = 0; i < shared_.options.io_threads; ++i) threads_.emplace_back([this] { RunThread(); });
  }

  int port(std::string_view name) const override {
    for (const auto& listener : listeners_) {
      if (listener->name() == name) return listener->port();
    }
    return -1;
  }
  std::string url(std::string_view name) const override {
    for (const auto& listener : listeners_) {
      if (listener->name() == name) return listener->url();
    }
    return {};
  }
  int n_connections() const override { return shared_.connections.size(); }
  void Stop(int64_t limit_ms) override { StopNow(limit_ms); }

 private:
  void RunThread() {
    for (;;) {
      try {
        shared_.io.run();
        return;
      } catch (...) {  // callbacks catch their own; this one was the library's, and concerns one operation
      }
    }
  }

  void StopNow(int64_t limit_ms) {
    std::lock_guard lock(stop_mutex_);
    if (stopped_) return;
    stopped_ = true;
    if (!threads_.empty()) {
      for (const auto& listener : listeners_) listener->Close();
      shared_.connections.ForEach([](Connection& connection) { connection.Drain(); });
      // A connection accepted just before its listener closed may have missed the first call.
      if (limit_ms > 0 && !shared_.connections.WaitUntilEmpty(std::min<int64_t>(limit_ms, 50))) {
        shared_.connections.ForEach([](Connection& connection) { connection.Drain(); });
        (void)shared_.connections.WaitUntilEmpty(limit_ms);
      }
      do {
        shared_.connections.ForEach([](Connection& connection) { connection.Abort(); });
      } while (!shared_.connections.WaitUntilEmpty(50));
    }
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
  }

  Shared shared_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::vector<std::thread> threads_;
  std::mutex stop_mutex_;
  bool stopped_ = false;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(ServerOptions options, std::vector<ListenerOptions> listeners,
                                              Dependencies dependencies) {
  if (dependencies.metrics == nullptr || dependencies.clock == nullptr) {
    return Error(InvalidArgumentError("a server needs a metrics registry and a clock"));
  }
  SURETY_RETURN_IF_ERROR(options.Validate());
  auto server = std::make_unique<AsioServer>(std::move(options), std::move(dependencies));
  SURETY_RETURN_IF_ERROR(server->Open(std::move(listeners)));
  server->Run();
  return server;
}

}  // namespace surety::http
