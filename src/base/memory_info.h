// How much memory the process may still take, and how much it has taken.
#pragma once

#include <cstdint>

namespace surety {

// The system's estimate of memory available without swapping, also bounded by the cgroup's limit; -1 if unknown.
int64_t AvailableMemoryBytes();
// Largest resident set so far, and the present one.
int64_t PeakResidentBytes();
int64_t ResidentBytes();

// Asks the allocator to give memory that was freed back to the system.
void ReturnFreedMemory();

}  // namespace surety
