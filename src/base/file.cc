#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
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
    static std::atomic<uint64_t> writes{0};  // two threads may write the same file
    const std::string beside = path + ".partial-" + std::to_string(::getpid()) + "-" + std::to_string(++writes);
    {
      FileDescriptor fd(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
      if (fd.get() < 0) return ErrnoStatus("cannot create", beside, errno);
      size_t done = 0;
      while (done < contents.size()) {
        const ssize_t n = ::write(fd.get(), contents.data() + done, contents.size() - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
          const int error = errno;
          ::unlink(beside.c_str());
          return ErrnoStatus("cannot write", path, error);
        }
        done += static_cast<size_t>(n);
      }
      if (::fsync(fd.get()) != 0) {
        const int error = errno;
        ::unlink(beside.c_str());
        return ErrnoStatus("cannot write", path, error);
      }
    }
    if (::rename(beside.c_str(), path.c_str()) != 0) {
      const int error = errno;
      ::unlink(beside.c_str());
      return ErrnoStatus("cannot replace", path, error);
    }
    return OkStatus();
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

}  // namespace

FileSystem& FileSystem::Real() {
  static RealFileSystem files;
  return files;
}

std::unique_ptr<MappedFile> MakeMemoryFile(std::string path, std::span<const std::byte> contents) {
  return std::make_unique<MemoryFile>(std::move(path), contents);
}

}  // namespace surety
