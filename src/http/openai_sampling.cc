#include "http/openai_sampling.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace surety::http {
namespace {

namespace json = boost::json;

constexpr size_t kMaxStops = 32;

Parsed<void> MapStop(const json::object& body, api::GenerationRequest& request) {
  const json::value* stop = Member(body, "stop");
  if (stop == nullptr) return {};
  const auto add = [&](const json::value& text, const std::string& path) -> Parsed<void> {
    if (!text.is_string()) {
      return BadField(path, path + " must be a string, but is " + std::string(TypeName(text)), "invalid_type");
    }
    const size_t size = text.get_string().size();
    if (size == 0) return BadField(path, path + " is empty, and would end every answer at once");
    if (size > 1024) return BadField(path, path + " has " + std::to_string(size) + " bytes; at most 1024 may be");
    request.stop.emplace_back(text.get_string());
    return {};
  };
  if (!stop->is_array()) return add(*stop, "stop");
  const json::array& list = stop->get_array();
  if (list.size() > kMaxStops) {
    return BadField("stop", "stop has " + std::to_string(list.size()) + " texts, but must have at most 32");
  }
  for (size_t i = 0; i < list.size(); ++i) {
    if (auto ok = add(list[i], ItemPath("stop", i)); !ok) return ok;
  }
  return {};
}

Parsed<void> MapBias(const json::object& body, int vocab_size, api::SamplingParams& sampling) {
  const json::value* bias = Member(body, "logit_bias");
  if (bias == nullptr) return {};
  for (const auto& member : bias->get_object()) {
    const std::string_view key = member.key();
    const std::string path = "logit_bias." + std::string(key);
    int64_t id = -1;
    const auto read = std::from_chars(key.data(), key.data() + key.size(), id);
    if (read.ec != std::errc() || read.ptr != key.data() + key.size() || id < 0 || id >= vocab_size) {
      return BadField(path, "logit_bias names token " + Quoted(key) + ", but the vocabulary has ids 0 to " +
                                std::to_string(vocab_size - 1));
    }
    if (!member.value().is_number()) {
      return BadField(path, path + " must be a number, but is " + std::string(TypeName(member.value())),
                      "invalid_type");
    }
    const double value = member.value().to_number<double>();
    if (!(value >= -100 && value <= 100)) {
      return BadField(path, path + " is " + json::serialize(member.value()) + ", but must be from -100 to 100");
    }
    sampling.logit_bias.emplace_back(static_cast<api::TokenId>(id), static_cast<float>(value));
  }
  return {};
}

// One of several names of the same parameter; two that disagree are an error.
Parsed<const json::value*> OneOf(const json::object& body, std::span<const std::string_view> names) {
  const json::value* found = nullptr;
  std::string_view found_name;
  for (const std::string_view name : names) {
    const json::value* value = Member(body, name);
    if (value == nullptr) continue;
    if (found != nullptr && found->to_number<double>() != value->to_number<double>()) {
      return BadField(std::string(name), std::string(found_name) + " and " + std::string(name) +
                                             " mean the same, but have different values; give one of them");
    }
    found = value;
    found_name = name;
  }
  return found;
}

Parsed<void> MapPenalties(const json::object& body, api::SamplingParams& sampling) {
  static constexpr std::array<std::string_view, 2> kPenalty{"repetition_penalty", "repeat_penalty"};
  static constexpr std::array<std::string_view, 2> kWindow{"repetition_window", "repeat_last_n"};
  const auto penalty = OneOf(body, kPenalty);
  if (!penalty) return std::unexpected(penalty.error());
  if (*penalty != nullptr) sampling.repetition_penalty = static_cast<float>((*penalty)->to_number<double>());
  const auto window = OneOf(body, kWindow);
  if (!window) return std::unexpected(window.error());
  int64_t tokens;
  if (*window != nullptr && WholeNumber(**window, tokens)) sampling.repetition_window = static_cast<int>(tokens);
  sampling.frequency_penalty = static_cast<float>(NumberOr(body, "frequency_penalty", 0));
  sampling.presence_penalty = static_cast<float>(NumberOr(body, "presence_penalty", 0));
  return {};
}

// A double above 0 may be 0 as a float, which means something else.
Parsed<float> PositiveFloat(const json::object& body, std::string_view name) {
  const double value = NumberOr(body, name, 1.0);
  const auto narrow = static_cast<float>(value);
  if (narrow > 0) return narrow;
  return BadField(std::string(name), std::string(name) + " is too close to 0");
}

Parsed<void> MapSampling(const json::object& body, const CallContext& context, api::GenerationRequest& request) {
  api::SamplingParams& sampling = request.sampling;
  sampling.temperature = static_cast<float>(NumberOr(body, "temperature", 1.0));
  for (const auto& [name, field] : {std::pair<std::string_view, float*>{"top_p", &sampling.top_p},
                                    {"typical_p", &sampling.typical_p}}) {
    const auto value = PositiveFloat(body, name);
    if (!value) return std::unexpected(value.error());
    *field = *value;
  }
  sampling.min_p = static_cast<float>(NumberOr(body, "min_p", 0.0));
  sampling.top_k = static_cast<int>(std::max<int64_t>(0, IntOr(body, "top_k", 0)));
  sampling.min_tokens = static_cast<int>(IntOr(body, "min_tokens", 0));
  const int64_t seed = IntOr(body, "seed", -1);
  sampling.seed = seed == -1 ? context.fresh_seed : static_cast<uint64_t>(seed);
  request.seed_is_secret = seed == -1;
  if (auto ok = MapPenalties(body, sampling); !ok) return ok;
  if (!(sampling.repetition_penalty > 0)) return BadField("repetition_penalty", "repetition_penalty is too close to 0");
  return MapBias(body, context.model.vocab_size, sampling);
}

Parsed<void> MapLimits(const json::object& body, const CallContext& context, api::GenerationRequest& request) {
  static constexpr std::array<std::string_view, 4> kMax{"max_completion_tokens", "max_tokens", "n_predict",
                                                        "max_output_tokens"};
  const auto max_tokens = OneOf(body, kMax);
  if (!max_tokens) return std::unexpected(max_tokens.error());
  int64_t tokens = -1;
  if (*max_tokens != nullptr && WholeNumber(**max_tokens, tokens)) request.max_tokens = static_cast<int>(tokens);
  request.ignore_end_of_text = BoolOr(body, "ignore_eos", false);
  request.timeout_ms = static_cast<int64_t>(std::ceil(NumberOr(body, "timeout", 0) * 1000));
  const int allowed = context.identity.priority;
  request.priority = static_cast<int>(IntOr(body, "priority", allowed));
  if (request.priority < allowed) {
    return BadField("priority", "priority is " + std::to_string(request.priority) +
                                    ", but this caller may ask for nothing more urgent than " +
                                    std::to_string(allowed) + " (lower is more urgent)");
  }
  if (const json::value* ids = Member(body, "stop_token_ids")) {
    auto mapped = MapTokens(ids->get_array(), "stop_token_ids", context.model.vocab_size);
    if (!mapped) return std::unexpected(mapped.error());
    request.stop_tokens = *std::move(mapped);
  }
  return MapStop(body, request);
}

Parsed<void> CheckMetadata(const json::object& body) {
  const json::value* metadata = Member(body, "metadata");
  if (metadata == nullptr) return {};
  for (const auto& member : metadata->get_object()) {
    const std::string path = "metadata." + std::string(member.key());
    if (!member.value().is_string()) {
      return BadField(path, path + " must be a string, but is " + std::string(TypeName(member.value())),
                      "invalid_type");
    }
    if (member.key().size() > 64 || member.value().get_string().size() > 512) {
      return BadField(path, "metadata holds keys up to 64 bytes and texts up to 512 bytes");
    }
  }
  return {};
}

}  // namespace

Parsed<std::vector<api::TokenId>> MapTokens(const json::array& array, const std::string& path, int vocab_size) {
  std::vector<api::TokenId> tokens;
  tokens.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    int64_t id;
    if (!array[i].is_number()) {
      const std::string where = ItemPath(path, i);
      return BadField(where, where + " must be a token id, but is " + std::string(TypeName(array[i])), "invalid_type");
    }
    if (!WholeNumber(array[i], id) || id < 0 || id >= vocab_size) {
      return BadField(ItemPath(path, i), ItemPath(path, i) + " is " + json::serialize(array[i]) +
                                           ", but the vocabulary has ids 0 to " + std::to_string(vocab_size - 1));
    }
    tokens.push_back(static_cast<api::TokenId>(id));
  }
  return tokens;
}

Parsed<void> MapCommon(const json::object& body, const CallContext& context, GenerationCall& call,
                       api::GenerationRequest& request) {
  if (auto ok = MapSampling(body, context, request); !ok) return ok;
  if (auto ok = MapLimits(body, context, request); !ok) return ok;
  if (auto ok = CheckMetadata(body); !ok) return ok;
  request.scope = context.identity.scope;
  request.scope.salt = StringOr(body, "cache_salt", "");
  request.caller = {context.identity.subject, context.identity.role == Role::kAdmin, context.identity.claims, {}};
  if (const json::value* metadata = Member(body, "metadata")) request.caller.metadata = metadata->get_object();
  call.stream = BoolOr(body, "stream", false);
  call.include_stop_text = BoolOr(body, "include_stop_str_in_output", false);
  call.timings = BoolOr(body, "timings", false);
  const std::string_view rule = StringOr(body, "verification", "coupled");
  if (rule == "rejection") request.verification = api::Verification::kRejection;
  if (rule == "typical") request.verification = api::Verification::kLossyTypical;
  request.speculate = BoolOr(body, "speculate", true) && IntOr(body, "speculative.n_max", 1) != 0;
  if (const json::value* options = Member(body, "stream_options")) {
    if (!call.stream) return BadField("stream_options", "stream_options is for answers with stream: true");
    call.include_usage = BoolOr(options->get_object(), "include_usage", false);
  }
  if (const json::value* count = Member(body, "prompt_logprobs")) {
    if (call.stream) return BadField("prompt_logprobs", "prompt_logprobs is not for answers with stream: true");
    int64_t n = 0;
    if (WholeNumber(*count, n)) request.n_prompt_logprobs = static_cast<int>(n);
    call.prompt_logprobs = true;
  }
  return {};
}

}  // namespace surety::http
