// The folder of unfinished work: texts that people wrote, hidden states of them, checkpoints. It belongs to one run,
// which run.json in it describes, and to one process at a time. Nothing that the program did not put there is changed,
// removed or taken for its own.
//
// Threads: one. Owns: the folder's lock (flock on the folder itself, so that it ends with the process).
// Errors: kFailedPrecondition (a symbolic link, files of others, unfinished work in the way, another process at work),
// kNotFound (no run to go on with), kResourceExhausted, kPermissionDenied, kIoError; all name the folder.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/status.h"

namespace surety::train {

class WorkFolder {
 public:
  // run.json last: while any other is there, so is what says whose it is.
  static constexpr std::array<const char*, 4> kFiles = {"checkpoint.bin", "features.bin", "samples.jsonl", "run.json"};

  enum class Use { kBegin, kContinue };
  // kBegin: a folder that is absent (made, for its owner alone) or empty. kContinue: one with a run.json.
  static Result<WorkFolder> Open(const std::string& path, Use use);
  WorkFolder(WorkFolder&& other) noexcept;
  WorkFolder& operator=(WorkFolder&& other) noexcept;
  ~WorkFolder();

  std::string Path(const char* file) const { return path_ + "/" + file; }
  const std::string& path() const { return path_; }
  bool made() const { return made_; }  // by this Open

  // Removes one of kFiles, if it is there.
  Status Remove(const char* file) const;
  // Removes this program's files, run.json last, and with `folder_too` the folder if nothing else is in it.
  Status RemoveAll(bool folder_too) const;

 private:
  WorkFolder() = default;
  Status CheckContents(Use use) const;
  std::string path_;
  int fd_ = -1;
  bool made_ = false;
};

}  // namespace surety::train
