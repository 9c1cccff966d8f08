// The types' side of schema_compiler.h: objects, arrays, strings, numbers.
#include <algorithm>

#include "engine/grammar/schema_compiler.h"

namespace surety::engine {
namespace json = boost::json;
namespace {

constexpr int64_t kHuge = int64_t{1} << 40;  // more than any budget

int64_t CountOf(const json::value& number) {
  const Decimal count = DecimalOf(number);
  return count.whole.size() > 12 ? kHuge : count.whole.empty() ? 0 : std::stoll(count.whole);
}

// The schemas of an array's first items, and the one of further items; null: any.
const json::array* FirstItems(const json::object& schema) {
  if (const auto* first = schema.if_contains("prefixItems")) return &first->get_array();
  const auto* items = schema.if_contains("items");
  return items != nullptr ? items->if_array() : nullptr;
}

const json::value* FurtherItems(const json::object& schema) {
  const auto* items = schema.if_contains("items");
  return items != nullptr && items->is_array() ? schema.if_contains("additionalItems") : items;
}

}  // namespace

Status SchemaCompiler::LengthsOf(const Flat& flat, const char* least_name, const char* most_name, int64_t& least,
                                 int64_t& most) const {
  for (const json::object* schema : flat.schemas) {
    if (const auto* n = schema->if_contains(least_name)) least = std::max(least, CountOf(*n));
    if (const auto* n = schema->if_contains(most_name)) most = most < 0 ? CountOf(*n) : std::min(most, CountOf(*n));
    const auto budget = static_cast<int64_t>(builder_.limits().max_states);
    for (const char* name : {least_name, most_name}) {
      const auto* n = schema->if_contains(name);
      if (n == nullptr || CountOf(*n) < budget) continue;
      return At(NodeOf(*schema), name, "too large to be enforced; it must be under " + std::to_string(budget));
    }
  }
  return OkStatus();
}

NumberRange SchemaCompiler::RangeOf(const Flat& flat, bool whole) const {
  NumberRange range;
  range.whole = whole;
  for (const json::object* schema : flat.schemas) {
    for (const bool excluded : {false, true}) {
      if (const auto* low = schema->if_contains(excluded ? "exclusiveMinimum" : "minimum")) {
        range.AtLeast({DecimalOf(*low), excluded});
      }
      if (const auto* high = schema->if_contains(excluded ? "exclusiveMaximum" : "maximum")) {
        range.AtMost({DecimalOf(*high), excluded});
      }
    }
    const auto* format = schema->if_contains("format");
    if (format == nullptr) continue;
    if (format->get_string() == "int32") {
      range.AtLeast({Decimal::FromInt(INT32_MIN)});
      range.AtMost({Decimal::FromInt(INT32_MAX)});
    } else if (format->get_string() == "int64") {
      range.AtLeast({Decimal::FromInt(INT64_MIN)});
      range.AtMost({Decimal::FromInt(INT64_MAX)});
    }
  }
  return range;
}

Status SchemaCompiler::AddNumber(const Flat& flat, bool whole, int32_t start, int32_t end) {
  const NumberRange range = RangeOf(flat, whole);
  if (!range.low && !range.high) {
    builder_.Call(start, whole ? rules_.Integer() : rules_.Number(), end);
  } else {
    AddNumberRange(builder_, range, start, end);
  }
  return OkStatus();
}

std::string_view FormatPattern(std::string_view format) {
#define SURETY_YEAR "[0-9]{4}"
#define SURETY_DATE                                                         \
  "(" SURETY_YEAR "-(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|" SURETY_YEAR \
  "-(0[469]|11)-(0[1-9]|[12][0-9]|30)|" SURETY_YEAR                         \
  "-02-(0[1-9]|1[0-9]|2[0-8])|"                                             \
  "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29)"
#define SURETY_TIME "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define SURETY_BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
  static constexpr std::pair<std::string_view, std::string_view> kPatterns[] = {
      {"date", "^" SURETY_DATE "$"},
      {"time", "^" SURETY_TIME "$"},
      {"date-time", "^" SURETY_DATE "T" SURETY_TIME "$"},
      {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
      {"email",
       "^[a-zA-Z0-9_+-]+(\\.[a-zA-Z0-9_+-]+)*@[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?"
       "(\\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)+$"},
      {"ipv4", "^(" SURETY_BYTE "\\.){3}" SURETY_BYTE "$"}};
#undef SURETY_YEAR
#undef SURETY_DATE
#undef SURETY_TIME
#undef SURETY_BYTE
  for (const auto& [name, pattern] : kPatterns) {
    if (name == format) return pattern;
  }
  return {};
}

Result<std::optional<CharDfa>> SchemaCompiler::DfaOf(const Flat& flat) {
  std::optional<CharDfa> joined;
  for (const json::object* schema : flat.schemas) {
    for (const char* keyword : {"pattern", "format"}) {
      const auto* value = schema->if_contains(keyword);
      if (value == nullptr) continue;
      std::string_view pattern = value->get_string();
      if (std::string_view(keyword) == "format") {
        if (pattern == "int32" || pattern == "int64" || pattern == "float" || pattern == "double") continue;
        pattern = FormatPattern(pattern);
        if (pattern.empty()) {
          return Error(At(NodeOf(*schema), keyword,
                          "'" + std::string(value->get_string()) +
                              "' cannot be enforced; known are date, time, date-time, uuid, "
                              "email, ipv4"));
        }
      }
      auto dfa = CompilePattern(pattern, builder_);
      if (!dfa) return Error(At(NodeOf(*schema), keyword, dfa.error().message()));
      joined = joined ? Intersect(*joined, *dfa, builder_) : *std::move(dfa);
      if (!builder_.ok()) return Error(At(NodeOf(*schema), keyword, builder_.status().message()));
    }
  }
  return joined;
}

Status SchemaCompiler::AddString(const Flat& flat, int32_t start, int32_t end) {
  int64_t least = 0, most = -1;
  SURETY_RETURN_IF_ERROR(LengthsOf(flat, "minLength", "maxLength", least, most));
  if (most >= 0 && most < least) return OkStatus();
  SURETY_ASSIGN_OR_RETURN(auto dfa, DfaOf(flat));
  if (dfa) {
    if (least > 0 || most >= 0) dfa = Intersect(*dfa, LengthDfa(least, most, builder_), builder_);
    if (builder_.ok()) rules_.StringOf(*dfa, start, end);
    return OkStatus();
  }
  if (least == 0 && most < 0) {
    builder_.Call(start, rules_.String(), end);
    return OkStatus();
  }
  int32_t at = builder_.NewState();
  builder_.Bytes(start, '"', '"', at);
  for (int64_t i = 0; (i < least || i < most) && builder_.ok(); ++i) {
    if (i >= least) builder_.Bytes(at, '"', '"', end);
    const int32_t next = builder_.NewState();
    rules_.AddChar(at, next);
    at = next;
  }
  if (most < 0) rules_.AddChar(at, at);
  builder_.Bytes(at, '"', '"', end);
  return OkStatus();
}

SchemaCompiler::Conjunction SchemaCompiler::ItemOf(const Flat& flat, size_t index) const {
  Conjunction item;
  for (const json::object* schema : flat.schemas) {
    const json::array* first = FirstItems(*schema);
    if (first != nullptr && index < first->size()) {
      item.push_back(&(*first)[index]);
    } else if (const auto* further = FurtherItems(*schema)) {
      item.push_back(further);
    }
  }
  return item;
}

Status SchemaCompiler::AddArray(const Flat& flat, int32_t start, int32_t end) {
  int64_t least = 0, most = -1;
  SURETY_RETURN_IF_ERROR(LengthsOf(flat, "minItems", "maxItems", least, most));
  if (most >= 0 && most < least) return OkStatus();
  int64_t n_prefix = 0;
  for (const json::object* schema : flat.schemas) {
    const json::array* first = FirstItems(*schema);
    if (first != nullptr) n_prefix = std::max(n_prefix, static_cast<int64_t>(first->size()));
  }
  const int32_t opened = builder_.NewState(), closing = builder_.NewState(), last = builder_.NewState();
  builder_.Bytes(start, '[', '[', opened);
  builder_.Bytes(closing, ']', ']', end);
  builder_.Call(last, rules_.Space(), closing);  // after an item
  int32_t at = builder_.NewState();
  builder_.Call(opened, rules_.Space(), at);
  if (least == 0) builder_.Empty(at, closing);
  // Items one by one, up to where all further ones are alike and their number is free.
  const int64_t n_single = most >= 0 ? most : std::max({n_prefix, least, int64_t{1}});
  for (int64_t i = 0; i < n_single && builder_.ok(); ++i) {
    if (i > 0) {
      const int32_t comma = builder_.NewState(), next = builder_.NewState();
      builder_.Bytes(at, ',', ',', comma);
      builder_.Call(comma, rules_.Space(), next);
      at = next;
    }
    const int32_t after = builder_.NewState();
    builder_.Call(at, RuleFor(ItemOf(flat, static_cast<size_t>(i))), after);
    if (i + 1 >= least) builder_.Empty(after, last);
    at = after;
  }
  if (most >= 0) return OkStatus();
  const int32_t comma = builder_.NewState(), next = builder_.NewState();
  builder_.Bytes(at, ',', ',', comma);
  builder_.Call(comma, rules_.Space(), next);
  builder_.Call(next, RuleFor(ItemOf(flat, static_cast<size_t>(n_single))), at);
  return OkStatus();
}

SchemaCompiler::Conjunction SchemaCompiler::PropertyOf(const Flat& flat, std::string_view name) const {
  Conjunction value;
  for (const json::object* schema : flat.schemas) {
    const auto* properties = schema->if_contains("properties");
    const auto* own = properties == nullptr ? nullptr : properties->get_object().if_contains(name);
    if (own != nullptr) {
      value.push_back(own);
    } else if (const auto* more = schema->if_contains("additionalProperties")) {
      value.push_back(more);
    }
  }
  return value;
}

int32_t SchemaCompiler::Member(const std::string& name, int32_t value_rule) {
  const auto [found, is_new] = members_.try_emplace({name, value_rule}, 0);
  if (!is_new) return found->second;
  found->second = builder_.NewRule("member " + name);
  const int32_t start = builder_.NewState(), space = builder_.NewState();
  const int32_t value = builder_.NewState(), end = builder_.NewState();
  builder_.Literal(start, JsonRules::Quote(name) + ":", space);
  builder_.Call(space, rules_.Space(), value);
  builder_.Call(value, value_rule, end);
  builder_.SetRule(found->second, start, end);
  return found->second;
}

SchemaCompiler::Members SchemaCompiler::MembersOf(const Flat& flat) const {
  Members members;
  bool closed = false;
  const auto add_name = [&](std::string_view name) {
    if (members.known.insert(std::string(name)).second) members.names.emplace_back(name);
  };
  for (const json::object* schema : flat.schemas) {
    if (const auto* properties = schema->if_contains("properties")) {
      closed = true;
      for (const auto& member : properties->get_object()) add_name(member.key());
    }
    members.open = members.open || schema->contains("additionalProperties");
  }
  for (const json::object* schema : flat.schemas) {
    const auto* list = schema->if_contains("required");
    if (list == nullptr) continue;
    for (const json::value& name : list->get_array()) {
      add_name(name.get_string());
      members.required.insert(std::string(name.get_string()));
    }
  }
  members.open = members.open || !closed;
  return members;
}

// A member whose name is none of the declared ones.
int32_t SchemaCompiler::FurtherMember(const Flat& flat, const std::vector<std::string>& names) {
  const int32_t member = builder_.NewRule("further member");
  const int32_t name = builder_.NewState(), colon = builder_.NewState(), space = builder_.NewState();
  const int32_t value = builder_.NewState(), done = builder_.NewState();
  if (names.empty()) {
    builder_.Call(name, rules_.String(), colon);
  } else {
    rules_.StringOf(NoneOf(names, builder_), name, colon);
  }
  builder_.Bytes(colon, ':', ':', space);
  builder_.Call(space, rules_.Space(), value);
  Conjunction further;
  for (const json::object* schema : flat.schemas) {
    if (const auto* more = schema->if_contains("additionalProperties")) further.push_back(more);
  }
  builder_.Call(value, RuleFor(std::move(further)), done);
  builder_.SetRule(member, name, done);
  return member;
}

Status SchemaCompiler::AddObject(const Flat& flat, int32_t start, int32_t end) {
  const auto [names, known, required, open] = MembersOf(flat);
  int64_t least = 0, most = -1;
  SURETY_RETURN_IF_ERROR(LengthsOf(flat, "minProperties", "maxProperties", least, most));
  for (const json::object* schema : flat.schemas) {
    if (schema->contains("minProperties") && least > std::max<int64_t>(1, static_cast<int64_t>(required.size()))) {
      return At(NodeOf(*schema), "minProperties",
                "more than 1 and more than there are required ones cannot be enforced");
    }
    if (schema->contains("maxProperties") && (open || most < static_cast<int64_t>(names.size()))) {
      return At(NodeOf(*schema), "maxProperties", "cannot be enforced unless no object can have more");
    }
  }
  // Two rows of states: before each property, nothing written yet (`first`) or something (`later`).
  const int32_t opened = builder_.NewState(), closing = builder_.NewState();
  int32_t first = builder_.NewState(), later = builder_.NewState();
  builder_.Bytes(start, '{', '{', opened);
  builder_.Call(opened, rules_.Space(), first);
  builder_.Bytes(closing, '}', '}', end);
  for (const std::string& name : names) {
    if (!builder_.ok()) return OkStatus();
    const int32_t member = Member(name, RuleFor(PropertyOf(flat, name)));
    const int32_t next_first = builder_.NewState(), next_later = builder_.NewState();
    const int32_t comma = builder_.NewState(), next = builder_.NewState();
    builder_.Call(first, member, next_later);
    builder_.Bytes(later, ',', ',', comma);
    builder_.Call(comma, rules_.Space(), next);
    builder_.Call(next, member, next_later);
    if (!required.contains(name)) {
      builder_.Empty(first, next_first);
      builder_.Empty(later, next_later);
    }
    first = next_first;
    later = next_later;
  }
  if (open) {
    const int32_t member = FurtherMember(flat, names);
    const int32_t comma = builder_.NewState(), next = builder_.NewState();
    builder_.Call(first, member, later);
    builder_.Bytes(later, ',', ',', comma);
    builder_.Call(comma, rules_.Space(), next);
    builder_.Call(next, member, later);
  }
  if (least == 0) builder_.Empty(first, closing);
  builder_.Call(later, rules_.Space(), closing);
  return OkStatus();
}

}  // namespace surety::engine
