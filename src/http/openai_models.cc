// /v1/models and /v1/models/ID.
#include <utility>

#include "http/openai_endpoints.h"

namespace surety::http {
namespace {

namespace json = boost::json;

json::object ModelJson(const std::string& id, const std::string& root, const api::Backend& backend) {
  const api::ModelDescription& model = backend.description();
  json::object meta = {{"architecture", model.architecture},
                       {"digest", model.digest},
                       {"n_vocab", model.vocab_size},
                       {"n_ctx_train", model.trained_context_tokens},
                       {"n_embd", model.d_model},
                       {"n_params", model.n_parameters},
                       {"size", model.size_bytes}};
  if (!model.draft_model.empty()) meta["draft_model"] = model.draft_model;
  if (!model.draft_head.empty()) meta["draft_head"] = model.draft_head;
  return {{"id", id},
          {"object", "model"},
          {"created", model.created_unix_s},
          {"owned_by", "surety"},
          {"root", root},
          {"max_model_len", model.context_tokens},
          {"status", std::string(api::NameOf(backend.health()))},
          {"capabilities", {{"generate", model.generates}, {"embed", model.embeds}}},
          {"meta", std::move(meta)}};
}

}  // namespace

void HandleModels(const Services& services, const HttpRequest&, const Writer& writer) {
  json::array data;
  for (const auto& entry : services.models->List()) data.push_back(ModelJson(entry.id, entry.root, *entry.backend));
  SendJson(writer, json::serialize(json::object{{"object", "list"}, {"data", std::move(data)}}));
}

void HandleModel(const Services& services, const HttpRequest& request, const Writer& writer) {
  constexpr std::string_view kPrefix = "/v1/models/";
  const std::string id = request.path.size() > kPrefix.size() ? request.path.substr(kPrefix.size()) : "";
  const auto model = services.models->Find(id.empty() ? "?" : id);
  if (!model) {
    ApiError error = ErrorOf(model.error(), "model");
    error.code = "model_not_found";
    return SendError(*writer, error);
  }
  SendJson(writer, json::serialize(ModelJson(id, model->name, *model->backend)));
}

}  // namespace surety::http
