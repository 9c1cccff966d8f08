#include "http/json_body.h"

#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <boost/json/basic_parser_impl.hpp>

#include "http/sse.h"

namespace surety::http {
namespace {

namespace json = boost::json;
using ErrorCode = boost::system::error_code;

// Builds the value and knows, at any time, which field is being read.
class BodyHandler {
 public:
  static constexpr size_t max_object_size = size_t(-1);
  static constexpr size_t max_array_size = size_t(-1);
  static constexpr size_t max_key_size = size_t(-1);
  static constexpr size_t max_string_size = size_t(-1);

  json::value Release() { return stack_.release(); }
  const std::string& complaint() const { return complaint_; }
  const std::string& complaint_code() const { return complaint_code_; }

  std::string Path() const {
    std::string path;
    for (const Frame& frame : frames_) {
      if (frame.is_array) {
        path += "[" + std::to_string(frame.index) + "]";
      } else if (!frame.key.empty()) {
        if (!path.empty()) path += ".";
        path += frame.key;
      }
    }
    return path;
  }

  bool on_document_begin(ErrorCode&) { return stack_.reset(), true; }
  bool on_document_end(ErrorCode&) { return true; }
  bool on_object_begin(ErrorCode&) { return frames_.emplace_back(false), true; }
  bool on_array_begin(ErrorCode&) { return frames_.emplace_back(true), true; }
  bool on_object_end(size_t n, ErrorCode&) { return frames_.pop_back(), stack_.push_object(n), ValueEnds(); }
  bool on_array_end(size_t n, ErrorCode&) { return frames_.pop_back(), stack_.push_array(n), ValueEnds(); }

  bool on_key_part(json::string_view part, size_t, ErrorCode&) {
    key_.append(part.data(), part.size());
    return stack_.push_chars(part), true;
  }
  bool on_key(json::string_view rest, size_t, ErrorCode& ec) {
    key_.append(rest.data(), rest.size());
    Frame& frame = frames_.back();
    frame.key = std::exchange(key_, {});
    if (!frame.keys.insert(frame.key).second) {
      return Complain(ec, "the key stands twice in its object", "duplicate_key");
    }
    return stack_.push_key(rest), true;
  }
  bool on_string_part(json::string_view part, size_t, ErrorCode&) { return stack_.push_chars(part), true; }
  bool on_string(json::string_view rest, size_t, ErrorCode&) { return stack_.push_string(rest), ValueEnds(); }
  bool on_number_part(json::string_view, ErrorCode&) { return true; }
  bool on_int64(int64_t value, json::string_view, ErrorCode&) { return stack_.push_int64(value), ValueEnds(); }
  bool on_uint64(uint64_t value, json::string_view, ErrorCode&) { return stack_.push_uint64(value), ValueEnds(); }
  bool on_double(double value, json::string_view, ErrorCode& ec) {
    if (!std::isfinite(value)) return Complain(ec, "the number is too large", "invalid_value");
    return stack_.push_double(value), ValueEnds();
  }
  bool on_bool(bool value, ErrorCode&) { return stack_.push_bool(value), ValueEnds(); }
  bool on_null(ErrorCode&) { return stack_.push_null(), ValueEnds(); }
  bool on_comment_part(json::string_view, ErrorCode&) { return true; }
  bool on_comment(json::string_view, ErrorCode&) { return true; }

 private:
  struct Frame {
    explicit Frame(bool array) : is_array(array) {}
    bool is_array;
    size_t index = 0;             // of the element being read
    std::string key;              // of the member being read; empty between two
    std::set<std::string> keys;   // ordered: no input makes it slow
  };

  bool ValueEnds() {
    if (!frames_.empty()) {
      if (frames_.back().is_array) {
        ++frames_.back().index;
      } else {
        frames_.back().key.clear();
      }
    }
    return true;
  }

  bool Complain(ErrorCode& ec, const char* what, const char* code) {
    complaint_ = what;
    complaint_code_ = code;
    ec = json::make_error_code(json::error::syntax);
    return false;
  }

  json::value_stack stack_;
  std::vector<Frame> frames_;
  std::string key_, complaint_, complaint_code_;
};

std::string Explain(const ErrorCode& ec, std::string_view text, size_t at, int max_depth) {
  const size_t utf8 = FirstInvalidUtf8(text);
  if (utf8 < text.size() && utf8 <= at + 4) return "invalid UTF-8 at byte " + std::to_string(utf8) + " of the body";
  const std::string where = " at byte " + std::to_string(at) + " of the body";
  if (ec == json::error::incomplete) return "the body ends in the middle of its JSON";
  if (ec == json::error::too_deep) return "nested more than " + std::to_string(max_depth) + " levels deep" + where;
  if (ec == json::error::extra_data) return "something follows the JSON object" + where;
  // The parser's word for a first half with nothing after it is "syntax".
  const std::string_view before = text.substr(at < 6 ? 0 : at - 6, at < 6 ? 0 : 6);
  const bool first_half = before.size() == 6 && before[0] == '\\' && before[1] == 'u' &&
                          (before[2] == 'd' || before[2] == 'D') &&
                          std::string_view("89abAB").find(before[3]) != std::string_view::npos;
  if (first_half || ec == json::error::illegal_leading_surrogate || ec == json::error::illegal_trailing_surrogate ||
      ec == json::error::expected_utf16_escape) {
    return "half of a surrogate pair" + where;
  }
  if (ec == json::error::exponent_overflow) return "the number is too large" + where;
  return "not JSON" + where + " (" + ec.message() + ")";
}

}  // namespace

Parsed<json::object> ParseJsonBody(std::string_view text, int max_depth) {
  json::parse_options options;
  options.max_depth = static_cast<size_t>(max_depth);
  json::basic_parser<BodyHandler> parser(options);
  ErrorCode ec;
  const size_t consumed = parser.write_some(false, text.data(), text.size(), ec);
  if (!ec && consumed < text.size()) ec = json::make_error_code(json::error::extra_data);
  if (ec) {
    const BodyHandler& handler = parser.handler();
    const bool own = !handler.complaint().empty();
    const std::string path = handler.Path();
    std::string message = path.empty() ? "" : path + ": ";
    message += own ? handler.complaint() : Explain(ec, text, consumed, max_depth);
    return BadField(path, std::move(message), own ? handler.complaint_code() : "invalid_json");
  }
  json::value value = parser.handler().Release();
  if (!value.is_object()) return BadField("", "the body must be a JSON object", "invalid_json");
  return std::move(value.get_object());
}

}  // namespace surety::http
