#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "http/openai_sampling.h"

namespace surety::http {
namespace {

namespace json = boost::json;

bool IsFunctionName(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

Parsed<std::string> RequiredText(const json::object& object, std::string_view name, const std::string& path) {
  const std::string where = path + "." + std::string(name);
  const json::value* value = Member(object, name);
  if (value == nullptr) return BadField(where, where + " is missing", "missing_required_parameter");
  if (!value->is_string()) return WrongType(where, "a string", *value);
  return std::string(value->get_string());
}

// A member of the given kind if it is there.
Parsed<void> Optional(const json::object& object, std::string_view name, const std::string& path, json::kind kind) {
  const json::value* value = Member(object, name);
  if (value == nullptr || value->kind() == kind) return {};
  const char* wanted = kind == json::kind::object ? "an object" : kind == json::kind::bool_ ? "true or false"
                                                                                             : "a string";
  return WrongType(path + "." + std::string(name), wanted, *value);
}

Parsed<json::object> MapFunction(const json::object& function, const std::string& path, bool flat) {
  static constexpr std::array<std::string_view, 5> kKnown{"name", "description", "parameters", "strict", "type"};
  if (auto ok = CheckMembers(function, path, std::span(kKnown).first(flat ? 5 : 4)); !ok) {
    return std::unexpected(ok.error());
  }
  auto name = RequiredText(function, "name", path);
  if (!name) return std::unexpected(name.error());
  if (!IsFunctionName(*name)) {
    return BadField(path + ".name", path + ".name is " + Quoted(*name) +
                                        ", but must be 1 to 64 letters, digits, '_' or '-'");
  }
  for (const auto& [member, kind] : {std::pair{"description", json::kind::string},
                                     {"parameters", json::kind::object}, {"strict", json::kind::bool_}}) {
    if (auto ok = Optional(function, member, path, kind); !ok) return std::unexpected(ok.error());
  }
  json::object mapped{{"name", *name}};
  for (const char* member : {"description", "parameters", "strict"}) {
    if (const json::value* value = Member(function, member)) mapped[member] = *value;
  }
  return mapped;
}

Parsed<json::object> MapTool(const json::value& value, const std::string& path, bool flat) {
  if (!value.is_object()) return WrongType(path, "an object", value);
  const json::object& tool = value.get_object();
  auto type = RequiredText(tool, "type", path);
  if (!type) return std::unexpected(type.error());
  if (*type != "function") {
    return BadField(path + ".type", path + ".type is " + Quoted(*type) + ", but only functions are supported",
                    "unsupported_value");
  }
  if (flat) {
    auto function = MapFunction(tool, path, true);
    if (!function) return function;
    return json::object{{"type", "function"}, {"function", *std::move(function)}};
  }
  static constexpr std::array<std::string_view, 2> kKnown{"type", "function"};
  if (auto ok = CheckMembers(tool, path, kKnown); !ok) return std::unexpected(ok.error());
  const json::value* inner = Member(tool, "function");
  const std::string where = path + ".function";
  if (inner == nullptr) return BadField(where, where + " is missing", "missing_required_parameter");
  if (!inner->is_object()) return WrongType(where, "an object", *inner);
  auto function = MapFunction(inner->get_object(), where, false);
  if (!function) return function;
  return json::object{{"type", "function"}, {"function", *std::move(function)}};
}

Parsed<void> MapChoice(const json::value& choice, bool flat, const std::set<std::string>& names, api::ToolUse& use) {
  using Choice = api::ToolUse::Choice;
  if (choice.is_string()) {
    use.choice = choice == "none" ? Choice::kNone : choice == "auto" ? Choice::kAuto : Choice::kRequired;
    if (names.empty() && use.choice == Choice::kRequired) {
      return BadField("tool_choice", "tool_choice is 'required', but there are no tools");
    }
    return {};
  }
  const json::object& object = choice.get_object();
  auto type = RequiredText(object, "type", "tool_choice");
  if (!type) return std::unexpected(type.error());
  if (*type != "function") {
    return BadField("tool_choice.type", "tool_choice.type is " + Quoted(*type) + ", but must be 'function'",
                    "unsupported_value");
  }
  static constexpr std::array<std::string_view, 2> kFlat{"type", "name"}, kNested{"type", "function"};
  if (auto ok = CheckMembers(object, "tool_choice", flat ? kFlat : kNested); !ok) return ok;
  Parsed<std::string> name = std::string();
  std::string where = "tool_choice.name";
  if (flat) {
    name = RequiredText(object, "name", "tool_choice");
  } else {
    const json::value* function = Member(object, "function");
    where = "tool_choice.function.name";
    if (function == nullptr || !function->is_object()) {
      return BadField("tool_choice.function", "tool_choice.function must be an object with a name", "invalid_type");
    }
    static constexpr std::array<std::string_view, 1> kName{"name"};
    if (auto ok = CheckMembers(function->get_object(), "tool_choice.function", kName); !ok) return ok;
    name = RequiredText(function->get_object(), "name", "tool_choice.function");
  }
  if (!name) return std::unexpected(name.error());
  if (!names.contains(*name)) return BadField(where, "tool_choice names " + Quoted(*name) + ", which is not in tools");
  use.choice = Choice::kNamed;
  use.name = *std::move(name);
  return {};
}

// The object that holds a schema: {"name", "schema", ...}. In a chat nothing reads the name, and llama-server's callers
// leave it out.
Parsed<void> MapSchema(const json::object& holder, const std::string& path, bool named, api::Constraint& constraint) {
  if (named || Member(holder, "name") != nullptr) {
    auto name = RequiredText(holder, "name", path);
    if (!name) return std::unexpected(name.error());
    if (!IsFunctionName(*name)) {
      return BadField(path + ".name", path + ".name must be 1 to 64 letters, digits, '_' or '-'");
    }
  }
  if (auto ok = Optional(holder, "strict", path, json::kind::bool_); !ok) return ok;
  if (auto ok = Optional(holder, "description", path, json::kind::string); !ok) return ok;
  const json::value* schema = Member(holder, "schema");
  const std::string where = path + ".schema";
  if (schema == nullptr) return BadField(where, where + " is missing", "missing_required_parameter");
  if (!schema->is_object()) return WrongType(where, "an object", *schema);
  constraint.kind = api::Constraint::Kind::kJsonSchema;
  constraint.schema = *schema;
  return {};
}

Parsed<void> MapFormat(const json::object& format, const std::string& path, bool flat, api::Constraint& constraint) {
  auto type = RequiredText(format, "type", path);
  if (!type) return std::unexpected(type.error());
  static constexpr std::array<std::string_view, 1> kPlain{"type"};
  static constexpr std::array<std::string_view, 2> kObject{"type", "schema"}, kNested{"type", "json_schema"};
  static constexpr std::array<std::string_view, 5> kFlat{"type", "name", "schema", "strict", "description"};
  if (*type == "text") return CheckMembers(format, path, kPlain);
  if (*type == "json_object") {
    if (auto ok = CheckMembers(format, path, std::span(kObject).first(flat ? 1 : 2)); !ok) return ok;
    if (auto ok = Optional(format, "schema", path, json::kind::object); !ok) return ok;
    constraint.kind = api::Constraint::Kind::kJsonObject;
    if (const json::value* schema = Member(format, "schema")) {  // as llama-server takes it
      constraint.kind = api::Constraint::Kind::kJsonSchema;
      constraint.schema = *schema;
    }
    return {};
  }
  if (*type == "json_schema") {
    if (flat) {
      if (auto ok = CheckMembers(format, path, kFlat); !ok) return ok;
      return MapSchema(format, path, true, constraint);
    }
    if (auto ok = CheckMembers(format, path, kNested); !ok) return ok;
    const std::string where = path + ".json_schema";
    const json::value* holder = Member(format, "json_schema");
    if (holder == nullptr) return BadField(where, where + " is missing", "missing_required_parameter");
    if (!holder->is_object()) return WrongType(where, "an object", *holder);
    if (auto ok = CheckMembers(holder->get_object(), where, std::span(kFlat).subspan(1)); !ok) return ok;
    return MapSchema(holder->get_object(), where, false, constraint);
  }
  return BadField(path + ".type", path + ".type is " + Quoted(*type) + ", but must be text, json_object or json_schema",
                  "unsupported_value");
}

}  // namespace

Parsed<void> MapTools(const json::object& body, bool flat, api::GenerationRequest& request) {
  std::set<std::string> names;
  if (const json::value* tools = Member(body, "tools")) {
    json::array mapped;
    for (size_t i = 0; i < tools->get_array().size(); ++i) {
      const std::string path = "tools[" + std::to_string(i) + "]";
      auto tool = MapTool(tools->get_array()[i], path, flat);
      if (!tool) return std::unexpected(tool.error());
      const std::string name((*tool)["function"].as_object()["name"].as_string());
      if (!names.insert(name).second) {
        return BadField(path, path + " has the name " + Quoted(name) + ", which another tool has already");
      }
      mapped.emplace_back(*std::move(tool));
    }
    if (!mapped.empty()) {
      request.template_values["tools"] = std::move(mapped);
      request.tool_use.choice = api::ToolUse::Choice::kAuto;
    }
  }
  request.tool_use.parallel = BoolOr(body, "parallel_tool_calls", true);
  const json::value* choice = Member(body, "tool_choice");
  if (choice == nullptr) return {};
  if (auto ok = MapChoice(*choice, flat, names, request.tool_use); !ok) return ok;
  if (names.empty()) request.tool_use.choice = api::ToolUse::Choice::kNone;
  return {};
}

Parsed<void> MapConstraint(const json::object& body, Endpoint endpoint, api::Constraint& constraint) {
  using Kind = api::Constraint::Kind;
  std::string given;  // the field that set it
  const auto set = [&](const std::string& name, Kind kind) -> Parsed<void> {
    if (kind == Kind::kNone) return {};
    if (!given.empty()) return BadField(name, given + " and " + name + " both say what the answer must look like");
    given = name;
    constraint.kind = kind;
    return {};
  };
  if (endpoint == kResponses) {
    const json::value* text = Member(body, "text");
    const json::value* format = text == nullptr ? nullptr : Member(text->get_object(), "format");
    if (format != nullptr) {
      api::Constraint mapped;
      if (auto ok = MapFormat(format->get_object(), "text.format", true, mapped); !ok) return ok;
      if (auto ok = set("text.format", mapped.kind); !ok) return ok;
      constraint = std::move(mapped);
    }
  } else if (const json::value* format = Member(body, "response_format")) {
    api::Constraint mapped;
    if (auto ok = MapFormat(format->get_object(), "response_format", false, mapped); !ok) return ok;
    if (auto ok = set("response_format", mapped.kind); !ok) return ok;
    constraint = std::move(mapped);
  }
  const auto read = [&](const json::object& object, std::string_view name, const std::string& path) -> Parsed<void> {
    const json::value* value = Member(object, name);
    if (value == nullptr || (value->is_bool() && !value->get_bool())) return {};
    const Kind kind = value->is_string() ? Kind::kGrammar : value->is_object() ? Kind::kJsonSchema : Kind::kJsonObject;
    if (auto ok = set(path, kind); !ok) return ok;
    if (kind == Kind::kGrammar) constraint.grammar = value->get_string();
    if (kind == Kind::kJsonSchema) constraint.schema = *value;
    return {};
  };
  for (const char* name : {"grammar", "json_schema", "guided_json", "guided_grammar"}) {
    if (auto ok = read(body, name, name); !ok) return ok;
  }
  if (const json::value* outputs = Member(body, "structured_outputs")) {
    for (const char* name : {"json", "json_object", "grammar"}) {
      if (auto ok = read(outputs->get_object(), name, "structured_outputs." + std::string(name)); !ok) return ok;
    }
  }
  return {};
}

}  // namespace surety::http
