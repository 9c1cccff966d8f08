#include "train/work_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

namespace surety::train {
namespace {

namespace fs = std::filesystem;

Status WorkFailure(const std::string& path, const char* what, int number) {
  const std::string message = fmt::format("{}: {}: {}", path, what, std::strerror(number));
  if (number == ENOSPC || number == EDQUOT) return ResourceExhaustedError(message);
  if (number == EACCES || number == EPERM || number == EROFS) return {StatusCode::kPermissionDenied, message};
  return IoError(message);
}

}  // namespace

Result<WorkFolder> WorkFolder::Open(const std::string& path, Use use) {
  WorkFolder folder;
  folder.path_ = fs::path(path).lexically_normal().string();
  while (folder.path_.size() > 1 && folder.path_.ends_with('/')) folder.path_.pop_back();  // a link would be followed
  if (use == Use::kBegin) {
    std::error_code error;
    const fs::path parent = fs::path(folder.path_).parent_path();
    if (!parent.empty()) fs::create_directories(parent, error);
    if (error) return Error(WorkFailure(parent.string(), "cannot make the folder", error.value()));
    folder.made_ = mkdir(folder.path_.c_str(), 0700) == 0;
    if (!folder.made_ && errno != EEXIST) return Error(WorkFailure(folder.path_, "cannot make the folder", errno));
  }
  folder.fd_ = open(folder.path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder.fd_ < 0) {
    const int number = errno;
    if (number == ENOENT) return Error(NotFoundError(folder.path_ + ": no unfinished work to go on with"));
    if (number == ENOTDIR || number == ELOOP) {
      return Error(FailedPreconditionError(folder.path_ + ": the work folder must be a folder, not a file or a link"));
    }
    return Error(WorkFailure(folder.path_, "cannot open", number));
  }
  if (flock(folder.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Error(WorkFailure(folder.path_, "cannot lock", errno));
    return Error(FailedPreconditionError(folder.path_ + ": another train-draft works there; wait for it, or give "
                                                        "another folder with --work"));
  }
  SURETY_RETURN_IF_ERROR(folder.CheckContents(use));
  return folder;
}

Status WorkFolder::CheckContents(Use use) const {
  std::error_code error;
  bool has_run = false;
  std::string other;
  for (fs::directory_iterator at(path_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    has_run = has_run || name == "run.json";
    if (other.empty() || name < other) other = name;
    for (const char* file : kFiles) {
      if (name != file || at->symlink_status(error).type() == fs::file_type::regular) continue;
      return FailedPreconditionError(at->path().string() + ": not an ordinary file; the work folder is not this "
                                                           "program's");
    }
  }
  if (error) return WorkFailure(path_, "cannot list", error.value());
  if (use == Use::kContinue) {
    return has_run ? OkStatus() : NotFoundError(path_ + "/run.json: no unfinished work to go on with");
  }
  if (has_run) {
    return FailedPreconditionError(path_ + ": unfinished work is there; go on with --resume, or remove it");
  }
  if (other.empty()) return OkStatus();
  return FailedPreconditionError(fmt::format("{}: the folder is not empty (it holds {}) and has no run.json; remove "
                                             "what is there, or give another folder with --work", path_, other));
}

WorkFolder::WorkFolder(WorkFolder&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), made_(other.made_) {}

WorkFolder& WorkFolder::operator=(WorkFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(made_, other.made_);
  return *this;
}

WorkFolder::~WorkFolder() {
  if (fd_ >= 0) close(fd_);
}

Status WorkFolder::Remove(const char* file) const {
  if (unlinkat(fd_, file, 0) == 0 || errno == ENOENT) return OkStatus();
  return WorkFailure(Path(file), "cannot remove", errno);
}

Status WorkFolder::RemoveAll(bool folder_too) const {
  for (const char* file : kFiles) SURETY_RETURN_IF_ERROR(Remove(file));
  if (!folder_too || rmdir(path_.c_str()) == 0 || errno == ENOTEMPTY || errno == EEXIST || errno == ENOENT) {
    return OkStatus();
  }
  return WorkFailure(path_, "cannot remove", errno);
}

}  // namespace surety::train
