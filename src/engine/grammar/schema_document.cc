// The document's side of schema_compiler.h: places, keywords, references, conjunctions.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "engine/grammar/schema_compiler.h"

namespace surety::engine {
namespace json = boost::json;
namespace {

enum class Form : uint8_t {
  kAny, kSchema, kSchemas, kSchemaMap, kItems, kNumber, kCount, kText, kTexts, kList, kTypes, kFlag
};

struct Keyword {
  std::string_view name;
  Form form;
};

constexpr Keyword kEnforced[] = {{"type", Form::kTypes},
                                 {"enum", Form::kList},
                                 {"const", Form::kAny},
                                 {"properties", Form::kSchemaMap},
                                 {"required", Form::kTexts},
                                 {"additionalProperties", Form::kSchema},
                                 {"minProperties", Form::kCount},
                                 {"maxProperties", Form::kCount},
                                 {"items", Form::kItems},
                                 {"prefixItems", Form::kSchemas},
                                 {"additionalItems", Form::kSchema},
                                 {"minItems", Form::kCount},
                                 {"maxItems", Form::kCount},
                                 {"uniqueItems", Form::kFlag},
                                 {"minLength", Form::kCount},
                                 {"maxLength", Form::kCount},
                                 {"pattern", Form::kText},
                                 {"format", Form::kText},
                                 {"minimum", Form::kNumber},
                                 {"maximum", Form::kNumber},
                                 {"exclusiveMinimum", Form::kNumber},
                                 {"exclusiveMaximum", Form::kNumber},
                                 {"anyOf", Form::kSchemas},
                                 {"oneOf", Form::kSchemas},
                                 {"allOf", Form::kSchemas},
                                 {"$ref", Form::kText}};

constexpr std::string_view kAnnotations[] = {"title",    "description", "default", "examples",     "$schema",
                                             "$id",      "$comment",    "$defs",   "definitions",  "deprecated",
                                             "readOnly", "writeOnly",   "$anchor", "discriminator"};

constexpr std::string_view kTypeNames[] = {"null", "boolean", "integer", "number", "string", "array", "object"};

bool IsSchema(const json::value& v) { return v.is_object() || v.is_bool(); }

bool IsTypeName(const json::value& v) {
  return v.is_string() &&
         std::find(std::begin(kTypeNames), std::end(kTypeNames), v.get_string()) != std::end(kTypeNames);
}

// What a keyword's value should have been; empty if it is that.
std::string_view Misfit(Form form, const json::value& v) {
  const auto all = [&v](auto fits) {
    return v.is_array() && std::all_of(v.get_array().begin(), v.get_array().end(), fits);
  };
  switch (form) {
    case Form::kAny:
      return "";
    case Form::kSchema:
      return IsSchema(v) ? "" : "must be a schema: an object, true or false";
    case Form::kSchemas:
      return all(IsSchema) && !v.get_array().empty() ? "" : "must be a list of schemas that is not empty";
    case Form::kSchemaMap: {
      const bool fits = v.is_object() && std::all_of(v.get_object().begin(), v.get_object().end(),
                                                     [](const auto& member) { return IsSchema(member.value()); });
      return fits ? "" : "must be an object of schemas";
    }
    case Form::kItems:
      if (IsSchema(v) || (all(IsSchema) && !v.get_array().empty())) return "";
      return "must be a schema, or a list of schemas that is not empty";
    case Form::kNumber:
      if (v.is_bool()) return "must be a number; the boolean form of draft 4 is not supported";
      return v.is_number() ? "" : "must be a number";
    case Form::kCount: {
      const bool fits = v.is_number() && !DecimalOf(v).negative && DecimalOf(v).fraction.empty();
      return fits ? "" : "must be a whole number from 0 on";
    }
    case Form::kText:
      return v.is_string() ? "" : "must be a string";
    case Form::kTexts:
      return all([](const json::value& t) { return t.is_string(); }) ? "" : "must be a list of strings";
    case Form::kList:
      return v.is_array() && !v.get_array().empty() ? "" : "must be a list that is not empty";
    case Form::kTypes:
      if (IsTypeName(v) || (all(IsTypeName) && !v.get_array().empty())) return "";
      return "must be one of null, boolean, integer, number, string, array, object, or a list of them";
    case Form::kFlag:
      return v.is_bool() ? "" : "must be true or false";
  }
  return "";
}

std::string Escaped(std::string_view token) {
  std::string out;
  for (const char c : token) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

// Percent-encoding and the two escapes of JSON pointers, undone.
std::string Unescaped(std::string_view token) {
  std::string bytes, out;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '%' && i + 2 < token.size() && std::isxdigit(static_cast<unsigned char>(token[i + 1])) != 0 &&
        std::isxdigit(static_cast<unsigned char>(token[i + 2])) != 0) {
      bytes += static_cast<char>(std::stoul(std::string(token.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      bytes += token[i];
    }
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '~' && i + 1 < bytes.size() && (bytes[i + 1] == '0' || bytes[i + 1] == '1')) {
      out += bytes[++i] == '0' ? '~' : '/';
    } else {
      out += bytes[i];
    }
  }
  return out;
}

}  // namespace

Decimal DecimalOf(const json::value& number) {
  if (number.is_int64()) return Decimal::FromInt(number.get_int64());
  if (number.is_uint64()) return Decimal::FromUint(number.get_uint64());
  return Decimal::FromDouble(number.get_double());
}

std::string JsonText(const json::value& value) {
  if (value.is_string()) return JsonRules::Quote(value.get_string());
  if (value.is_number()) {
    const std::string plain = DecimalOf(value).ToString();
    return plain.size() <= 40 ? plain : fmt::format("{}", value.get_double());
  }
  return value.is_null() ? "null" : value.get_bool() ? "true" : "false";
}

std::string CanonicalJson(const json::value& value) {
  if (value.is_number()) return DecimalOf(value).ToString();
  std::string out;
  if (value.is_array()) {
    for (const json::value& item : value.get_array()) out += CanonicalJson(item) + ",";
    return fmt::format("[{}]", out);
  }
  if (value.is_object()) {
    std::map<std::string, std::string> members;
    for (const auto& [name, member] : value.get_object()) members[JsonRules::Quote(name)] = CanonicalJson(member);
    for (const auto& [name, member] : members) out += name + ":" + member + ",";
    return fmt::format("{{{}}}", out);
  }
  return JsonText(value);
}

// Every value's place, and the document's depth and size within their limits. No recursion.
Status SchemaCompiler::Index() {
  struct Open {
    Node node;
    int depth;
  };
  std::vector<Open> work = {{root_, 0}};
  places_[root_] = {};
  size_t n_bytes = 0;
  int order = 0;
  while (!work.empty()) {
    const auto [node, depth] = work.back();
    work.pop_back();
    places_[node].order = order++;
    if (depth > builder_.limits().max_depth) {
      return At(nullptr, "", "more than " + std::to_string(builder_.limits().max_depth) + " levels within each other");
    }
    n_bytes += 2;
    std::vector<std::pair<std::string, Node>> children;
    if (node->is_object()) {
      object_nodes_[&node->get_object()] = node;
      for (const auto& member : node->get_object()) children.emplace_back(std::string(member.key()), &member.value());
    } else if (node->is_array()) {
      for (size_t i = 0; i < node->get_array().size(); ++i)
        children.emplace_back(std::to_string(i), &node->get_array()[i]);
    } else if (node->is_string()) {
      n_bytes += node->get_string().size();
    }
    for (auto child = children.rbegin(); child != children.rend(); ++child) {
      n_bytes += child->first.size() + 4;
      places_[child->second] = {0, node, std::move(child->first)};
      work.push_back({child->second, depth + 1});
    }
    if (n_bytes > builder_.limits().max_source_bytes) {
      return At(nullptr, "", "it has more than " + std::to_string(builder_.limits().max_source_bytes) + " bytes");
    }
  }
  return OkStatus();
}

Status SchemaCompiler::At(Node node, std::string_view keyword, const std::string& what) const {
  std::string pointer;
  if (!keyword.empty()) pointer = fmt::format("/{}", Escaped(keyword));
  for (Node at = node; at != nullptr;) {
    const Place& place = places_.at(at);
    if (place.parent != nullptr) pointer = fmt::format("/{}{}", Escaped(place.token), pointer);
    at = place.parent;
  }
  return InvalidArgumentError(where_ + "#" + pointer + ": " + what);
}

Status SchemaCompiler::CheckKeywords(Node node) {
  if (!checked_.insert(node).second) return OkStatus();
  for (const auto& member : node->get_object()) {
    const std::string_view name = member.key();
    const auto known =
        std::find_if(std::begin(kEnforced), std::end(kEnforced), [name](const Keyword& k) { return k.name == name; });
    if (known != std::end(kEnforced)) {
      if (const auto wrong = Misfit(known->form, member.value()); !wrong.empty()) {
        return At(node, name, std::string(wrong));
      }
      continue;
    }
    if (name == "$id" && node != root_) return At(node, name, "a schema within a schema cannot have its own $id");
    if (std::find(std::begin(kAnnotations), std::end(kAnnotations), name) != std::end(kAnnotations)) continue;
    if (name == "nullable") return At(node, name, "not part of JSON Schema; write \"type\": [..., \"null\"]");
    return At(node, name, "this keyword cannot be enforced");
  }
  const auto* items = node->get_object().if_contains("items");
  if (items != nullptr && items->is_array() && node->get_object().contains("prefixItems")) {
    return At(node, "items", "must be one schema beside prefixItems");
  }
  if (const auto* unique = node->get_object().if_contains("uniqueItems"); unique != nullptr && unique->get_bool()) {
    return At(node, "uniqueItems", "this keyword cannot be enforced");
  }
  return OkStatus();
}

Result<SchemaCompiler::Node> SchemaCompiler::Resolve(Node node, std::string_view reference) const {
  if (reference.empty() || reference[0] != '#') {
    return Error(At(node, "$ref", "only references within the schema (#/...) can be followed"));
  }
  Node at = root_;
  std::string_view rest = reference.substr(1);
  if (!rest.empty() && rest[0] != '/') {
    return Error(At(node, "$ref", "references by $anchor cannot be followed; use a JSON pointer (#/...)"));
  }
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const size_t length = std::min(rest.find('/'), rest.size());
    const std::string token = Unescaped(rest.substr(0, length));
    rest.remove_prefix(length);
    Node next = nullptr;
    if (at->is_object()) {
      next = at->get_object().if_contains(token);
    } else if (at->is_array() && !token.empty() && token.size() < 9 &&
               std::all_of(token.begin(), token.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      next = at->get_array().if_contains(std::stoul(token));
    }
    if (next == nullptr) return Error(At(node, "$ref", "there is no " + std::string(reference)));
    at = next;
  }
  if (!IsSchema(*at)) return Error(At(node, "$ref", std::string(reference) + " is not a schema"));
  return at;
}

// A reference must not come back to itself through schemas that all speak of the same value: that would say nothing.
Status SchemaCompiler::CheckCycle(Node node) {
  std::vector<Node> work = {node};
  std::set<Node> seen;
  while (!work.empty()) {
    Node at = work.back();
    work.pop_back();
    if (!at->is_object()) continue;
    builder_.CheckTime();
    std::vector<Node> next;
    if (const auto* reference = at->get_object().if_contains("$ref"); reference != nullptr && reference->is_string()) {
      SURETY_ASSIGN_OR_RETURN(Node target, Resolve(at, reference->get_string()));
      next.push_back(target);
    }
    for (const char* keyword : {"allOf", "anyOf", "oneOf"}) {
      const auto* parts = at->get_object().if_contains(keyword);
      if (parts == nullptr || !parts->is_array()) continue;
      for (const json::value& part : parts->get_array()) next.push_back(&part);
    }
    for (Node to : next) {
      if (to == node) return At(node, "$ref", "the schema refers to itself without a property or an item in between");
      if (seen.insert(to).second) work.push_back(to);
    }
  }
  return OkStatus();
}

Status SchemaCompiler::FlattenOne(Node node, Flat& flat, std::vector<Node>& work) {
  flat.nodes.push_back(node);
  if (node->is_bool()) {
    flat.never = flat.never || !node->get_bool();
    return OkStatus();
  }
  const bool is_new = !checked_.contains(node);
  SURETY_RETURN_IF_ERROR(CheckKeywords(node));
  const json::object& schema = node->get_object();
  if (const auto* reference = schema.if_contains("$ref")) {
    if (is_new) SURETY_RETURN_IF_ERROR(CheckCycle(node));
    SURETY_ASSIGN_OR_RETURN(Node target, Resolve(node, reference->get_string()));
    work.push_back(target);
  }
  if (const auto* all = schema.if_contains("allOf")) {
    for (const json::value& part : all->get_array()) work.push_back(&part);
  }
  return OkStatus();
}

Result<SchemaCompiler::Flat> SchemaCompiler::Flatten(const Conjunction& conjunction) {
  Flat flat;
  std::vector<Node> work = conjunction;
  std::set<Node> seen;
  while (!work.empty()) {
    Node node = work.back();
    work.pop_back();
    if (seen.insert(node).second) SURETY_RETURN_IF_ERROR(FlattenOne(node, flat, work));
  }
  std::sort(flat.nodes.begin(), flat.nodes.end(),
            [this](Node a, Node b) { return places_.at(a).order < places_.at(b).order; });
  for (Node node : flat.nodes) {
    if (!node->is_object()) continue;
    flat.schemas.push_back(&node->get_object());
    for (const char* keyword : {"anyOf", "oneOf"}) {
      const auto* parts = node->get_object().if_contains(keyword);
      if (parts == nullptr || flat.choice != nullptr) continue;
      const json::array& list = parts->get_array();
      const bool exclusive = std::string_view(keyword) == "oneOf";
      const bool chosen =
          std::any_of(list.begin(), list.end(), [&seen](const json::value& part) { return seen.contains(&part); });
      if (chosen && (!exclusive || exclusive_.contains(parts))) continue;
      flat.choice = parts;
      flat.exclusive = exclusive;
    }
  }
  return flat;
}

}  // namespace surety::engine
