#include "engine/text_front.h"

#include <string>

#include "model/tokenizer/unicode.h"

namespace surety::engine {
namespace {

Result<std::vector<model::TextSegment>> RenderSegments(const LocalModel& model,
                                                       const api::GenerationRequest& request,
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
  SURETY_ASSIGN_OR_RETURN(auto segments, model.chat_template()->Render(input));
  for (const model::TextSegment& segment : segments) {
    if (!segment.trusted) SURETY_RETURN_IF_ERROR(CheckUtf8(segment.text, "the text of a message"));
  }
  return segments;
}

}  // namespace

// Many vocabularies have no token for a byte that no UTF-8 text has, and would drop it without a word.
Status CheckUtf8(std::string_view text, std::string_view what) {
  char32_t c;
  for (size_t at = 0; at < text.size();) {
    const int length = model::DecodeUtf8(text, at, c);
    if (length <= 0) {
      return InvalidArgumentError(std::string(what) + " is not UTF-8 from its byte " + std::to_string(at) + " on");
    }
    at += static_cast<size_t>(length);
  }
  return OkStatus();
}

Result<std::vector<model::TextSegment>> RenderMessageSegments(const LocalModel& model,
                                                              const api::GenerationRequest& request,
                                                              int64_t now_unix_seconds) {
  if (!request.has_messages) return Error(InvalidArgumentError("only messages are rendered by a template"));
  return RenderSegments(model, request, now_unix_seconds);
}

Result<std::string> RenderMessages(const LocalModel& model, const api::GenerationRequest& request,
                                   int64_t now_unix_seconds) {
  if (!request.has_messages) return Error(InvalidArgumentError("only messages are rendered by a template"));
  SURETY_ASSIGN_OR_RETURN(const auto segments, RenderSegments(model, request, now_unix_seconds));
  std::string text;
  for (const model::TextSegment& segment : segments) text += segment.text;
  return text;
}

Result<std::vector<api::TokenId>> TokenizeRequest(const LocalModel& model, const api::GenerationRequest& request,
                                                  int64_t now_unix_seconds) {
  const int given = int{request.has_messages} + int{request.has_prompt} + int{request.has_tokens};
  if (given != 1) {
    return Error(InvalidArgumentError("a request needs exactly one of messages, prompt and tokens, but has " +
                                      std::to_string(given)));
  }
  if (request.has_messages) {
    SURETY_ASSIGN_OR_RETURN(const auto segments, RenderSegments(model, request, now_unix_seconds));
    return model.tokenizer().Encode(segments, {.add_special = false});
  }
  if (request.has_tokens) {
    for (size_t i = 0; i < request.tokens.size(); ++i) {
      if (request.tokens[i] >= 0 && request.tokens[i] < model.tokenizer().vocab_size()) continue;
      return Error(InvalidArgumentError("tokens[" + std::to_string(i) + "] is " + std::to_string(request.tokens[i]) +
                                        ", but the vocabulary has ids 0 to " +
                                        std::to_string(model.tokenizer().vocab_size() - 1)));
    }
    return request.tokens;
  }
  SURETY_RETURN_IF_ERROR(CheckUtf8(request.prompt, "the prompt"));
  std::vector<api::TokenId> ids = model.tokenizer().Encode(request.prompt, true, {.add_special = true});
  const api::TokenId bos = model.tokenizer().spec().bos;
  if (ids.size() >= 2 && bos >= 0 && ids[0] == bos && ids[1] == bos) ids.erase(ids.begin());
  return ids;
}

}  // namespace surety::engine
