// JSON Schema (2020-12) to a grammar of JSON texts.
//
// What is generated always satisfies the schema; where a schema admits several spellings of a value, one may be chosen:
// - members of an object come in the order of `properties`, further ones after them;
// - a schema with `properties` and without `additionalProperties` admits no others (as if it were false); one without
//   both admits any;
// - a schema without `type`, `enum` and `const` whose keywords speak of one type admits that type alone;
// - `integer` is written without fraction and exponent, a bounded number without exponent, and never as -0;
// - characters of a string with `pattern` or `format` are written in one way (JsonRules::StringOf), and so are names
// that
//   are not in `properties`;
// - an unconstrained value nests up to kMaxAnyJsonDepth levels.
//
// Enforced: type (lists too), enum, const, properties, required, additionalProperties, minProperties up to 1 or the
// number of required ones, items, prefixItems (and what drafts up to 2019-09 wrote for them: a list as items, with
// additionalItems), minItems, maxItems, minLength, maxLength, pattern (char_dfa.h), format (date, time, date-time,
// uuid, email, ipv4; int32, int64), minimum, maximum, exclusiveMinimum, exclusiveMaximum, anyOf, oneOf where no value
// can satisfy two of its parts (types, constants, or a required property tell them apart), allOf, $ref within the
// document (recursive ones too), boolean schemas. Ignored: annotations. Everything else is refused.
//
// Threads: any. Errors: kInvalidArgument with the JSON pointer of the keyword.
#pragma once

#include <boost/json.hpp>
#include <string>

#include "engine/grammar/grammar_builder.h"
#include "engine/grammar/json_rules.h"

namespace surety::engine {

// The rule for `schema`, which must outlive the call only. `where` stands before pointers in messages: "schema ".
Result<int32_t> AddJsonSchema(const boost::json::value& schema, const std::string& where, GrammarBuilder& builder,
                              JsonRules& rules);

}  // namespace surety::engine
