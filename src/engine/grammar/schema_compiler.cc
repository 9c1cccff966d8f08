#include "engine/grammar/schema_compiler.h"

#include <algorithm>

#include "engine/grammar/json_schema.h"
#include "model/tokenizer/unicode.h"

namespace surety::engine {
namespace json = boost::json;
namespace {

uint8_t TypeBits(std::string_view name) {
  if (name == "null") return 1;
  if (name == "boolean") return 2;
  if (name == "integer") return 4;
  if (name == "number") return 4 | 8;
  if (name == "string") return 16;
  return name == "array" ? 32 : 64;
}

uint8_t TypeBit(const json::value& v) {
  if (v.is_null()) return 1;
  if (v.is_bool()) return 2;
  if (v.is_number()) return DecimalOf(v).fraction.empty() ? 4 : 8;
  if (v.is_string()) return 16;
  return v.is_array() ? 32 : 64;
}

// The types that a keyword speaks of; 0: all.
uint8_t SubjectOf(std::string_view keyword) {
  static constexpr std::pair<std::string_view, uint8_t> kSubjects[] = {
      {"properties", 64},       {"required", 64},        {"additionalProperties", 64},
      {"minProperties", 64},    {"maxProperties", 64},   {"items", 32},
      {"prefixItems", 32},      {"minItems", 32},        {"maxItems", 32},
      {"uniqueItems", 32},      {"minLength", 16},       {"maxLength", 16},
      {"pattern", 16},          {"minimum", 12},         {"maximum", 12},
      {"exclusiveMinimum", 12}, {"exclusiveMaximum", 12}};
  for (const auto& [name, bits] : kSubjects) {
    if (name == keyword) return bits;
  }
  return 0;
}

bool IsNumberFormat(std::string_view format) {
  return format == "int32" || format == "int64" || format == "float" || format == "double";
}

}  // namespace

int32_t SchemaCompiler::RuleFor(Conjunction conjunction) {
  std::sort(conjunction.begin(), conjunction.end(),
            [this](Node a, Node b) { return places_.at(a).order < places_.at(b).order; });
  conjunction.erase(std::unique(conjunction.begin(), conjunction.end()), conjunction.end());
  const auto [found, is_new] = rule_of_.try_emplace(conjunction, 0);
  if (!is_new) return found->second;
  std::string name = "anything";
  if (!conjunction.empty()) name = At(conjunction.front(), "", "").message().substr(where_.size());
  if (name.ends_with(": ")) name.resize(name.size() - 2);
  if (conjunction.size() > 1) name += " and " + std::to_string(conjunction.size() - 1) + " more";
  found->second = builder_.NewRule(std::move(name));
  queue_.emplace_back(std::move(conjunction), found->second);
  return found->second;
}

Result<int32_t> SchemaCompiler::Run() {
  if (!root_->is_object() && !root_->is_bool())
    return Error(InvalidArgumentError(where_ + "#: must be an object, true or false"));
  SURETY_RETURN_IF_ERROR(Index());
  const int32_t root = RuleFor({root_});
  while (!queue_.empty()) {
    const auto [conjunction, rule] = std::move(queue_.back());
    queue_.pop_back();
    SURETY_RETURN_IF_ERROR(Compile(conjunction, rule));
    if (!builder_.ok()) return Error(builder_.status().WithContext(where_ + "#"));
  }
  return root;
}

Status SchemaCompiler::Compile(const Conjunction& conjunction, int32_t rule) {
  SURETY_ASSIGN_OR_RETURN(const Flat flat, Flatten(conjunction));
  const int32_t start = builder_.NewState(), end = builder_.NewState();
  builder_.SetRule(rule, start, end);
  if (flat.never) return OkStatus();
  if (flat.choice != nullptr) return CompileChoice(flat, start, end);
  return CompileTypes(flat, start, end);
}

Status SchemaCompiler::CompileChoice(const Flat& flat, int32_t start, int32_t end) {
  if (flat.exclusive) SURETY_RETURN_IF_ERROR(CheckExclusive(flat.choice));
  for (const json::value& part : flat.choice->get_array()) {
    Conjunction branch = flat.nodes;
    branch.push_back(&part);
    builder_.Call(start, RuleFor(std::move(branch)), end);
  }
  return OkStatus();
}

uint8_t SchemaCompiler::TypesOf(const Flat& flat, bool inferred) const {
  uint8_t types = kAllTypes, subjects = 0;
  bool typed = false;
  for (const json::object* schema : flat.schemas) {
    if (const auto* type = schema->if_contains("type")) {
      typed = true;
      uint8_t own = 0;
      if (type->is_string())
        own = TypeBits(type->get_string());
      else
        for (const json::value& name : type->get_array()) own |= TypeBits(name.get_string());
      types &= own;
    }
    for (const auto& member : *schema) {
      subjects |= SubjectOf(member.key());
      if (member.key() == "format") subjects |= IsNumberFormat(member.value().get_string()) ? 12 : 16;
    }
  }
  return inferred && !typed && subjects != 0 ? subjects : types;
}

std::optional<std::set<std::string>> SchemaCompiler::ValuesOf(const Flat& flat) const {
  std::optional<std::set<std::string>> left;
  const auto keep = [&left](std::set<std::string> values) {
    if (left) std::erase_if(values, [&left](const std::string& v) { return !left->contains(v); });
    left = std::move(values);
  };
  for (const json::object* schema : flat.schemas) {
    if (const auto* constant = schema->if_contains("const")) keep({CanonicalJson(*constant)});
    if (const auto* list = schema->if_contains("enum")) {
      std::set<std::string> values;
      for (const json::value& value : list->get_array()) values.insert(CanonicalJson(value));
      keep(std::move(values));
    }
  }
  return left;
}

Status SchemaCompiler::CompileTypes(const Flat& flat, int32_t start, int32_t end) {
  if (ValuesOf(flat)) return AddConstants(flat, start, end);
  const uint8_t types = TypesOf(flat, true);
  if (types == kAllTypes && TypesOf(flat, false) == kAllTypes &&
      std::none_of(flat.schemas.begin(), flat.schemas.end(), [](const json::object* schema) {
        return std::any_of(schema->begin(), schema->end(), [](const auto& m) { return SubjectOf(m.key()) != 0; });
      })) {
    builder_.Call(start, rules_.Value(kMaxAnyJsonDepth), end);
    return OkStatus();
  }
  if ((types & kNull) != 0) builder_.Literal(start, "null", end);
  if ((types & kBool) != 0) builder_.AnyOf(start, {"true", "false"}, end);
  if ((types & kFraction) != 0) {
    SURETY_RETURN_IF_ERROR(AddNumber(flat, false, start, end));
  } else if ((types & kInteger) != 0) {
    SURETY_RETURN_IF_ERROR(AddNumber(flat, true, start, end));
  }
  if ((types & kString) != 0) SURETY_RETURN_IF_ERROR(AddString(flat, start, end));
  if ((types & kArray) != 0) SURETY_RETURN_IF_ERROR(AddArray(flat, start, end));
  if ((types & kObject) != 0) SURETY_RETURN_IF_ERROR(AddObject(flat, start, end));
  return OkStatus();
}

// One value, with white space wherever a written one may have it. As deep as the document at most.
void SchemaCompiler::AddConstant(const json::value& value, int32_t from, int32_t to) {
  if (!value.is_object() && !value.is_array()) return builder_.Literal(from, JsonText(value), to);
  const bool is_object = value.is_object();
  const auto spaced = [this](int32_t at) {
    const int32_t next = builder_.NewState();
    builder_.Call(at, rules_.Space(), next);
    return next;
  };
  const auto byte = [this](int32_t at, char c, int32_t next) {
    builder_.Bytes(at, static_cast<uint8_t>(c), static_cast<uint8_t>(c), next);
    return next;
  };
  int32_t at = spaced(byte(from, is_object ? '{' : '[', builder_.NewState()));
  bool first = true;
  const auto add = [&](std::string_view name, const json::value& part) {
    if (!first) at = spaced(byte(at, ',', builder_.NewState()));
    first = false;
    if (is_object) {
      const int32_t colon = builder_.NewState();
      builder_.Literal(at, JsonRules::Quote(name) + ":", colon);
      at = spaced(colon);
    }
    const int32_t next = builder_.NewState();
    AddConstant(part, at, next);
    at = next;
  };
  if (is_object) {
    for (const auto& member : value.get_object()) add(member.key(), member.value());
  } else {
    for (const json::value& item : value.get_array()) add("", item);
  }
  byte(first ? at : spaced(at), is_object ? '}' : ']', to);
}

Status SchemaCompiler::AddConstants(const Flat& flat, int32_t start, int32_t end) {
  const auto left = ValuesOf(flat);
  std::vector<std::string> texts;
  for (const json::object* schema : flat.schemas) {
    std::vector<Node> values;
    if (const auto* constant = schema->if_contains("const")) values.push_back(constant);
    if (const auto* list = schema->if_contains("enum")) {
      for (const json::value& value : list->get_array()) values.push_back(&value);
    }
    for (Node value : values) {
      if (!left->contains(CanonicalJson(*value))) continue;
      SURETY_ASSIGN_OR_RETURN(const bool admitted, Admits(flat, value));
      if (!admitted) continue;
      if (value->is_object() || value->is_array())
        AddConstant(*value, start, end);
      else
        texts.push_back(JsonText(*value));
    }
    if (!values.empty()) break;  // what is left is among any schema's values
  }
  builder_.AnyOf(start, std::move(texts), end);
  return OkStatus();
}

// Whether a constant satisfies the keywords beside enum and const.
Result<bool> SchemaCompiler::Admits(const Flat& flat, Node value) {
  const uint8_t type = TypeBit(*value);
  if ((TypesOf(flat, false) & type) == 0) return false;
  if (value->is_number()) return RangeOf(flat, false).Contains(DecimalOf(*value));
  if (value->is_string()) {
    int64_t least = 0, most = -1;
    SURETY_RETURN_IF_ERROR(LengthsOf(flat, "minLength", "maxLength", least, most));
    int64_t length = 0;
    const std::string_view text = value->get_string();
    for (size_t at = 0; at < text.size(); ++length) at += static_cast<size_t>(model::CharLength(text, at));
    if (length < least || (most >= 0 && length > most)) return false;
    SURETY_ASSIGN_OR_RETURN(const auto dfa, DfaOf(flat));
    return !dfa || dfa->Accepts(text);
  }
  if (!value->is_array() && !value->is_object()) return true;
  for (const json::object* schema : flat.schemas) {
    for (const auto& member : *schema) {
      if (SubjectOf(member.key()) != type) continue;
      return Error(At(NodeOf(*schema), member.key(), "cannot be enforced beside constants that are arrays or objects"));
    }
  }
  return true;
}

Result<SchemaCompiler::Facts> SchemaCompiler::FactsOf(Flat flat) const {
  Facts facts;
  facts.written = TypesOf(flat, true);
  facts.meant = TypesOf(flat, false);
  facts.values = ValuesOf(flat);
  if (facts.values) {
    uint8_t types = 0;
    for (const json::object* schema : flat.schemas) {
      if (const auto* constant = schema->if_contains("const")) types |= TypeBit(*constant);
      if (const auto* list = schema->if_contains("enum")) {
        for (const json::value& value : list->get_array()) types |= TypeBit(value);
      }
    }
    facts.meant &= types;
    facts.written = facts.meant;
  }
  if (flat.never) facts.written = facts.meant = 0;
  facts.flat = std::move(flat);
  return facts;
}

// Whether nothing that is written for `a` can satisfy `b`.
Result<bool> SchemaCompiler::Excludes(const Facts& a, const Facts& b) {
  if ((a.written & b.meant) == 0) return true;
  const auto disjoint = [](const auto& x, const auto& y) {
    return x && y && std::none_of(x->begin(), x->end(), [&y](const std::string& v) { return y->contains(v); });
  };
  if (disjoint(a.values, b.values)) return true;
  if (a.written != kObject || a.values) return false;
  for (const json::object* schema : a.flat.schemas) {
    const auto* required = schema->if_contains("required");
    if (required == nullptr) continue;
    for (const json::value& name : required->get_array()) {
      const Conjunction in_b = PropertyOf(b.flat, name.get_string());
      SURETY_ASSIGN_OR_RETURN(const Flat flat_b, Flatten(in_b));
      if (flat_b.never) return true;
      SURETY_ASSIGN_OR_RETURN(const Flat flat_a, Flatten(PropertyOf(a.flat, name.get_string())));
      if (disjoint(ValuesOf(flat_a), ValuesOf(flat_b))) return true;
    }
  }
  return false;
}

// Judged with the schema that holds the list alone, so that what is found holds wherever that schema is used.
Status SchemaCompiler::CheckExclusive(Node parts) {
  if (exclusive_.contains(parts)) return OkStatus();
  Node owner = places_.at(parts).parent;
  std::vector<Facts> facts;
  for (const json::value& part : parts->get_array()) {
    SURETY_ASSIGN_OR_RETURN(Flat flat, Flatten({owner, &part}));
    SURETY_ASSIGN_OR_RETURN(Facts own, FactsOf(std::move(flat)));
    facts.push_back(std::move(own));
  }
  for (size_t i = 0; i < facts.size(); ++i) {
    builder_.CheckTime();
    if (!builder_.ok()) return builder_.status();
    for (size_t j = 0; j < facts.size(); ++j) {
      if (i == j) continue;
      SURETY_ASSIGN_OR_RETURN(const bool excludes, Excludes(facts[i], facts[j]));
      if (excludes) continue;
      return At(owner, "oneOf",
                "parts " + std::to_string(std::min(i, j)) + " and " + std::to_string(std::max(i, j)) +
                    " may hold at once, and that cannot be prevented; use anyOf, or tell them apart by "
                    "type, or by a required property with different constants");
    }
  }
  exclusive_.insert(parts);
  return OkStatus();
}

Result<int32_t> AddJsonSchema(const json::value& schema, const std::string& where, GrammarBuilder& builder,
                              JsonRules& rules) {
  return SchemaCompiler(schema, where, builder, rules).Run();
}

Result<GrammarPtr> CompileJsonSchema(const json::value& schema, const GrammarLimits& limits) {
  GrammarBuilder builder(limits);
  JsonRules rules(builder);
  SURETY_ASSIGN_OR_RETURN(const int32_t root, AddJsonSchema(schema, "schema ", builder, rules));
  auto grammar = builder.Finish(root);
  if (!grammar) return Error(grammar.error().WithContext("schema #"));
  return grammar;
}

Result<GrammarPtr> CompileConstraint(const api::Constraint& constraint, const GrammarLimits& limits) {
  switch (constraint.kind) {
    case api::Constraint::Kind::kNone:
      return GrammarPtr();
    case api::Constraint::Kind::kJsonObject:
      return CompileJsonObject(limits);
    case api::Constraint::Kind::kJsonSchema:
      return CompileJsonSchema(constraint.schema, limits);
    case api::Constraint::Kind::kGrammar:
      return CompileGbnf(constraint.grammar, limits);
  }
  return Error(InternalError("an unknown kind of constraint"));
}

}  // namespace surety::engine
