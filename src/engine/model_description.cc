#include "engine/model_description.h"

#include <filesystem>

namespace surety::engine {

std::string ModelNameOf(const std::string& path) {
  std::filesystem::path lexical = std::filesystem::path(path).lexically_normal();
  if (!lexical.has_filename()) lexical = lexical.parent_path();  // "folder/"
  std::string name = lexical.filename().string();
  if (name.empty() || name == "." || name == "..") {
    std::error_code error;
    name = std::filesystem::weakly_canonical(path, error).filename().string();
  }
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  return name.empty() ? path : name;
}

api::ModelDescription DescribeLocalModel(const LocalModel& model, const std::string& name, const std::string& digest,
                                         const Clock& clock) {
  api::ModelDescription d;
  d.name = name;
  d.digest = digest;
  d.architecture = model.config().architecture;
  d.created_unix_s = clock.WallNanos() / 1'000'000'000;
  for (const TensorView& tensor : model.source().tensors()) d.n_parameters += tensor.ElementCount();
  d.size_bytes = model.source().file_bytes();
  d.trained_context_tokens = model.config().max_context;
  d.vocab_size = model.tokenizer().vocab_size();
  d.d_model = model.config().d_model;
  d.bos = model.tokenizer().spec().bos;
  d.eos = model.tokenizer().spec().eos;
  if (d.bos >= 0) d.bos_text = model.tokenizer().TokenText(d.bos);
  if (d.eos >= 0) d.eos_text = model.tokenizer().TokenText(d.eos);
  if (model.chat_template() != nullptr) d.chat_template = model.source().chat_template();
  if (model.draft() != nullptr) d.draft_model = ModelNameOf(model.draft()->source().path());
  if (model.head() != nullptr) d.draft_head = model.head()->recipe().Describe();
  return d;
}

Result<std::string> DetokenizeAll(const model::Tokenizer& tokenizer, std::span<const api::TokenId> tokens) {
  model::IncrementalDecoder decoder(tokenizer);
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= tokenizer.vocab_size()) {
      return Error(OutOfRangeError("tokens[" + std::to_string(i) + "] is " + std::to_string(tokens[i]) +
                                   ", but the vocabulary has ids 0 to " + std::to_string(tokenizer.vocab_size() - 1)));
    }
    text += decoder.Push(tokens[i]);
  }
  return text + decoder.Finish();
}

}  // namespace surety::engine
