// Assertions on the program's own invariants. A failed check is a bug: it prints where and what, and stops the process.
// Never for client data (use Status) and never for running out of memory or pages.
#pragma once

#include <string_view>

namespace surety::internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, std::string_view message);
}  // namespace surety::internal

#define SURETY_CHECK(condition)                                                             \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::surety::internal::CheckFailed(__FILE__, __LINE__, #condition, {});                  \
  } while (false)

#define SURETY_CHECK_MSG(condition, message)                                                \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::surety::internal::CheckFailed(__FILE__, __LINE__, #condition, (message));           \
  } while (false)
