// Files as an interface: real ones for the program, in-memory and failing ones for tests and simulation.
// Errors: kNotFound (no such file), kPermissionDenied, kInvalidArgument (a directory where a file is needed),
// kIoError (the operating system's word, with errno's text). Every message names the path.
// Threads: a FileSystem may be used from any thread; a MappedFile is immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace surety {

// A whole file, read-only, at one address for the object's life.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual std::span<const std::byte> bytes() const = 0;
  virtual const std::string& path() const = 0;
  // The pages of this range are not needed again soon: their memory may go back to the system. Contents stay readable.
  virtual void Release(std::span<const std::byte> /*range*/) const {}
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual Result<std::unique_ptr<MappedFile>> Map(const std::string& path) = 0;
  virtual Result<std::string> ReadAll(const std::string& path, int64_t max_size_bytes) = 0;
  // Replaces the file atomically: write beside it, sync, rename. A symbolic link stays, the file behind it is replaced;
  // a device or pipe is written to. kInvalidArgument for a directory.
  virtual Status WriteAll(const std::string& path, std::string_view contents) = 0;
  virtual bool Exists(const std::string& path) = 0;
  virtual bool IsDirectory(const std::string& path) = 0;
  // Names (not paths) in a directory, sorted.
  virtual Result<std::vector<std::string>> List(const std::string& directory) = 0;

  static FileSystem& Real();
};

// A file opened to be replaced: written under another name beside it, which then takes its place. `beside` is empty
// where nothing can be put in place of the target (a device, a pipe, an open descriptor's name): it is written itself.
struct Replacement {
  int fd = -1;         // the caller closes it
  std::string target;  // what a chain of symbolic links leads to
  std::string beside;
};
// The name beside is this process's alone. Errors: kInvalidArgument for a directory, those above for the open.
Result<Replacement> OpenReplacement(const std::string& path);

// A file over bytes in memory, for tests and fuzzing. Owns the bytes, at a 64-byte aligned address.
std::unique_ptr<MappedFile> MakeMemoryFile(std::string path, std::span<const std::byte> contents);

}  // namespace surety
