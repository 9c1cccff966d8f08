#include "cli/shipped_heads.h"

#include <cstdlib>
#include <filesystem>

#include "cli/models_catalogue.h"
#include "cli/models_store.h"

namespace surety::cli {

namespace fs = std::filesystem;

std::string ShippedHeadsDirectory() {
  if (const char* own = std::getenv("SURETY_HEADS"); own != nullptr && *own != '\0') return own;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? "" : (program.parent_path().parent_path() / "share/surety/heads").string();
}

std::string ShippedHeadOf(const std::string& path) {
  for (const CatalogueModel& model : Catalogue()) {
    if (PathOfModel(model.name) != path) continue;
    const fs::path folder = fs::path(ShippedHeadsDirectory()) / model.name;
    std::error_code error;
    return fs::is_directory(folder, error) ? folder.string() : "";
  }
  return "";
}

}  // namespace surety::cli
