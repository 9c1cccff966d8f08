#include <memory>
#include <utility>

#include <boost/json/serialize.hpp>

#include "gateway/json_schema_check.h"
#include "gateway/strict_json.h"
#include "gateway/verifier_kinds.h"

namespace surety::gateway {
namespace {

class SchemaVerifier : public SpecVerifier {
 public:
  SchemaVerifier(const VerifierSpec& spec, std::unique_ptr<JsonSchema> schema, const Clock& clock)
      : SpecVerifier(spec, VerifierVersion(1, boost::json::serialize(spec.schema)), clock),
        schema_(std::move(schema)) {}

  Verdict Check(const AnswerText& answer, const Evidence&, int64_t deadline_ns) const override {
    if (Late(deadline_ns)) return LateVerdict();
    const auto value = ParseStrictJson(answer.text);
    std::string wrong = value ? schema_->Violation(*value) : value.error().message();
    if (wrong.empty()) return VerdictOf({});
    return VerdictOf({{"against the schema: " + std::move(wrong), "text", 0, answer.text.size()}});
  }

 private:
  std::unique_ptr<JsonSchema> schema_;
};

}  // namespace

MadeVerifier MakeSchemaVerifier(const VerifierSpec& spec, const Clock& clock) {
  if (!spec.schema.is_object() || spec.schema.get_object().empty()) {
    return Error(SpecError(spec, "schema is missing: it would pass everything"));
  }
  auto schema = JsonSchema::Make(spec.schema);
  if (!schema) return Error(SpecError(spec, schema.error().message()));
  return std::make_unique<SchemaVerifier>(spec, *std::move(schema), clock);
}

}  // namespace surety::gateway
