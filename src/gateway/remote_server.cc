#include "gateway/remote_server.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gateway/remote_answer.h"
#include "gateway/remote_error.h"
#include "gateway/strict_json.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr size_t kMaxSideBytes = 64 << 20;  // embeddings are long

Status NoSuchCall(std::string_view name, RemoteKind kind) {
  return UnimplementedError("a server of the kind " + std::string(NameOf(kind)) + " has no " + std::string(name));
}

const json::value* SideMember(const json::object& object, std::string_view name, json::kind kind) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->kind() == kind ? value : nullptr;
}

int64_t SideNumber(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_number()) return 0;
  boost::system::error_code ec;
  const int64_t number = value->to_number<int64_t>(ec);
  return ec || number < 0 ? 0 : number;
}

int SideInt(const json::object& object, std::string_view name) {
  return static_cast<int>(std::min<int64_t>(SideNumber(object, name), std::numeric_limits<int>::max()));
}

Result<json::object> ObjectOf(const std::string& text) {
  Result<json::value> value = ParseStrictJson(text);
  if (!value || !value->is_object()) return Error(InternalError("the answer is no JSON object"));
  return std::move(value->get_object());
}

RemoteKind KindOfOwner(std::string_view owner) {
  if (owner == "surety") return RemoteKind::kSurety;
  if (owner == "vllm") return RemoteKind::kVllm;
  if (owner == "llamacpp") return RemoteKind::kLlamaServer;
  if (owner == "me") return RemoteKind::kLlamaCppPython;
  return RemoteKind::kOpenAi;
}

// llama-cpp-python has one too, but any call ends the generation that runs there.
bool HasTokenizer(RemoteKind kind) {
  return kind == RemoteKind::kVllm || kind == RemoteKind::kLlamaServer || kind == RemoteKind::kSurety;
}

std::vector<api::TokenId> Estimated(size_t n_bytes) {
  return std::vector<api::TokenId>(static_cast<size_t>(EstimatedTokens(n_bytes)), -1);
}

Result<api::EmbeddingResult> VectorOf(const json::object& entry) {
  const json::value* list = SideMember(entry, "embedding", json::kind::array);
  if (list == nullptr) return Error(InternalError("an embedding is no list of numbers"));
  api::EmbeddingResult result;
  for (const json::value& value : list->get_array()) {
    const double number = value.is_number() ? value.to_number<double>() : std::nan("");
    if (!std::isfinite(number)) return Error(InternalError("an embedding has an entry that is no number"));
    result.values.push_back(static_cast<float>(number));
  }
  return result;
}

// Results in the order of the texts, each exactly once, all of one length.
Result<std::vector<api::EmbeddingResult>> VectorsOf(const json::object& answer, size_t n) {
  const json::value* data = SideMember(answer, "data", json::kind::array);
  if (data == nullptr || data->get_array().size() != n) {
    return Error(InternalError("the answer has not one embedding for each text"));
  }
  std::vector<api::EmbeddingResult> results(n);
  std::vector<bool> seen(n, false);
  for (size_t i = 0; i < n; ++i) {
    const json::object* entry = data->get_array()[i].if_object();
    if (entry == nullptr) return Error(InternalError("an embedding is no object"));
    const size_t index = entry->contains("index") ? static_cast<size_t>(SideNumber(*entry, "index")) : i;
    if (index >= n || seen[index]) return Error(InternalError("embeddings with an index that is wrong"));
    SURETY_ASSIGN_OR_RETURN(results[index], VectorOf(*entry));
    seen[index] = true;
  }
  for (const api::EmbeddingResult& result : results) {
    if (result.values.empty() || result.values.size() != results[0].values.size()) {
      return Error(InternalError("embeddings of different lengths"));
    }
  }
  return results;
}

}  // namespace

HttpCall RemoteServer::MakeCall(std::string_view path, bool at_root, std::string body) const {
  std::string_view base = options_.base_url;
  while (base.ends_with('/')) base.remove_suffix(1);
  if (at_root && base.ends_with("/v1")) base.remove_suffix(3);
  HttpCall call;
  call.url = std::string(base) + std::string(path);
  call.headers = options_.headers;
  if (!options_.api_key.empty()) call.headers.emplace_back("Authorization", "Bearer " + options_.api_key);
  if (!body.empty()) {
    call.method = "POST";
    call.headers.emplace_back("Content-Type", "application/json");
    call.body = std::move(body);
  }
  call.tls = options_.tls;
  call.max_body_bytes = kMaxSideBytes;
  call.deadline_ns = Clock::Real().NowNanos() + options_.timeout_ns;
  return call;
}

Result<json::object> RemoteServer::Post(std::string_view path, bool at_root, const json::object& body) const {
  SURETY_ASSIGN_OR_RETURN(const HttpReply reply, CallHttp(MakeCall(path, at_root, json::serialize(body))));
  if (reply.status != 200) {
    const Status failure = FailureOf(reply, clock_.WallNanos(), options_.Secrets()).status;
    return Error(failure.WithContext(options_.name + ": " + std::string(path)));
  }
  return ObjectOf(reply.body);
}

Result<RemoteModel> RemoteServer::Describe(int64_t limit_ns, const std::function<bool()>& stop) const {
  HttpCall call = MakeCall("/models", false, "");
  call.deadline_ns = Clock::Real().NowNanos() + limit_ns;
  call.stop = stop;
  SURETY_ASSIGN_OR_RETURN(const HttpReply reply, CallHttp(call));
  RemoteModel model;
  if (reply.status == 404 || reply.status == 405) return model;  // a server of completions alone
  if (reply.status != 200) return Error(FailureOf(reply, clock_.WallNanos(), options_.Secrets()).status);
  SURETY_ASSIGN_OR_RETURN(const json::object answer, ObjectOf(reply.body));
  const json::value* data = SideMember(answer, "data", json::kind::array);
  const json::object* found = nullptr;
  bool has_model = false;
  for (const json::value& entry : data == nullptr ? json::array() : data->get_array()) {
    const json::object* object = entry.if_object();
    if (object == nullptr) continue;
    const json::value* id = SideMember(*object, "id", json::kind::string);
    const bool named = id != nullptr && id->get_string() == options_.model;
    // Aliases may be missing in the list; the kind of server is known all the same.
    if (named || found == nullptr) {
      const json::value* owner = SideMember(*object, "owned_by", json::kind::string);
      model.kind = owner == nullptr ? RemoteKind::kOpenAi : KindOfOwner(std::string_view(owner->get_string()));
      found = object;
    }
    if (!named) continue;
    has_model = true;
    model.context_tokens = SideInt(*object, "max_model_len");
    model.created_unix_s = SideNumber(*object, "created");
    if (const json::value* meta = SideMember(*object, "meta", json::kind::object)) {
      model.d_model = SideInt(meta->get_object(), "n_embd");
      if (model.context_tokens == 0) model.context_tokens = SideInt(meta->get_object(), "n_ctx");
    }
    break;
  }
  if (model.kind == RemoteKind::kLlamaCppPython && !has_model) {  // it would answer with whatever it has
    return Error(NotFoundError(options_.name + ": the server has no model '" + options_.model + "'"));
  }
  return model;
}

Result<std::vector<api::TokenId>> RemoteServer::TokensOf(const json::object& body) const {
  SURETY_ASSIGN_OR_RETURN(const json::object answer, Post("/tokenize", true, body));
  const json::value* list = SideMember(answer, "tokens", json::kind::array);
  if (list == nullptr) return Error(InternalError(options_.name + ": /tokenize: the answer has no tokens"));
  std::vector<api::TokenId> tokens;
  for (const json::value& value : list->get_array()) {
    boost::system::error_code ec;
    const int64_t id = value.is_number() ? value.to_number<int64_t>(ec) : -1;
    if (ec || id < 0 || id > std::numeric_limits<api::TokenId>::max()) {
      return Error(InternalError(options_.name + ": /tokenize: a token that is no id"));
    }
    tokens.push_back(static_cast<api::TokenId>(id));
  }
  return tokens;
}

Result<std::vector<api::TokenId>> RemoteServer::TokenizeText(RemoteKind kind, std::string_view text, bool add_special,
                                                             bool parse_special) const {
  if (!HasTokenizer(kind)) return Estimated(text.size());
  json::object body{{"model", options_.model}};
  if (kind == RemoteKind::kVllm) {  // it always reads control tokens as such
    body["prompt"] = text;
    body["add_special_tokens"] = add_special;
  } else {
    body["content"] = text;
    body["add_special"] = add_special;
    body["parse_special"] = parse_special;
  }
  return TokensOf(body);
}

Result<json::object> RemoteServer::TemplateBody(RemoteKind kind, const api::GenerationRequest& request) const {
  auto messages = WireMessages(request.messages, kind);
  if (!messages) return Error(messages.error().status);
  json::object body{{"model", options_.model}, {"messages", *std::move(messages)}};
  json::object values = request.template_values;
  for (const char* name : {"tools", "add_generation_prompt"}) {
    const json::value* value = values.if_contains(name);
    if (value == nullptr) continue;
    body[name] = *value;
    values.erase(name);
  }
  if (!values.empty()) body["chat_template_kwargs"] = std::move(values);
  return body;
}

Result<std::vector<api::TokenId>> RemoteServer::Tokenize(RemoteKind kind, const api::GenerationRequest& request) const {
  if (request.has_tokens) return request.tokens;
  if (request.has_prompt) return TokenizeText(kind, request.prompt, true, true);
  if (!HasTokenizer(kind)) {
    // What stands around a message counts for about eight tokens.
    constexpr size_t kAroundMessage = 24;
    const json::value* tools = request.template_values.if_contains("tools");
    return Estimated(json::serialize(request.messages).size() + kAroundMessage * request.messages.size() +
                     (tools == nullptr ? 0 : json::serialize(*tools).size()));
  }
  if (kind == RemoteKind::kLlamaServer) {
    SURETY_ASSIGN_OR_RETURN(const std::string text, RenderTemplate(kind, request));
    return TokenizeText(kind, text, true, true);
  }
  SURETY_ASSIGN_OR_RETURN(const json::object body, TemplateBody(kind, request));
  return TokensOf(body);
}

Result<std::string> RemoteServer::RenderTemplate(RemoteKind kind, const api::GenerationRequest& request) const {
  if (kind != RemoteKind::kLlamaServer && kind != RemoteKind::kSurety) {
    return Error(NoSuchCall("/apply-template", kind));
  }
  SURETY_ASSIGN_OR_RETURN(const json::object body, TemplateBody(kind, request));
  SURETY_ASSIGN_OR_RETURN(const json::object answer, Post("/apply-template", true, body));
  const json::value* prompt = SideMember(answer, "prompt", json::kind::string);
  if (prompt == nullptr) return Error(InternalError(options_.name + ": /apply-template: the answer has no prompt"));
  return std::string(prompt->get_string());
}

Result<std::string> RemoteServer::Detokenize(RemoteKind kind, std::span<const api::TokenId> tokens) const {
  if (!HasTokenizer(kind)) return Error(NoSuchCall("/detokenize", kind));
  for (const api::TokenId token : tokens) {
    if (token < 0) return Error(OutOfRangeError("token " + std::to_string(token) + " is no id"));
  }
  const json::object body{{"model", options_.model}, {"tokens", json::array(tokens.begin(), tokens.end())}};
  SURETY_ASSIGN_OR_RETURN(const json::object answer, Post("/detokenize", true, body));
  for (const char* name : {"content", "prompt"}) {
    if (const json::value* text = SideMember(answer, name, json::kind::string)) return std::string(text->get_string());
  }
  return Error(InternalError(options_.name + ": /detokenize: the answer has no text"));
}

Result<std::vector<api::EmbeddingResult>> RemoteServer::Embed(std::span<const std::string> texts) const {
  if (texts.empty()) return std::vector<api::EmbeddingResult>();
  const json::object body{{"model", options_.model},
                          {"input", json::array(texts.begin(), texts.end())},
                          {"encoding_format", "float"}};
  SURETY_ASSIGN_OR_RETURN(const json::object answer, Post("/embeddings", false, body));
  SURETY_ASSIGN_OR_RETURN(std::vector<api::EmbeddingResult> results, VectorsOf(answer, texts.size()));
  // The server counts all texts together; each gets its share by length.
  const json::value* usage = SideMember(answer, "usage", json::kind::object);
  const int64_t total = usage == nullptr ? -1 : SideNumber(usage->get_object(), "prompt_tokens");
  int64_t n_bytes = 0, before = 0;
  for (const std::string& text : texts) n_bytes += static_cast<int64_t>(text.size()) + 1;
  for (size_t i = 0; i < texts.size(); ++i) {
    const int64_t after = before + static_cast<int64_t>(texts[i].size()) + 1;
    results[i].n_tokens = total < 0 ? EstimatedTokens(texts[i].size())
                                    : static_cast<int>(total * after / n_bytes - total * before / n_bytes);
    before = after;
  }
  return results;
}

}  // namespace surety::gateway
