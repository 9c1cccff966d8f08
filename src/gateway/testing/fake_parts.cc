#include "gateway/testing/fake_parts.h"

#include <algorithm>

namespace surety::gateway {

Result<AuditRow> FakeAudit::Append(std::string_view kind, boost::json::object body) {
  if (before) before(kind);
  if (fails) return Error(IoError("the disk is full"));
  const std::lock_guard lock(mutex_);
  AuditRow row;
  row.seq = static_cast<int64_t>(rows_.size());
  row.kind = kind;
  row.body = std::move(body);
  rows_.push_back(row);
  return row;
}

void FakeAudit::AppendAsync(std::string_view kind, boost::json::object body,
                            std::function<void(Result<AuditRow>)> done) {
  done(Append(kind, std::move(body)));
}

int64_t FakeAudit::n_rows() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(rows_.size());
}

Result<AuditRow> FakeAudit::Find(std::string_view kind, std::string_view id) const {
  const std::lock_guard lock(mutex_);
  for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) {
    const boost::json::value* found = row->body.if_contains("id");
    if (row->kind == kind && found != nullptr && found->is_string() && found->get_string() == id) return *row;
  }
  return Error(NotFoundError("no such row"));
}

std::vector<AuditRow> FakeAudit::rows(std::string_view kind) const {
  const std::lock_guard lock(mutex_);
  std::vector<AuditRow> out;
  std::ranges::copy_if(rows_, std::back_inserter(out), [&](const AuditRow& row) { return row.kind == kind; });
  return out;
}

void FakeLedger::Record(const DecisionRecord& record) {
  const std::lock_guard lock(mutex_);
  records_.push_back(record);
}

void FakeLedger::Record(const ShadowOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  shadows_.push_back(outcome);
}

std::vector<ShadowOutcome> FakeLedger::shadows() const {
  const std::lock_guard lock(mutex_);
  return shadows_;
}

std::vector<DecisionRecord> FakeLedger::records() const {
  const std::lock_guard lock(mutex_);
  return records_;
}

Judgement FakeVerifiers::JudgeUntil(const std::vector<std::string>& names, std::shared_ptr<const AnswerText> answer,
                                    std::shared_ptr<const Evidence>, bool open_allowed, int64_t) {
  Judgement judgement;
  for (const std::string& name : names) {
    Verdict verdict;
    verdict.verifier = name;
    verdict.outcome = checks.at(name)(*answer);
    judgement.verdicts.push_back(verdict);
    if (verdict.outcome == Verdict::Outcome::kPass) continue;
    const VerifierSpec& spec = specs[name];
    const bool error = verdict.outcome == Verdict::Outcome::kError;
    if (error && spec.open_on_error && open_allowed) continue;
    const VerifierSpec::Action wanted = error ? spec.error : spec.fail;
    const auto action = wanted == VerifierSpec::Action::kBlock    ? Judgement::Action::kBlock
                        : wanted == VerifierSpec::Action::kReview ? Judgement::Action::kReview
                                                                  : Judgement::Action::kRepair;
    if (action > judgement.action) {
      judgement.action = action;
      judgement.verifier = name;
      judgement.reason = "told so";
    }
  }
  return judgement;
}

std::string FakeVerifiers::Versions(const std::vector<std::string>& names) const {
  std::string out;
  for (const std::string& name : names) out += name + "@1,";
  return out;
}

Signals FakeSignals::Read(std::string_view text, std::string_view, const api::Caller&) const {
  Signals signals;
  signals.risk = signals.complexity = Level::kLow;
  for (size_t at = text.find('@'); at != std::string_view::npos; at = text.find('@', at + 1)) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at + 1, end - at - 1);
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string name(word.substr(0, equals)), label(word.substr(equals + 1));
    if (name == "risk") {
      signals.risk = label == "high" ? Level::kHigh : label == "medium" ? Level::kMedium : Level::kLow;
    } else {
      signals.values[name].label = label;
    }
  }
  return signals;
}

std::vector<ToolResult> FakeTools::Gather(const std::vector<std::string>& names, const ToolArguments& arguments,
                                          int64_t) {
  std::vector<ToolResult> out;
  for (const std::string& name : names) {
    out.push_back(answers.at(name)(arguments));
    out.back().tool = name;
  }
  return out;
}

ToolResult FakeTools::Write(const std::string& name, const std::string&, const std::string&,
                            const ToolArguments& arguments, const std::vector<std::string>&, AuditLog&) {
  return answers.at(name)(arguments);
}

}  // namespace surety::gateway
