#include "gateway/strict_json.h"

#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>

namespace surety::gateway {
namespace {

namespace bjson = boost::json;
using JsonErrorCode = boost::system::error_code;

// Builds the value and remembers the keys of the objects that are open.
class StrictHandler {
 public:
  static constexpr size_t max_object_size = size_t(-1);
  static constexpr size_t max_array_size = size_t(-1);
  static constexpr size_t max_key_size = size_t(-1);
  static constexpr size_t max_string_size = size_t(-1);

  bjson::value Take() { return stack_.release(); }
  const std::string& refused() const { return refused_; }

  bool on_document_begin(JsonErrorCode&) { return stack_.reset(), true; }
  bool on_document_end(JsonErrorCode&) { return true; }
  bool on_object_begin(JsonErrorCode&) { return keys_.emplace_back(), true; }
  bool on_object_end(size_t n, JsonErrorCode&) { return keys_.pop_back(), stack_.push_object(n), true; }
  bool on_array_begin(JsonErrorCode&) { return true; }
  bool on_array_end(size_t n, JsonErrorCode&) { return stack_.push_array(n), true; }
  bool on_key_part(bjson::string_view part, size_t, JsonErrorCode&) {
    key_.append(part.data(), part.size());
    return stack_.push_chars(part), true;
  }
  bool on_key(bjson::string_view rest, size_t, JsonErrorCode& ec) {
    key_.append(rest.data(), rest.size());
    if (!keys_.back().insert(key_).second) return Refuse(ec, "the key '" + key_ + "' stands twice in its object");
    key_.clear();
    return stack_.push_key(rest), true;
  }
  bool on_string_part(bjson::string_view part, size_t, JsonErrorCode&) { return stack_.push_chars(part), true; }
  bool on_string(bjson::string_view rest, size_t, JsonErrorCode&) { return stack_.push_string(rest), true; }
  bool on_number_part(bjson::string_view, JsonErrorCode&) { return true; }
  bool on_int64(int64_t value, bjson::string_view, JsonErrorCode&) { return stack_.push_int64(value), true; }
  bool on_uint64(uint64_t value, bjson::string_view, JsonErrorCode&) { return stack_.push_uint64(value), true; }
  bool on_double(double value, bjson::string_view, JsonErrorCode& ec) {
    if (!std::isfinite(value)) return Refuse(ec, "a number is too large");
    return stack_.push_double(value), true;
  }
  bool on_bool(bool value, JsonErrorCode&) { return stack_.push_bool(value), true; }
  bool on_null(JsonErrorCode&) { return stack_.push_null(), true; }
  bool on_comment_part(bjson::string_view, JsonErrorCode&) { return true; }
  bool on_comment(bjson::string_view, JsonErrorCode&) { return true; }

 private:
  bool Refuse(JsonErrorCode& ec, std::string what) {
    refused_ = std::move(what);
    ec = bjson::make_error_code(bjson::error::syntax);
    return false;
  }

  bjson::value_stack stack_;
  std::vector<std::set<std::string>> keys_;  // ordered: no input makes it slow
  std::string key_, refused_;
};

}  // namespace

Result<bjson::value> ParseStrictJson(std::string_view text, int max_depth) {
  bjson::parse_options options;
  options.max_depth = static_cast<size_t>(max_depth);
  bjson::basic_parser<StrictHandler> parser(options);
  JsonErrorCode ec;
  const size_t consumed = parser.write_some(false, text.data(), text.size(), ec);
  if (!ec && consumed < text.size()) ec = bjson::make_error_code(bjson::error::extra_data);
  if (!ec) return parser.handler().Take();
  const std::string& refused = parser.handler().refused();
  return Error(InvalidArgumentError((refused.empty() ? "not JSON: " + ec.message() : refused) + " at byte " +
                                    std::to_string(consumed)));
}

}  // namespace surety::gateway
