#include "http/openai_generation.h"

#include <algorithm>
#include <array>
#include <utility>

#include "http/openai_sampling.h"

namespace surety::http {
namespace {

namespace json = boost::json;

constexpr size_t kMaxPrompts = 128;
constexpr int kMaxAnswers = 1024;      // over all prompts of one request
constexpr int kDefaultCompletion = 16; // tokens
constexpr size_t kMaxPredictionBytes = 1 << 20;

std::unexpected<ApiError> Missing(const char* name) {
  return BadField(name, std::string(name) + " is missing", "missing_required_parameter");
}

Parsed<void> MapTemplateValues(const json::object& body, api::GenerationRequest& request) {
  static constexpr std::array<std::string_view, 6> kOurs{"messages", "tools", "add_generation_prompt", "bos_token",
                                                         "eos_token", "continue_final_message"};
  if (const json::value* values = Member(body, "chat_template_kwargs")) {
    for (const auto& member : values->get_object()) {
      const std::string_view key = member.key();
      if (std::ranges::find(kOurs, key) == kOurs.end()) continue;
      const std::string path = "chat_template_kwargs." + std::string(key);
      return BadField(path, path + " cannot be set there: the request's own fields and the model say it");
    }
    request.template_values = values->get_object();
  }
  if (const json::value* value = Member(body, "add_generation_prompt")) {
    request.template_values["add_generation_prompt"] = *value;
  }
  return {};
}

Parsed<void> MapConversation(const json::object& body, api::GenerationRequest& request) {
  const json::value* messages = Member(body, "messages");
  if (messages == nullptr) return Missing("messages");
  auto mapped = MapMessages(messages->get_array(), "messages");
  if (!mapped) return std::unexpected(mapped.error());
  request.messages = *std::move(mapped);
  request.has_messages = true;
  return MapTemplateValues(body, request);
}

Parsed<void> MapPrediction(const json::object& body, GenerationCall& call, api::GenerationRequest& request) {
  const json::value* prediction = Member(body, "prediction");
  if (prediction == nullptr) return {};
  const json::value* content = Member(prediction->get_object(), "content");
  if (Member(prediction->get_object(), "type") == nullptr) return Missing("prediction.type");
  if (content == nullptr) return Missing("prediction.content");
  auto text = MapContent(*content, "prediction.content");
  if (!text) return std::unexpected(text.error());
  if (text->size() > kMaxPredictionBytes) {
    return BadField("prediction.content", "prediction.content has " + std::to_string(text->size()) +
                                              " bytes, but must have at most 1048576");
  }
  request.prediction = *std::move(text);
  call.prediction = true;
  return {};
}

// One prompt of /v1/completions, a text or a list of ids.
Parsed<void> AddPrompt(const json::value& prompt, const std::string& path, const CallContext& context,
                       const api::GenerationRequest& like, GenerationCall& call) {
  api::GenerationRequest request = like;
  std::string text;
  if (prompt.is_string()) {
    request.prompt = text = prompt.get_string();
    request.has_prompt = true;
  } else if (prompt.is_array()) {
    if (prompt.get_array().empty()) return BadField(path, path + " is empty");
    auto tokens = MapTokens(prompt.get_array(), path, context.model.vocab_size);
    if (!tokens) return std::unexpected(tokens.error());
    request.tokens = *std::move(tokens);
    request.has_tokens = true;
  } else {
    return BadField(path, path + " must be a text or a list of token ids, but is " + std::string(TypeName(prompt)),
                    "invalid_type");
  }
  call.requests.push_back(std::move(request));
  call.prompt_texts.push_back(std::move(text));
  return {};
}

Parsed<void> AddPrompts(const json::object& body, const CallContext& context, const api::GenerationRequest& like,
                        GenerationCall& call) {
  const json::value* prompt = Member(body, "prompt");
  if (prompt == nullptr) return Missing("prompt");
  if (prompt->is_string()) return AddPrompt(*prompt, "prompt", context, like, call);
  const json::array& list = prompt->get_array();
  if (list.empty()) return BadField("prompt", "prompt is empty");
  if (list[0].is_number()) return AddPrompt(*prompt, "prompt", context, like, call);
  if (list.size() > kMaxPrompts) {
    return BadField("prompt", "prompt has " + std::to_string(list.size()) + " prompts, but may have at most 128");
  }
  for (size_t i = 0; i < list.size(); ++i) {
    if (auto ok = AddPrompt(list[i], "prompt[" + std::to_string(i) + "]", context, like, call); !ok) return ok;
  }
  return {};
}

Parsed<void> MapCompletionOptions(const json::object& body, GenerationCall& call, api::GenerationRequest& request) {
  call.echo = BoolOr(body, "echo", false);
  if (!Member(body, "max_tokens") && !Member(body, "max_completion_tokens") && !Member(body, "n_predict")) {
    request.max_tokens = kDefaultCompletion;
  }
  if (request.max_tokens == 0) {
    if (!call.echo) return BadField("max_tokens", "max_tokens is 0, but must be at least 1 (0 is for echo)");
    request.max_tokens = 1;  // the model must run once; nothing of what it says is given
    call.drop_output = true;
  }
  int64_t n_logprobs = IntOr(body, "logprobs", -1);
  if (const int64_t n = IntOr(body, "n_probs", 0); n > 0) {
    if (n_logprobs >= 0 && n_logprobs != n) {
      return BadField("n_probs", "logprobs and n_probs mean the same, but have different values; give one of them");
    }
    n_logprobs = n;
  }
  call.output_logprobs = n_logprobs >= 0;
  request.n_logprobs = static_cast<int>(n_logprobs);
  if (call.echo && call.output_logprobs) {
    if (call.stream) return BadField("echo", "echo with logprobs is not for answers with stream: true");
    request.n_prompt_logprobs = std::max(request.n_prompt_logprobs, request.n_logprobs);
  }
  call.n = static_cast<int>(IntOr(body, "n", 1));
  request.n_choices = static_cast<int>(IntOr(body, "best_of", call.n));
  if (request.n_choices < call.n) {
    return BadField("best_of", "best_of is " + std::to_string(request.n_choices) +
                                   ", but must be at least n, which is " + std::to_string(call.n));
  }
  if (request.n_choices > call.n) {
    if (call.stream) return BadField("best_of", "best_of beyond n is not for answers with stream: true");
    request.n_logprobs = std::max(request.n_logprobs, 0);  // to choose by
  }
  return {};
}

}  // namespace

Parsed<api::GenerationRequest> MapTemplated(const json::object& body) {
  api::GenerationRequest request;
  if (auto ok = MapConversation(body, request); !ok) return std::unexpected(ok.error());
  if (auto ok = MapTools(body, false, request); !ok) return std::unexpected(ok.error());
  return request;
}

Parsed<GenerationCall> MapChat(const json::object& body, const CallContext& context) {
  GenerationCall call;
  auto mapped = MapTemplated(body);
  if (!mapped) return std::unexpected(mapped.error());
  api::GenerationRequest& request = *mapped;
  if (auto ok = MapCommon(body, context, call, request); !ok) return std::unexpected(ok.error());
  if (request.max_tokens == 0) return BadField("max_tokens", "max_tokens is 0, but must be at least 1");
  if (auto ok = MapPrediction(body, call, request); !ok) return std::unexpected(ok.error());
  if (auto ok = MapConstraint(body, kChat, request.constraint); !ok) return std::unexpected(ok.error());
  call.output_logprobs = BoolOr(body, "logprobs", false);
  const int64_t top = IntOr(body, "top_logprobs", 0);
  if (!call.output_logprobs && top > 0) return BadField("top_logprobs", "top_logprobs needs logprobs: true");
  if (call.output_logprobs) request.n_logprobs = static_cast<int>(top);
  call.n = request.n_choices = static_cast<int>(IntOr(body, "n", 1));
  call.requests.push_back(std::move(request));
  return call;
}

Parsed<GenerationCall> MapCompletions(const json::object& body, const CallContext& context) {
  GenerationCall call;
  api::GenerationRequest request;
  if (auto ok = MapCommon(body, context, call, request); !ok) return std::unexpected(ok.error());
  if (auto ok = MapConstraint(body, kCompletions, request.constraint); !ok) return std::unexpected(ok.error());
  if (auto ok = MapCompletionOptions(body, call, request); !ok) return std::unexpected(ok.error());
  if (auto ok = AddPrompts(body, context, request, call); !ok) return std::unexpected(ok.error());
  if (static_cast<int64_t>(call.requests.size()) * request.n_choices > kMaxAnswers) {
    return BadField("prompt", std::to_string(call.requests.size()) + " prompts with " +
                                  std::to_string(request.n_choices) + " answers each are more than 1024 answers");
  }
  return call;
}

Parsed<GenerationCall> MapResponses(const json::object& body, const CallContext& context) {
  GenerationCall call;
  api::GenerationRequest request;
  const json::value* input = Member(body, "input");
  if (input == nullptr) return Missing("input");
  if (const json::value* instructions = Member(body, "instructions")) {
    request.messages.push_back(json::object{{"role", "system"}, {"content", *instructions}});
  }
  if (input->is_string()) {
    request.messages.push_back(json::object{{"role", "user"}, {"content", *input}});
  } else {
    auto items = MapItems(input->get_array(), "input");
    if (!items) return std::unexpected(items.error());
    for (json::value& item : *items) request.messages.push_back(std::move(item));
  }
  request.has_messages = true;
  if (auto ok = MapCommon(body, context, call, request); !ok) return std::unexpected(ok.error());
  if (auto ok = MapTools(body, true, request); !ok) return std::unexpected(ok.error());
  if (auto ok = MapConstraint(body, kResponses, request.constraint); !ok) return std::unexpected(ok.error());
  if (const json::value* include = Member(body, "include")) {
    for (size_t i = 0; i < include->get_array().size(); ++i) {
      const json::value& what = include->get_array()[i];
      const std::string path = "include[" + std::to_string(i) + "]";
      if (what == "message.output_text.logprobs") {
        call.output_logprobs = true;
      } else if (what != "reasoning.encrypted_content") {
        return BadField(path, path + " is not supported; message.output_text.logprobs is", "unsupported_value");
      }
    }
  }
  const int64_t top = IntOr(body, "top_logprobs", 0);
  if (top > 0 && !call.output_logprobs) {
    return BadField("top_logprobs", "top_logprobs needs message.output_text.logprobs in include");
  }
  if (call.output_logprobs) request.n_logprobs = static_cast<int>(top);
  call.requests.push_back(std::move(request));
  call.body = body;
  return call;
}

std::string BodyField(std::string_view field, Endpoint endpoint, const json::object& body) {
  if (field.starts_with("sampling.")) field.remove_prefix(9);
  const size_t end = std::min(field.find_first_of(".["), field.size());
  const std::string_view head = field.substr(0, end), rest = field.substr(end);
  const auto present = [&](std::initializer_list<const char*> names) -> std::string {
    for (const char* name : names) {
      if (Member(body, name) != nullptr) return name;
    }
    return *names.begin();
  };
  std::string name(head);
  if (head == "messages" && endpoint == kResponses) return "input";
  if (head == "tokens" && endpoint == kCompletions) name = "prompt";
  if (head == "max_tokens" && endpoint == kResponses) name = "max_output_tokens";
  if (head == "max_tokens" && endpoint != kResponses) {
    name = present({"max_tokens", "max_completion_tokens", "n_predict"});
  }
  if (head == "repetition_penalty") name = present({"repetition_penalty", "repeat_penalty"});
  if (head == "repetition_window") name = present({"repetition_window", "repeat_last_n"});
  if (head == "n_choices") name = present({"n", "best_of"});
  if (head == "n_logprobs") name = present({"top_logprobs", "logprobs", "n_probs"});
  if (head == "n_prompt_logprobs") name = present({"prompt_logprobs", "echo"});
  if (head == "stop_tokens") name = "stop_token_ids";
  if (head == "ignore_end_of_text") name = "ignore_eos";
  if (head == "timeout_ms") name = "timeout";
  if (head == "tool_use") name = present({"tool_choice", "tools"});
  if (head == "scope") name = "cache_salt";
  if (head == "template_values") {
    name = rest.starts_with(".tools") ? "tools" : "chat_template_kwargs";
  }
  if (head == "constraint") {
    if (endpoint == kResponses) return present({"text", "grammar"});
    return present({"response_format", "grammar", "json_schema", "guided_json", "guided_grammar",
                    "structured_outputs"});
  }
  const bool renamed = name != head;
  return renamed ? name : name + std::string(rest);
}

}  // namespace surety::http
