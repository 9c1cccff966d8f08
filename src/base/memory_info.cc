#include "base/memory_info.h"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace surety {
namespace {

// The value in KiB of "Name:   123 kB" lines, in bytes; -1 if absent.
int64_t KibField(const char* path, const std::string& name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.compare(0, name.size(), name) != 0 || line.size() <= name.size() || line[name.size()] != ':') continue;
    try {
      return std::stoll(line.substr(name.size() + 1)) * 1024;
    } catch (...) {
      return -1;
    }
  }
  return -1;
}

int64_t NumberIn(const char* path) {
  std::ifstream file(path);
  int64_t value = -1;
  return file >> value ? value : -1;
}

}  // namespace

int64_t AvailableMemoryBytes() {
  int64_t available = KibField("/proc/meminfo", "MemAvailable");
  const int64_t limit = NumberIn("/sys/fs/cgroup/memory.max");
  const int64_t used = NumberIn("/sys/fs/cgroup/memory.current");
  if (limit > 0 && used >= 0) {
    const int64_t left = std::max<int64_t>(0, limit - used);
    available = available < 0 ? left : std::min(available, left);
  }
  return available;
}

int64_t PeakResidentBytes() { return KibField("/proc/self/status", "VmHWM"); }
int64_t ResidentBytes() { return KibField("/proc/self/status", "VmRSS"); }

void ReturnFreedMemory() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

}  // namespace surety
