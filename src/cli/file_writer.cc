#include "cli/file_writer.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

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
  auto file = OpenReplacement(path);
  if (!file) return Error(file.error());
  return std::unique_ptr<FileWriter>(new FileWriter(path, *std::move(file)));
}

FileWriter::~FileWriter() {
  if (file_.fd >= 0) close(file_.fd);
  if (!file_.beside.empty()) unlink(file_.beside.c_str());
}

Status FileWriter::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(file_.fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemFailure(path_, "cannot write", errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return OkStatus();
}

Status FileWriter::Commit() {
  if (!file_.beside.empty() && fsync(file_.fd) != 0) return SystemFailure(path_, "cannot write", errno);
  const int closed = close(std::exchange(file_.fd, -1));
  if (closed != 0) return SystemFailure(path_, "cannot write", errno);
  if (file_.beside.empty()) return OkStatus();
  if (rename(file_.beside.c_str(), file_.target.c_str()) != 0) return SystemFailure(path_, "cannot rename", errno);
  file_.beside.clear();
  return OkStatus();
}

}  // namespace surety::cli
