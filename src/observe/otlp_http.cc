#include "observe/otlp_http.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <optional>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

namespace surety::observe {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;

constexpr uint64_t kMaxAnswerBytes = 1 << 20;

bool IsTokenCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

std::string_view WithoutSpaces(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::optional<std::string> PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned byte = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    const auto read = std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16);
    if (read.ec != std::errc() || read.ptr != text.data() + i + 3) return std::nullopt;
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

// Whole seconds; a date is not looked at.
double RetryAfterSeconds(std::string_view header) {
  int seconds = 0;
  const auto read = std::from_chars(header.data(), header.data() + header.size(), seconds);
  return read.ec == std::errc() && read.ptr == header.data() + header.size() && seconds >= 0 ? seconds : -1;
}

// One batch on its way: look up, connect, write, read. Everything happens in the io_context's run, on one thread.
class OtlpPost {
 public:
  using Request = beast::http::request<beast::http::string_body>;

  OtlpPost(asio::io_context& io, const OtlpEndpoint& endpoint, Request request, int64_t timeout_ms)
      : resolver_(io), stream_(io), deadline_(io), endpoint_(endpoint), request_(std::move(request)) {
    parser_.body_limit(kMaxAnswerBytes);
    deadline_.expires_after(std::chrono::milliseconds(timeout_ms));
    deadline_.async_wait([this](error_code error) {
      if (!error) Cut("no answer in time");
    });
    resolver_.async_resolve(endpoint_.host, endpoint_.port, [this](error_code error, tcp::resolver::results_type all) {
      if (Failed(error, "cannot find")) return;
      stream_.async_connect(all, [this](error_code failed, const tcp::endpoint&) { OnConnected(failed); });
    });
  }

  void Cut(const char* why) {
    if (done_) return;
    Finish(why);
    resolver_.cancel();
    stream_.cancel();
  }

  SpanTransport::Reply TakeReply() {
    error_code ignored;
    stream_.socket().close(ignored);
    return std::move(reply_);
  }

 private:
  bool Failed(error_code error, const char* what) {
    if (done_) return true;
    if (!error) return false;
    Finish(std::string(what) + " " + endpoint_.authority + ": " + error.message());
    return true;
  }

  void Finish(std::string problem) {
    done_ = true;
    deadline_.cancel();
    reply_.problem = std::move(problem);
  }

  void OnConnected(error_code error) {
    if (Failed(error, "cannot connect to")) return;
    beast::http::async_write(stream_, request_, [this](error_code write_error, size_t) {
      if (Failed(write_error, "cannot write to")) return;
      beast::http::async_read(stream_, buffer_, parser_, [this](error_code read_error, size_t) { OnRead(read_error); });
    });
  }

  void OnRead(error_code error) {
    if (done_) return;
    // A status counts also where the body behind it could not be read.
    if (!parser_.is_header_done()) {
      (void)Failed(error ? error : error_code(asio::error::eof), "no answer from");
      return;
    }
    const auto& answer = parser_.get();
    reply_.status = static_cast<int>(answer.result_int());
    const auto retry_after = answer.find(beast::http::field::retry_after);
    if (retry_after != answer.end()) {
      reply_.retry_after_s = RetryAfterSeconds({retry_after->value().data(), retry_after->value().size()});
    }
    reply_.body = answer.body();
    Finish("");
  }

  tcp::resolver resolver_;
  beast::tcp_stream stream_;
  asio::steady_timer deadline_;
  const OtlpEndpoint& endpoint_;
  Request request_;
  beast::flat_buffer buffer_;
  beast::http::response_parser<beast::http::string_body> parser_;
  SpanTransport::Reply reply_;
  bool done_ = false;
};

class OtlpHttpTransport final : public SpanTransport {
 public:
  OtlpHttpTransport(OtlpEndpoint endpoint, OtlpHeaders headers, std::string user_agent)
      : endpoint_(std::move(endpoint)), headers_(std::move(headers)), user_agent_(std::move(user_agent)) {}

  Reply Post(const std::string& body, int64_t timeout_ms) override {
    namespace http = beast::http;
    OtlpPost::Request request(http::verb::post, endpoint_.path, 11);
    for (const auto& [name, value] : headers_) request.set(name, value);
    request.set(http::field::host, endpoint_.authority);
    request.set(http::field::user_agent, user_agent_);
    request.set(http::field::content_type, "application/json");
    request.set(http::field::accept, "application/json");
    request.keep_alive(false);
    request.body() = body;
    request.prepare_payload();
    OtlpPost post(io_, endpoint_, std::move(request), timeout_ms);
    io_.restart();
    current_ = &post;
    if (aborted_) post.Cut("given up");
    RunAll(post);
    current_ = nullptr;
    return post.TakeReply();
  }

  void Abort() override {
    aborted_ = true;
    // Where no Post runs, the next one finds this waiting, and that it has been cut already.
    asio::post(io_, [this] {
      if (current_ != nullptr) current_->Cut("given up");
    });
  }

 private:
  // To the last callback: each of them refers to the post.
  void RunAll(OtlpPost& post) {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (...) {
        post.Cut("out of memory");
      }
    }
  }

  const OtlpEndpoint endpoint_;
  const OtlpHeaders headers_;
  const std::string user_agent_;
  asio::io_context io_{1};
  OtlpPost* current_ = nullptr;  // the posting thread's
  std::atomic<bool> aborted_ = false;
};

}  // namespace

Result<OtlpEndpoint> ParseOtlpEndpoint(std::string_view url, bool whole) {
  const auto bad = [&](const char* why) { return Error(InvalidArgumentError("'" + std::string(url) + "' " + why)); };
  if (url.starts_with("https://")) return bad("is https, but spans go over plain http only");
  if (!url.starts_with("http://")) return bad("does not begin with http://");
  for (const char c : url) {
    if (c <= ' ' || c > '~' || c == '#' || c == '@') return bad("may have a host, a port and a path only");
  }
  OtlpEndpoint endpoint;
  const std::string_view rest = url.substr(7);
  const size_t slash = std::min(rest.find('/'), rest.size());
  endpoint.authority = rest.substr(0, slash);
  endpoint.path = rest.substr(slash);
  if (!whole) {
    while (endpoint.path.ends_with('/')) endpoint.path.pop_back();
    endpoint.path += "/v1/traces";
  }
  if (endpoint.path.empty()) endpoint.path = "/";
  endpoint.host = endpoint.authority;
  endpoint.port = "80";
  const size_t bracket = endpoint.host.find(']');
  const size_t colon = endpoint.host.find(':', bracket == std::string::npos ? 0 : bracket);
  if (colon != std::string::npos) {
    endpoint.port = endpoint.host.substr(colon + 1);
    endpoint.host.resize(colon);
    int port = 0;
    const auto read = std::from_chars(endpoint.port.data(), endpoint.port.data() + endpoint.port.size(), port);
    const bool whole_text = read.ptr == endpoint.port.data() + endpoint.port.size();
    if (read.ec != std::errc() || !whole_text || port < 1 || port > 65535) return bad("has no port from 1 to 65535");
  }
  if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']')) {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  }
  if (endpoint.host.empty() || endpoint.host.find_first_of("[]?") != std::string::npos) return bad("has no host");
  return endpoint;
}

Result<OtlpHeaders> ParseOtlpHeaders(std::string_view list) {
  OtlpHeaders headers;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view item = WithoutSpaces(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (item.empty()) continue;
    const size_t equals = std::min(item.find('='), item.size());
    const std::string_view name = WithoutSpaces(item.substr(0, equals));
    const bool is_name = !name.empty() && std::ranges::all_of(name, IsTokenCharacter);
    // The value may be a secret: it is not repeated.
    if (equals == item.size() || !is_name) {
      return Error(InvalidArgumentError("item " + std::to_string(headers.size() + 1) +
                                        " of the headers must have the form name=value"));
    }
    const auto value = PercentDecoded(WithoutSpaces(item.substr(equals + 1)));
    if (!value || std::ranges::any_of(*value, [](char c) { return (c >= 0 && c < ' ') || c == 0x7F; })) {
      return Error(InvalidArgumentError("the value of header '" + std::string(name) +
                                        "' has a bad escape or a control character"));
    }
    headers.emplace_back(name, *value);
  }
  return headers;
}

std::unique_ptr<SpanTransport> MakeOtlpTransport(OtlpEndpoint endpoint, OtlpHeaders headers,
                                                 const std::string& user_agent) {
  return std::make_unique<OtlpHttpTransport>(std::move(endpoint), std::move(headers), user_agent);
}

}  // namespace surety::observe
