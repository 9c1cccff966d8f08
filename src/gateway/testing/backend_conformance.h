// What every api::Backend owes its callers (the invariants of api/backend.h), as checks that run over any of them.
//
// Threads: one caller. Errors: each fault found is a line of the result; empty: none.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/backend.h"

namespace surety::gateway {

struct ConformanceSubject {
  // A request that is answered at once, with at least a byte; `n` choices.
  std::function<api::GenerationRequest(int n)> quick;
  // One whose answer begins and never ends by itself.
  std::function<api::GenerationRequest()> endless;
  int max_parallel = 0;     // of the backend: more are refused; 0: not checked
};

// Ends with Drain, so the backend takes nothing afterwards.
std::vector<std::string> CheckConformance(api::Backend& backend, const ConformanceSubject& subject);

}  // namespace surety::gateway
