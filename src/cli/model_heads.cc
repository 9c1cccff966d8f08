#include "cli/model_heads.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "cli/models_store.h"

namespace surety::cli {
namespace {

namespace fs = std::filesystem;

std::string HeadsFolder() {
  const char* folder = std::getenv("SURETY_HEADS");
  return folder == nullptr ? "" : folder;
}

}  // namespace

bool HasHeadsFolder() { return !HeadsFolder().empty(); }

Result<std::string> HeadOf(const std::string& path) {
  const std::string folder = HeadsFolder();
  if (folder.empty()) return "";
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return Error(NotFoundError(fmt::format("SURETY_HEADS: '{}' is no folder that can be read; it holds a head for each "
                                           "model under the model's name", folder)));
  }
  const std::string name = CatalogueNameOf(path);
  if (name.empty()) return "";
  for (const std::string& head : {folder + "/" + name, folder + "/" + name + ".safetensors"}) {
    if (fs::exists(head, error)) return head;
  }
  return "";
}

}  // namespace surety::cli
