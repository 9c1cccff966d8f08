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

std::optional<std::vector<api::Scope>> SubjectScopes::Take(const std::string& tenant, const std::string& subject) {
  const std::lock_guard lock(mutex_);
  std::vector<api::Scope> out;
  if (const auto found = scopes_.find({tenant, subject}); found != scopes_.end()) {
    out = std::move(found->second);
    n_scopes_ -= out.size();
    scopes_.erase(found);
  }
  if (!complete_) return std::nullopt;
  return out;
}

}  // namespace surety::gateway
