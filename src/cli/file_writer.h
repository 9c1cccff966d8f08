// A file written piece by piece that appears under its name only when complete.
//
// Owns: the temporary file beside the target (".tmp" added), removed unless committed.
// Errors: kResourceExhausted when the disk is full, kIoError otherwise, both with the path.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace surety::cli {

class FileWriter {
 public:
  // Makes the folders above the file.
  static Result<std::unique_ptr<FileWriter>> Create(const std::string& path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  Status Append(std::span<const std::byte> bytes);
  Status Commit();  // syncs and renames

 private:
  FileWriter(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
};

// The system's word for errno, as a Status of the right kind.
Status SystemFailure(const std::string& path, const char* what, int error_number);

// kResourceExhausted, with both numbers, unless the disk below `directory` (made if absent) has this much room.
Status CheckDiskSpace(const std::string& directory, int64_t needed_bytes);

}  // namespace surety::cli
