// Under which scopes a subject's prompts were computed: what must be forgotten with the subject; and which requests run
// for whom, so that an erasure reaches what they would still keep. Kept in memory, as is what the scopes point to;
// where not all of a subject's are known (a restart with a disk cache, too many), it says so, and then the whole tenant
// is forgotten.
//
// Threads: any. Invariant: after Close nothing is kept by a request of the subject that came before it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/scope.h"
#include "base/function_ref.h"

namespace surety::gateway {

class SubjectScopes {
 public:
  // A subject has this many at most; above it, whole families (scopes that differ in their salt alone) are noted.
  static constexpr size_t kMaxScopesOfSubject = 256;

  // A request from its arrival to its end.
  class Request {
    friend class SubjectScopes;
    std::string subject;
    std::optional<std::string> tenant;  // not before it is identified
    bool erased = false;
    int n_keeping = 0;
  };
  struct Known {
    std::vector<api::Scope> scopes;
    bool complete = true;               // else there may be more of them
  };

  // `complete`: nothing was computed before this object, or nothing of it is left.
  SubjectScopes(size_t max_scopes, bool complete) : max_scopes_(max_scopes), complete_(complete) {}

  // A request has come. It ends with the last copy of what is returned, and before this object.
  std::shared_ptr<Request> Arrive(const std::string& subject);
  void Identify(Request& request, const std::string& tenant);
  // Runs `keep`, which stores something of the request, and true; false, and it is not run, where the subject was
  // erased since the request came. An erasure waits for it.
  bool Keep(Request& request, FunctionRef<void()> keep);
  // The subject is being erased: what runs keeps nothing from here on. Returns when nothing is being kept.
  void Close(const std::string& tenant, const std::string& subject);

  void Note(const std::string& tenant, const std::string& subject, const api::Scope& scope);
  // All scopes of the subject, which has none then.
  Known Take(const std::string& tenant, const std::string& subject);
  // What was taken, but could not be forgotten.
  void PutBack(const std::string& tenant, const std::string& subject, const Known& known);

 private:
  struct Scopes {
    std::map<std::string, api::Scope> all;   // by their bytes
    bool families = false;                   // they are without salts
    bool complete = true;
  };
  void Add(Scopes& scopes, api::Scope scope);

  const size_t max_scopes_;
  mutable std::mutex mutex_;
  std::condition_variable kept_;
  bool complete_;
  size_t n_scopes_ = 0;
  std::map<std::pair<std::string, std::string>, Scopes> scopes_;
  std::set<Request*> requests_;
};

}  // namespace surety::gateway
