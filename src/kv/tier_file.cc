#include "kv/tier_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace surety::kv {
namespace {

Status ErrnoStatus(const std::string& what, int error) {
  std::string message = what + ": " + std::strerror(error);
  if (error == ENOENT || error == ENOTDIR) return NotFoundError(std::move(message));
  if (error == EACCES || error == EPERM || error == EROFS) return {StatusCode::kPermissionDenied, std::move(message)};
  return IoError(std::move(message));
}

class RealTierFile final : public TierFile {
 public:
  RealTierFile(std::string directory, int fd) : directory_(std::move(directory)), fd_(fd) {}
  ~RealTierFile() override { ::close(fd_); }

  Status WriteAt(int64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return ErrnoStatus("disk KV tier: cannot write in '" + directory_ + "'", n < 0 ? errno : EIO);
      bytes = bytes.subspan(static_cast<size_t>(n));
      offset += n;
    }
    return OkStatus();
  }

  Status ReadAt(int64_t offset, std::span<std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::pread(fd_, bytes.data(), bytes.size(), offset);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus("disk KV tier: cannot read in '" + directory_ + "'", errno);
      if (n == 0) return OutOfRangeError("disk KV tier: read past the end in '" + directory_ + "'");
      bytes = bytes.subspan(static_cast<size_t>(n));
      offset += n;
    }
    return OkStatus();
  }

 private:
  std::string directory_;
  int fd_;
};

}  // namespace

Result<std::unique_ptr<TierFile>> OpenTierFile(const std::string& directory) {
  static std::atomic<int> opened{0};
  std::string path;
  int fd;
  do {
    path = directory + "/surety-kv-" + std::to_string(::getpid()) + "-" + std::to_string(++opened);
    fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  } while (fd < 0 && errno == EEXIST);
  if (fd < 0) return Error(ErrnoStatus("disk KV tier: cannot create a file in '" + directory + "'", errno));
  if (::unlink(path.c_str()) != 0) {
    Status status = ErrnoStatus("disk KV tier: cannot take away the name '" + path + "'", errno);
    ::close(fd);
    return Error(std::move(status));
  }
  return std::make_unique<RealTierFile>(directory, fd);
}

}  // namespace surety::kv
