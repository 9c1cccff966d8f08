#include "model/testing/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> allocations{0};

void* Count(void* memory) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (memory == nullptr) std::abort();
  return memory;
}

void* Aligned(size_t size, std::align_val_t alignment) {
  const auto step = static_cast<size_t>(alignment);
  return std::aligned_alloc(step, (size + step - 1) / step * step);
}

}  // namespace

// All forms of a single object, so that what one of them gives none but these takes back; new[] calls them.
void* operator new(size_t size) { return Count(std::malloc(size == 0 ? 1 : size)); }
void* operator new(size_t size, std::align_val_t alignment) { return Count(Aligned(size, alignment)); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return Count(std::malloc(size == 0 ? 1 : size)); }
void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Count(Aligned(size, alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }

namespace surety::model {

int64_t AllocationsSoFar() { return allocations.load(std::memory_order_relaxed); }

}  // namespace surety::model
