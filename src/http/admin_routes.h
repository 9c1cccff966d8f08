// What an operator does to a running server: look at its state, forget a scope's KV, load and unload models. For a
// listener of their own; every route needs the admin role.
//
//   GET  /admin/state            each model's queues, pages and cache
//   GET  /admin/steps?last=N     each model's last steps: what they computed, what was predicted, what they took
//   POST /admin/forget           {"model"?, "extent"?, "tenant", "permissions"?, ..., "salt"?} -> receipts, by model
//   POST /admin/models/load      {"model": name or path, "name"?, "draft_model"?, "draft_head"?}
//   POST /admin/models/unload    {"model": name}
//
// Threads: handlers return at once; the work is posted to `post`. Errors: in OpenAI's shape.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "http/handler.h"
#include "http/model_registry.h"
#include "base/worker_pool.h"

namespace surety::http {

struct LoadRequest {
  std::string model;        // name or path
  std::string name;         // what requests call it; empty: as the file
  std::string draft_model;  // name or path of a smaller model that drafts; empty: none
  std::string draft_head;   // path of a draft head; empty: the one in the folder of heads; "none"
};

struct AdminOptions {
  std::shared_ptr<ModelRegistry> models;
  PostTask post;    // for work that blocks
  // Both block.
  std::function<Result<boost::json::object>(const LoadRequest& request)> load;
  std::function<Result<boost::json::object>(const std::string& name)> unload;
};

std::vector<Route> AdminRoutes(AdminOptions options);

}  // namespace surety::http
