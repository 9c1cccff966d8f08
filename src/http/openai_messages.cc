#include <array>
#include <utility>

#include "http/openai_sampling.h"

namespace surety::http {
namespace {

namespace json = boost::json;

// A member that must be a string; `required`: and must be there.
Parsed<std::string> Text(const json::object& object, std::string_view name, const std::string& path, bool required) {
  const json::value* value = Member(object, name);
  const std::string where = path + "." + std::string(name);
  if (value == nullptr) {
    if (!required) return std::string();
    return BadField(where, where + " is missing", "missing_required_parameter");
  }
  if (!value->is_string()) return WrongType(where, "a string", *value);
  return std::string(value->get_string());
}

bool IsEmpty(const json::value& value) {
  return value.is_null() || (value.is_array() && value.get_array().empty());
}

Parsed<std::string> MapPart(const json::value& part, const std::string& path) {
  if (!part.is_object()) return WrongType(path, "an object", part);
  const json::object& object = part.get_object();
  auto type = Text(object, "type", path, true);
  if (!type) return type;
  if (*type == "text" || *type == "input_text" || *type == "output_text") {
    static constexpr std::array<std::string_view, 4> kKnown{"type", "text", "annotations", "logprobs"};
    if (auto ok = CheckMembers(object, path, kKnown); !ok) return std::unexpected(ok.error());
    return Text(object, "text", path, true);
  }
  if (*type == "refusal") {
    static constexpr std::array<std::string_view, 2> kKnown{"type", "refusal"};
    if (auto ok = CheckMembers(object, path, kKnown); !ok) return std::unexpected(ok.error());
    return Text(object, "refusal", path, true);
  }
  return BadField(path + ".type", path + ".type is " + Quoted(*type) + ", but the models read text only",
                  "unsupported_value");
}

Parsed<json::object> MapToolCall(const json::value& value, const std::string& path) {
  if (!value.is_object()) return WrongType(path, "an object", value);
  const json::object& call = value.get_object();
  static constexpr std::array<std::string_view, 4> kKnown{"id", "type", "function", "index"};
  if (auto ok = CheckMembers(call, path, kKnown); !ok) return std::unexpected(ok.error());
  auto id = Text(call, "id", path, false);
  if (!id) return std::unexpected(id.error());
  auto type = Text(call, "type", path, false);
  if (!type) return std::unexpected(type.error());
  if (!type->empty() && *type != "function") {
    return BadField(path + ".type", path + ".type is " + Quoted(*type) + ", but must be 'function'",
                    "unsupported_value");
  }
  const json::value* function = Member(call, "function");
  const std::string inner = path + ".function";
  if (function == nullptr) return BadField(inner, inner + " is missing", "missing_required_parameter");
  if (!function->is_object()) return WrongType(inner, "an object", *function);
  static constexpr std::array<std::string_view, 2> kFunction{"name", "arguments"};
  if (auto ok = CheckMembers(function->get_object(), inner, kFunction); !ok) return std::unexpected(ok.error());
  auto name = Text(function->get_object(), "name", inner, true);
  if (!name) return std::unexpected(name.error());
  auto arguments = Text(function->get_object(), "arguments", inner, true);
  if (!arguments) return std::unexpected(arguments.error());
  json::object mapped{{"type", "function"},
                      {"function", {{"name", *name}, {"arguments", ArgumentsValue(*arguments)}}}};
  if (!id->empty()) mapped["id"] = *id;
  return mapped;
}

Parsed<void> MapAssistant(const json::object& message, const std::string& path, json::object& mapped) {
  // Clients send back what they got; these say nothing when they are null or empty.
  for (const std::string_view name : {"function_call", "audio", "annotations"}) {
    const json::value* value = message.if_contains(json::string_view(name.data(), name.size()));
    if (value != nullptr && !IsEmpty(*value)) {
      const std::string where = path + "." + std::string(name);
      return BadField(where, where + " is not supported" + (name == "function_call" ? "; give tool_calls" : ""),
                      "unsupported_parameter");
    }
  }
  const auto reasoning = Text(message, "reasoning_content", path, false);
  if (!reasoning) return std::unexpected(reasoning.error());
  if (!reasoning->empty()) mapped["reasoning_content"] = *reasoning;
  const auto refusal = Text(message, "refusal", path, false);
  if (!refusal) return std::unexpected(refusal.error());
  if (!refusal->empty() && Member(message, "content") == nullptr) mapped["content"] = *refusal;
  const json::value* calls = Member(message, "tool_calls");
  if (calls == nullptr) return {};
  const std::string where = path + ".tool_calls";
  if (!calls->is_array()) return WrongType(where, "an array", *calls);
  json::array list;
  for (size_t i = 0; i < calls->get_array().size(); ++i) {
    auto call = MapToolCall(calls->get_array()[i], ItemPath(where, i));
    if (!call) return std::unexpected(call.error());
    list.emplace_back(*std::move(call));
  }
  if (!list.empty()) mapped["tool_calls"] = std::move(list);
  return {};
}

Parsed<json::object> MapMessage(const json::value& value, const std::string& path) {
  if (!value.is_object()) return WrongType(path, "an object", value);
  const json::object& message = value.get_object();
  static constexpr std::array<std::string_view, 10> kKnown{"role", "content", "name", "tool_calls", "tool_call_id",
                                                           "refusal", "reasoning_content", "function_call", "audio",
                                                           "annotations"};
  if (auto ok = CheckMembers(message, path, kKnown); !ok) return std::unexpected(ok.error());
  auto role = Text(message, "role", path, true);
  if (!role) return std::unexpected(role.error());
  const bool assistant = *role == "assistant", tool = *role == "tool";
  if (*role == "developer") role = "system";
  if (!assistant && !tool && *role != "system" && *role != "user") {
    return BadField(path + ".role", path + ".role is " + Quoted(*role) +
                                        ", but must be system, developer, user, assistant or tool",
                    "unsupported_value");
  }
  json::object mapped{{"role", *role}};
  if (const json::value* content = Member(message, "content")) {
    auto text = MapContent(*content, path + ".content");
    if (!text) return std::unexpected(text.error());
    mapped["content"] = *std::move(text);
  }
  for (const std::string_view name : {"name", "tool_call_id"}) {
    auto text = Text(message, name, path, false);
    if (!text) return std::unexpected(text.error());
    if (name == "tool_call_id" && !tool && !text->empty()) {
      return BadField(path + ".tool_call_id", path + ".tool_call_id is for messages of role tool");
    }
    if (!text->empty()) mapped[json::string_view(name.data(), name.size())] = *std::move(text);
  }
  if (assistant) {
    if (auto ok = MapAssistant(message, path, mapped); !ok) return std::unexpected(ok.error());
  } else if (const json::value* calls = message.if_contains("tool_calls"); calls != nullptr && !IsEmpty(*calls)) {
    return BadField(path + ".tool_calls", path + ".tool_calls is for messages of role assistant");
  }
  if (!mapped.contains("content")) {
    if (!mapped.contains("tool_calls")) {
      return BadField(path + ".content", path + ".content is missing", "missing_required_parameter");
    }
    mapped["content"] = "";
  }
  return mapped;
}

Parsed<json::object> MapItem(const json::value& value, const std::string& path) {
  if (!value.is_object()) return WrongType(path, "an object", value);
  const json::object& item = value.get_object();
  auto type = Text(item, "type", path, false);
  if (!type) return std::unexpected(type.error());
  if (type->empty() || *type == "message") {
    static constexpr std::array<std::string_view, 6> kKnown{"type", "role", "content", "id", "status", "phase"};
    if (auto ok = CheckMembers(item, path, kKnown); !ok) return std::unexpected(ok.error());
    json::object message;
    if (const json::value* role = item.if_contains("role")) message["role"] = *role;
    if (const json::value* content = item.if_contains("content")) message["content"] = *content;
    if (message.contains("role") && message["role"] == "tool") {
      return BadField(path + ".role", path + ".role is 'tool'; give an item of type function_call_output",
                      "unsupported_value");
    }
    return MapMessage(message, path);
  }
  if (*type == "function_call") {
    static constexpr std::array<std::string_view, 6> kKnown{"type", "call_id", "name", "arguments", "id", "status"};
    if (auto ok = CheckMembers(item, path, kKnown); !ok) return std::unexpected(ok.error());
    json::object call{{"type", "function"}};
    for (const std::string_view name : {"call_id", "name", "arguments"}) {
      auto text = Text(item, name, path, true);
      if (!text) return std::unexpected(text.error());
      call[json::string_view(name.data(), name.size())] = *std::move(text);
    }
    return json::object{{"role", "assistant"},
                        {"content", ""},
                        {"tool_calls",
                         {{{"type", "function"},
                           {"id", call["call_id"]},
                           {"function", {{"name", call["name"]},
                                         {"arguments", ArgumentsValue(call["arguments"].get_string())}}}}}}};
  }
  if (*type == "function_call_output") {
    static constexpr std::array<std::string_view, 5> kKnown{"type", "call_id", "output", "id", "status"};
    if (auto ok = CheckMembers(item, path, kKnown); !ok) return std::unexpected(ok.error());
    auto id = Text(item, "call_id", path, true);
    if (!id) return std::unexpected(id.error());
    const json::value* output = Member(item, "output");
    if (output == nullptr) return BadField(path + ".output", path + ".output is missing", "missing_required_parameter");
    auto text = MapContent(*output, path + ".output");
    if (!text) return std::unexpected(text.error());
    return json::object{{"role", "tool"}, {"tool_call_id", *id}, {"content", *text}};
  }
  const char* why = *type == "item_reference" ? "; answers are not stored: send the item itself"
                                              : ", but must be message, function_call or function_call_output";
  return BadField(path + ".type", path + ".type is " + Quoted(*type) + why, "unsupported_value");
}

}  // namespace

json::value ArgumentsValue(std::string_view arguments) {
  json::parse_options options;
  options.max_depth = 32;
  boost::system::error_code ec;
  json::value value = json::parse(json::string_view(arguments.data(), arguments.size()), ec, {}, options);
  if (!ec && value.is_object()) return value;
  return json::value(json::string(arguments));
}

Parsed<std::string> MapContent(const json::value& content, const std::string& path) {
  if (content.is_string()) return std::string(content.get_string());
  if (!content.is_array()) return WrongType(path, "a string or an array of parts", content);
  std::string text;
  for (size_t i = 0; i < content.get_array().size(); ++i) {
    auto part = MapPart(content.get_array()[i], ItemPath(path, i));
    if (!part) return part;
    if (i > 0) text += '\n';
    text += *part;
  }
  return text;
}

Parsed<json::array> MapMessages(const json::array& messages, const std::string& path) {
  json::array mapped;
  mapped.reserve(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    auto message = MapMessage(messages[i], ItemPath(path, i));
    if (!message) return std::unexpected(message.error());
    mapped.emplace_back(*std::move(message));
  }
  return mapped;
}

Parsed<json::array> MapItems(const json::array& items, const std::string& path) {
  json::array mapped;
  if (items.empty()) return BadField(path, path + " is empty; it needs at least one item");
  for (size_t i = 0; i < items.size(); ++i) {
    auto message = MapItem(items[i], ItemPath(path, i));
    if (!message) return std::unexpected(message.error());
    // Calls of one turn, and a text in front of them, are one message.
    if (!mapped.empty() && message->contains("tool_calls") && mapped.back().as_object()["role"] == "assistant") {
      json::object& last = mapped.back().as_object();
      if (!last.contains("tool_calls")) last["tool_calls"] = json::array();
      last["tool_calls"].as_array().push_back((*message)["tool_calls"].as_array()[0]);
      continue;
    }
    mapped.emplace_back(*std::move(message));
  }
  return mapped;
}

}  // namespace surety::http
