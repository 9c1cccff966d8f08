// The folder of models on this machine: names to paths and back.
//
// The folder is $SURETY_MODELS, else $XDG_CACHE_HOME/surety/models, else ~/.cache/surety/models. A model NAME is the
// file NAME.gguf in it, or the folder NAME. Unfinished downloads live in its folder .staging.
// Errors: ResolveModel: kNotFound with what to do about it.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace surety::cli {

std::string ModelsDirectory();
std::string StagingDirectory(const std::string& name);

struct StoredModel {
  std::string name;
  std::string path;
  int64_t size_bytes = 0;
};

// What lies in the folder, by name.
std::vector<StoredModel> StoredModels();

// The path where a model of this name is or would be.
std::string PathOfModel(const std::string& name);

// A path that exists is taken as it is; else a name.
Result<std::string> ResolveModel(const std::string& path_or_name);

// The model of the catalogue whose place a path is; empty if it is none's.
std::string CatalogueNameOf(const std::string& path);

// SHA-256 of the weights at a path, hex, where that is the place of a model of the catalogue, whose digest was checked
// when it came; else empty.
std::string KnownDigest(const std::string& path);

// Sum of the sizes of all files below a path; 0 if there is none.
int64_t SizeOnDisk(const std::string& path);

// kInvalidArgument unless the name can be a file's name: letters, digits, . _ - and not a dot in front.
Status ValidateModelName(const std::string& name);

}  // namespace surety::cli
