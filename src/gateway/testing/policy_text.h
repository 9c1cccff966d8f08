// A policy that fulfils every obligation, to be spoilt in one place by tests; and files in memory.
//
// Threads: one. For tests only. Not in a namespace `testing`: that would hide gtest's from every test of the module.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "gateway/policy_reader.h"

namespace surety::gateway::policy_text {

// Reads only, by exact path.
class MemoryFiles final : public FileSystem {
 public:
  std::map<std::string, std::string> contents;

  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override;
  Result<std::string> ReadAll(const std::string& path, int64_t max_size_bytes) override;
  Status WriteAll(const std::string& path, std::string_view contents) override;
  bool Exists(const std::string& path) override { return contents.contains(path); }
  bool IsDirectory(const std::string&) override { return false; }
  Result<std::vector<std::string>> List(const std::string& directory) override;
};

// The good policy and the files that it names, in folder "p".
std::string GoodPolicyText();
MemoryFiles GoodPolicyFiles();

using Edits = std::vector<std::pair<std::string_view, std::string_view>>;
// Each text of the good policy that is replaced must stand in it exactly once: an edit that does nothing is a bug.
std::string EditedPolicyText(const Edits& edits);
Result<Policy> ReadEdited(const Edits& edits);

}  // namespace surety::gateway::policy_text
