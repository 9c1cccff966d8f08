#include "api/request.h"

#include <cmath>
#include <limits>
#include <sstream>

namespace surety::api {
namespace {

template <typename T>
Status OutOfBounds(std::string_view name, T value, std::string_view range) {
  std::ostringstream text;
  text << name << " is " << value << ", but must be " << range;
  return InvalidArgumentError(text.str());
}

}  // namespace

// The range of every parameter, once. !(a <= b) also catches NaN.
Status SamplingParams::Validate(int vocab_size) const {
  if (!(temperature >= 0.0f && temperature <= 100.0f)) return OutOfBounds("temperature", temperature, "from 0 to 100");
  if (top_k < 0) return OutOfBounds("top_k", top_k, "0 (off) or positive");
  if (!(top_p > 0.0f && top_p <= 1.0f)) return OutOfBounds("top_p", top_p, "above 0 and at most 1");
  if (!(min_p >= 0.0f && min_p <= 1.0f)) return OutOfBounds("min_p", min_p, "from 0 to 1");
  if (!(typical_p > 0.0f && typical_p <= 1.0f)) return OutOfBounds("typical_p", typical_p, "above 0 and at most 1");
  if (!(repetition_penalty > 0.0f && repetition_penalty <= 100.0f)) {
    return OutOfBounds("repetition_penalty", repetition_penalty, "above 0 and at most 100");
  }
  if (!(std::abs(frequency_penalty) <= 100.0f)) {
    return OutOfBounds("frequency_penalty", frequency_penalty, "from -100 to 100");
  }
  if (!(std::abs(presence_penalty) <= 100.0f)) {
    return OutOfBounds("presence_penalty", presence_penalty, "from -100 to 100");
  }
  if (repetition_window < -1) return OutOfBounds("repetition_window", repetition_window, "-1 (all), 0 or positive");
  if (min_tokens < 0) return OutOfBounds("min_tokens", min_tokens, "0 or positive");
  for (const auto& [token, bias] : logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return InvalidArgumentError("logit_bias names token " + std::to_string(token) +
                                  ", but the vocabulary has ids 0 to " + std::to_string(vocab_size - 1));
    }
    if (!(bias < std::numeric_limits<float>::infinity())) {  // minus infinity forbids a token
      return InvalidArgumentError("logit_bias of token " + std::to_string(token) +
                                  " must be a finite number, or minus infinity");
    }
  }
  return OkStatus();
}

std::string_view NameOf(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone: return "";
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kTimeout: return "timeout";
    case FinishReason::kError: return "error";
    case FinishReason::kFiltered: return "filtered";
  }
  return "";
}

}  // namespace surety::api
