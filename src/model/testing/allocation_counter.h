// Counts calls of operator new in the whole process, for tests that claim that something does not allocate.
// Linking it replaces the global operator new and delete. Threads: any.
#pragma once

#include <cstdint>

namespace surety::model {

int64_t AllocationsSoFar();

}  // namespace surety::model
