// A file to read and write anywhere in: what the disk tier stores pages in. An interface, so that tests can fail it.
//
// Threads: one. Errors: kIoError and kind as the system gives them (every message names the folder); kOutOfRange: a
// read past the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace surety::kv {

class TierFile {
 public:
  virtual ~TierFile() = default;
  // All of the bytes or an error, after which any of them may have been written.
  virtual Status WriteAt(int64_t offset, std::span<const std::byte> bytes) = 0;
  virtual Status ReadAt(int64_t offset, std::span<std::byte> bytes) = 0;
};

// A new file in `directory`, readable by its owner alone, that loses its name at once: nobody else can open it, and the
// system removes it however the process ends.
Result<std::unique_ptr<TierFile>> OpenTierFile(const std::string& directory);

}  // namespace surety::kv
