// A folder for a test's logs, removed at the end. Threads: one.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace surety::gateway {

class AuditFolder {
 public:
  AuditFolder();
  ~AuditFolder();
  AuditFolder(const AuditFolder&) = delete;
  AuditFolder& operator=(const AuditFolder&) = delete;
  std::string path(std::string_view name) const { return (root_ / name).string(); }

 private:
  std::filesystem::path root_;
};

std::string ReadAuditBytes(const std::string& path);
void WriteAuditBytes(const std::string& path, std::string_view bytes);

}  // namespace surety::gateway
