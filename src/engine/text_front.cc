#include "engine/text_front.h"

#include <string>

namespace surety::engine {
namespace {

Result<std::vector<api::TokenId>> TokenizeMessages(const LocalModel& model, const api::GenerationRequest& request,
                                                   int64_t now_unix_seconds) {
  if (!model.chat_template_status().ok()) {
    return Error(FailedPreconditionError("the model's chat template cannot be used: " +
                                         model.chat_template_status().message()));
  }
  if (model.chat_template() == nullptr) {
    return Error(FailedPreconditionError("'" + model.source().path() +
                                         "' has no chat template, so it takes a plain prompt, not messages"));
  }
  const model::Tokenizer& tokenizer = model.tokenizer();
  model::TemplateInput input;
  input.values = request.template_values;
  input.values["messages"] = request.messages;
  if (!input.values.contains("add_generation_prompt")) input.values["add_generation_prompt"] = true;
  const auto& spec = tokenizer.spec();
  if (spec.bos >= 0) input.bos_token = tokenizer.TokenText(spec.bos);
  if (spec.eos >= 0) input.eos_token = tokenizer.TokenText(spec.eos);
  input.now_unix_seconds = now_unix_seconds;
  SURETY_ASSIGN_OR_RETURN(const auto segments, model.chat_template()->Render(input));
  return tokenizer.Encode(segments, {.add_special = false});
}

}  // namespace

Result<std::vector<api::TokenId>> TokenizeRequest(const LocalModel& model, const api::GenerationRequest& request,
                                                  int64_t now_unix_seconds) {
  const int given = int{request.has_messages} + int{request.has_prompt} + int{request.has_tokens};
  if (given != 1) {
    return Error(InvalidArgumentError("a request needs exactly one of messages, prompt and tokens, but has " +
                                      std::to_string(given)));
  }
  if (request.has_messages) return TokenizeMessages(model, request, now_unix_seconds);
  if (request.has_tokens) {
    for (size_t i = 0; i < request.tokens.size(); ++i) {
      if (request.tokens[i] >= 0 && request.tokens[i] < model.config().vocab_size) continue;
      return Error(InvalidArgumentError("tokens[" + std::to_string(i) + "] is " + std::to_string(request.tokens[i]) +
                                        ", but the vocabulary has ids 0 to " +
                                        std::to_string(model.config().vocab_size - 1)));
    }
    return request.tokens;
  }
  std::vector<api::TokenId> ids = model.tokenizer().Encode(request.prompt, true, {.add_special = true});
  const api::TokenId bos = model.tokenizer().spec().bos;
  if (ids.size() >= 2 && bos >= 0 && ids[0] == bos && ids[1] == bos) ids.erase(ids.begin());
  return ids;
}

}  // namespace surety::engine
