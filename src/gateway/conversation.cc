#include "gateway/conversation.h"

#include <array>
#include <string_view>

#include <boost/json.hpp>

#include "gateway/tools.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

std::string_view RoleOf(const json::value& message) {
  const json::value* role = message.is_object() ? message.get_object().if_contains("role") : nullptr;
  return role != nullptr && role->is_string() ? std::string_view(role->get_string()) : std::string_view();
}

std::string TextOfMessage(const json::value& message) {
  const json::value* content = message.is_object() ? message.get_object().if_contains("content") : nullptr;
  return content == nullptr ? std::string() : TextOfContent(*content);
}

constexpr int kMaxTextDepth = 64;   // deeper than any message is read; what lies deeper is taken as it stands

void AppendTexts(const json::value& value, bool names, int depth, std::string& out) {
  if (depth > kMaxTextDepth) {
    out += json::serialize(value) + '\n';
  } else if (value.is_string()) {
    const std::string_view text = value.get_string();
    if (!text.empty()) out.append(text).append("\n");
    const size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos || (text[first] != '{' && text[first] != '[')) return;
    boost::system::error_code failed;
    const json::value inner = json::parse(text, failed);
    if (!failed) AppendTexts(inner, names, depth + 1, out);
  } else if (value.is_array()) {
    for (const json::value& item : value.get_array()) AppendTexts(item, names, depth + 1, out);
  } else if (value.is_object()) {
    for (const auto& member : value.get_object()) {
      if (names) out.append(member.key()).append("\n");
      AppendTexts(member.value(), names, depth + 1, out);
    }
  } else if (value.is_number() && names) {
    out += json::serialize(value) + '\n';  // a number may be somebody's
  }
}

// What a caller says beside the messages.
std::string TextsBeside(const api::GenerationRequest& request) {
  std::string out;
  AppendTexts(request.template_values, false, 0, out);
  if (!request.prediction.empty()) out += request.prediction + '\n';
  return out.empty() ? out : '\n' + out;
}

// `memory`: of what is made.
json::object SamplingJson(const api::SamplingParams& s, const json::storage_ptr& memory) {
  json::array bias(memory);
  for (const auto& [token, value] : s.logit_bias) bias.push_back(json::array{token, static_cast<double>(value)});
  return json::object({{"logit_bias", std::move(bias)},
                       {"repetition_penalty", s.repetition_penalty},
                       {"frequency_penalty", s.frequency_penalty},
                       {"presence_penalty", s.presence_penalty},
                       {"repetition_window", s.repetition_window},
                       {"min_tokens", s.min_tokens},
                       {"temperature", s.temperature},
                       {"top_k", s.top_k},
                       {"typical_p", s.typical_p},
                       {"top_p", s.top_p},
                       {"min_p", s.min_p},
                       {"lane", s.lane}},
                      memory);
}

json::object ParametersJson(const api::GenerationRequest& request, const json::storage_ptr& memory = {}) {
  return json::object({{"template_values", request.template_values},
                       {"sampling", SamplingJson(request.sampling, memory)},
                       {"max_tokens", request.max_tokens},
                       {"ignore_end_of_text", request.ignore_end_of_text},
                       {"stop", json::value_from(request.stop, memory)},
                       {"stop_tokens", json::value_from(request.stop_tokens, memory)},
                       {"constraint_kind", static_cast<int>(request.constraint.kind)},
                       {"schema", request.constraint.schema},
                       {"grammar", request.constraint.grammar},
                       {"tool_choice", static_cast<int>(request.tool_use.choice)},
                       {"tool_name", request.tool_use.name},
                       {"tool_parallel", request.tool_use.parallel},
                       {"verification", static_cast<int>(request.verification)},
                       {"prediction", request.prediction}},
                      memory);
}

float ReadFloat(const json::object& from, std::string_view name) {
  return static_cast<float>(from.at(name).to_number<double>());
}

api::SamplingParams ReadSampling(const json::object& from) {
  api::SamplingParams s;
  for (const auto& pair : from.at("logit_bias").as_array()) {
    s.logit_bias.emplace_back(pair.as_array().at(0).to_number<int>(),
                              static_cast<float>(pair.as_array().at(1).to_number<double>()));
  }
  s.repetition_penalty = ReadFloat(from, "repetition_penalty");
  s.frequency_penalty = ReadFloat(from, "frequency_penalty");
  s.presence_penalty = ReadFloat(from, "presence_penalty");
  s.repetition_window = from.at("repetition_window").to_number<int>();
  s.min_tokens = from.at("min_tokens").to_number<int>();
  s.temperature = ReadFloat(from, "temperature");
  s.top_k = from.at("top_k").to_number<int>();
  s.typical_p = ReadFloat(from, "typical_p");
  s.top_p = ReadFloat(from, "top_p");
  s.min_p = ReadFloat(from, "min_p");
  s.lane = from.at("lane").to_number<uint32_t>();
  return s;
}

std::string TextAt(const json::object& from, std::string_view name) { return std::string(from.at(name).as_string()); }

api::GenerationRequest ReadRequest(const json::object& from) {
  api::GenerationRequest request;
  if (const json::value* messages = from.if_contains("messages")) {
    request.messages = messages->as_array();
    request.has_messages = true;
  } else {
    request.prompt = TextAt(from, "prompt");
    request.has_prompt = true;
  }
  request.template_values = from.at("template_values").as_object();
  request.sampling = ReadSampling(from.at("sampling").as_object());
  request.sampling.seed = std::stoull(TextAt(from, "seed"));
  request.max_tokens = from.at("max_tokens").to_number<int>();
  request.ignore_end_of_text = from.at("ignore_end_of_text").as_bool();
  request.stop = json::value_to<std::vector<std::string>>(from.at("stop"));
  request.stop_tokens = json::value_to<std::vector<api::TokenId>>(from.at("stop_tokens"));
  request.constraint.kind = static_cast<api::Constraint::Kind>(from.at("constraint_kind").to_number<uint8_t>());
  request.constraint.schema = from.at("schema");
  request.constraint.grammar = TextAt(from, "grammar");
  request.tool_use.choice = static_cast<api::ToolUse::Choice>(from.at("tool_choice").to_number<uint8_t>());
  request.tool_use.name = TextAt(from, "tool_name");
  request.tool_use.parallel = from.at("tool_parallel").as_bool();
  request.verification = static_cast<api::Verification>(from.at("verification").to_number<uint8_t>());
  request.prediction = TextAt(from, "prediction");
  return request;
}

}  // namespace

std::string TextOfContent(const json::value& content) {
  if (content.is_string()) return std::string(content.get_string());
  std::string text;
  if (!content.is_array()) return text;
  for (const json::value& part : content.get_array()) {
    const json::value* piece = part.is_object() ? part.get_object().if_contains("text") : nullptr;
    if (piece == nullptr || !piece->is_string()) continue;
    if (!text.empty()) text += '\n';
    text += std::string_view(piece->get_string());
  }
  return text;
}

std::string TextsOf(const json::value& value) {
  std::string out;
  AppendTexts(value, true, 0, out);
  return out;
}

Result<Conversation> ReadConversation(const api::GenerationRequest& request) {
  Conversation out;
  out.has_tools = request.tool_use.choice != api::ToolUse::Choice::kNone || request.template_values.contains("tools");
  if (request.has_prompt) {
    out.question = request.prompt;
    out.all_text = request.prompt + TextsBeside(request);
    out.canonical = "[]";
    return out;
  }
  if (!request.has_messages) {
    return Error(InvalidArgumentError("a governed model takes messages or a text: token ids cannot be looked into"));
  }
  size_t last = request.messages.size();
  for (size_t i = 0; i < request.messages.size(); ++i) {
    const std::string_view role = RoleOf(request.messages[i]);
    if (role == "user") last = i;
    out.has_tools |= role == "tool" || request.messages[i].as_object().contains("tool_calls");
    const std::string text = TextOfMessage(request.messages[i]);
    if (!text.empty()) out.all_text += text + '\n';
    for (const auto& member : request.messages[i].as_object()) {
      const bool said = member.key() == "role" || member.key() == "content";
      if (!said) AppendTexts(member.value(), false, 0, out.all_text);
    }
  }
  out.all_text += TextsBeside(request);
  if (last == request.messages.size()) {
    return Error(InvalidArgumentError("no message has the role user: there is no question to decide about"));
  }
  json::array before, after;
  for (size_t i = 0; i < request.messages.size(); ++i) {
    if (i < last) before.push_back(request.messages[i]);
    if (i > last) after.push_back(request.messages[i]);
  }
  out.question = TextOfMessage(request.messages[last]);
  json::value history(std::move(before)), later(std::move(after));
  out.canonical = "[" + CanonicalJson(history) + "," + CanonicalJson(later) + "]";
  out.history = std::move(history.get_array());
  out.after = std::move(later.get_array());
  return out;
}

std::string DecodingOf(const api::GenerationRequest& request) {
  std::array<unsigned char, 4096> first;   // enough for most
  json::monotonic_resource memory(first.data(), first.size());
  json::value all(ParametersJson(request, &memory));
  if (!request.seed_is_secret) all.get_object()["seed"] = std::to_string(request.sampling.seed);
  return CanonicalJson(all);
}

json::object RequestToJson(const api::GenerationRequest& request) {
  json::object all = ParametersJson(request);
  all["seed"] = std::to_string(request.sampling.seed);
  if (request.has_messages) {
    all["messages"] = request.messages;
  } else {
    all["prompt"] = request.prompt;
  }
  return all;
}

Result<api::GenerationRequest> RequestFromJson(const json::object& from) {
  try {
    return ReadRequest(from);
  } catch (const std::exception& error) {
    return Error(DataLossError(std::string("a recorded request cannot be read: ") + error.what()));
  }
}

}  // namespace surety::gateway
