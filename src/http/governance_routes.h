// What callers, reviewers and operators ask of a governed server.
//
//   GET  /v1/decisions/ID                 what became of it; its answer, once released. Only its own caller's.
//   GET, POST /v1/review/...              docs/review.md
//   GET  /admin/policy                    the policy in force and the state of what it governs
//   POST /admin/policy/reload             reads its file again
//   GET  /admin/slo                       objectives, burn rates, costs by route
//   POST /admin/replay                    {"decision"}: its answer computed again and compared
//   POST /admin/forget-subject            {"tenant", "subject"}: erasure with a receipt
//   POST /admin/cache/forget              {"decision"}: a wrong answer out of the cache, for good
//
// Threads: handlers return at once; the work is posted. Owns: nothing; the governance must outlive the routes.
#pragma once

#include <vector>

#include "base/worker_pool.h"
#include "gateway/governance.h"
#include "http/handler.h"

namespace surety::http {

std::vector<Route> GovernanceRoutes(gateway::Governance& governance, const PostTask& post);
std::vector<Route> GovernanceAdminRoutes(gateway::Governance& governance, const PostTask& post);

}  // namespace surety::http
