// A file written piece by piece that appears under its name only when complete.
//
// A symbolic link stays one: the file behind it is replaced. Devices and pipes are written to as the pieces come.
// Owns: the temporary file beside the target, under a name of its own, removed unless committed.
// Errors: kResourceExhausted when the disk is full, kInvalidArgument for a directory, kIoError otherwise, all with the
// path.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/file.h"
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
  FileWriter(std::string path, Replacement file) : path_(std::move(path)), file_(std::move(file)) {}
  std::string path_;
  Replacement file_;
};

// The system's word for errno, as a Status of the right kind.
Status SystemFailure(const std::string& path, const char* what, int error_number);

// kResourceExhausted, with both numbers, unless the disk below `directory` (made if absent) has this much room.
Status CheckDiskSpace(const std::string& directory, int64_t needed_bytes);

}  // namespace surety::cli
