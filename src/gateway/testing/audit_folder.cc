#include "gateway/testing/audit_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "base/check.h"

namespace surety::gateway {

AuditFolder::AuditFolder() {
  static std::atomic<int> number{0};
  root_ = std::filesystem::temp_directory_path() / fmt::format("surety-audit-{}-{}", ::getpid(), number++);
  std::filesystem::create_directories(root_);
}

AuditFolder::~AuditFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

std::string ReadAuditBytes(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

void WriteAuditBytes(const std::string& path, std::string_view bytes) {
  // Not by emptying the file first: file systems take that for a replacement, and write to the disk at once.
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  SURETY_CHECK(fd >= 0);
  SURETY_CHECK(::pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  SURETY_CHECK(::ftruncate(fd, static_cast<off_t>(bytes.size())) == 0);
  ::close(fd);
}

}  // namespace surety::gateway
