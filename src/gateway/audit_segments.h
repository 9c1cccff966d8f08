// The files of an audit log that was rotated: the newest has the log's own name, each closed one that name with the
// number of its first row behind it, in 12 digits or more: audit.log.000000004096. Nothing is missing between them: the
// first row of each, of kind "segment", follows in number and hash the last row of the one before.
//
// Threads: any. Errors: kNotFound, kIoError; kInvalidArgument where a folder holds no log, or several.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace surety::gateway {

struct AuditSegment {
  std::string path;
  int64_t first_seq = -1;    // by its name; -1: the newest, whose name does not say
  int64_t base_offset = 0;   // bytes of the segments before it
  int64_t size_bytes = 0;
  dev_t device = 0;
  ino_t inode = 0;
};

inline constexpr std::string_view kAuditSegmentKind = "segment";

std::string AuditSegmentPath(const std::string& log, int64_t first_seq);
// The file that becomes the newest, while it is being made.
std::string AuditNextPath(const std::string& log);
// The closed segments beside `log`, in order; the file `log` itself is not looked at.
Result<std::vector<AuditSegment>> ListAuditSegments(const std::string& log);
// Of a folder the log in it: the one that was rotated, else audit.log. Anything else as it is.
Result<std::string> AuditLogAt(const std::string& path);

}  // namespace surety::gateway
