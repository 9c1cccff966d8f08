// The governed server's long-lived state, put together from a policy file: audit log, vault, review queue, caches,
// ledger, models, and the backend in front of them. What operators and callers may ask about it.
//
// Threads: any. Owns: all of it; the backend is shared with the HTTP server.
// Errors: Open and Reload: as the reader and the parts state them; a failed Reload leaves the policy in force.
// Invariants: (1) one process has a state directory (the audit log is locked). (2) An approved answer can be seen only
// after the row of its release, and has one such row. After a crash in between, the next Open makes its writes and its
// row good. (3) Only a decision whose row is in this log can be approved here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/json/object.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "gateway/approved_release.h"
#include "gateway/audit_io.h"
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
    std::string embed_model; // its name
    FileSystem* files = nullptr;
    Clock* clock = nullptr;
    observe::Registry* metrics = nullptr;

    // Of measurements (surety bench policy); empty elsewhere.
    std::function<void(Policy&)> amend;  // changes what was read: where state lies, how much may come
    AuditIo* audit_io = nullptr;
    std::function<void(const DecisionRecord&)> on_decision;  // on a worker, just before a decision's last event
  };
  // Refuses a policy of which not every obligation of `surety check` holds; so does Reload.
  static Result<std::unique_ptr<Governance>> Open(Options options);
  ~Governance();

  std::shared_ptr<GovernedBackend> backend() const { return backend_; }
  ReviewService& review() { return *review_service_; }

  // Reads the policy file again. What is in force now: {"policy", "version", "digest", "changed"}.
  Result<boost::json::object> Reload();
  boost::json::object Describe() const;         // policy, routes, state
  boost::json::object Slo() const;

  // Who reviews: tenant and permissions from where the policy says, as for those who ask; an administrator sees all.
  Result<Reviewer> ReviewerOf(const api::Caller& caller) const;
  // Approved tickets whose writes are not done, and what an operator found out about one (approved_release.h).
  boost::json::object UnfinishedWrites() const;
  Result<boost::json::object> SettleWrite(const std::string& decision, int step, const std::string& state,
                                          const std::string& by, const std::string& reason);

  // What became of a decision, for the caller who caused it, if he still has the permissions with which he asked;
  // kNotFound for everyone else.
  Result<boost::json::object> StateOf(const std::string& decision, const api::Caller& caller);
  // Computes a decision's answer again from its row and compares: {"id", "same", ...}. kNotFound, kFailedPrecondition
  // (no model answered it, or its texts were erased).
  Result<boost::json::object> Replay(const std::string& decision);
  // Texts in the log, cached answers, vectors, KV, drafts and tickets of one subject; the receipt is a row too.
  // Requests of the subject that run keep nothing more. Where a part fails the others are erased all the same, and the
  // error names it; again, until it succeeds: its receipt adds up what all attempts since this process began erased.
  Result<boost::json::object> ForgetSubject(const std::string& tenant, const std::string& subject);
  // Removes a wrong answer from the cache and keeps it out.
  Result<boost::json::object> ForgetDecision(const std::string& decision);

 private:
  explicit Governance(Options options) : options_(std::move(options)) {}
  Status OpenParts();
  Result<std::shared_ptr<const PolicyRuntime>> ReadRuntime();
  Status BeforeDecide(const ReviewVote& vote);
  void FinishOldApprovals();
  void Keep();
  Status RestoreQuota();
  std::string SaveQuota(const std::string& before) const;
  Result<boost::json::object> RowOf(const std::string& decision) const;
  Result<boost::json::object> TextsOf(const boost::json::object& row, const std::string& decision) const;
  Status CheckStores();
  void CountWhatMustNotBe();

  // governance_forget.cc
  struct Erasure {
    int64_t attempts = 0, keys = 0, tickets = 0, answers = 0, vectors = 0, cache_bytes = 0;
    api::ForgetReceipt kv;
    std::vector<std::string> not_reached;                    // models, of the last attempt
    std::vector<std::pair<std::string, Status>> failed;      // parts, likewise
  };
  void EraseParts(const std::string& tenant, const std::string& subject, Erasure& erasure);
  void ForgetKv(const std::string& tenant, const std::string& subject, Erasure& erasure);

  Options options_;
  std::string quota_path_;
  std::mutex reload_mutex_;
  std::mutex forget_mutex_;
  std::map<std::pair<std::string, std::string>, Erasure> erasures_;  // that are not complete
  std::map<std::string, std::shared_ptr<api::Backend>> models_;   // by the policy's name and what it names
  std::shared_ptr<AuditLog> audit_;
  std::shared_ptr<PayloadVault> vault_;
  std::shared_ptr<SubjectScopes> scopes_;
  std::shared_ptr<ResponseCache> cache_;
  std::shared_ptr<Ledger> ledger_;
  std::shared_ptr<ReviewStore> review_store_;
  std::unique_ptr<ApprovedRelease> approved_;
  std::unique_ptr<ReviewService> review_service_;
  std::shared_ptr<GovernedBackend> backend_;
  std::atomic<bool> stopping_ = false;
  std::mutex keeper_mutex_;
  std::condition_variable keeper_wakes_;
  std::thread keeper_;    // carries out old approvals, then writes down what budgets have spent
};

}  // namespace surety::gateway
