// Erasure of a subject over all that keeps something of it.
#include <set>
#include <span>
#include <utility>

#include <boost/json.hpp>

#include "base/hash.h"
#include "gateway/governance.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

std::string SubjectDigest(const std::string& tenant, const std::string& subject) {
  std::string bytes;
  AppendField(bytes, 1, tenant);
  AppendField(bytes, 2, subject);
  return HexOf(Sha256Of(std::as_bytes(std::span(bytes))));
}

}  // namespace

// On every model that this process has loaded: one that the policy names no more still has its KV.
void Governance::ForgetKv(const std::string& tenant, const std::string& subject, Erasure& erasure) {
  std::map<std::string, std::shared_ptr<api::Backend>> models;
  {
    const std::lock_guard lock(reload_mutex_);
    models = models_;
  }
  const SubjectScopes::Known known = scopes_->Take(tenant, subject);
  std::vector<api::Scope> scopes = known.scopes;
  api::ForgetExtent extent = api::ForgetExtent::kScope;
  if (!known.complete) {
    extent = api::ForgetExtent::kTenant;
    scopes.resize(1);
    scopes[0] = {};
    scopes[0].tenant = tenant;
  }
  bool complete = true;
  std::set<std::string> not_reached;
  std::set<const api::Backend*> asked;  // two names may share one
  for (const auto& [key, model] : models) {
    if (model == nullptr || !asked.insert(model.get()).second) continue;
    const std::string name = key.substr(0, key.find('\n'));
    Status failed;
    for (const api::Scope& scope : scopes) {
      const auto receipt = model->Forget(scope, extent);
      if (receipt) {
        erasure.kv.pages += receipt->pages;
        erasure.kv.bytes += receipt->bytes;
        erasure.kv.pages_in_use += receipt->pages_in_use;
      } else if (receipt.error().code() == StatusCode::kUnimplemented) {
        not_reached.insert(name);
      } else {
        failed = receipt.error();
      }
    }
    if (failed.ok()) continue;
    complete = false;
    erasure.failed.emplace_back("model '" + name + "'", failed);
  }
  erasure.not_reached.assign(not_reached.begin(), not_reached.end());
  if (!complete) scopes_->PutBack(tenant, subject, known);
}

// Each part whatever became of the others, the key first: without it nothing of the log can be read.
void Governance::EraseParts(const std::string& tenant, const std::string& subject, Erasure& erasure) {
  erasure.failed.clear();
  ++erasure.attempts;
  if (const auto keys = vault_->Erase(tenant, subject)) {
    erasure.keys += *keys;
  } else {
    erasure.failed.emplace_back("vault", keys.error());
  }
  ForgetKv(tenant, subject, erasure);
  const CacheForgetReceipt cached = cache_->ForgetSubject(tenant, subject);
  erasure.answers += cached.entries;
  erasure.vectors += cached.vectors;
  erasure.cache_bytes += cached.bytes;
  if (const auto tickets = review_store_->Forget(tenant, subject)) {
    erasure.tickets += *tickets;
  } else {
    erasure.failed.emplace_back("review", tickets.error());
  }
}

Result<json::object> Governance::ForgetSubject(const std::string& tenant, const std::string& subject) {
  const std::lock_guard lock(forget_mutex_);
  const std::string id = "era_" + NewDecisionId(options_.clock->WallNanos()).substr(4);
  const std::string digest = SubjectDigest(tenant, subject);
  // First, so that one which does not come to its end shows in the log.
  SURETY_ASSIGN_OR_RETURN(const AuditRow intent,
                          audit_->Append("erasure_intent", {{"id", id}, {"subject_sha256", digest}}));
  scopes_->Close(tenant, subject);
  Erasure& erasure = erasures_[{tenant, subject}];
  EraseParts(tenant, subject, erasure);
  json::array failed;
  std::string message;
  for (const auto& [part, status] : erasure.failed) {
    failed.push_back(json::object{{"part", part}, {"code", StatusCodeName(status.code())}});
    message += (message.empty() ? "" : "; ") + part + ": " + status.message();
  }
  json::object receipt{{"id", id},
                       {"subject_sha256", digest},
                       {"complete", failed.empty()},
                       {"failed", std::move(failed)},
                       {"attempts", erasure.attempts},
                       {"answers", erasure.answers},
                       {"vectors", erasure.vectors},
                       {"cache_bytes", erasure.cache_bytes},
                       {"kv_pages", erasure.kv.pages},
                       {"kv_bytes", erasure.kv.bytes},
                       {"kv_pages_in_use", erasure.kv.pages_in_use},
                       {"models_not_reached", json::value_from(erasure.not_reached)},
                       {"review_tickets", erasure.tickets},
                       {"audit_keys", erasure.keys}};
  SURETY_ASSIGN_OR_RETURN(const AuditRow row, audit_->Append("erasure", receipt));
  if (!erasure.failed.empty()) {
    return Error(Status(erasure.failed.front().second.code(),
                        "not all is erased; call again until it is. What failed: " + message));
  }
  erasures_.erase({tenant, subject});
  receipt["object"] = "surety.erasure_receipt";
  receipt["audit_seq"] = row.seq;
  receipt["audit_hash"] = row.hash;
  return receipt;
}

}  // namespace surety::gateway
