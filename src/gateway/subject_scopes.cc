#include "gateway/subject_scopes.h"

#include <algorithm>

#include "gateway/partition.h"

namespace surety::gateway {
namespace {

std::string ScopeBytes(const api::Scope& scope) {
  std::string bytes;
  uint8_t tag = 0;
  for (const std::string* field : {&scope.tenant, &scope.region, &scope.product, &scope.policy_version, &scope.language,
                                   &scope.eligibility, &scope.effective_date, &scope.salt}) {
    AppendField(bytes, ++tag, *field);
  }
  for (const std::string& permission : scope.permissions) AppendField(bytes, 100, permission);
  return bytes;
}

}  // namespace

std::shared_ptr<SubjectScopes::Request> SubjectScopes::Arrive(const std::string& subject) {
  std::shared_ptr<Request> request(new Request, [this](Request* ended) {
    {
      const std::lock_guard lock(mutex_);
      requests_.erase(ended);
    }
    delete ended;
  });
  request->subject = subject;
  const std::lock_guard lock(mutex_);
  requests_.insert(request.get());
  return request;
}

void SubjectScopes::Identify(Request& request, const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  request.tenant = tenant;
}

bool SubjectScopes::Keep(Request& request, FunctionRef<void()> keep) {
  {
    const std::lock_guard lock(mutex_);
    if (request.erased) return false;
    ++request.n_keeping;
  }
  keep();
  const std::lock_guard lock(mutex_);
  if (--request.n_keeping == 0) kept_.notify_all();
  return true;
}

void SubjectScopes::Close(const std::string& tenant, const std::string& subject) {
  std::unique_lock lock(mutex_);
  // One that is not identified yet may be of this tenant.
  const auto meant = [&](const Request* request) {
    return request->subject == subject && request->tenant.value_or(tenant) == tenant;
  };
  for (Request* request : requests_) request->erased = request->erased || meant(request);
  kept_.wait(lock, [&] {
    return std::ranges::none_of(requests_, [&](const Request* r) { return r->n_keeping > 0 && r->erased && meant(r); });
  });
}

void SubjectScopes::Add(Scopes& scopes, api::Scope scope) {
  if (!scopes.complete) return;
  if (scopes.families) scope.salt.clear();
  std::string bytes = ScopeBytes(scope);
  if (scopes.all.contains(bytes)) return;
  if (n_scopes_ >= max_scopes_ || scopes.all.size() >= kMaxScopesOfSubject) {
    n_scopes_ -= scopes.all.size();
    const auto salted = std::exchange(scopes.all, {});
    if (scopes.families || n_scopes_ >= max_scopes_) {
      scopes.complete = false;
      return;
    }
    scopes.families = true;
    for (const auto& [known_bytes, known] : salted) Add(scopes, known);
    return Add(scopes, std::move(scope));
  }
  scopes.all.emplace(std::move(bytes), std::move(scope));
  ++n_scopes_;
}

void SubjectScopes::Note(const std::string& tenant, const std::string& subject, const api::Scope& scope) {
  const std::lock_guard lock(mutex_);
  const auto found = scopes_.find({tenant, subject});
  if (found != scopes_.end()) return Add(found->second, scope);
  if (scopes_.size() >= max_scopes_) {
    complete_ = false;
    return;
  }
  Add(scopes_[{tenant, subject}], scope);
}

SubjectScopes::Known SubjectScopes::Take(const std::string& tenant, const std::string& subject) {
  const std::lock_guard lock(mutex_);
  Known known;
  known.complete = complete_;
  const auto found = scopes_.find({tenant, subject});
  if (found == scopes_.end()) return known;
  known.complete = complete_ && found->second.complete;
  for (auto& [bytes, scope] : found->second.all) known.scopes.push_back(std::move(scope));
  n_scopes_ -= found->second.all.size();
  scopes_.erase(found);
  return known;
}

void SubjectScopes::PutBack(const std::string& tenant, const std::string& subject, const Known& known) {
  const std::lock_guard lock(mutex_);
  Scopes& scopes = scopes_[{tenant, subject}];
  for (const api::Scope& scope : known.scopes) Add(scopes, scope);
  if (known.complete || !scopes.complete) return;
  scopes.complete = false;
  n_scopes_ -= scopes.all.size();
  scopes.all.clear();
}

}  // namespace surety::gateway
