#include "gateway/json_schema_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <boost/json/serialize.hpp>
#include <fmt/format.h>
#include <re2/re2.h>

#include "base/nearest_name.h"
#include "gateway/text_folding.h"

namespace surety::gateway {
namespace {

using JsonValue = boost::json::value;

// Exact for all whole numbers of 64 bits.
long double SchemaNumber(const JsonValue& value) {
  if (value.is_int64()) return static_cast<long double>(value.get_int64());
  if (value.is_uint64()) return static_cast<long double>(value.get_uint64());
  return static_cast<long double>(value.get_double());
}

bool SchemaIsInteger(const JsonValue& value) {
  if (value.is_double()) return value.get_double() == std::floor(value.get_double());
  return value.is_int64() || value.is_uint64();
}

bool SchemaIsType(const JsonValue& value, std::string_view type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_bool();
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  return type == "integer" && value.is_number() && SchemaIsInteger(value);
}

// A text that is the same for equal values alone.
void AppendEqualityKey(const JsonValue& value, std::string& key) {
  if (value.is_number()) {
    const long double number = SchemaNumber(value);
    key += fmt::format("n{};", number == 0 ? 0.0L : number);   // 0 and -0 are equal, as are 1 and 1.0
  } else if (value.is_string()) {
    key += fmt::format("s{}:", value.get_string().size()) + std::string(std::string_view(value.get_string()));
  } else if (value.is_array()) {
    key += '[';
    for (const JsonValue& item : value.get_array()) AppendEqualityKey(item, key);
    key += ']';
  } else if (value.is_object()) {
    std::map<std::string_view, const JsonValue*> members;
    for (const auto& member : value.get_object()) members[member.key()] = &member.value();
    key += '{';
    for (const auto& [name, member] : members) {
      key += fmt::format("{}:", name.size()) + std::string(name);
      AppendEqualityKey(*member, key);
    }
    key += '}';
  } else {
    key += value.is_null() ? "z" : value.get_bool() ? "t" : "f";
  }
}

enum class Form {
  kAny, kSchema, kSchemas, kNamedSchemas, kCount, kNumber, kPositive, kBool, kNames, kTypes, kList, kText,
};

struct Keyword {
  std::string_view name;
  Form form;
};
constexpr Keyword kKeywords[] = {
    {"type", Form::kTypes}, {"enum", Form::kList}, {"const", Form::kAny}, {"required", Form::kNames},
    {"properties", Form::kNamedSchemas}, {"additionalProperties", Form::kSchema}, {"minProperties", Form::kCount},
    {"maxProperties", Form::kCount}, {"items", Form::kSchema}, {"prefixItems", Form::kSchemas},
    {"minItems", Form::kCount}, {"maxItems", Form::kCount}, {"uniqueItems", Form::kBool},
    {"minimum", Form::kNumber}, {"maximum", Form::kNumber}, {"exclusiveMinimum", Form::kNumber},
    {"exclusiveMaximum", Form::kNumber}, {"multipleOf", Form::kPositive}, {"minLength", Form::kCount},
    {"maxLength", Form::kCount}, {"pattern", Form::kText}, {"anyOf", Form::kSchemas}, {"allOf", Form::kSchemas},
    {"oneOf", Form::kSchemas}, {"not", Form::kSchema}, {"$ref", Form::kText}, {"$schema", Form::kText},
    {"$defs", Form::kNamedSchemas}, {"definitions", Form::kNamedSchemas}, {"title", Form::kText},
    {"description", Form::kText}, {"default", Form::kAny}, {"examples", Form::kList}, {"$comment", Form::kText},
    {"deprecated", Form::kBool}, {"readOnly", Form::kBool}, {"writeOnly", Form::kBool},
};

std::string FormError(const JsonValue& value, Form form) {
  const auto names = [](const JsonValue& v) {
    return v.is_array() && std::ranges::all_of(v.get_array(), [](const JsonValue& name) { return name.is_string(); });
  };
  switch (form) {
    case Form::kAny: return "";
    case Form::kSchema: return value.is_object() || value.is_bool() ? "" : "must be a schema";
    case Form::kSchemas: return value.is_array() && !value.get_array().empty() ? "" : "must be a list of schemas";
    case Form::kNamedSchemas: return value.is_object() ? "" : "must be an object of schemas";
    case Form::kCount:
      return value.is_number() && SchemaIsInteger(value) && SchemaNumber(value) >= 0 ? "" : "must be a count";
    case Form::kNumber: return value.is_number() ? "" : "must be a number";
    case Form::kPositive: return value.is_number() && SchemaNumber(value) > 0 ? "" : "must be a number above 0";
    case Form::kBool: return value.is_bool() ? "" : "must be true or false";
    case Form::kNames: return names(value) ? "" : "must be a list of names";
    case Form::kList: return value.is_array() ? "" : "must be a list";
    case Form::kText: return value.is_string() ? "" : "must be a text";
    case Form::kTypes: {
      static const std::set<std::string_view> types = {"null",   "boolean", "object", "array",
                                                       "string", "number",  "integer"};
      const auto known = [](const JsonValue& v) {
        return v.is_string() && types.contains(std::string_view(v.get_string()));
      };
      const bool many = value.is_array() && !value.get_array().empty() && std::ranges::all_of(value.get_array(), known);
      return known(value) || many ? "" : "must name types of JSON";
    }
  }
  return "";
}

}  // namespace

// Checks the form of every schema in the schema, and prepares patterns and references.
class SchemaCompiler {
 public:
  explicit SchemaCompiler(JsonSchema& target) : target_(target) {}

  Status Run() {
    SURETY_RETURN_IF_ERROR(Visit(target_.schema_, "#"));
    for (const std::string& reference : pending_) SURETY_RETURN_IF_ERROR(Resolve(reference));
    for (const JsonValue* schema : visited_) SURETY_RETURN_IF_ERROR(FindLoop(*schema, {}));
    return OkStatus();
  }

 private:
  static Status Bad(const std::string& where, std::string_view what) {
    return InvalidArgumentError("schema: " + where + ": " + std::string(what));
  }

  Status Visit(const JsonValue& schema, const std::string& where) {
    if (schema.is_bool()) return OkStatus();
    if (!schema.is_object()) return Bad(where, "must be a schema");
    visited_.insert(&schema);
    for (const auto& member : schema.get_object()) {
      const std::string_view key = member.key();
      const std::string at = where + "/" + std::string(key);
      const auto known = std::ranges::find(kKeywords, key, &Keyword::name);
      if (known == std::end(kKeywords)) return Unknown(where, key);
      if (const std::string error = FormError(member.value(), known->form); !error.empty()) return Bad(at, error);
      SURETY_RETURN_IF_ERROR(VisitMember(*known, member.value(), at));
    }
    return OkStatus();
  }

  static Status Unknown(const std::string& where, std::string_view key) {
    std::vector<std::string> names;
    for (const Keyword& keyword : kKeywords) names.emplace_back(keyword.name);
    const std::string nearest = NearestName(std::string(key), names);
    return Bad(where, "unknown keyword '" + std::string(key) + "'" +
                          (nearest.empty() ? ", which would not be checked" : "; did you mean '" + nearest + "'?"));
  }

  Status VisitMember(const Keyword& keyword, const JsonValue& value, const std::string& at) {
    if (keyword.form == Form::kSchema) return Visit(value, at);
    if (keyword.form == Form::kSchemas) {
      for (size_t i = 0; i < value.get_array().size(); ++i) {
        SURETY_RETURN_IF_ERROR(Visit(value.get_array()[i], at + "/" + std::to_string(i)));
      }
    } else if (keyword.form == Form::kNamedSchemas) {
      for (const auto& member : value.get_object()) {
        SURETY_RETURN_IF_ERROR(Visit(member.value(), at + "/" + std::string(member.key())));
      }
    } else if (keyword.name == "pattern") {
      const std::string pattern(std::string_view(value.get_string()));
      re2::RE2::Options options;
      options.set_log_errors(false);
      auto compiled = std::make_unique<re2::RE2>(pattern, options);
      if (!compiled->ok()) return Bad(at, compiled->error());
      target_.patterns_[pattern] = std::move(compiled);
    } else if (keyword.name == "$ref") {
      pending_.emplace_back(std::string_view(value.get_string()));
    }
    return OkStatus();
  }

  Status Resolve(const std::string& reference) {
    if (!reference.starts_with("#")) return Bad("$ref '" + reference + "'", "must be within the schema (#/...)");
    boost::json::error_code ec;
    const JsonValue* found = reference == "#" ? &target_.schema_
                                              : target_.schema_.find_pointer(std::string_view(reference).substr(1), ec);
    if (found == nullptr || (!found->is_bool() && !visited_.contains(found))) {
      return Bad("$ref '" + reference + "'", "leads to no schema");
    }
    target_.references_[reference] = found;
    return OkStatus();
  }

  // A schema that asks itself about the same value would never answer.
  Status FindLoop(const JsonValue& schema, std::set<const JsonValue*> open) {
    if (schema.is_bool() || settled_.contains(&schema)) return OkStatus();
    if (!open.insert(&schema).second) return Bad("$ref", "a schema refers to itself for the same value");
    for (const auto& member : schema.get_object()) {
      const std::string_view key = member.key();
      if (key == "$ref") {
        const auto target = target_.references_.find(std::string_view(member.value().get_string()));
        SURETY_RETURN_IF_ERROR(FindLoop(*target->second, open));
      } else if (key == "not") {
        SURETY_RETURN_IF_ERROR(FindLoop(member.value(), open));
      } else if (key == "anyOf" || key == "allOf" || key == "oneOf") {
        for (const JsonValue& part : member.value().get_array()) SURETY_RETURN_IF_ERROR(FindLoop(part, open));
      }
    }
    settled_.insert(&schema);
    return OkStatus();
  }

  JsonSchema& target_;
  std::set<const JsonValue*> visited_, settled_;
  std::vector<std::string> pending_;
};

// Branches that refer back take time exponential in the depth of a value: about a second at most.
constexpr int64_t kMostSchemaSteps = 1'000'000;

// One value against the schema. Each function returns what is wrong, empty: nothing.
class SchemaRun {
 public:
  explicit SchemaRun(const JsonSchema& schema) : schema_(schema) {}

  // Whatever it makes of it, where that was too much: "not" of what was given up is no fit.
  std::string Run(const JsonValue& value) const {
    std::string wrong = Check(value, schema_.schema_, "");
    if (n_steps_ <= kMostSchemaSteps) return wrong;
    return "the value: too many ways in which it might fit; the schema refers to itself from several branches";
  }

  std::string Check(const JsonValue& value, const JsonValue& schema, const std::string& at) const {
    if (++n_steps_ > kMostSchemaSteps) return Place(at) + ": given up";
    if (schema.is_bool()) return schema.get_bool() ? "" : at + ": nothing is allowed here";
    for (const auto& member : schema.get_object()) {
      const std::string_view key = member.key();
      std::string wrong = Any(key, member.value(), value, at);
      if (wrong.empty() && value.is_number()) wrong = Number(key, member.value(), value, at);
      if (wrong.empty() && value.is_string()) wrong = Text(key, member.value(), value, at);
      if (wrong.empty() && value.is_array()) wrong = Array(key, member.value(), value.get_array(), schema, at);
      if (wrong.empty() && value.is_object()) wrong = Object(key, member.value(), value.get_object(), schema, at);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

 private:
  static std::string Place(const std::string& at) { return at.empty() ? "the value" : at; }

  size_t CountFitting(const JsonValue& schemas, const JsonValue& value, const std::string& at,
                      std::string* last) const {
    size_t fitting = 0;
    for (const JsonValue& schema : schemas.get_array()) {
      std::string wrong = Check(value, schema, at);
      if (wrong.empty()) ++fitting;
      if (!wrong.empty()) *last = std::move(wrong);
    }
    return fitting;
  }

  std::string Any(std::string_view key, const JsonValue& limit, const JsonValue& value, const std::string& at) const {
    if (key == "type") {
      const bool fits = limit.is_string() ? SchemaIsType(value, limit.get_string())
                                          : std::ranges::any_of(limit.get_array(), [&value](const JsonValue& type) {
                                              return SchemaIsType(value, type.get_string());
                                            });
      return fits ? "" : Place(at) + ": must be of type " + boost::json::serialize(limit);
    }
    if (key == "enum") {
      const bool fits = std::ranges::any_of(limit.get_array(), [&](const JsonValue& v) { return JsonEqual(v, value); });
      return fits ? "" : Place(at) + ": must be one of " + boost::json::serialize(limit);
    }
    if (key == "const" && !JsonEqual(limit, value)) return Place(at) + ": must be " + boost::json::serialize(limit);
    if (key == "$ref") return Check(value, *schema_.references_.find(std::string_view(limit.get_string()))->second, at);
    if (key == "not" && Check(value, limit, at).empty()) return Place(at) + ": fits what it must not (not)";
    if (key == "allOf" || key == "anyOf" || key == "oneOf") {
      std::string last;
      const size_t fitting = CountFitting(limit, value, at, &last);
      if (key == "allOf") return last;
      if (fitting == 0) return Place(at) + ": fits none of " + std::string(key) + "; the last says: " + last;
      if (key == "oneOf" && fitting > 1) return Place(at) + ": fits more than one of oneOf";
    }
    return "";
  }

  static std::string Number(std::string_view key, const JsonValue& limit, const JsonValue& value,
                            const std::string& at) {
    if (!limit.is_number()) return "";
    const long double bound = SchemaNumber(limit), number = SchemaNumber(value);
    bool fits = true;
    if (key == "minimum") fits = number >= bound;
    if (key == "maximum") fits = number <= bound;
    if (key == "exclusiveMinimum") fits = number > bound;
    if (key == "exclusiveMaximum") fits = number < bound;
    if (key == "multipleOf") {
      const long double times = std::round(number / bound);
      fits = std::fabs(number - times * bound) <= 1e-12L * std::max<long double>(1, std::fabs(number));
    }
    return fits ? "" : Place(at) + ": against " + std::string(key) + " " + boost::json::serialize(limit);
  }

  std::string Text(std::string_view key, const JsonValue& limit, const JsonValue& value, const std::string& at) const {
    const std::string_view text = value.get_string();
    bool fits = true;
    if (key == "minLength") fits = static_cast<long double>(CharacterCount(text)) >= SchemaNumber(limit);
    if (key == "maxLength") fits = static_cast<long double>(CharacterCount(text)) <= SchemaNumber(limit);
    if (key == "pattern") {
      const auto pattern = schema_.patterns_.find(std::string_view(limit.get_string()));
      fits = re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *pattern->second);
    }
    return fits ? "" : Place(at) + ": against " + std::string(key) + " " + boost::json::serialize(limit);
  }

  std::string Array(std::string_view key, const JsonValue& limit, const boost::json::array& array,
                    const JsonValue& schema, const std::string& at) const {
    const auto size = static_cast<long double>(array.size());
    if ((key == "minItems" && size < SchemaNumber(limit)) || (key == "maxItems" && size > SchemaNumber(limit))) {
      return fmt::format("{}: {} items, against {} {}", Place(at), array.size(), key, boost::json::serialize(limit));
    }
    if (key == "uniqueItems" && limit.get_bool()) {
      std::unordered_map<std::string, size_t> seen;
      for (size_t j = 0; j < array.size(); ++j) {
        std::string equal;
        AppendEqualityKey(array[j], equal);
        const auto [other, is_new] = seen.emplace(std::move(equal), j);
        if (!is_new) return fmt::format("{}: items {} and {} are equal", Place(at), other->second, j);
      }
    }
    const JsonValue* prefix = schema.get_object().if_contains("prefixItems");
    const size_t n_prefix = prefix == nullptr ? 0 : prefix->get_array().size();
    if (key != "items" && key != "prefixItems") return "";
    const size_t first = key == "items" ? n_prefix : 0;
    const size_t last = key == "items" ? array.size() : std::min(array.size(), n_prefix);
    for (size_t i = first; i < last; ++i) {
      std::string wrong = Check(array[i], key == "items" ? limit : limit.get_array()[i], at + "/" + std::to_string(i));
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

  std::string Object(std::string_view key, const JsonValue& limit, const boost::json::object& object,
                     const JsonValue& schema, const std::string& at) const {
    const auto size = static_cast<long double>(object.size());
    const bool too_few = key == "minProperties" && size < SchemaNumber(limit);
    if (too_few || (key == "maxProperties" && size > SchemaNumber(limit))) {
      return fmt::format("{}: {} members, against {} {}", Place(at), object.size(), key, boost::json::serialize(limit));
    }
    if (key == "required") {
      for (const JsonValue& name : limit.get_array()) {
        if (!object.contains(name.get_string())) {
          return Place(at) + ": has no member '" + std::string(std::string_view(name.get_string())) + "'";
        }
      }
    }
    if (key == "properties") {
      for (const auto& member : limit.get_object()) {
        const JsonValue* value = object.if_contains(member.key());
        if (value == nullptr) continue;
        std::string wrong = Check(*value, member.value(), at + "/" + std::string(member.key()));
        if (!wrong.empty()) return wrong;
      }
    }
    if (key == "additionalProperties") {
      const JsonValue* declared = schema.get_object().if_contains("properties");
      for (const auto& member : object) {
        if (declared != nullptr && declared->get_object().contains(member.key())) continue;
        std::string wrong = Check(member.value(), limit, at + "/" + std::string(member.key()));
        if (!wrong.empty()) return wrong;
      }
    }
    return "";
  }

  mutable int64_t n_steps_ = 0;
  const JsonSchema& schema_;
};

bool JsonEqual(const JsonValue& a, const JsonValue& b) {
  if (a.is_number() && b.is_number()) return SchemaNumber(a) == SchemaNumber(b);
  if (a.kind() != b.kind()) return false;
  if (a.is_array()) return std::ranges::equal(a.get_array(), b.get_array(), JsonEqual);
  if (!a.is_object()) return a == b;
  const auto& other = b.get_object();
  return a.get_object().size() == other.size() &&
         std::ranges::all_of(a.get_object(), [&other](const auto& member) {
           const JsonValue* value = other.if_contains(member.key());
           return value != nullptr && JsonEqual(member.value(), *value);
         });
}

JsonSchema::~JsonSchema() = default;

Result<std::unique_ptr<JsonSchema>> JsonSchema::Make(JsonValue schema) {
  std::unique_ptr<JsonSchema> made(new JsonSchema);
  made->schema_ = std::move(schema);
  SURETY_RETURN_IF_ERROR(SchemaCompiler(*made).Run());
  return made;
}

std::string JsonSchema::Violation(const JsonValue& value) const { return SchemaRun(*this).Run(value); }

}  // namespace surety::gateway
