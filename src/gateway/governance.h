// The governed server's long-lived state, put together from a policy file: audit log, vault, review queue, caches,
// ledger, models, and the backend in front of them. What operators and callers may ask about it.
//
// Threads: any. Owns: all of it; the backend is shared with the HTTP server.
// Errors: Open and Reload: as the reader and the parts state them; a failed Reload leaves the policy in force.
// Invariants: (1) one process has a state directory (the audit log is locked). (2) An approved answer can be seen only
// after the row of its release; after a crash in between, the row is written when the answer is asked for.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include <boost/json/object.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "gateway/governed_backend.h"
#include "gateway/review_service.h"
#include "observe/metrics.h"

namespace surety::gateway {

class Governance {
 public:
  struct Options {
    std::string policy_path;
    int n_workers = 8;
    bool kept_kv = false;    // KV of earlier runs may lie on disk
    // A model of the policy, opened or connected; called at Open and Reload for those that are new.
    std::function<Result<std::shared_ptr<api::Backend>>(const ModelSpec&)> load;
    EmbedTexts embed;        // empty: none is served
    FileSystem* files = nullptr;
    Clock* clock = nullptr;
    observe::Registry* metrics = nullptr;
  };
  static Result<std::unique_ptr<Governance>> Open(Options options);
  ~Governance();

  std::shared_ptr<GovernedBackend> backend() const { return backend_; }
  ReviewService& review() { return *review_service_; }

  // Reads the policy file again. What is in force now: {"policy", "version", "digest", "changed"}.
  Result<boost::json::object> Reload();
  boost::json::object Describe() const;         // policy, routes, state
  boost::json::object Slo() const;

  // What became of a decision, for the caller who caused it; kNotFound for everyone else.
  Result<boost::json::object> StateOf(const std::string& decision, const api::Caller& caller);
  // Computes a decision's answer again from its row and compares: {"id", "same", ...}. kNotFound, kFailedPrecondition
  // (no model answered it, or its texts were erased).
  Result<boost::json::object> Replay(const std::string& decision);
  // Cached answers, vectors, KV, drafts, tickets and the texts in the log, of one subject; with a receipt, which is a
  // row too.
  Result<boost::json::object> ForgetSubject(const std::string& tenant, const std::string& subject);
  // Removes a wrong answer from the cache and keeps it out.
  Result<boost::json::object> ForgetDecision(const std::string& decision);

 private:
  explicit Governance(Options options) : options_(std::move(options)) {}
  Status OpenParts();
  Result<std::shared_ptr<const PolicyRuntime>> ReadRuntime();
  Status BeforeDecide(const ReviewVote& vote);
  Status OnDecided(const Ticket& ticket);
  Result<boost::json::object> RowOf(const std::string& decision) const;
  Result<boost::json::object> TextsOf(const boost::json::object& row, const std::string& decision) const;
  Result<api::ForgetReceipt> ForgetKv(const std::string& tenant, const std::string& subject);

  Options options_;
  std::mutex reload_mutex_;
  std::map<std::string, std::shared_ptr<api::Backend>> models_;   // by the policy's name and what it names
  std::shared_ptr<AuditLog> audit_;
  std::shared_ptr<PayloadVault> vault_;
  std::shared_ptr<SubjectScopes> scopes_;
  std::shared_ptr<ResponseCache> cache_;
  std::shared_ptr<Ledger> ledger_;
  std::shared_ptr<ReviewStore> review_store_;
  std::unique_ptr<ReviewService> review_service_;
  std::shared_ptr<GovernedBackend> backend_;
};

}  // namespace surety::gateway
