#include "http/admin_routes.h"

#include <charconv>
#include <utility>

#include "http/json_route.h"
#include "http/openai_error.h"

namespace surety::http {
namespace {

Parsed<boost::json::object> State(const ModelRegistry& models) {
  boost::json::array list;
  for (const auto& model : models.List()) {
    if (model.id == model.root) list.push_back(model.backend->DebugState());
  }
  return boost::json::object{{"default_model", models.default_model()}, {"models", std::move(list)}};
}

Parsed<boost::json::object> Steps(const ModelRegistry& models, const HttpRequest& request) {
  int last = 100;
  for (const auto& [key, value] : request.query) {
    if (key != "last") {
      return BadField(key, "unknown query parameter " + Quoted(key) + "; known is last", "unknown_parameter");
    }
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), last);
    if (error != std::errc() || end != value.data() + value.size() || last < 1 || last > 4096) {
      return BadField("last", "'last' is " + Quoted(value) + ", but must be a whole number from 1 to 4096");
    }
  }
  boost::json::array list;
  for (const auto& model : models.List()) {
    if (model.id != model.root || !model.backend->description().generates) continue;
    list.push_back(boost::json::object{{"model", model.id}, {"steps", model.backend->RecentSteps(last)}});
  }
  return boost::json::object{{"object", "surety.steps"}, {"models", std::move(list)}};
}

Parsed<boost::json::object> Forget(const ModelRegistry& models, const HttpRequest& request) {
  const auto fields = StringFields::Of(request, {"model", "extent", "tenant", "region", "product", "policy_version",
                                           "language", "eligibility", "effective_date", "salt"});
  if (!fields) return std::unexpected(fields.error());
  api::Scope scope;
  scope.tenant = fields->Get("tenant");
  auto permissions = fields->Permissions();
  if (!permissions) return std::unexpected(permissions.error());
  scope.permissions = *std::move(permissions);
  scope.region = fields->Get("region");
  scope.product = fields->Get("product");
  scope.policy_version = fields->Get("policy_version");
  scope.language = fields->Get("language");
  scope.eligibility = fields->Get("eligibility");
  scope.effective_date = fields->Get("effective_date");
  scope.salt = fields->Get("salt");
  const std::string extent_name = fields->Get("extent");
  auto extent = api::ForgetExtent::kScope;
  if (extent_name == "tenant") {
    extent = api::ForgetExtent::kTenant;
    api::Scope tenant_alone;
    tenant_alone.tenant = scope.tenant;
    if (scope != tenant_alone) {
      return BadField("extent", "with 'extent' \"tenant\" all scopes of the tenant are forgotten: give no other field "
                                "of a scope");
    }
  } else if (!extent_name.empty() && extent_name != "scope") {
    return BadField("extent", "'extent' is " + Quoted(extent_name) + ", but must be \"scope\" or \"tenant\"");
  }
  const std::string name = fields->Get("model");
  if (!name.empty()) {
    if (const auto found = models.Find(name); !found) return std::unexpected(ErrorOf(found.error(), "model"));
  }
  boost::json::array receipts;
  for (const auto& model : models.List()) {
    if (model.id != model.root || (!name.empty() && models.Find(name)->name != model.id)) continue;
    const auto receipt = model.backend->Forget(scope, extent);
    if (!receipt) return std::unexpected(ErrorOf(receipt.error()));
    receipts.push_back(boost::json::object{{"model", model.id},
                                           {"pages", receipt->pages},
                                           {"bytes", receipt->bytes},
                                           {"pages_in_use", receipt->pages_in_use}});
  }
  return boost::json::object{{"object", "surety.forget_receipt"}, {"receipts", std::move(receipts)}};
}

Parsed<boost::json::object> FromResult(Result<boost::json::object> result) {
  if (!result) return std::unexpected(ErrorOf(result.error(), "model"));
  return *std::move(result);
}

}  // namespace

std::vector<Route> AdminRoutes(AdminOptions options) {
  std::vector<Route> routes;
  const auto models = options.models;
  routes.push_back(MakeJsonRoute("GET", "/admin/state", Role::kAdmin, options.post, [models](const HttpRequest&) {
    return State(*models);
  }));
  routes.push_back(MakeJsonRoute("GET", "/admin/steps", Role::kAdmin, options.post,
                                 [models](const HttpRequest& request) { return Steps(*models, request); }));
  routes.push_back(MakeJsonRoute("POST", "/admin/forget", Role::kAdmin, options.post,
                                 [models](const HttpRequest& request) { return Forget(*models, request); }));
  if (options.load) {
    routes.push_back(MakeJsonRoute("POST", "/admin/models/load", Role::kAdmin, options.post,
                               [load = options.load](const HttpRequest& request) -> Parsed<boost::json::object> {
      const auto fields = StringFields::Of(request, {"model", "name", "draft_model", "draft_head"});
      if (!fields) return std::unexpected(fields.error());
      const LoadRequest wanted = {.model = fields->Get("model"), .name = fields->Get("name"),
                                  .draft_model = fields->Get("draft_model"), .draft_head = fields->Get("draft_head")};
      if (wanted.model.empty()) return BadField("model", "'model' must name the model to load", "missing");
      if (!wanted.draft_model.empty() && !wanted.draft_head.empty()) {
        return BadField("draft_head", "'draft_model' and 'draft_head' exclude each other: give one of them");
      }
      return FromResult(load(wanted));
    }));
  }
  if (options.unload) {
    routes.push_back(MakeJsonRoute("POST", "/admin/models/unload", Role::kAdmin, options.post,
                               [unload = options.unload](const HttpRequest& request) -> Parsed<boost::json::object> {
      const auto fields = StringFields::Of(request, {"model"});
      if (!fields) return std::unexpected(fields.error());
      if (fields->Get("model").empty()) return BadField("model", "'model' must name the model to unload", "missing");
      return FromResult(unload(fields->Get("model")));
    }));
  }
  return routes;
}

}  // namespace surety::http
