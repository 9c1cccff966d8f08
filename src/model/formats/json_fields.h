// JSON files with checked access by key: every error names the file and the key.
// Errors: kInvalidArgument (no JSON, with the byte; not an object; a value of another type or out of range), kNotFound
// (a key that must be there). A null counts as absent.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/status.h"

namespace surety::model {

// Nesting is limited to 64. `where` starts the messages, usually the path in quotes.
Result<boost::json::object> ParseJsonObject(std::string_view text, const std::string& where);
Result<boost::json::value> ParseJson(std::string_view text, const std::string& where);
Result<boost::json::object> ReadJsonObject(FileSystem& files, const std::string& path, int64_t max_size_bytes);

// A view of an object, which must outlive it.
class JsonFields {
 public:
  JsonFields(const boost::json::object& object, std::string where) : object_(&object), where_(std::move(where)) {}

  bool Has(std::string_view key) const { return Get(key) != nullptr; }
  const boost::json::value* Get(std::string_view key) const;  // null if absent or a JSON null
  bool Mentions(std::string_view key) const { return object_->contains(key); }  // also as a null
  const std::string& where() const { return where_; }

  // From 0 to 2^31 - 1; a number such as 8.0 is an integer too.
  Result<int> Int(std::string_view key) const;
  Result<int> Int(std::string_view key, int fallback) const { return Has(key) ? Int(key) : Result<int>(fallback); }
  Result<double> Float(std::string_view key) const;
  Result<double> Float(std::string_view key, double fallback) const {
    return Has(key) ? Float(key) : Result<double>(fallback);
  }
  Result<bool> Bool(std::string_view key, bool fallback) const;
  Result<std::string> String(std::string_view key) const;
  Result<std::string> String(std::string_view key, std::string fallback) const {
    return Has(key) ? String(key) : Result<std::string>(std::move(fallback));
  }
  Result<JsonFields> Object(std::string_view key) const;
  Result<const boost::json::array*> Array(std::string_view key) const;

  Status Unimplemented(std::string_view key, const std::string& what) const;

 private:
  Result<const boost::json::value*> Needed(std::string_view key) const;
  Status WrongKind(std::string_view key, const boost::json::value& value, std::string_view wanted) const;

  const boost::json::object* object_;
  std::string where_;
};

}  // namespace surety::model
