#include "train/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
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
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
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

Status SyncFile(int fd, const std::string& path) {
  return fsync(fd) == 0 ? OkStatus() : AppendFailure(path, "cannot write");
}

}  // namespace surety::train
