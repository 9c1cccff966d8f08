// Files that grow piece by piece and are gone on with after an interruption: a cut at the last whole piece, and writes
// that are complete or an error. Readable by their owner alone, as they hold what users wrote.
//
// Threads: one a file. Errors: kResourceExhausted (disk full), kPermissionDenied, kIoError, with the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace surety::train {

// A descriptor at the end of the file's first `size_bytes` bytes; the rest is cut off. The caller closes it.
Result<int> OpenToAppend(const std::string& path, int64_t size_bytes);
Status AppendBytes(int fd, const std::string& path, std::span<const std::byte> bytes);
Status SyncFile(int fd, const std::string& path);

}  // namespace surety::train
