// One model in this process as an api::Backend: its engine thread, the admission in front of it, its metrics.
//
// Admission refuses before anything is queued: when the queue is full (in all, or for one tenant), when the predicted
// wait is longer than the operator or the request's own time limit allows, or when the backend drains. A refusal takes
// no step of the engine, so it comes at once however busy the engine is.
//
// Threads: as api::Backend; one engine thread, the only one that touches the engine. Owns: the model, the engine.
// Errors: Make: as LocalModel::Open and Engine::Make.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "api/backend.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "engine/local_model.h"
#include "observe/metrics.h"

namespace surety::engine {

struct BackendOptions {
  std::string name;                   // as requests name it
  std::string digest;                 // of the weights file, if known
  EngineOptions engine;
  int max_waiting = 256;              // requests that have not been taken up
  int max_waiting_per_tenant = 0;     // 0: max_waiting
  int64_t max_queue_wait_ms = 60'000; // predicted; 0: any
  int64_t stall_ms = 30'000;          // without a finished step while there is work: not ready
  std::map<std::string, double> tenant_weights;
  std::string default_tenant = "local";  // of callers whose identity names none: a server without keys

  Status Validate() const;
};

// `metrics` must outlive the backend; null: none.
Result<std::unique_ptr<api::Backend>> MakeLocalBackend(std::unique_ptr<LocalModel> model, const BackendOptions& options,
                                                       observe::Registry* metrics, Clock& clock = Clock::Real());

// What must hold between two steps, looked at on the engine's thread, for tests: the prefix cache's own invariants, and
// where nothing runs, that every page in use is the cache's. With `free_pages_are_zero` (a policy of zero_on_release,
// and nothing but that policy since the start) also that free pages hold zeros.
// Errors: kInvalidArgument (no backend of MakeLocalBackend), kInternal (what does not hold).
Status AuditLocalBackend(api::Backend& backend, bool free_pages_are_zero = false);

}  // namespace surety::engine
