#include "model/formats/json_fields.h"

#include <boost/json/parse.hpp>
#include <boost/json/stream_parser.hpp>
#include <cmath>
#include <limits>

#include "model/formats/text.h"

namespace surety::model {
namespace {

constexpr size_t kMaxDepth = 64;

std::string_view KindName(const boost::json::value& value) {
  switch (value.kind()) {
    case boost::json::kind::null: return "null";
    case boost::json::kind::bool_: return "a boolean";
    case boost::json::kind::int64:
    case boost::json::kind::uint64:
    case boost::json::kind::double_: return "a number";
    case boost::json::kind::string: return "a string";
    case boost::json::kind::array: return "an array";
    case boost::json::kind::object: return "an object";
  }
  return "?";
}

}  // namespace

Result<boost::json::value> ParseJson(std::string_view text, const std::string& where) {
  boost::json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::json::stream_parser parser({}, options);
  boost::json::error_code error;
  const size_t parsed = parser.write_some(text.data(), text.size(), error);
  if (!error && parsed < text.size()) {
    return Error(InvalidArgumentError(where + ": byte " + std::to_string(parsed) + ": text after the end of the JSON"));
  }
  if (!error) parser.finish(error);
  if (error) {
    return Error(InvalidArgumentError(where + ": byte " + std::to_string(parsed) + ": not valid JSON: " +
                                      error.message()));
  }
  return parser.release();
}

Result<boost::json::object> ParseJsonObject(std::string_view text, const std::string& where) {
  SURETY_ASSIGN_OR_RETURN(boost::json::value value, ParseJson(text, where));
  if (!value.is_object()) {
    return Error(InvalidArgumentError(where + ": the file holds " + std::string(KindName(value)) +
                                      ", but an object is needed"));
  }
  return std::move(value.get_object());
}

Result<boost::json::object> ReadJsonObject(FileSystem& files, const std::string& path, int64_t max_size_bytes) {
  SURETY_ASSIGN_OR_RETURN(const std::string text, files.ReadAll(path, max_size_bytes));
  return ParseJsonObject(text, "'" + path + "'");
}

const boost::json::value* JsonFields::Get(std::string_view key) const {
  const boost::json::value* value = object_->if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Result<const boost::json::value*> JsonFields::Needed(std::string_view key) const {
  const boost::json::value* value = Get(key);
  if (value == nullptr) return Error(NotFoundError(where_ + ": key '" + Printable(key) + "' is missing"));
  return value;
}

Status JsonFields::WrongKind(std::string_view key, const boost::json::value& value, std::string_view wanted) const {
  return InvalidArgumentError(where_ + ": key '" + Printable(key) + "' is " + std::string(KindName(value)) + ", but " +
                              std::string(wanted) + " is needed");
}

Status JsonFields::Unimplemented(std::string_view key, const std::string& what) const {
  return UnimplementedError(where_ + ": key '" + Printable(key) + "': " + what);
}

Result<int> JsonFields::Int(std::string_view key) const {
  SURETY_ASSIGN_OR_RETURN(const boost::json::value* value, Needed(key));
  if (!value->is_number()) return Error(WrongKind(key, *value, "an integer"));
  double number = 0;  // exact below 2^53, far past what is accepted
  if (value->is_int64()) number = static_cast<double>(value->get_int64());
  if (value->is_uint64()) number = static_cast<double>(value->get_uint64());
  if (value->is_double()) number = value->get_double();
  if (!(number >= 0 && number <= std::numeric_limits<int32_t>::max()) || number != std::floor(number)) {
    return Error(InvalidArgumentError(where_ + ": key '" + Printable(key) + "' is " + std::to_string(number) +
                                      ", but must be an integer from 0 to 2^31 - 1"));
  }
  return static_cast<int>(number);
}

Result<double> JsonFields::Float(std::string_view key) const {
  SURETY_ASSIGN_OR_RETURN(const boost::json::value* value, Needed(key));
  if (value->is_int64()) return static_cast<double>(value->get_int64());
  if (value->is_uint64()) return static_cast<double>(value->get_uint64());
  if (value->is_double()) return value->get_double();
  return Error(WrongKind(key, *value, "a number"));
}

Result<bool> JsonFields::Bool(std::string_view key, bool fallback) const {
  const boost::json::value* value = Get(key);
  if (value == nullptr) return fallback;
  if (!value->is_bool()) return Error(WrongKind(key, *value, "a boolean"));
  return value->get_bool();
}

Result<std::string> JsonFields::String(std::string_view key) const {
  SURETY_ASSIGN_OR_RETURN(const boost::json::value* value, Needed(key));
  if (!value->is_string()) return Error(WrongKind(key, *value, "a string"));
  return std::string(value->get_string());
}

Result<JsonFields> JsonFields::Object(std::string_view key) const {
  SURETY_ASSIGN_OR_RETURN(const boost::json::value* value, Needed(key));
  if (!value->is_object()) return Error(WrongKind(key, *value, "an object"));
  return JsonFields(value->get_object(), where_ + ", " + std::string(key));
}

Result<const boost::json::array*> JsonFields::Array(std::string_view key) const {
  SURETY_ASSIGN_OR_RETURN(const boost::json::value* value, Needed(key));
  if (!value->is_array()) return Error(WrongKind(key, *value, "an array"));
  return &value->get_array();
}

}  // namespace surety::model
