#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/aligned_buffer.h"

namespace surety {
namespace {

Status ErrnoStatus(std::string_view what, const std::string& path, int error) {
  std::string message = std::string(what) + " '" + path + "': " + std::strerror(error);
  switch (error) {
    case ENOENT:
    case ENOTDIR: return NotFoundError(std::move(message));
    case EACCES:
    case EPERM: return {StatusCode::kPermissionDenied, std::move(message)};
    case EISDIR: return InvalidArgumentError(std::move(message));
    default: return IoError(std::move(message));
  }
}

// O_NONBLOCK: opening a named pipe must not wait for a writer. It means nothing for regular files.
constexpr int kOpenToRead = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Result<int64_t> RegularFileSize(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return Error(ErrnoStatus("cannot examine", path, errno));
  if (S_ISDIR(info.st_mode)) {
    return Error(InvalidArgumentError("'" + path + "' is a directory, but a file is needed"));
  }
  if (!S_ISREG(info.st_mode)) return Error(InvalidArgumentError("'" + path + "' is not a regular file"));
  return static_cast<int64_t>(info.st_size);
}

class RealMappedFile final : public MappedFile {
 public:
  RealMappedFile(std::string path, void* address, size_t size_bytes)
      : path_(std::move(path)), address_(address), size_bytes_(size_bytes) {}
  ~RealMappedFile() override {
    if (size_bytes_ > 0) ::munmap(address_, size_bytes_);
  }
  std::span<const std::byte> bytes() const override {
    return {static_cast<const std::byte*>(address_), size_bytes_};
  }
  const std::string& path() const override { return path_; }
  void Release(std::span<const std::byte> range) const override {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = (reinterpret_cast<uintptr_t>(range.data()) + page - 1) / page * page;
    const auto end = (reinterpret_cast<uintptr_t>(range.data()) + range.size()) / page * page;
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }

 private:
  std::string path_;
  void* address_;
  size_t size_bytes_;
};

class MemoryFile final : public MappedFile {
 public:
  MemoryFile(std::string path, std::span<const std::byte> contents)
      : path_(std::move(path)), buffer_(contents.size()) {
    if (!contents.empty()) std::memcpy(buffer_.data(), contents.data(), contents.size());
  }
  std::span<const std::byte> bytes() const override { return {buffer_.data(), buffer_.size_bytes()}; }
  const std::string& path() const override { return path_; }

 private:
  std::string path_;
  AlignedBuffer buffer_;
};

class RealFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override {
    FileDescriptor fd(::open(path.c_str(), kOpenToRead));
    if (fd.get() < 0) return Error(ErrnoStatus("cannot open", path, errno));
    SURETY_ASSIGN_OR_RETURN(const int64_t size_bytes, RegularFileSize(fd.get(), path));
    void* address = nullptr;
    if (size_bytes > 0) {
      address = ::mmap(nullptr, static_cast<size_t>(size_bytes), PROT_READ, MAP_PRIVATE, fd.get(), 0);
      if (address == MAP_FAILED) return Error(ErrnoStatus("cannot map", path, errno));
    }
    return std::make_unique<RealMappedFile>(path, address, static_cast<size_t>(size_bytes));
  }

  Result<std::string> ReadAll(const std::string& path, int64_t max_size_bytes) override {
    FileDescriptor fd(::open(path.c_str(), kOpenToRead));
    if (fd.get() < 0) return Error(ErrnoStatus("cannot open", path, errno));
    SURETY_ASSIGN_OR_RETURN(const int64_t size_bytes, RegularFileSize(fd.get(), path));
    if (size_bytes > max_size_bytes) {
      return Error(InvalidArgumentError("'" + path + "' has " + std::to_string(size_bytes) +
                                        " bytes; at most " + std::to_string(max_size_bytes) + " are read here"));
    }
    std::string contents(static_cast<size_t>(size_bytes), '\0');
    size_t done = 0;
    while (done < contents.size()) {
      const ssize_t n = ::read(fd.get(), contents.data() + done, contents.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Error(ErrnoStatus("cannot read", path, errno));
      if (n == 0) break;  // shrank while we read
      done += static_cast<size_t>(n);
    }
    contents.resize(done);
    return contents;
  }

  Status WriteAll(const std::string& path, std::string_view contents) override {
    SURETY_ASSIGN_OR_RETURN(const Replacement file, OpenReplacement(path));
    Status status;
    {
      FileDescriptor fd(file.fd);
      size_t done = 0;
      while (status.ok() && done < contents.size()) {
        const ssize_t n = ::write(fd.get(), contents.data() + done, contents.size() - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
          status = ErrnoStatus("cannot write", path, errno);
        } else {
          done += static_cast<size_t>(n);
        }
      }
      if (file.beside.empty()) return status;
      if (status.ok() && ::fsync(fd.get()) != 0) status = ErrnoStatus("cannot write", path, errno);
    }
    if (status.ok() && ::rename(file.beside.c_str(), file.target.c_str()) != 0) {
      status = ErrnoStatus("cannot replace", path, errno);
    }
    if (!status.ok()) ::unlink(file.beside.c_str());
    return status;
  }

  bool Exists(const std::string& path) override {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0;
  }

  bool IsDirectory(const std::string& path) override {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  }

  Result<std::vector<std::string>> List(const std::string& directory) override {
    DIR* stream = ::opendir(directory.c_str());
    if (stream == nullptr) return Error(ErrnoStatus("cannot list", directory, errno));
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(stream)) {
      std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(std::move(name));
    }
    ::closedir(stream);
    std::sort(names.begin(), names.end());
    return names;
  }
};

// The end of a chain of symbolic links, whether something is there or not. Names of open descriptors are not followed:
// what they stand for may have no name.
Result<std::string> FollowLinks(const std::string& path) {
  std::string at = path;
  for (int links = 0; links < 40; ++links) {
    if (at.starts_with("/proc/") || at.starts_with("/dev/fd/")) return at;
    char text[PATH_MAX];
    const ssize_t n = ::readlink(at.c_str(), text, sizeof(text));
    if (n < 0) return at;  // not a link, or absent: opening it will tell
    const std::string next(text, static_cast<size_t>(n));
    const size_t slash = at.rfind('/');
    at = next.starts_with('/') || slash == std::string::npos ? next : at.substr(0, slash + 1) + next;
  }
  return Error(ErrnoStatus("cannot follow", path, ELOOP));
}

}  // namespace

Result<Replacement> OpenReplacement(const std::string& path) {
  static std::atomic<uint64_t> opened{0};  // two threads may write the same file
  Replacement file;
  SURETY_ASSIGN_OR_RETURN(file.target, FollowLinks(path));
  struct stat info {};
  const bool exists = ::stat(file.target.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) {
    return Error(InvalidArgumentError("'" + path + "' is a directory, but a file is to be written"));
  }
  const bool by_descriptor = file.target.starts_with("/proc/") || file.target.starts_with("/dev/fd/");
  if (exists && (by_descriptor || !S_ISREG(info.st_mode))) {
    file.fd = ::open(file.target.c_str(), O_WRONLY | O_CLOEXEC);
    if (file.fd < 0) return Error(ErrnoStatus("cannot write", path, errno));
    return file;
  }
  do {  // a name that is taken belongs to another process, perhaps one that ended long ago
    file.beside = file.target + ".partial-" + std::to_string(::getpid()) + "-" + std::to_string(++opened);
    file.fd = ::open(file.beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  } while (file.fd < 0 && errno == EEXIST);
  if (file.fd < 0) return Error(ErrnoStatus("cannot create", file.beside, errno));
  return file;
}

FileSystem& FileSystem::Real() {
  static RealFileSystem files;
  return files;
}

std::unique_ptr<MappedFile> MakeMemoryFile(std::string path, std::span<const std::byte> contents) {
  return std::make_unique<MemoryFile>(std::move(path), contents);
}

}  // namespace surety
