// surety audit: checks and shows an audit log.
#include <algorithm>
#include <cctype>
#include <ctime>
#include <deque>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/review_client.h"
#include "gateway/audit_reader.h"
#include "gateway/audit_row.h"

namespace surety::cli {
namespace {

constexpr int kMaxShownRows = 100'000;

// "2026-11-30T10:00:00.123Z".
std::string AuditTimeText(int64_t time_ns) {
  const auto seconds = static_cast<time_t>(time_ns / 1'000'000'000);
  std::tm parts{};
  if (time_ns < 0 || gmtime_r(&seconds, &parts) == nullptr) return fmt::format("{} ns", time_ns);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, time_ns % 1'000'000'000 / 1'000'000);
}

class AuditVerifyCommand final : public Command {
 public:
  std::string name() const override { return "audit verify"; }
  std::string summary() const override { return "check an audit log's chain from its first row to its last"; }
  std::string examples() const override {
    return "  surety audit verify state/audit.log\n"
           "  surety audit verify state\n"
           "  surety audit verify state/audit.log --expect 5d2f60...\n"
           "Note the last hash that it prints somewhere else. A log whose end was cut off between two rows, or that\n"
           "was written anew, is whole in itself: only --expect with a hash that was noted before tells.";
  }
  void Declare(Flags& flags) override {
    flags.Positional("path", path_, true, "the log's newest file, or the folder with its segments");
    flags.Add("--expect", expect_, "a hash that was noted before; the chain must pass through it");
    flags.Add("--expect-first", expect_first_,
              "the last hash of what was archived: the oldest row here must follow it (64 zeros: nothing was)");
    flags.Add("--json", json_, "one JSON object");
  }
  int Run() override {
    for (auto& [flag, hash] : {std::pair("--expect", &expect_), std::pair("--expect-first", &expect_first_)}) {
      std::ranges::transform(*hash, hash->begin(), [](unsigned char c) { return std::tolower(c); });
      const bool is_hash = hash->size() == 64 && hash->find_first_not_of("0123456789abcdef") == std::string::npos;
      if (!hash->empty() && !is_hash) {
        return ReportUsage(InvalidArgumentError(fmt::format("{}: a hash has 64 hexadecimal digits", flag)));
      }
    }
    auto verified = Verify();
    if (!verified && verified.error().code() != StatusCode::kDataLoss) return ReportFailure(verified.error());
    if (json_) PrintJson(Report(verified));
    if (!verified) return ReportFailure(verified.error());
    if (!json_) PrintReport(*verified);
    return kExitOk;
  }

 private:
  Result<gateway::AuditVerification> Verify() const {
    ProgressLine progress("checking", ProgressUnit::kBytes);
    return gateway::VerifyAuditChain(path_, {.expect = expect_, .expect_first = expect_first_,
                                             .progress = [&](int64_t done, int64_t total) {
                                               progress.Update(done, total);
                                               return !Interrupted();
                                             }});
  }

  boost::json::object Report(const Result<gateway::AuditVerification>& verified) const {
    boost::json::object out{{"path", path_}, {"verified", verified.has_value()}};
    if (!verified) {
      out["error"] = verified.error().message();
      return out;
    }
    out["rows"] = verified->report.n_rows;
    out["last_hash"] = verified->report.last_hash;
    out["torn_tail"] = verified->report.torn_tail;
    out["segments"] = verified->report.n_segments;
    out["first_seq"] = verified->report.first_seq;
    out["first_prev"] = verified->report.first_prev;
    out["newest_missing"] = verified->report.newest_missing;
    if (!expect_.empty()) out["expected_in_row"] = verified->anchor_seq;
    return out;
  }

  void PrintReport(const gateway::AuditVerification& verified) const {
    const gateway::AuditReport& report = verified.report;
    Print("{}: {} rows in {} file{}, each follows the one before\nlast hash {}\n", path_, report.n_rows,
          report.n_segments, report.n_segments == 1 ? "" : "s", report.last_hash);
    if (!expect_.empty() && verified.anchor_seq >= 0) {
      Print("the expected hash is that of row {}; {} rows came after it\n", verified.anchor_seq,
            report.first_seq + report.n_rows - verified.anchor_seq - 1);
    }
    if (report.first_seq > 0) {
      Print("it begins with row {}, after the hash {}\n", report.first_seq, report.first_prev);
      if (expect_first_.empty()) {
        ReportWarning(fmt::format("rows 0 to {} are not here, and nothing here shows what they were, or that they were "
                                  "archived and not lost: check them where they are, and give the last hash found "
                                  "there with --expect-first", report.first_seq - 1));
      }
    }
    if (report.newest_missing) {
      ReportWarning(fmt::format("the newest file is not here: what came after row {} is not shown",
                                report.first_seq + report.n_rows - 1));
    }
    if (report.torn_tail) {
      ReportWarning("the last line is incomplete: a row is being written, or a crash or a cut came inside one. It "
                    "counts for nothing; the log's next opening cuts it off and says so in a row");
    }
  }

  std::string path_, expect_, expect_first_;
  bool json_ = false;
};

class AuditShowCommand final : public Command {
 public:
  std::string name() const override { return "audit show"; }
  std::string summary() const override { return "show rows of an audit log, checking the chain on the way"; }
  std::string examples() const override {
    return "  surety audit show state/audit.log\n"
           "  surety audit show state/audit.log --id dec_01jd\n"
           "  surety audit show state/audit.log --last 1000 --json";
  }
  void Declare(Flags& flags) override {
    flags.Positional("path", path_, true, "the log's newest file, or the folder with its segments");
    flags.Add("--id", id_, "the rows of this decision alone, in full");
    flags.Add("--last", last_, "how many rows at most, the newest");
    flags.Add("--json", json_, "one JSON object");
  }
  int Run() override {
    if (last_ < 1 || last_ > kMaxShownRows) {
      return ReportUsage(InvalidArgumentError(fmt::format("--last: {} is not from 1 to {}", last_, kMaxShownRows)));
    }
    std::deque<gateway::AuditRow> rows;
    const Status status = Read(rows);
    if (status.code() == StatusCode::kCancelled || (!status.ok() && status.code() != StatusCode::kDataLoss)) {
      return ReportFailure(status);
    }
    if (json_) {
      PrintJsonRows(rows, status);
    } else {
      for (const gateway::AuditRow& row : rows) PrintRow(row);
    }
    if (!status.ok()) return ReportFailure(status.WithContext("rows from there on are not shown"));
    if (rows.empty() && !id_.empty()) {
      return ReportFailure(NotFoundError(fmt::format("'{}' has no row of {}", path_, id_)));
    }
    return kExitOk;
  }

 private:
  // A row is a decision's if it names it as its own id or as what it is about.
  bool Wanted(const gateway::AuditRowText& row) const {
    return id_.empty() || gateway::AuditTextMember(row.body, "id") == id_ ||
           gateway::AuditTextMember(row.body, "decision") == id_;
  }

  Status Read(std::deque<gateway::AuditRow>& rows) const {
    ProgressLine progress("reading", ProgressUnit::kBytes);
    SURETY_ASSIGN_OR_RETURN(const auto reader, gateway::AuditReader::Open(path_));
    for (gateway::AuditRowText text;;) {
      SURETY_ASSIGN_OR_RETURN(const bool more, reader->Next(text));
      if (!more) return OkStatus();
      progress.Update(reader->end_offset(), reader->size_bytes());
      if (Interrupted()) return CancelledError("interrupted");
      if (!Wanted(text)) continue;
      SURETY_ASSIGN_OR_RETURN(gateway::AuditRow row, gateway::AuditRowOf(text));
      rows.push_back(std::move(row));
      if (static_cast<int>(rows.size()) > last_) rows.pop_front();
    }
  }

  void PrintJsonRows(const std::deque<gateway::AuditRow>& rows, const Status& status) const {
    boost::json::array array;
    for (const gateway::AuditRow& row : rows) {
      array.push_back(boost::json::object{{"seq", row.seq},   {"time", row.time_ns}, {"kind", row.kind},
                                          {"body", row.body}, {"hash", row.hash}});
    }
    boost::json::object out{{"path", path_}, {"rows", std::move(array)}};
    if (!status.ok()) out["error"] = status.message();
    PrintJson(out);
  }

  static std::string MemberText(const gateway::AuditRow& row, std::string_view name) {
    const auto* value = row.body.if_contains(name);
    return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
  }

  void PrintRow(const gateway::AuditRow& row) const {
    std::string line = fmt::format("{:>8}  {}  {:<12} {}", row.seq, AuditTimeText(row.time_ns), row.kind,
                                   MemberText(row, "id"));
    if (id_.empty()) {
      for (const std::string_view name : {"decision", "route", "outcome", "action", "error"}) {
        if (const std::string text = MemberText(row, name); !text.empty()) line += fmt::format("  {}={}", name, text);
      }
    }
    // What callers wrote may stand in a row: nothing of it steers the terminal.
    std::ranges::replace_if(line, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, '?');
    PrintText(VisibleText(line) + "\n");
    if (!id_.empty()) PrintText(VisibleText(PrettyJson(row.body)));
  }

  std::string path_, id_;
  int last_ = 20;
  bool json_ = false;
};

class AuditCommand final : public Command {
 public:
  std::string name() const override { return "audit"; }
  std::string summary() const override { return "check and show an audit log"; }
  void Declare(Flags&) override {}
  int Run() override {
    return ReportUsage(InvalidArgumentError("surety audit verify PATH checks a log; surety audit show PATH shows its "
                                            "rows"));
  }
};

}  // namespace

std::vector<std::unique_ptr<Command>> MakeAuditCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<AuditCommand>());
  commands.push_back(std::make_unique<AuditVerifyCommand>());
  commands.push_back(std::make_unique<AuditShowCommand>());
  return commands;
}

}  // namespace surety::cli
