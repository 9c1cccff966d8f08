#include "http/ops_routes.h"

#include <boost/json.hpp>

namespace surety::http {
namespace {

namespace json = boost::json;

void SendJson(ResponseWriter& writer, int status, const json::object& body, HeaderList headers = {}) {
  writer.Send(status, "application/json", json::serialize(body), std::move(headers));
}

std::string MessageOf(api::Health health) {
  switch (health) {
    case api::Health::kStarting: return "the model is being loaded";
    case api::Health::kStalled: return "the engine makes no progress";
    case api::Health::kDraining: return "the server is shutting down; no new requests";
    default: return "the server is not ready";
  }
}

void AnswerReady(api::Health health, const std::vector<std::string>& alarms, ResponseWriter& writer) {
  if (health == api::Health::kReady) {
    json::object body{{"status", "ok"}};
    if (!alarms.empty()) body["alarms"] = json::value_from(alarms);
    return SendJson(writer, 200, body);
  }
  const json::object error{{"message", MessageOf(health)},
                           {"type", "unavailable_error"},
                           {"param", nullptr},
                           {"code", "not_ready"}};
  SendJson(writer, 503, {{"status", api::NameOf(health)}, {"error", error}}, {{"Retry-After", "1"}});
}

}  // namespace

std::vector<Route> OpsRoutes(const OpsRoutesOptions& options) {
  std::vector<Route> routes;
  const auto add = [&](const char* path, Role role, Handler handler) {
    routes.push_back({"GET", path, role, std::move(handler)});
  };
  for (const char* path : {"/health/live", "/livez"}) {
    add(path, Role::kNone, [](HttpRequest, std::shared_ptr<ResponseWriter> writer) {
      SendJson(*writer, 200, {{"status", "alive"}});
    });
  }
  for (const char* path : {"/health", "/health/ready", "/healthz", "/readyz"}) {
    add(path, Role::kNone, [options](HttpRequest, std::shared_ptr<ResponseWriter> writer) {
      AnswerReady(options.health(), options.alarms ? options.alarms() : std::vector<std::string>(), *writer);
    });
  }
  const auto expose = [metrics = options.metrics](HttpRequest, std::shared_ptr<ResponseWriter> writer) {
    writer->Send(200, "text/plain; version=0.0.4; charset=utf-8", metrics->Expose());
  };
  add("/metrics", options.metrics_role, expose);
  add("/version", Role::kNone, [version = options.version](HttpRequest, std::shared_ptr<ResponseWriter> writer) {
    SendJson(*writer, 200, {{"version", version}});
  });
  return routes;
}

}  // namespace surety::http
