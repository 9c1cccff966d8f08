#include "cli/models_store.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/nearest_name.h"
#include "cli/models_catalogue.h"

namespace surety::cli {
namespace {

namespace fs = std::filesystem;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

std::string ModelsDirectory() {
  if (std::string own = Environment("SURETY_MODELS"); !own.empty()) return own;
  if (const std::string cache = Environment("XDG_CACHE_HOME"); !cache.empty()) return cache + "/surety/models";
  const std::string home = Environment("HOME");
  return (home.empty() ? std::string(".") : home) + "/.cache/surety/models";
}

std::string StagingDirectory(const std::string& name) { return ModelsDirectory() + "/.staging/" + name; }

std::string CatalogueNameOf(const std::string& path) {
  for (const CatalogueModel& model : Catalogue()) {
    if (PathOfModel(model.name) == path) return model.name;
  }
  return "";
}

std::string KnownDigest(const std::string& path) {
  const CatalogueModel* model = FindInCatalogue(CatalogueNameOf(path));
  return model == nullptr ? "" : model->sha256;
}

int64_t SizeOnDisk(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return static_cast<int64_t>(fs::file_size(path, error));
  int64_t total = 0;
  for (fs::recursive_directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;  // a file may vanish while a download is moving it
    if (it->is_regular_file(ignored)) {
      const auto size = it->file_size(ignored);
      if (!ignored) total += static_cast<int64_t>(size);
    }
  }
  return total;
}

std::vector<StoredModel> StoredModels() {
  std::vector<StoredModel> models;
  std::error_code error;
  for (fs::directory_iterator it(ModelsDirectory(), error), end; !error && it != end; it.increment(error)) {
    const std::string file = it->path().filename().string();
    std::error_code ignored;
    if (file.starts_with(".")) continue;
    if (it->is_directory(ignored)) {
      models.push_back({file, it->path().string(), SizeOnDisk(it->path().string())});
    } else if (file.ends_with(".gguf")) {
      models.push_back({file.substr(0, file.size() - 5), it->path().string(), SizeOnDisk(it->path().string())});
    }
  }
  std::sort(models.begin(), models.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return models;
}

std::string PathOfModel(const std::string& name) {
  const std::string folder = ModelsDirectory() + "/" + name;
  std::error_code error;
  if (const CatalogueModel* known = FindInCatalogue(name)) {
    return known->is_folder() ? folder : ModelsDirectory() + "/" + known->file;
  }
  return fs::is_directory(folder, error) ? folder : folder + ".gguf";
}

Result<std::string> ResolveModel(const std::string& path_or_name) {
  std::error_code error;
  if (path_or_name.empty()) return Error(InvalidArgumentError("the model's name is empty"));
  if (fs::exists(path_or_name, error)) return path_or_name;
  if (path_or_name.find('/') != std::string::npos || path_or_name.ends_with(".gguf")) {
    return Error(NotFoundError(fmt::format("{}: no such file or folder", path_or_name)));
  }
  const std::string path = PathOfModel(path_or_name);
  if (fs::exists(path, error)) return path;
  if (FindInCatalogue(path_or_name) != nullptr) {
    return Error(NotFoundError(fmt::format("model {} is not on this machine yet; fetch it with: surety models pull {}",
                                           path_or_name, path_or_name)));
  }
  std::vector<std::string> names;
  for (const CatalogueModel& model : Catalogue()) names.push_back(model.name);
  for (const StoredModel& model : StoredModels()) names.push_back(model.name);
  const std::string nearest = NearestName(path_or_name, names);
  return Error(NotFoundError(fmt::format("{}: neither a file nor a known model{}", path_or_name,
                                         nearest.empty() ? "; see surety models"
                                                         : fmt::format("; did you mean {}?", nearest))));
}

Status ValidateModelName(const std::string& name) {
  const bool good = !name.empty() && name[0] != '.' && name.size() <= 200 &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
                    });
  if (good) return OkStatus();
  return InvalidArgumentError(fmt::format(
      "'{}' cannot be a model's name: use letters, digits, '.', '_' and '-', not beginning with '.'", name));
}

}  // namespace surety::cli
