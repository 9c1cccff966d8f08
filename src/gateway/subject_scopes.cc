#include "gateway/subject_scopes.h"

#include <algorithm>

namespace surety::gateway {

void SubjectScopes::Note(const std::string& tenant, const std::string& subject, const api::Scope& scope) {
  const std::lock_guard lock(mutex_);
  if (n_scopes_ >= max_scopes_) {
    complete_ = false;
    return;
  }
  std::vector<api::Scope>& known = scopes_[{tenant, subject}];
  if (std::ranges::find(known, scope) != known.end()) return;
  known.push_back(scope);
  ++n_scopes_;
}

std::optional<std::vector<api::Scope>> SubjectScopes::Take(const std::string& tenant, const std::string& subject,
                                                           int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  erased_ns_[{tenant, subject}] = now_ns;
  std::vector<api::Scope> out;
  if (const auto found = scopes_.find({tenant, subject}); found != scopes_.end()) {
    out = std::move(found->second);
    n_scopes_ -= out.size();
    scopes_.erase(found);
  }
  if (!complete_) return std::nullopt;
  return out;
}

bool SubjectScopes::ErasedSince(const std::string& tenant, const std::string& subject, int64_t start_ns) const {
  const std::lock_guard lock(mutex_);
  const auto found = erased_ns_.find({tenant, subject});
  return found != erased_ns_.end() && found->second >= start_ns;
}

}  // namespace surety::gateway
