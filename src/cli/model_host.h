// The models of a server: opened at start or later, taken away again, within a budget of memory.
//
// Threads: any; loading and unloading take turns. Owns: shares the backends with the registry.
// Errors: Load: as OpenModel and MakeLocalBackend; kResourceExhausted when the budget does not allow it, with the
// sizes; kAlreadyExists. Unload: kNotFound.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include <boost/json.hpp>

#include "cli/model_options.h"
#include "engine/local_backend.h"
#include "http/model_registry.h"
#include "observe/metrics.h"

namespace surety::cli {

struct HostOptions {
  int threads = 0;
  engine::BackendOptions backend;    // its name and digest are set for each model
  int64_t kv_memory_bytes = 0;       // for each model; 0: from the context, within a quarter of free memory
  int64_t model_budget_bytes = 0;    // weights and KV of all models together; 0: none
  int64_t unload_limit_ms = 30'000;  // for requests that run when their model goes
};

class ModelHost {
 public:
  ModelHost(HostOptions options, std::shared_ptr<http::ModelRegistry> models, observe::Registry& metrics)
      : options_(std::move(options)), models_(std::move(models)), metrics_(metrics) {}

  // Opens a model and makes it available as `name` (empty: the file's). What was loaded, for a report.
  Result<boost::json::object> Load(const std::string& model, const std::string& name,
                                   const DraftFlags& drafts = {});
  Result<boost::json::object> Unload(const std::string& name);
  // All models: no new requests; running ones end within the limit.
  void Drain(int64_t limit_ms);

 private:
  Result<std::unique_ptr<api::Backend>> Open(OpenedModel opened, const std::string& name);
  int64_t KvBytesFor(const engine::LocalModel& model) const;
  Status CheckBudget(int64_t needed, const std::string& name) const;

  HostOptions options_;
  std::shared_ptr<http::ModelRegistry> models_;
  observe::Registry& metrics_;
  std::mutex mutex_;
  std::map<std::string, int64_t> bytes_;   // weights and KV by model
};

}  // namespace surety::cli
