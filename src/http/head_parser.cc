#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include "http/request_head.h"

namespace surety::http {
namespace {

namespace beast = boost::beast;
using beast::string_view;
using ErrorCode = beast::error_code;

constexpr size_t kMaxFields = 100;

std::string Lower(string_view text) {
  std::string out(text.data(), text.size());
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

// Beast reads the syntax of the head; what the fields mean for us is decided in Interpret. Bodies are not its job.
class BeastHead : public beast::http::basic_parser<true> {
 public:
  explicit BeastHead(RequestHead& head) : head_(head) {}

  bool too_many_fields() const { return n_fields_ > kMaxFields; }
  int n_hosts() const { return n_hosts_; }
  int n_transfer_encodings() const { return n_transfer_encodings_; }

 private:
  void on_request_impl(beast::http::verb, string_view method, string_view target, int version, ErrorCode&) override {
    head_.method = method;
    head_.target = target;
    head_.http_1_1 = version == 11;
  }
  void on_field_impl(beast::http::field, string_view name, string_view value, ErrorCode& ec) override {
    if (++n_fields_ > kMaxFields) {
      ec = beast::http::error::header_limit;
      return;
    }
    const std::string key = Lower(name);
    n_hosts_ += key == "host";
    n_transfer_encodings_ += key == "transfer-encoding";
    const auto [found, is_new] = head_.headers.try_emplace(key, value.data(), value.size());
    if (!is_new) found->second.append(key == "cookie" ? "; " : ", ").append(value.data(), value.size());
  }
  void on_header_impl(ErrorCode&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCode&) override {}
  size_t on_body_impl(string_view body, ErrorCode&) override { return body.size(); }
  void on_chunk_header_impl(std::uint64_t, string_view, ErrorCode&) override {}
  size_t on_chunk_body_impl(std::uint64_t, string_view body, ErrorCode&) override { return body.size(); }
  void on_finish_impl(ErrorCode&) override {}
  void on_response_impl(int, string_view, int, ErrorCode&) override {}

  RequestHead& head_;
  size_t n_fields_ = 0;
  int n_hosts_ = 0;
  int n_transfer_encodings_ = 0;
};

Refused FromBeast(const ErrorCode& ec, bool too_many_fields) {
  using beast::http::error;
  if (too_many_fields) {
    return {431, "header_too_large", "more than " + std::to_string(kMaxFields) + " header fields"};
  }
  if (ec == error::header_limit || ec == error::buffer_overflow) {
    return {431, "header_too_large", "the request line and headers are too long"};
  }
  return {400, "bad_request", "this is not HTTP/1.1: " + ec.message()};
}

std::optional<Refused> Interpret(const BeastHead& parsed, RequestHead& head) {
  if (parsed.n_hosts() > 1 || (head.http_1_1 && parsed.n_hosts() == 0)) {
    return Refused{400, "bad_request", "a request has exactly one Host header"};
  }
  head.keep_alive = parsed.keep_alive();
  if (parsed.n_transfer_encodings() > 0) {
    // Anything else than one plain "chunked" could be read in two ways by two servers in a row.
    if (parsed.n_transfer_encodings() > 1 || Lower(head.headers["transfer-encoding"]) != "chunked") {
      return Refused{501, "not_implemented", "the only transfer encoding understood is chunked"};
    }
    if (!head.http_1_1) return Refused{400, "bad_request", "HTTP/1.0 has no Transfer-Encoding"};
    head.chunked = true;
  } else if (const auto length = parsed.content_length()) {
    head.content_length = *length;
  }
  if (const auto expect = head.headers.find("expect"); expect != head.headers.end() && head.http_1_1) {
    if (Lower(expect->second) != "100-continue") {
      return Refused{417, "expectation_failed", "the only expectation understood is 100-continue"};
    }
    head.expects_continue = head.has_body();
  }
  return std::nullopt;
}

}  // namespace

struct HeadParser::State {
  explicit State(size_t limit) : max_bytes(limit), parser(head) {
    parser.header_limit(static_cast<std::uint32_t>(limit));
    parser.body_limit(boost::none);
  }

  size_t max_bytes;
  size_t consumed = 0;
  RequestHead head;
  BeastHead parser;
  bool done = false;
  std::optional<Refused> refused;
};

HeadParser::HeadParser(size_t max_bytes) : state_(std::make_unique<State>(max_bytes)) {}
HeadParser::~HeadParser() = default;
HeadParser::HeadParser(HeadParser&&) noexcept = default;
HeadParser& HeadParser::operator=(HeadParser&&) noexcept = default;

bool HeadParser::done() const { return state_->done; }
const std::optional<Refused>& HeadParser::refused() const { return state_->refused; }
RequestHead& HeadParser::head() { return state_->head; }

size_t HeadParser::Feed(std::string_view bytes) {
  State& state = *state_;
  if (state.done || state.refused) return 0;
  ErrorCode ec;
  const size_t consumed = state.parser.put(boost::asio::const_buffer(bytes.data(), bytes.size()), ec);
  state.consumed += consumed;
  if (ec && ec != beast::http::error::need_more) {
    state.refused = FromBeast(ec, state.parser.too_many_fields());
  } else if (state.consumed > state.max_bytes) {
    state.refused = FromBeast(beast::http::error::header_limit, false);
  } else if (state.parser.is_header_done()) {
    state.refused = Interpret(state.parser, state.head);
    state.done = !state.refused;
  }
  return consumed;
}

}  // namespace surety::http
