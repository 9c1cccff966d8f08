// Under which scopes a subject's prompts were computed: what must be forgotten with the subject. Kept in memory, as is
// what it points to; where it does not know everything (a restart with a disk cache, too many scopes), it says so, and
// then the whole tenant is forgotten.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/scope.h"

namespace surety::gateway {

class SubjectScopes {
 public:
  // `complete`: nothing was computed before this object, or nothing of it is left.
  SubjectScopes(size_t max_scopes, bool complete) : max_scopes_(max_scopes), complete_(complete) {}

  void Note(const std::string& tenant, const std::string& subject, const api::Scope& scope);
  // All scopes of the subject, which is then unknown; nullopt: they are not all known. `now_ns`: monotonic; the subject
  // counts as erased at that time.
  std::optional<std::vector<api::Scope>> Take(const std::string& tenant, const std::string& subject, int64_t now_ns);
  // Whether the subject was erased at `start_ns` or later: then what began before must not be kept.
  bool ErasedSince(const std::string& tenant, const std::string& subject, int64_t start_ns) const;

 private:
  using Key = std::pair<std::string, std::string>;
  const size_t max_scopes_;
  mutable std::mutex mutex_;
  bool complete_;
  size_t n_scopes_ = 0;
  std::map<Key, std::vector<api::Scope>> scopes_;
  std::map<Key, int64_t> erased_ns_;
};

}  // namespace surety::gateway
