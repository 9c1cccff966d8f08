// A file system of strings in memory, for tests. Folders exist where a path has files below it.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"

namespace surety::model {

class MemoryFiles final : public FileSystem {
 public:
  std::map<std::string, std::string> files;

  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override {
    const auto found = files.find(path);
    if (found == files.end()) return Error(NotFoundError("cannot open '" + path + "': no such file"));
    return MakeMemoryFile(path, std::as_bytes(std::span(found->second)));
  }
  Result<std::string> ReadAll(const std::string& path, int64_t max_size_bytes) override {
    const auto found = files.find(path);
    if (found == files.end()) return Error(NotFoundError("cannot open '" + path + "': no such file"));
    if (static_cast<int64_t>(found->second.size()) > max_size_bytes) {
      return Error(InvalidArgumentError("'" + path + "' is too large"));
    }
    return found->second;
  }
  Status WriteAll(const std::string& path, std::string_view contents) override {
    files[path] = std::string(contents);
    return OkStatus();
  }
  bool Exists(const std::string& path) override { return files.contains(path) || IsDirectory(path); }
  bool IsDirectory(const std::string& path) override {
    const auto below = files.lower_bound(path + "/");
    return below != files.end() && below->first.starts_with(path + "/");
  }
  Result<std::vector<std::string>> List(const std::string& directory) override {
    std::set<std::string> names;
    for (const auto& [path, contents] : files) {
      if (!path.starts_with(directory + "/")) continue;
      const std::string rest = path.substr(directory.size() + 1);
      names.insert(rest.substr(0, rest.find('/')));
    }
    return std::vector<std::string>(names.begin(), names.end());
  }
};

}  // namespace surety::model
