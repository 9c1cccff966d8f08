#include "cli/load_http_reply.h"

#include <cstdlib>
#include <utility>

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/field.hpp>

namespace surety::cli {
namespace {

namespace beast = boost::beast;
using ErrorCode = beast::error_code;

constexpr uint32_t kMaxHeaderBytes = 64 << 10;
constexpr size_t kMaxFramingBytes = 128 << 10;  // held back unparsed: a header or a chunk's line

class Parser final : public HttpReplyParser, public beast::http::basic_parser<false> {
 public:
  explicit Parser(Events events) : events_(std::move(events)) {
    eager(true);
    body_limit(boost::none);
    header_limit(kMaxHeaderBytes);
  }

  bool Feed(std::string_view bytes) override {
    held_.append(bytes);
    while (!held_.empty() && !is_done()) {
      ErrorCode error;
      const size_t used = put(boost::asio::const_buffer(held_.data(), held_.size()), error);
      held_.erase(0, used);
      if (error == beast::http::error::need_more) return CheckHeld();
      if (error) return Fail(error.message());
      if (used == 0) break;
    }
    return is_done() && !held_.empty() ? Fail("bytes after the end of the response") : CheckHeld();
  }

  bool FeedEnd() override {
    ErrorCode error;
    if (!got_some()) return false;
    put_eof(error);
    return !error && is_done();
  }

  bool complete() const override { return is_done(); }
  bool keep_alive() const override { return beast::http::basic_parser<false>::keep_alive(); }
  const std::string& error() const override { return error_; }

 private:
  bool Fail(std::string message) {
    error_ = std::move(message);
    return false;
  }
  bool CheckHeld() { return held_.size() <= kMaxFramingBytes || Fail("a header or chunk line without end"); }

  void on_request_impl(beast::http::verb, beast::string_view, beast::string_view, int, ErrorCode&) override {}
  void on_response_impl(int code, beast::string_view, int, ErrorCode&) override { status_ = code; }
  void on_field_impl(beast::http::field name, beast::string_view, beast::string_view value, ErrorCode&) override {
    if (name == beast::http::field::content_type) event_stream_ = value.starts_with("text/event-stream");
    if (name == beast::http::field::retry_after) {
      const std::string text(value);
      char* end = nullptr;
      const double seconds = std::strtod(text.c_str(), &end);
      if (end != text.c_str() && *end == '\0' && seconds >= 0) retry_after_s_ = seconds;
    }
  }
  void on_header_impl(ErrorCode&) override { events_.on_header(status_, event_stream_, retry_after_s_); }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCode&) override {}
  size_t on_body_impl(beast::string_view body, ErrorCode&) override {
    events_.on_body(std::string_view(body.data(), body.size()));
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, ErrorCode&) override {}
  size_t on_chunk_body_impl(std::uint64_t, beast::string_view body, ErrorCode&) override {
    if (!body.empty()) events_.on_body(std::string_view(body.data(), body.size()));
    return body.size();
  }
  void on_finish_impl(ErrorCode&) override {}

  Events events_;
  int status_ = 0;
  bool event_stream_ = false;
  double retry_after_s_ = -1;
  std::string held_, error_;
};

}  // namespace

std::unique_ptr<HttpReplyParser> HttpReplyParser::Make(Events events) {
  return std::make_unique<Parser>(std::move(events));
}

}  // namespace surety::cli
