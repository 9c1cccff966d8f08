// Parts of the governed path that a test controls: clock, audit log, review store, ledger, verifiers, signals.
//
// Threads: any, as the parts that they stand for. Owns: what was recorded.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gateway/audit_log.h"
#include "gateway/ledger.h"
#include "gateway/policy.h"
#include "gateway/review_store.h"
#include "gateway/signals.h"
#include "gateway/tools.h"
#include "gateway/verifier.h"

namespace surety::gateway {

// Real monotonic time; wall time as set.
class WallClock final : public Clock {
 public:
  int64_t NowNanos() const override { return Clock::Real().NowNanos(); }
  int64_t WallNanos() const override { return wall_ns; }
  void SleepNanos(int64_t nanos) override { Clock::Real().SleepNanos(nanos); }
  std::atomic<int64_t> wall_ns{1'764'504'000'000'000'000};  // 2025-11-30T12:00:00Z
};

class FakeAudit final : public AuditLog {
 public:
  Result<AuditRow> Append(std::string_view kind, boost::json::object body) override;
  void AppendAsync(std::string_view kind, boost::json::object body,
                   std::function<void(Result<AuditRow>)> done) override;
  int64_t n_rows() const override;
  bool failed() const override { return fails; }
  Result<AuditRow> Find(std::string_view kind, std::string_view id) const override;
  std::vector<AuditRow> rows(std::string_view kind) const;

  std::atomic<bool> fails = false;
  std::function<void(std::string_view kind)> before;   // called first, e.g. to see what has left by then

 private:
  mutable std::mutex mutex_;
  std::vector<AuditRow> rows_;
};

class FakeLedger final : public Ledger {
 public:
  void Record(const DecisionRecord& record) override;
  void Record(const ReviewOutcome&) override {}
  void Record(const ShadowOutcome& outcome) override;
  void UsePolicy(const Policy&) override {}
  boost::json::object Report() const override { return {}; }
  std::vector<DecisionRecord> records() const;
  std::vector<ShadowOutcome> shadows() const;

 private:
  mutable std::mutex mutex_;
  std::vector<DecisionRecord> records_;
  std::vector<ShadowOutcome> shadows_;
};

// Each verifier by name: its verdict of an answer.
class FakeVerifiers final : public VerifierSet {
 public:
  using Check = std::function<Verdict::Outcome(const AnswerText&)>;
  std::map<std::string, Check> checks;
  std::map<std::string, VerifierSpec> specs;
  Judgement JudgeUntil(const std::vector<std::string>& names, std::shared_ptr<const AnswerText> answer,
                       std::shared_ptr<const Evidence> evidence, bool open_allowed, int64_t deadline_ns) override;
  std::string Versions(const std::vector<std::string>& names) const override;
};

// Signals from words of the question: "@name=label" anywhere in it; "@risk=high" sets the risk.
class FakeSignals final : public SignalReader {
 public:
  Signals Read(std::string_view text, std::string_view all_text, const api::Caller& caller) const override;
};

// Tools by name: what each says.
class FakeTools final : public ToolRunner {
 public:
  std::map<std::string, std::function<ToolResult(const ToolArguments&)>> answers;
  std::vector<ToolResult> Gather(const std::vector<std::string>& names, const ToolArguments& arguments,
                                 int64_t deadline_ns) override;
  ToolResult Write(const std::string& name, const std::string& case_id, const std::string& step,
                   const ToolArguments& arguments, const std::vector<std::string>& approvers,
                   AuditLog& audit) override;
};

}  // namespace surety::gateway
