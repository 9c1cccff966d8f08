// Members of a ZIP archive (which a Python wheel is): stored or deflated, with ZIP64 sizes.
//
// Owns: the map of the archive. Threads: one.
// Errors: kDataLoss with the offset (not an archive, corrupt directory, checksum), kUnimplemented (encrypted, other
// methods), kNotFound (member), kIoError and kResourceExhausted (disk full) while writing, kCancelled.
// Source: PKWARE's APPNOTE, sections 4.3 and 4.5.3.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace surety::cli {

struct ZipMember {
  std::string name;
  uint64_t packed_bytes = 0;
  uint64_t size_bytes = 0;
  uint32_t crc = 0;
  uint64_t header_offset = 0;
  uint16_t method = 0;
  uint16_t flags = 0;
};

class ZipReader {
 public:
  static Result<std::unique_ptr<ZipReader>> Open(FileSystem& files, const std::string& path);

  const std::vector<ZipMember>& members() const { return members_; }
  // By full name; a pattern that begins with "*/" matches any leading folders.
  Result<ZipMember> Find(const std::string& pattern) const;
  // Writes the member to a file, which appears under its name only when complete and its checksum is right.
  Status Extract(const ZipMember& member, const std::string& path) const;

 private:
  Status ReadDirectory();
  std::unique_ptr<MappedFile> map_;
  std::vector<ZipMember> members_;
};

}  // namespace surety::cli
