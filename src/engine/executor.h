// Runs a StepPlan.
//
// Threads: the engine thread. Owns: see the implementation. Logits are valid until the next Run.
// Errors: kInternal when the device fails; the engine ends the step's requests with it.
#pragma once

#include <span>

#include "base/status.h"
#include "engine/step_plan.h"

namespace surety::engine {

class StepExecutor {
 public:
  virtual ~StepExecutor() = default;
  virtual Status Run(const StepPlan& plan) = 0;
  // Logits of the i-th sequence of the last plan that wanted them, V floats.
  virtual std::span<float> LogitsOf(int i) = 0;
};

}  // namespace surety::engine
