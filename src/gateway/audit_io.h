// What the audit log asks of the operating system, so that tests can make any of it fail.
//
// Threads: one log calls from one thread at a time. Errors: negative errno.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "gateway/audit_log.h"

namespace surety::gateway {

class AuditIo {
 public:
  virtual ~AuditIo() = default;
  virtual ssize_t Write(int fd, std::string_view bytes);   // fewer than asked for is no error
  virtual int Sync(int fd);                                // contents and length
  virtual int SyncDirectory(const std::string& directory);
  virtual int Cut(int fd, int64_t size_bytes);
  virtual int Create(const std::string& path);             // a descriptor for appending; the file must not exist
  virtual int Link(const std::string& from, const std::string& to);
  virtual int Rename(const std::string& from, const std::string& to);
  virtual int Remove(const std::string& path);             // no file there is no error

  static AuditIo& Real();
};

// AuditLog::Open with another operating system. `io` outlives the log.
Result<std::unique_ptr<AuditLog>> OpenAuditLog(AuditLog::Options options, const Clock& clock, AuditIo& io);

}  // namespace surety::gateway
