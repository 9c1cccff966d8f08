#include "train/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

namespace surety::train {
namespace {

Status AppendFailure(const std::string& path, const char* what) {
  const int number = errno;
  const std::string message = fmt::format("{}: {}: {}", path, what, std::strerror(number));
  if (number == ENOSPC || number == EDQUOT) return ResourceExhaustedError(message);
  if (number == EACCES || number == EPERM) return {StatusCode::kPermissionDenied, message};
  return IoError(message);
}

}  // namespace

Result<int> OpenToAppend(const std::string& path, int64_t size_bytes) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0 && errno == ELOOP) {
    return Error(FailedPreconditionError(path + ": a symbolic link, which is not followed; remove it"));
  }
  if (fd < 0) return Error(AppendFailure(path, "cannot open"));
  if (ftruncate(fd, size_bytes) != 0 || lseek(fd, size_bytes, SEEK_SET) != size_bytes) {
    const Status status = AppendFailure(path, "cannot cut");
    close(fd);
    return Error(status);
  }
  return fd;
}

Status AppendBytes(int fd, const std::string& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return AppendFailure(path, "cannot write");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return OkStatus();
}

Status ReplacePrivately(const std::string& path, std::string_view contents) {
  const std::string beside = path + ".new";
  unlink(beside.c_str());  // of a run that was killed
  const int fd = open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return AppendFailure(beside, "cannot open");
  Status status = AppendBytes(fd, beside, std::as_bytes(std::span(contents)));
  if (status.ok()) status = SyncFile(fd, beside);
  close(fd);
  if (status.ok() && rename(beside.c_str(), path.c_str()) != 0) status = AppendFailure(path, "cannot replace");
  if (!status.ok()) unlink(beside.c_str());
  return status;
}

Status SyncFile(int fd, const std::string& path) {
  return fsync(fd) == 0 ? OkStatus() : AppendFailure(path, "cannot write");
}

}  // namespace surety::train
