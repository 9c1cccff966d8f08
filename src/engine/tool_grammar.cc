// The grammar of required tool calls (tool_calls.h).
#include <algorithm>
#include <optional>
#include <set>

#include "engine/grammar/json_schema.h"
#include "engine/tool_calls.h"

namespace surety::engine {
namespace json = boost::json;
namespace {

constexpr int kMaxParallelCalls = 16;
constexpr size_t kMaxNameBytes = 64;

struct Tool {
  std::string name;
  const json::value* parameters = nullptr;
};

Result<std::vector<Tool>> ReadTools(const json::array& tools) {
  std::vector<Tool> result;
  std::set<std::string> names;
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string where = "tools[" + std::to_string(i) + "]";
    const auto* object = tools[i].if_object();
    const auto* function = object == nullptr ? nullptr : object->if_contains("function");
    if (function == nullptr || !function->is_object()) {
      return Error(InvalidArgumentError(where + ".function must be an object"));
    }
    const auto* name = function->get_object().if_contains("name");
    const std::string text = name != nullptr && name->is_string() ? std::string(name->get_string()) : std::string();
    const bool fits =
        !text.empty() && text.size() <= kMaxNameBytes && std::all_of(text.begin(), text.end(), [](char c) {
          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
                 c == '.';
        });
    if (!fits) {
      return Error(InvalidArgumentError(where + ".function.name must have 1 to 64 letters, digits, '_', '-' or '.'"));
    }
    if (!names.insert(text).second)
      return Error(InvalidArgumentError(where + ".function.name '" + text + "' is there twice"));
    result.push_back({text, function->get_object().if_contains("parameters")});
  }
  return result;
}

// The rule for a tool's arguments, an object in any case.
Result<int32_t> Arguments(const Tool& tool, const std::string& where, GrammarBuilder& builder, JsonRules& rules) {
  static const json::value kNoArguments = {{"type", "object"}, {"properties", json::object()}};
  const json::value& schema =
      tool.parameters == nullptr || tool.parameters->is_null() ? kNoArguments : *tool.parameters;
  const auto* object = schema.if_object();
  if (object == nullptr) return Error(InvalidArgumentError(where + "#: must be a schema of type object"));
  if (object->empty()) return rules.Object(kMaxAnyJsonDepth);
  const auto* type = object->if_contains("type");
  if (type == nullptr ? !object->contains("properties") : !type->is_string() || type->get_string() != "object") {
    return Error(InvalidArgumentError(where + "#/type: must be \"object\""));
  }
  return AddJsonSchema(schema, where, builder, rules);
}

// What stands around a tool's name and arguments.
struct Wrapping {
  std::string_view before_all, before_name, before_arguments, after, between, after_all;
  bool several = true;
};

Wrapping WrappingOf(ToolFamily family) {
  switch (family) {
    case ToolFamily::kHermes:
      return {"", "<tool_call>\n{\"name\": \"", "\", \"arguments\": ", "}\n</tool_call>", "\n", ""};
    case ToolFamily::kMistral:
      return {"[TOOL_CALLS][", "{\"name\": \"", "\", \"arguments\": ", "}", ", ", "]"};
    case ToolFamily::kMistralArgs:
      return {"", "[TOOL_CALLS]", "[ARGS]", "", "", ""};
    default:
      return {"", "{\"name\": \"", "\", \"parameters\": ", "}", "", "", false};
  }
}

}  // namespace

Result<std::vector<std::string>> ToolNames(const json::array& tools) {
  SURETY_ASSIGN_OR_RETURN(const auto list, ReadTools(tools));
  std::vector<std::string> names;
  for (const Tool& tool : list) names.push_back(tool.name);
  return names;
}

Result<GrammarPtr> ToolCallGrammar(ToolFamily family, const json::array& tools, const api::ToolUse& use,
                                   const GrammarLimits& limits) {
  if (family == ToolFamily::kNone) {
    return Error(
        FailedPreconditionError("the model's chat template has no form of tool calls that is known here, so a "
                                "call cannot be required"));
  }
  SURETY_ASSIGN_OR_RETURN(const auto list, ReadTools(tools));
  GrammarBuilder builder(limits);
  JsonRules rules(builder);
  const Wrapping wrapping = WrappingOf(family);
  const int32_t root = builder.NewRule("tool calls"), call = builder.NewRule("tool call");
  const int32_t call_start = builder.NewState(), call_end = builder.NewState();
  builder.SetRule(call, call_start, call_end);
  bool any = false;
  for (size_t i = 0; i < list.size(); ++i) {
    if (use.choice == api::ToolUse::Choice::kNamed && list[i].name != use.name) continue;
    any = true;
    const std::string where = "tools[" + std::to_string(i) + "].function.parameters ";
    SURETY_ASSIGN_OR_RETURN(const int32_t arguments, Arguments(list[i], where, builder, rules));
    const int32_t before = builder.NewState(), after = builder.NewState();
    const std::string head = std::string(wrapping.before_name) + list[i].name + std::string(wrapping.before_arguments);
    builder.Literal(call_start, head, before);
    builder.Call(before, arguments, after);
    builder.Literal(after, wrapping.after, call_end);
  }
  if (!any) {
    return Error(InvalidArgumentError(use.choice == api::ToolUse::Choice::kNamed
                                          ? "tool_choice names '" + use.name + "', which is not among the tools"
                                          : "tool_choice requires a call, but there are no tools"));
  }
  const int32_t start = builder.NewState(), end = builder.NewState();
  int32_t at = builder.NewState();
  builder.Literal(start, wrapping.before_all, at);
  const int n_calls = use.parallel && wrapping.several ? kMaxParallelCalls : 1;
  for (int i = 0; i < n_calls; ++i) {
    const int32_t next = builder.NewState(), done = builder.NewState();
    if (i > 0) builder.Literal(at, wrapping.between, next);
    builder.Call(i > 0 ? next : at, call, done);
    builder.Literal(done, wrapping.after_all, end);
    at = done;
  }
  builder.SetRule(root, start, end);
  auto grammar = builder.Finish(root);
  if (!grammar) return Error(grammar.error().WithContext("tools"));
  return grammar;
}

}  // namespace surety::engine
