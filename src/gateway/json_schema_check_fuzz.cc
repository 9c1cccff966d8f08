// A schema and a value, a line each: refused, or a check that ends and says where.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <boost/json.hpp>

#include "base/check.h"
#include "gateway/json_schema_check.h"
#include "gateway/strict_json.h"

namespace surety::gateway {
namespace {

void OneSchema(std::string_view text) {
  const size_t line = std::min(text.find('\n'), text.size());
  const auto schema = ParseStrictJson(text.substr(0, line));
  if (!schema) return;
  SURETY_CHECK(JsonEqual(*schema, *schema));
  const auto checker = JsonSchema::Make(*schema);
  if (!checker) {
    SURETY_CHECK(!checker.error().message().empty());
    return;
  }
  const auto value = ParseStrictJson(text.substr(std::min(line + 1, text.size())));
  if (!value) return;
  const std::string violation = (*checker)->Violation(*value);
  SURETY_CHECK(violation == (*checker)->Violation(*value));
  // "not" turns a schema round.
  boost::json::object turned{{"not", *schema}};
  if (schema->is_object()) {   // places of $ref move when the schema does
    if (boost::json::serialize(*schema).find("$ref") != std::string::npos) return;
  }
  const auto opposite = JsonSchema::Make(turned);
  if (opposite) SURETY_CHECK((*opposite)->Violation(*value).empty() != violation.empty());
}

}  // namespace
}  // namespace surety::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  surety::gateway::OneSchema(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
