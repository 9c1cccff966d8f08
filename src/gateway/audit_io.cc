#include "gateway/audit_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace surety::gateway {

ssize_t AuditIo::Write(int fd, std::string_view bytes) {
  const ssize_t n = ::write(fd, bytes.data(), bytes.size());
  return n < 0 ? -errno : n;
}

int AuditIo::Sync(int fd) { return ::fdatasync(fd) == 0 ? 0 : -errno; }

int AuditIo::SyncDirectory(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -errno;
  const int error = ::fsync(fd) == 0 ? 0 : -errno;
  ::close(fd);
  return error;
}

int AuditIo::Cut(int fd, int64_t size_bytes) { return ::ftruncate(fd, size_bytes) == 0 ? 0 : -errno; }

int AuditIo::Create(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
  return fd >= 0 ? fd : -errno;
}

int AuditIo::Link(const std::string& from, const std::string& to) {
  return ::link(from.c_str(), to.c_str()) == 0 ? 0 : -errno;
}

int AuditIo::Rename(const std::string& from, const std::string& to) {
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : -errno;
}

int AuditIo::Remove(const std::string& path) {
  return ::unlink(path.c_str()) == 0 || errno == ENOENT ? 0 : -errno;
}

AuditIo& AuditIo::Real() {
  static AuditIo real;
  return real;
}

}  // namespace surety::gateway
