// The operation table on the processor.
//
// Threads, Errors, Invariants: see ops.h. Owns: its working memory; not the executor, which must outlive it.
#pragma once

#include <memory>
#include <string>

#include "base/executor.h"
#include "base/status.h"
#include "kernels/ops.h"

namespace surety::kernels::cpu {

// Runs every kind of operation on tiny inputs and compares with plain loops; about ten milliseconds. kInternal names
// the first operation that is off by more than its error bound.
Status SelfCheck(Ops& ops);

// Checks every kind of operation on the instruction set in use (isa.h). If one is wrong, falls back to the next weaker
// set and says so in *warning (may be null); stops the process if the weakest fails, since no answer could be trusted.
// Calls SetIsa, so no kernel may be running. Tests may pass another check.
std::unique_ptr<Ops> MakeCpuOps(Executor& executor, std::string* warning = nullptr,
                                Status (*check)(Ops&) = &SelfCheck);

}  // namespace surety::kernels::cpu
