// /tokenize, /detokenize and /apply-template, with the field names of vLLM and of llama-server.
#include <utility>

#include "http/openai_endpoints.h"
#include "http/openai_generation.h"
#include "http/sse.h"

namespace surety::http {
namespace {

namespace json = boost::json;

json::value PieceJson(const std::string& bytes) {
  if (FirstInvalidUtf8(bytes) == bytes.size()) return json::value(bytes);
  json::array list;
  for (const char b : bytes) list.push_back(static_cast<unsigned char>(b));
  return list;
}

Parsed<std::vector<api::TokenId>> Tokens(const Opened& opened) {
  const json::object& body = opened.body;
  const api::Backend& backend = *opened.model.backend;
  const json::value *content = Member(body, "content"), *prompt = Member(body, "prompt");
  const json::value* messages = Member(body, "messages");
  if ((content != nullptr) + (prompt != nullptr) + (messages != nullptr) != 1) {
    return BadField("prompt", "give exactly one of prompt, content and messages", "missing_required_parameter");
  }
  if (messages != nullptr) {
    if (BoolOr(body, "add_special_tokens", false)) {
      return BadField("add_special_tokens",
                      "add_special_tokens cannot be true with messages: the template writes them");
    }
    const auto request = MapTemplated(body);
    if (!request) return std::unexpected(request.error());
    auto tokens = backend.Tokenize(*request);
    if (!tokens) return std::unexpected(ErrorOf(tokens.error(), "messages"));
    return *std::move(tokens);
  }
  const bool special =
      content != nullptr ? BoolOr(body, "add_special", false) : BoolOr(body, "add_special_tokens", true);
  const json::value& text = content != nullptr ? *content : *prompt;
  auto tokens = backend.TokenizeText(text.get_string(), special, BoolOr(body, "parse_special", true));
  if (!tokens) return std::unexpected(ErrorOf(tokens.error(), content != nullptr ? "content" : "prompt"));
  return *std::move(tokens);
}

}  // namespace

void HandleTokenize(const Services& services, const HttpRequest& request, const Writer& writer) {
  const auto opened = Open(services, request, kTokenize);
  if (!opened) return SendError(*writer, opened.error());
  const auto tokens = Tokens(*opened);
  if (!tokens) return SendError(*writer, tokens.error());
  const api::Backend& backend = *opened->model.backend;
  const bool pieces = BoolOr(opened->body, "with_pieces", false);
  const bool strings = BoolOr(opened->body, "return_token_strs", false);
  json::object answer{{"count", tokens->size()}, {"max_model_len", backend.description().context_tokens}};
  json::array list, texts;
  for (const api::TokenId id : *tokens) {
    if (pieces) {
      list.push_back(json::object{{"id", id}, {"piece", PieceJson(backend.TokenBytes(id))}});
    } else {
      list.push_back(id);
    }
    if (strings) texts.push_back(json::value(LossyUtf8(backend.TokenBytes(id))));
  }
  answer["tokens"] = std::move(list);
  if (strings) answer["token_strs"] = std::move(texts);
  SendJson(writer, json::serialize(answer), opened->model.name);
}

void HandleDetokenize(const Services& services, const HttpRequest& request, const Writer& writer) {
  const auto opened = Open(services, request, kDetokenize);
  if (!opened) return SendError(*writer, opened.error());
  const json::value* list = Member(opened->body, "tokens");
  if (list == nullptr) {
    return SendError(*writer, BadField("tokens", "tokens is missing", "missing_required_parameter").error());
  }
  const api::Backend& backend = *opened->model.backend;
  const auto tokens = MapTokens(list->get_array(), "tokens", backend.description().vocab_size);
  if (!tokens) return SendError(*writer, tokens.error());
  const auto text = backend.Detokenize(*tokens);
  if (!text) return SendError(*writer, ErrorOf(text.error(), "tokens"));
  // llama-server's name and vLLM's.
  SendJson(writer, json::serialize(json::object{{"content", *text}, {"prompt", *text}}), opened->model.name);
}

void HandleApplyTemplate(const Services& services, const HttpRequest& request, const Writer& writer) {
  const auto opened = Open(services, request, kApplyTemplate);
  if (!opened) return SendError(*writer, opened.error());
  const auto mapped = MapTemplated(opened->body);
  if (!mapped) return SendError(*writer, mapped.error());
  const auto text = opened->model.backend->RenderTemplate(*mapped);
  if (!text) return SendError(*writer, ErrorOf(text.error(), "messages"));
  SendJson(writer, json::serialize(json::object{{"prompt", *text}}), opened->model.name);
}

}  // namespace surety::http
