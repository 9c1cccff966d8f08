// What operators and orchestrators ask: alive, ready, metrics, version.
//
// /health/live (/livez): the process answers. /health/ready (/health, /healthz, /readyz): 200 when the backend is
// ready, otherwise 503 with Retry-After, naming the state. Both are public. /metrics: the registry. /version.
//
// Threads: any.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/backend.h"
#include "http/handler.h"
#include "observe/metrics.h"

namespace surety::http {

struct OpsRoutesOptions {
  std::function<api::Health()> health;            // any thread, does not block
  const observe::Registry* metrics = nullptr;     // outlives the routes
  std::string version;
  Role metrics_role = Role::kUser;                // least role for /metrics
  std::function<std::vector<std::string>()> alarms = {};  // what an operator must look at, while it serves
};

std::vector<Route> OpsRoutes(const OpsRoutesOptions& options);

}  // namespace surety::http
