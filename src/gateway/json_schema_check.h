// JSON Schema, a closed part of draft 2020-12: a keyword that is not known is refused, never passed over.
//
// Checked: type, enum, const, required, properties, additionalProperties, minProperties, maxProperties, items,
// prefixItems, minItems, maxItems, uniqueItems, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf,
// minLength, maxLength, pattern (RE2, anywhere in the text), anyOf, allOf, oneOf, not, $ref within the schema (#/...),
// true and false. Read and not checked: $schema, $defs, definitions, title, description, default, examples, $comment,
// deprecated, readOnly, writeOnly. Numbers are equal by value (1 and 1.0), lengths are in characters.
//
// Threads: immutable once made. Errors: kInvalidArgument with the place in the schema.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <boost/json/value.hpp>

#include "base/status.h"

namespace re2 {
class RE2;
}

namespace surety::gateway {

class JsonSchema {
 public:
  static Result<std::unique_ptr<JsonSchema>> Make(boost::json::value schema);
  ~JsonSchema();

  // Empty if the value fits; else where (JSON pointer into the value) and what is wrong. A value that would take more
  // than a million steps does not fit.
  std::string Violation(const boost::json::value& value) const;

 private:
  friend class SchemaCompiler;
  friend class SchemaRun;
  JsonSchema() = default;
  boost::json::value schema_;
  std::map<std::string, std::unique_ptr<re2::RE2>, std::less<>> patterns_;
  std::map<std::string, const boost::json::value*, std::less<>> references_;  // $ref -> schema
};

bool JsonEqual(const boost::json::value& a, const boost::json::value& b);

}  // namespace surety::gateway
