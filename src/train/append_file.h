// Files that grow piece by piece and are gone on with after an interruption: a cut at the last whole piece, and writes
// that are complete or an error. Readable by their owner alone, as they hold what users wrote.
//
// Threads: one a file. Errors: kResourceExhausted (disk full), kPermissionDenied, kIoError, with the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace surety::train {

// A descriptor at the end of the file's first `size_bytes` bytes; the rest is cut off. The caller closes it.
// kFailedPrecondition for a symbolic link.
Result<int> OpenToAppend(const std::string& path, int64_t size_bytes);
Status AppendBytes(int fd, const std::string& path, std::span<const std::byte> bytes);
// Replaces the file atomically by one that only its owner reads; a symbolic link is replaced, not followed.
Status ReplacePrivately(const std::string& path, std::string_view contents);
Status SyncFile(int fd, const std::string& path);

}  // namespace surety::train
