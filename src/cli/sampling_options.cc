#include "cli/sampling_options.h"

#include <charconv>
#include <limits>

#include <fmt/format.h>

namespace surety::cli {
namespace {

Result<std::pair<api::TokenId, float>> ParseBias(const std::string& text) {
  const size_t equals = text.find('=');
  api::TokenId id = -1;
  float value = 0;
  if (equals != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto id_part = std::from_chars(text.data(), text.data() + equals, id);
    const char* number = text.data() + equals + 1;
    if (number < end && *number == '+') ++number;
    const auto value_part = std::from_chars(number, end, value);
    if (id_part.ec == std::errc() && id_part.ptr == text.data() + equals && value_part.ec == std::errc() &&
        value_part.ptr == end && value < std::numeric_limits<float>::infinity()) {  // minus infinity: never
      return std::pair{id, value};
    }
  }
  return Error(InvalidArgumentError(
      fmt::format("--logit-bias: '{}' is not of the form ID=VALUE, as in 42=-5 or 42=-inf", text)));
}

// "\n" and "\t" as people type them in a shell.
std::string Unescaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      const char next = text[i + 1];
      if (next == 'n' || next == 't' || next == '\\') {
        out += next == 'n' ? '\n' : next == 't' ? '\t' : '\\';
        ++i;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

// The range of a parameter stands in SamplingParams::Validate alone. This puts the flag's name and what was typed in
// front of it.
template <typename T, typename Field>
Status CheckRange(const char* flag, const std::optional<T>& value, Field api::SamplingParams::* field) {
  if (!value) return OkStatus();
  api::SamplingParams alone;
  alone.*field = static_cast<Field>(*value);
  const Status status = alone.Validate(std::numeric_limits<int>::max());
  if (status.ok()) return status;
  constexpr std::string_view kBefore = "but must be ";
  const size_t range = status.message().find(kBefore);
  if (range == std::string::npos) return status.WithContext(flag);
  return InvalidArgumentError(fmt::format("{}: {} is not in its range, {}", flag, *value,
                                          status.message().substr(range + kBefore.size())));
}

float Chosen(const std::optional<double>& flag, const std::optional<double>& model, double otherwise) {
  return static_cast<float>(flag.value_or(model.value_or(otherwise)));
}

}  // namespace

void SamplingFlags::Declare(Flags& flags) {
  flags.Group("Sampling (default: what the model recommends, else greedy)");
  flags.Add("--temperature", temperature, "0: always the most likely token");
  flags.Add("--top-k", top_k, "only the K most likely tokens; 0: off");
  flags.Add("--top-p", top_p, "the smallest set of tokens with this much probability; 1: off");
  flags.Add("--min-p", min_p, "tokens with at least this share of the best one's probability; 0: off");
  flags.Add("--typical-p", typical_p, "locally typical sampling; 1: off");
  flags.Add("--repetition-penalty", repetition_penalty, "above 1: tokens seen before become less likely");
  flags.Add("--repetition-window", repetition_window, "tokens the repetition penalty looks back at; -1: all");
  flags.Add("--frequency-penalty", frequency_penalty, "taken off a token's logit for each time it was put out");
  flags.Add("--presence-penalty", presence_penalty, "taken off a token's logit once it was put out");
  flags.Add("--logit-bias", logit_bias, "ID=VALUE, added to a token's logit; may be repeated");
  flags.Add("--seed", seed, "same seed, same answer");
  flags.Group("Length");
  flags.Add("-n,--max-tokens", max_tokens, "longest answer in tokens; -1: to the end of the context");
  flags.Add("--min-tokens", min_tokens, "the answer does not end before this many tokens");
  flags.Add("--stop", stop, "text that ends the answer (\\n and \\t are understood); may be repeated");
  flags.Add("--ignore-eos", ignore_eos, "go on past the model's end of answer");
}

Status SamplingFlags::Validate() const {
  for (const std::string& text : logit_bias) {
    if (auto bias = ParseBias(text); !bias) return bias.error();
  }
  if (max_tokens < 1 && max_tokens != -1) {
    return InvalidArgumentError(fmt::format("--max-tokens: {} is neither -1 nor a number from 1 up", max_tokens));
  }
  if (max_tokens != -1 && min_tokens > max_tokens) {
    return InvalidArgumentError(fmt::format("--min-tokens: {} is more than --max-tokens, {}", min_tokens, max_tokens));
  }
  using Params = api::SamplingParams;
  SURETY_RETURN_IF_ERROR(CheckRange("--temperature", temperature, &Params::temperature));
  SURETY_RETURN_IF_ERROR(CheckRange("--top-k", top_k, &Params::top_k));
  SURETY_RETURN_IF_ERROR(CheckRange("--top-p", top_p, &Params::top_p));
  SURETY_RETURN_IF_ERROR(CheckRange("--min-p", min_p, &Params::min_p));
  SURETY_RETURN_IF_ERROR(CheckRange("--typical-p", typical_p, &Params::typical_p));
  SURETY_RETURN_IF_ERROR(CheckRange("--repetition-penalty", repetition_penalty, &Params::repetition_penalty));
  SURETY_RETURN_IF_ERROR(CheckRange("--repetition-window", repetition_window, &Params::repetition_window));
  SURETY_RETURN_IF_ERROR(CheckRange("--frequency-penalty", frequency_penalty, &Params::frequency_penalty));
  SURETY_RETURN_IF_ERROR(CheckRange("--presence-penalty", presence_penalty, &Params::presence_penalty));
  SURETY_RETURN_IF_ERROR(CheckRange("--min-tokens", std::optional(min_tokens), &Params::min_tokens));
  for (const std::string& text : stop) {
    if (text.empty()) return InvalidArgumentError("--stop: the text is empty");
  }
  return OkStatus();
}

Status SamplingFlags::Apply(const engine::LocalModel& model, api::GenerationRequest& request) const {
  const model::GenerationDefaults& defaults = model.source().generation_defaults();
  api::SamplingParams& sampling = request.sampling;
  sampling.temperature = Chosen(temperature, defaults.temperature, 0.0);
  sampling.top_k = top_k.value_or(defaults.top_k.value_or(0));
  sampling.top_p = Chosen(top_p, defaults.top_p, 1.0);
  sampling.min_p = Chosen(min_p, defaults.min_p, 0.0);
  sampling.typical_p = Chosen(typical_p, std::nullopt, 1.0);
  sampling.repetition_penalty = Chosen(repetition_penalty, defaults.repetition_penalty, 1.0);
  sampling.repetition_window = repetition_window.value_or(-1);
  sampling.frequency_penalty = Chosen(frequency_penalty, std::nullopt, 0.0);
  sampling.presence_penalty = Chosen(presence_penalty, std::nullopt, 0.0);
  sampling.min_tokens = min_tokens;
  sampling.seed = seed;
  for (const std::string& text : logit_bias) {
    SURETY_ASSIGN_OR_RETURN(auto bias, ParseBias(text));
    if (const int vocab = model.tokenizer().vocab_size(); bias.first < 0 || bias.first >= vocab) {
      return InvalidArgumentError(fmt::format("--logit-bias: token {} is not one of the model's, 0 to {}", bias.first,
                                              vocab - 1));
    }
    sampling.logit_bias.push_back(bias);
  }
  request.max_tokens = max_tokens;
  for (const std::string& text : stop) request.stop.push_back(Unescaped(text));
  request.ignore_end_of_text = ignore_eos;
  // The flags are in their ranges (Validate): what is not comes from the model.
  const Status status = sampling.Validate(model.tokenizer().vocab_size());
  if (status.ok()) return status;
  return DataLossError(fmt::format("what the model recommends cannot be used: {}; set it with its flag",
                                   status.message()));
}

}  // namespace surety::cli
