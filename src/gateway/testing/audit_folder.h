// A folder for a test's logs, removed at the end. Threads: one.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "gateway/audit_io.h"

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

// Does all but wait for the disk: for tests that open a log thousands of times and are not about syncs.
class UnsyncedAuditIo : public AuditIo {
 public:
  int Sync(int) override { return 0; }
  int SyncDirectory(const std::string&) override { return 0; }
};

std::string ReadAuditBytes(const std::string& path);
void WriteAuditBytes(const std::string& path, std::string_view bytes);

}  // namespace surety::gateway
