#include "model/formats/common_config.h"

#include <cmath>

#include "model/formats/text.h"

namespace surety::model {

Status CheckLayerCount(int n_layers, const std::string& path, const std::string& key) {
  if (n_layers >= 1 && n_layers <= 10000) return OkStatus();
  return InvalidArgumentError("'" + path + "': key '" + key + "' is " + std::to_string(n_layers) +
                              ", but must be from 1 to 10000");
}

Result<int> HeadDimOf(int d_model, int n_heads, const std::string& path) {
  if (n_heads > 0 && d_model % n_heads == 0) return d_model / n_heads;
  return Error(InvalidArgumentError("'" + path + "': a model size of " + std::to_string(d_model) +
                                    " does not divide by " + std::to_string(n_heads) +
                                    " heads, and no head size is given"));
}

Status UnknownArchitecture(const std::string& path, std::string_view key, std::string_view found,
                           std::span<const std::string_view> known) {
  std::string list;
  for (std::string_view name : known) list += (list.empty() ? "" : ", ") + std::string(name);
  return UnimplementedError("'" + path + "': " + std::string(key) + " is '" + Printable(found) +
                            "', an architecture that is not supported; supported are: " + list);
}

Status CheckGenerationDefaults(const GenerationDefaults& defaults, int vocab_size, const std::string& path) {
  for (int32_t id : defaults.eos_token_ids) {
    if (id < 0 || id >= vocab_size) {
      return InvalidArgumentError("'" + path + "': the end token " + std::to_string(id) +
                                  " is not in the vocabulary of " + std::to_string(vocab_size));
    }
  }
  const std::pair<const char*, std::optional<double>> numbers[] = {
      {"temperature", defaults.temperature}, {"top_p", defaults.top_p}, {"min_p", defaults.min_p},
      {"repetition_penalty", defaults.repetition_penalty}};
  for (const auto& [name, value] : numbers) {
    if (value && (!std::isfinite(*value) || *value < 0)) {
      return InvalidArgumentError("'" + path + "': recommended " + name + " is " + std::to_string(*value) +
                                  ", but must be finite and not negative");
    }
  }
  return OkStatus();
}

}  // namespace surety::model
