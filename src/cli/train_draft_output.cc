#include "cli/train_draft_output.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "base/memory_info.h"
#include "cli/file_writer.h"
#include "cli/progress.h"

namespace surety::cli {

namespace fs = std::filesystem;

Status MakeOutputFolder(const std::string& folder, bool may_replace) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return SystemFailure(folder, "cannot make the folder", error.value());
  if (access(folder.c_str(), W_OK | X_OK) != 0) return SystemFailure(folder, "cannot write to the folder", errno);
  if (may_replace) return OkStatus();
  for (const char* file : {"model.safetensors", "config.json", "report.html", "loss.svg", "acceptance.svg",
                           "training.json"}) {
    // A link that leads nowhere is in the way, too.
    const auto type = fs::symlink_status(folder + "/" + file, error).type();
    if (type == fs::file_type::not_found) continue;
    const char* what = std::string_view(file) == "model.safetensors" ? "a head is there" : "a file is there";
    return FailedPreconditionError(fmt::format("{}/{}: {} already; choose another folder with -o", folder, file, what));
  }
  return OkStatus();
}

std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  // Absolute first: of a folder that is not there yet the other leaves the name as it is.
  const fs::path absolute = fs::weakly_canonical(fs::absolute(path, error), error);
  return error ? path : absolute.string();
}

int64_t CheckpointBytes(const train::HeadShape& shape) { return 2 * 3 * 4 * train::HeadLayout(shape).size; }

Status CheckTrainingMemory(const train::HeadShape& shape) {
  // Weights, gradient, two moments and a checkpoint being written; activations come on top.
  const int64_t needed = 7 * 4 * train::HeadLayout(shape).size, free = AvailableMemoryBytes();
  if (free < 0 || needed <= free) return OkStatus();
  return ResourceExhaustedError(fmt::format("a head of {} parameters takes {} of memory to train, {} are free; take a "
                                            "smaller --ffn or --draft-vocab", train::HeadLayout(shape).size,
                                            HumanBytes(needed), HumanBytes(free)));
}

}  // namespace surety::cli
