#include "cli/model_heads.h"

#include <cstdlib>
#include <filesystem>

#include "cli/models_catalogue.h"
#include "cli/models_store.h"

namespace surety::cli {

namespace fs = std::filesystem;

std::string HeadOf(const std::string& path) {
  const char* heads = std::getenv("SURETY_HEADS");
  if (heads == nullptr || *heads == '\0') return "";
  for (const CatalogueModel& model : Catalogue()) {
    if (PathOfModel(model.name) != path) continue;
    const fs::path folder = fs::path(heads) / model.name;
    std::error_code error;
    return fs::is_directory(folder, error) ? folder.string() : "";
  }
  return "";
}

}  // namespace surety::cli
