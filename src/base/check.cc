#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace surety::internal {

void CheckFailed(const char* file, int line, const char* condition, std::string_view message) {
  std::fprintf(stderr, "surety: internal error at %s:%d: check '%s' failed%s%.*s\n", file, line, condition,
               message.empty() ? "" : ": ", static_cast<int>(message.size()), message.data());
  std::abort();
}

}  // namespace surety::internal
