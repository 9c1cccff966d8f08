#include "cli/file_writer.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "cli/progress.h"

namespace surety::cli {

Status SystemFailure(const std::string& path, const char* what, int error_number) {
  const std::string message = fmt::format("{}: {}: {}", path, what, std::strerror(error_number));
  if (error_number == ENOSPC || error_number == EDQUOT) return ResourceExhaustedError(message);
  if (error_number == EACCES || error_number == EPERM) return {StatusCode::kPermissionDenied, message};
  if (error_number == ENOENT) return NotFoundError(message);
  return IoError(message);
}

Status CheckDiskSpace(const std::string& directory, int64_t needed_bytes) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return SystemFailure(directory, "cannot make the folder", error.value());
  struct statvfs info = {};
  if (statvfs(directory.c_str(), &info) != 0) return OkStatus();  // unknown: the write itself will tell
  const auto free_bytes = static_cast<int64_t>(info.f_bavail * info.f_frsize);
  if (free_bytes >= needed_bytes) return OkStatus();
  return ResourceExhaustedError(fmt::format("{}: {} needed, {} free on the disk", directory, HumanBytes(needed_bytes),
                                            HumanBytes(free_bytes)));
}

Result<std::unique_ptr<FileWriter>> FileWriter::Create(const std::string& path) {
  std::error_code error;
  const auto parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (error) return Error(SystemFailure(parent.string(), "cannot make the folder", error.value()));
  const int fd = open((path + ".tmp").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Error(SystemFailure(path, "cannot write", errno));
  return std::unique_ptr<FileWriter>(new FileWriter(path, fd));
}

FileWriter::~FileWriter() {
  if (fd_ < 0) return;
  close(fd_);
  unlink((path_ + ".tmp").c_str());
}

Status FileWriter::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemFailure(path_, "cannot write", errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return OkStatus();
}

Status FileWriter::Commit() {
  if (fsync(fd_) != 0) return SystemFailure(path_, "cannot write", errno);
  const int closed = close(fd_);
  const int error = errno;
  fd_ = -1;
  if (closed != 0) {
    unlink((path_ + ".tmp").c_str());
    return SystemFailure(path_, "cannot write", error);
  }
  if (rename((path_ + ".tmp").c_str(), path_.c_str()) != 0) return SystemFailure(path_, "cannot rename", errno);
  return OkStatus();
}

}  // namespace surety::cli
