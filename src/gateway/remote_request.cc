#include "gateway/remote_request.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include <openssl/hmac.h>

#include "base/hash.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;
using Mapped = std::expected<void, api::Refusal>;

constexpr size_t kOpenAiStops = 4;

std::unexpected<api::Refusal> Unsendable(std::string param, std::string_view why) {
  api::Refusal refusal;
  refusal.status = InvalidArgumentError(param + ": " + std::string(why));
  refusal.param = std::move(param);
  return std::unexpected(std::move(refusal));
}

std::unexpected<api::Refusal> NotThere(std::string param, RemoteKind kind) {
  return Unsendable(std::move(param), "a server of the kind " + std::string(NameOf(kind)) + " has no such parameter");
}

// The shortest decimal that is this float, as a double: 0.7f is 0.7, not 0.699999988.
double Shortest(float value) {
  std::array<char, 32> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  double number = value;
  std::from_chars(text.data(), written.ptr, number);
  return number;
}

Mapped RefuseTokenIds(const api::GenerationRequest& request) {
  static constexpr std::string_view kWhy = "ids of tokens mean something else on a remote server; give text";
  if (request.has_tokens) return Unsendable("tokens", kWhy);
  if (!request.stop_tokens.empty()) return Unsendable("stop_tokens", kWhy);
  if (!request.sampling.logit_bias.empty()) return Unsendable("sampling.logit_bias", kWhy);
  static constexpr std::string_view kLogprobs = "log probabilities of a remote server's tokens cannot be given back";
  if (request.n_logprobs >= 0) return Unsendable("n_logprobs", kLogprobs);
  if (request.n_prompt_logprobs >= 0) return Unsendable("n_prompt_logprobs", kLogprobs);
  return {};
}

// What only some servers have; `name` empty: not there.
Mapped Special(json::object& body, const char* name, const char* param, double value, double off, RemoteKind kind) {
  if (name != nullptr) {
    if (value == std::floor(value) && std::abs(value) < 1e9) body[name] = static_cast<int64_t>(value);
    else body[name] = value;
    return {};
  }
  if (value != off) return NotThere(param, kind);
  return {};
}

Mapped MapOpenSampling(const api::SamplingParams& sampling, RemoteKind kind, json::object& body) {
  const bool openai_ranges = kind != RemoteKind::kVllm && kind != RemoteKind::kLlamaServer &&
                             kind != RemoteKind::kLlamaCppPython;
  if (openai_ranges && sampling.temperature > 2) return Unsendable("sampling.temperature", "the server takes 0 to 2");
  body["temperature"] = Shortest(sampling.temperature);
  body["top_p"] = Shortest(sampling.top_p);
  for (const auto& [name, value] : {std::pair{"frequency_penalty", sampling.frequency_penalty},
                                    std::pair{"presence_penalty", sampling.presence_penalty}}) {
    const std::string param = std::string("sampling.") + name;
    if (kind != RemoteKind::kLlamaServer && std::abs(value) > 2) return Unsendable(param, "the server takes -2 to 2");
    body[name] = Shortest(value);
  }
  return {};
}

Mapped MapSampling(const api::GenerationRequest& request, RemoteKind kind, json::object& body) {
  const api::SamplingParams& sampling = request.sampling;
  if (const Status valid = sampling.Validate(std::numeric_limits<int>::max()); !valid.ok()) {
    return Unsendable("sampling." + valid.message().substr(0, valid.message().find(' ')), valid.message());
  }
  if (auto ok = MapOpenSampling(sampling, kind, body); !ok) return ok;
  const bool vllm = kind == RemoteKind::kVllm, llama = kind == RemoteKind::kLlamaServer;
  const bool surety = kind == RemoteKind::kSurety, python = kind == RemoteKind::kLlamaCppPython;
  const bool rich = vllm || llama || surety || python;
  const bool repeats = sampling.repetition_penalty != 1.0f;
  // It looks at as many tokens as it was started with, which cannot be told.
  if (python && repeats) return NotThere("sampling.repetition_penalty", kind);
  struct Row {
    const char *name, *param;
    double value, off;
  };
  const Row rows[] = {
      {rich ? "top_k" : nullptr, "sampling.top_k", static_cast<double>(sampling.top_k), 0},
      {rich ? "min_p" : nullptr, "sampling.min_p", Shortest(sampling.min_p), 0},
      {llama || surety ? "typical_p" : nullptr, "sampling.typical_p", Shortest(sampling.typical_p), 1},
      {llama || python ? "repeat_penalty" : rich ? "repetition_penalty" : nullptr, "sampling.repetition_penalty",
       Shortest(sampling.repetition_penalty), 1},
      {llama ? "repeat_last_n" : surety ? "repetition_window" : nullptr, "sampling.repetition_window",
       static_cast<double>(repeats || llama || surety ? sampling.repetition_window : -1), -1},
      {vllm || surety || python ? "min_tokens" : nullptr, "sampling.min_tokens",
       static_cast<double>(sampling.min_tokens), 0},
  };
  for (const Row& row : rows) {
    if (auto ok = Special(body, row.name, row.param, row.value, row.off, kind); !ok) return ok;
  }
  if (sampling.lane != 0) return NotThere("sampling.lane", kind);
  const bool short_seed = llama || python;
  const uint64_t most =
      short_seed ? std::numeric_limits<uint32_t>::max() - 1 : std::numeric_limits<int64_t>::max();
  if (sampling.seed <= most) {
    body["seed"] = sampling.seed;
  } else if (!request.seed_is_secret) {  // one that nobody chose can as well be the server's own
    return Unsendable("sampling.seed", "the server takes at most " + std::to_string(most));
  }
  return {};
}

Mapped MapLimits(const api::GenerationRequest& request, const RemoteDialect& dialect, RemoteBody& mapped) {
  json::object& body = mapped.json;
  const RemoteKind kind = dialect.kind;
  const bool counts_all = kind == RemoteKind::kLlamaServer || kind == RemoteKind::kSurety;
  if (request.max_tokens > 0) {
    body[dialect.max_completion_tokens && mapped.chat ? "max_completion_tokens" : "max_tokens"] = request.max_tokens;
  } else if (request.max_tokens != -1) {
    return Unsendable("max_tokens", "is " + std::to_string(request.max_tokens) + ", but must be -1 or positive");
  } else if (counts_all) {
    body["n_predict"] = -1;
  } else if (!mapped.chat) {
    return Unsendable("max_tokens", "without a number the server ends a completion after 16 tokens; give one");
  }
  if (request.ignore_end_of_text) {
    if (!counts_all && kind != RemoteKind::kVllm) return NotThere("ignore_end_of_text", kind);
    body["ignore_eos"] = true;
  }
  if (!request.stop.empty()) {
    const bool few = kind == RemoteKind::kOpenAi || kind == RemoteKind::kUnknown;
    if (few && request.stop.size() > kOpenAiStops) return Unsendable("stop", "the server takes at most 4 texts");
    body["stop"] = json::array(request.stop.begin(), request.stop.end());
  }
  if (request.n_choices < 1 || request.n_choices > 128) return Unsendable("n_choices", "must be from 1 to 128");
  if (request.n_choices > 1) {
    const bool one = kind == RemoteKind::kLlamaServer || kind == RemoteKind::kLlamaCppPython;
    if (one) return NotThere("n_choices", kind);
    body["n"] = request.n_choices;
  }
  return {};
}

Mapped MapShape(const api::Constraint& constraint, RemoteKind kind, json::object& body) {
  using Kind = api::Constraint::Kind;
  switch (constraint.kind) {
    case Kind::kNone: return {};
    case Kind::kJsonObject: body["response_format"] = {{"type", "json_object"}}; return {};
    case Kind::kJsonSchema:
      if (!constraint.schema.is_object()) return Unsendable("constraint.schema", "must be an object");
      if (kind == RemoteKind::kLlamaCppPython) {
        body["response_format"] = {{"type", "json_object"}, {"schema", constraint.schema}};
        return {};
      }
      body["response_format"] = {
          {"type", "json_schema"},
          {"json_schema", {{"name", "answer"}, {"strict", true}, {"schema", constraint.schema}}}};
      return {};
    case Kind::kGrammar:
      if (kind != RemoteKind::kLlamaServer && kind != RemoteKind::kSurety && kind != RemoteKind::kLlamaCppPython) {
        return NotThere("constraint.grammar", kind);
      }
      body["grammar"] = constraint.grammar;
      return {};
  }
  return {};
}

// Reasoning and values of the template are things of servers that render it themselves and say so.
bool HasTemplateValues(RemoteKind kind) {
  return kind == RemoteKind::kVllm || kind == RemoteKind::kLlamaServer || kind == RemoteKind::kSurety;
}

Mapped MapToolUse(const api::GenerationRequest& request, RemoteKind kind, json::object& body) {
  json::object values;
  for (const auto& member : request.template_values) {
    if (member.key() == "tools") body["tools"] = member.value();
    else values[member.key()] = member.value();
  }
  if (!values.empty()) {
    if (!HasTemplateValues(kind)) {
      return NotThere("template_values." + std::string(values.begin()->key()), kind);
    }
    if (const json::value* begin = values.if_contains("add_generation_prompt")) {
      body["add_generation_prompt"] = *begin;
      values.erase("add_generation_prompt");
    }
    if (!values.empty()) body["chat_template_kwargs"] = std::move(values);
  }
  using Choice = api::ToolUse::Choice;
  if (!body.contains("tools")) {
    if (request.tool_use.choice == Choice::kNone || request.tool_use.choice == Choice::kAuto) return {};
    return Unsendable("tool_use", "a call is required, but there are no tools");
  }
  switch (request.tool_use.choice) {
    case Choice::kNone: body["tool_choice"] = "none"; break;
    case Choice::kAuto: body["tool_choice"] = "auto"; break;
    case Choice::kRequired:
      // It would take the word and answer in text.
      if (kind == RemoteKind::kLlamaCppPython) return NotThere("tool_use.choice", kind);
      body["tool_choice"] = "required";
      break;
    case Choice::kNamed:
      body["tool_choice"] = {{"type", "function"}, {"function", {{"name", request.tool_use.name}}}};
      break;
  }
  body["parallel_tool_calls"] = request.tool_use.parallel;
  return {};
}

Mapped MapPrompt(const api::GenerationRequest& request, RemoteKind kind, RemoteBody& mapped) {
  if (request.has_messages + request.has_prompt + request.has_tokens != 1) {
    return Unsendable("messages", "give exactly one of messages, prompt and tokens");
  }
  mapped.chat = request.has_messages;
  if (!mapped.chat) {
    if (!request.template_values.empty()) {
      return Unsendable("template_values." + std::string(request.template_values.begin()->key()),
                        "a plain prompt has no template");
    }
    mapped.json["prompt"] = request.prompt;
    return {};
  }
  auto messages = WireMessages(request.messages, kind);
  if (!messages) return std::unexpected(messages.error());
  mapped.json["messages"] = *std::move(messages);
  return {};
}

std::expected<json::object, api::Refusal> WireCall(const json::value& value, const std::string& path,
                                                   const std::string& fallback_id) {
  const json::object* call = value.if_object();
  const json::value* function = call == nullptr ? nullptr : call->if_contains("function");
  const json::object* parts = function == nullptr ? nullptr : function->if_object();
  if (parts == nullptr || !parts->contains("name")) return Unsendable(path, "must be a call of a function");
  const json::value* arguments = parts->if_contains("arguments");
  std::string text = "{}";
  if (arguments != nullptr) {
    text = arguments->is_string() ? std::string(arguments->get_string()) : json::serialize(*arguments);
  }
  const json::value* id = call->if_contains("id");
  return json::object{{"id", id != nullptr ? *id : json::value(fallback_id)},
                      {"type", "function"},
                      {"function", {{"name", parts->at("name")}, {"arguments", text}}}};
}

}  // namespace

std::string_view NameOf(RemoteKind kind) {
  switch (kind) {
    case RemoteKind::kUnknown: return "unknown";
    case RemoteKind::kOpenAi: return "openai";
    case RemoteKind::kVllm: return "vllm";
    case RemoteKind::kLlamaServer: return "llama-server";
    case RemoteKind::kSurety: return "surety";
    case RemoteKind::kLlamaCppPython: return "llama-cpp-python";
  }
  return "unknown";
}

std::expected<json::array, api::Refusal> WireMessages(const json::array& messages, RemoteKind kind) {
  json::array wire;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string path = "messages[" + std::to_string(i) + "]";
    const json::object* message = messages[i].if_object();
    if (message == nullptr) return Unsendable(path, "must be an object");
    json::object mapped = *message;
    if (mapped.contains("reasoning_content") && !HasTemplateValues(kind)) {
      return NotThere(path + ".reasoning_content", kind);
    }
    if (json::value* calls = mapped.if_contains("tool_calls")) {
      if (!calls->is_array()) return Unsendable(path + ".tool_calls", "must be an array");
      json::array list;
      for (size_t k = 0; k < calls->get_array().size(); ++k) {
        auto call = WireCall(calls->get_array()[k], path + ".tool_calls[" + std::to_string(k) + "]",
                             "call_" + std::to_string(i) + "_" + std::to_string(k));
        if (!call) return std::unexpected(call.error());
        list.emplace_back(*std::move(call));
      }
      *calls = std::move(list);
    }
    wire.emplace_back(std::move(mapped));
  }
  return wire;
}

std::string DerivedSalt(const std::string& secret, const api::Scope& scope) {
  std::string bytes;
  const auto add = [&bytes](std::string_view field) {
    for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(field.size() >> shift & 0xff);
    bytes += field;
  };
  for (const std::string* field : {&scope.tenant, &scope.region, &scope.product, &scope.policy_version,
                                   &scope.language, &scope.eligibility, &scope.effective_date, &scope.salt}) {
    add(*field);
  }
  for (const std::string& permission : std::set<std::string>(scope.permissions.begin(), scope.permissions.end())) {
    add(permission);
  }
  Sha256Digest digest;
  unsigned int size = digest.size();
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data(), &size);
  return HexOf(digest);
}

std::expected<RemoteBody, api::Refusal> MapRemoteRequest(const api::GenerationRequest& request,
                                                         const RemoteDialect& dialect) {
  const RemoteKind kind = dialect.kind;
  RemoteBody mapped;
  if (auto ok = RefuseTokenIds(request); !ok) return std::unexpected(ok.error());
  if (auto ok = MapPrompt(request, kind, mapped); !ok) return std::unexpected(ok.error());
  json::object& body = mapped.json;
  body["model"] = dialect.model;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  if (auto ok = MapSampling(request, kind, body); !ok) return std::unexpected(ok.error());
  if (auto ok = MapLimits(request, dialect, mapped); !ok) return std::unexpected(ok.error());
  if (auto ok = MapShape(request.constraint, kind, body); !ok) return std::unexpected(ok.error());
  if (auto ok = MapToolUse(request, kind, body); !ok) return std::unexpected(ok.error());
  if (kind == RemoteKind::kSurety) {
    if (!request.speculate) body["speculate"] = false;
    if (request.verification == api::Verification::kRejection) body["verification"] = "rejection";
    if (request.verification == api::Verification::kLossyTypical) body["verification"] = "typical";
  } else if (request.verification == api::Verification::kLossyTypical) {
    return NotThere("verification", kind);
  }
  if (!dialect.salt.empty() && (kind == RemoteKind::kSurety || kind == RemoteKind::kVllm)) {
    body["cache_salt"] = dialect.salt;
  }
  return mapped;
}

}  // namespace surety::gateway
