#include "gateway/testing/audit_folder.h"

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

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
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace surety::gateway
