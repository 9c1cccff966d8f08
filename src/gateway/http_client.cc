#include "gateway/http_client.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>

#include "base/clock.h"

namespace surety::gateway {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr int64_t kDefaultLimitNs = 30'000'000'000;
constexpr auto kPollInterval = std::chrono::milliseconds(20);
constexpr size_t kReadBytes = 16 << 10;

Status CallError(const HttpAddress& address, std::string_view doing, const ErrorCode& error) {
  return UnavailableError(address.authority + ": " + std::string(doing) + ": " + error.message());
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return lower;
}

// What a call needs to live on until its last asynchronous step ended.
class Caller {
 public:
  Caller(const HttpCall& call, HttpAddress address, FunctionRef<bool(std::string_view)> on_body)
      : call_(call), address_(std::move(address)), on_body_(on_body), tls_(asio::ssl::context::tls_client) {
    deadline_ns_ = call.deadline_ns > 0 ? call.deadline_ns : Clock::Real().NowNanos() + kDefaultLimitNs;
  }

  Result<HttpReply> Run() {
    SURETY_RETURN_IF_ERROR(Connect());
    SURETY_RETURN_IF_ERROR(Send());
    return Receive();
  }

 private:
  // Runs `start(handler)` and waits until its handler was called, the deadline passed or the caller stopped.
  template <typename Start>
  Status Await(std::string_view doing, Start start) {
    std::optional<ErrorCode> outcome;
    start([&outcome](const ErrorCode& error, auto&&...) { outcome = error; });
    Status ended;
    while (!outcome) {
      const int64_t left_ns = deadline_ns_ - Clock::Real().NowNanos();
      if (ended.ok() && left_ns <= 0) {
        ended = Status(StatusCode::kDeadlineExceeded, address_.authority + ": " + std::string(doing) +
                                                          " was not done in time");
      }
      if (ended.ok() && call_.stop && call_.stop()) ended = CancelledError(address_.authority + ": given up");
      if (!ended.ok()) {
        resolver_.cancel();
        ErrorCode ignored;
        lowest().socket().close(ignored);
      }
      const auto wait = std::min<std::chrono::nanoseconds>(kPollInterval, std::chrono::nanoseconds(
                                                                              std::max<int64_t>(left_ns, 1'000'000)));
      context_.restart();
      context_.run_one_for(wait);
    }
    if (!ended.ok()) return ended;
    if (*outcome && *outcome != bhttp::error::end_of_stream) return CallError(address_, doing, *outcome);
    return OkStatus();
  }

  beast::tcp_stream& lowest() { return stream_ ? beast::get_lowest_layer(*stream_) : plain_; }

  Status Connect() {
    tcp::resolver::results_type endpoints;
    SURETY_RETURN_IF_ERROR(Await("looking up the name", [&](auto done) {
      resolver_.async_resolve(address_.host, address_.port,
                              [done, &endpoints](const ErrorCode& error, tcp::resolver::results_type found) {
                                endpoints = std::move(found);
                                done(error);
                              });
    }));
    if (address_.tls) SURETY_RETURN_IF_ERROR(PrepareTls());
    SURETY_RETURN_IF_ERROR(Await("connecting", [&](auto done) { lowest().async_connect(endpoints, done); }));
    ErrorCode ignored;
    lowest().socket().set_option(tcp::no_delay(true), ignored);
    if (!stream_) return OkStatus();
    return Await("TLS", [&](auto done) { stream_->async_handshake(asio::ssl::stream_base::client, done); });
  }

  Status PrepareTls() {
    ErrorCode error;
    tls_.set_default_verify_paths(error);
    if (!call_.ca_file.empty()) {
      tls_.load_verify_file(call_.ca_file, error);
      if (error) return InvalidArgumentError("'" + call_.ca_file + "': " + error.message());
    }
    tls_.set_verify_mode(asio::ssl::verify_peer, error);
    stream_.emplace(context_, tls_);
    stream_->set_verify_callback(asio::ssl::host_name_verification(address_.host), error);
    if (SSL_set_tlsext_host_name(stream_->native_handle(), address_.host.c_str()) != 1) {
      return UnavailableError(address_.authority + ": the name cannot be sent in TLS");
    }
    return OkStatus();
  }

  Status Send() {
    bhttp::request<bhttp::string_body> request;
    request.method_string(call_.method);
    request.target(address_.path);
    request.version(11);
    request.set(bhttp::field::host, address_.authority);
    request.set(bhttp::field::connection, "close");
    for (const auto& [name, value] : call_.headers) {
      if (name.find_first_of("\r\n:") != std::string::npos || value.find_first_of("\r\n") != std::string::npos) {
        return InvalidArgumentError("header '" + name + "' holds a line break");
      }
      request.set(name, value);
    }
    request.body() = call_.body;
    request.prepare_payload();
    return Await("sending", [&](auto done) {
      stream_ ? bhttp::async_write(*stream_, request, done) : bhttp::async_write(plain_, request, done);
    });
  }

  Result<HttpReply> Receive() {
    parser_.body_limit(boost::none);
    SURETY_RETURN_IF_ERROR(Await("waiting for the answer", [&](auto done) {
      stream_ ? bhttp::async_read_header(*stream_, buffer_, parser_, done)
              : bhttp::async_read_header(plain_, buffer_, parser_, done);
    }));
    if (!parser_.is_header_done()) return Error(UnavailableError(address_.authority + ": closed without an answer"));
    HttpReply reply;
    reply.status = static_cast<int>(parser_.get().result_int());
    for (const auto& field : parser_.get()) {
      reply.headers[LowerCase(field.name_string())] = std::string(field.value());
    }
    const bool streams = reply.status >= 200 && reply.status < 300;
    std::string piece(kReadBytes, '\0');
    size_t total = 0;
    while (!parser_.is_done()) {
      parser_.get().body().data = piece.data();
      parser_.get().body().size = piece.size();
      const Status read = Await("reading the answer", [&](auto done) {
        auto over = [done](ErrorCode error, size_t) {
          if (error == bhttp::error::need_buffer) error = {};
          done(error);
        };
        stream_ ? bhttp::async_read_some(*stream_, buffer_, parser_, std::move(over))
                : bhttp::async_read_some(plain_, buffer_, parser_, std::move(over));
      });
      const size_t n_bytes = piece.size() - parser_.get().body().size;
      total += n_bytes;
      if (total > call_.max_body_bytes) {
        return Error(ResourceExhaustedError(address_.authority + ": the answer is longer than " +
                                            std::to_string(call_.max_body_bytes) + " bytes"));
      }
      if (streams && n_bytes > 0) {
        if (!on_body_(std::string_view(piece).substr(0, n_bytes))) {
          return Error(CancelledError(address_.authority + ": given up"));
        }
      } else {
        reply.body.append(piece, 0, n_bytes);
      }
      SURETY_RETURN_IF_ERROR(read);
    }
    return reply;
  }

  const HttpCall& call_;
  const HttpAddress address_;
  FunctionRef<bool(std::string_view)> on_body_;
  int64_t deadline_ns_ = 0;
  asio::io_context context_;
  asio::ssl::context tls_;
  tcp::resolver resolver_{context_};
  beast::tcp_stream plain_{context_};
  std::optional<beast::ssl_stream<beast::tcp_stream>> stream_;
  beast::flat_buffer buffer_{64 << 10};
  bhttp::response_parser<bhttp::buffer_body> parser_;
};

}  // namespace

Result<HttpAddress> ParseHttpAddress(std::string_view url) {
  const auto wrong = [&](std::string_view why) {
    return Error(InvalidArgumentError("'" + std::string(url) + "': " + std::string(why)));
  };
  HttpAddress address;
  if (url.starts_with("https://")) {
    address.tls = true;
  } else if (!url.starts_with("http://")) {
    return wrong("an address begins with http:// or https://");
  }
  std::string_view rest = url.substr(address.tls ? 8 : 7);
  if (std::ranges::any_of(rest, [](char c) { return c <= ' ' || c == 0x7f; })) return wrong("a space or control byte");
  if (rest.find('#') != std::string_view::npos) return wrong("a fragment (#...) is not sent to a server");
  const size_t slash = rest.find_first_of("/?");
  const std::string_view authority = rest.substr(0, slash);
  address.path = slash == std::string_view::npos ? "/" : std::string(rest.substr(slash));
  if (address.path[0] == '?') address.path.insert(0, "/");
  if (authority.find('@') != std::string_view::npos) return wrong("give credentials by a header, not in the address");
  address.authority = authority;
  std::string_view port;
  if (authority.starts_with("[")) {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return wrong("'[' without ']'");
    address.host = authority.substr(1, close - 1);
    port = authority.substr(close + 1);
  } else {
    const size_t colon = authority.find(':');
    address.host = authority.substr(0, colon);
    port = colon == std::string_view::npos ? "" : authority.substr(colon);
  }
  if (address.host.empty()) return wrong("no host");
  if (port.empty()) {
    address.port = address.tls ? "443" : "80";
  } else if (port[0] != ':' || port.size() < 2 || port.size() > 6 ||
             !std::ranges::all_of(port.substr(1), [](char c) { return c >= '0' && c <= '9'; })) {
    return wrong("after the host comes ':' and a port number");
  } else {
    address.port = port.substr(1);
  }
  return address;
}

Result<HttpReply> StreamHttp(const HttpCall& call, FunctionRef<bool(std::string_view)> on_body) {
  SURETY_ASSIGN_OR_RETURN(HttpAddress address, ParseHttpAddress(call.url));
  try {
    Caller caller(call, std::move(address), on_body);
    return caller.Run();
  } catch (const std::exception& error) {
    return Error(UnavailableError("'" + call.url + "': " + error.what()));
  }
}

Result<HttpReply> CallHttp(const HttpCall& call) {
  std::string body;
  const auto collect = [&](std::string_view piece) {
    body += piece;
    return true;
  };
  SURETY_ASSIGN_OR_RETURN(HttpReply reply, StreamHttp(call, collect));
  if (!body.empty()) reply.body = std::move(body);
  return reply;
}

}  // namespace surety::gateway
