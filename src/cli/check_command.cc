// surety check: the obligations of a policy, proved before it serves anybody.
#include <memory>
#include <set>
#include <tuple>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/json_out.h"
#include "cli/output.h"
#include "gateway/payload_vault.h"
#include "gateway/policy_check.h"
#include "gateway/policy_diff.h"
#include "gateway/policy_history.h"
#include "gateway/policy_reader.h"
#include "gateway/policy_trace.h"
#include "gateway/policy_values.h"

namespace surety::cli {
namespace {

using boost::json::value;

void PrintLines(const std::vector<std::string>& lines, std::string_view mark) {
  for (const std::string& line : lines) Print("      {}{}\n", mark, line);
}

void PrintObligations(const std::vector<gateway::Obligation>& obligations, bool brief) {
  for (const auto& obligation : obligations) {
    Print("{} {:>2} {}\n", obligation.holds() ? "ok  " : "FAIL", obligation.number, obligation.name);
    PrintLines(obligation.faults, "broken: ");
    PrintLines(obligation.warnings, "note: ");
    if (!brief) PrintLines(obligation.details, "");
  }
}

std::string Text(const value& member) { return std::string(std::string_view(member.as_string())); }

void PrintCacheMatrix(const boost::json::array& matrix) {
  for (const value& row : matrix) {
    Print("\nroute {}{}\n", Text(row.at("route")),
          row.at("caches").as_bool() ? "" : " (caches nothing; partition of KV)");
    Print("  {:<15} {:<32} {:<12} {:<34} {}\n", "dimension", "source", "form", "witness", "other");
    for (const value& d : row.at("dimensions").as_array()) {
      Print("  {:<15} {:<32} {:<12} {:<17} {:<16} {:<17} {:<16} {}\n", Text(d.at("dimension")), Text(d.at("source")),
            Text(d.at("form")), Text(d.at("value")), Text(d.at("digest")), Text(d.at("sibling_value")),
            Text(d.at("sibling_digest")), d.at("differs").as_bool() ? "differs" : "SAME");
    }
  }
}

void PrintDiff(const boost::json::object& diff) {
  Print("\nchanges from {} to {}\n", Text(diff.at("old_version")), Text(diff.at("new_version")));
  for (const value& line : diff.at("changes").as_array()) Print("  {}\n", Text(line));
  if (diff.at("changes").as_array().empty()) Print("  none\n");
  for (const value& line : diff.at("caches").as_array()) Print("  cache: {}\n", Text(line));
}

void PrintHistory(const boost::json::object& trace) {
  const auto count = [&](std::string_view name) { return trace.at(name).to_number<int64_t>(); };
  Print("\n{} of {} decisions take another route, {} are undetermined\n", count("moved"), count("decisions"),
        count("undetermined"));
  if (count("of_other_policy") > 0) {
    Print("  {} were made under another policy than --diff names, and are left out\n", count("of_other_policy"));
  }
  if (count("without_route") > 0) Print("  {} ended before a route was chosen\n", count("without_route"));
  for (const auto& move : trace.at("moves").as_object()) {
    Print("  {}: {}\n", std::string_view(move.key()), move.value().to_number<int64_t>());
  }
  for (const value& line : trace.at("lines").as_array()) {
    std::string routes;
    for (const value& route : line.at("new").as_array()) routes += (routes.empty() ? "" : " or ") + Text(route);
    const std::string why = Text(line.at("why"));
    Print("  {} {}: {} > {}{}\n", line.at("moved").as_bool() ? "moves" : "open ", Text(line.at("id")),
          Text(line.at("old")), routes, why.empty() ? "" : " (" + why + ")");
  }
  for (const value& row : trace.at("partitions").as_array()) {
    Print("  cached partitions of {}: {} seen in {} lookups: {}\n", Text(row.at("route")),
          row.at("partitions").to_number<int64_t>(), row.at("decisions").to_number<int64_t>(),
          row.at("die").as_bool() ? "all die" : "all stay");
  }
  for (const value& note : trace.at("notes").as_array()) Print("  note: {}\n", Text(note));
}

void PrintTrace(const boost::json::object& trace) {
  if (trace.contains("decisions")) return PrintHistory(trace);
  Print("\n{} of {} requests take another route\n", trace.at("moved").to_number<int64_t>(),
        trace.at("requests").to_number<int64_t>());
  for (const auto& move : trace.at("moves").as_object()) {
    Print("  {}: {}\n", std::string_view(move.key()), move.value().to_number<int64_t>());
  }
}

constexpr int64_t kMaxTraceBytes = 256LL << 20;

class CheckCommand final : public Command {
 public:
  std::string name() const override { return "check"; }
  std::string summary() const override { return "prove what a policy file promises"; }
  std::string examples() const override {
    return "  surety check policy.yaml\n"
           "  surety check policy.yaml --explain cache\n"
           "  surety check policy.yaml --diff policy-2026.10.yaml\n"
           "  surety check policy.yaml --diff policy-2026.10.yaml --trace state --since 2026-11-29\n"
           "  surety check --schema > policy.schema.json\n\n"
           "Exit codes: 0 all obligations hold, 1 one does not or a file cannot be read, 2 wrong command line. What\n"
           "changes (--diff, --trace) does not alter it.";
  }
  void Declare(Flags& flags) override {
    flags.Positional("POLICY", policy_, false, "the policy file");
    flags.Group("Report");
    flags.Add("--explain", explain_, "cache: by route and dimension its source, canonical form and witnesses");
    flags.Add("--diff", old_, "an older policy: what changes, and which cached answers die");
    flags.Add("--trace", trace_,
              "with --diff: an audit log (its newest file or its folder), or a file of requests, one JSON object a "
              "line (text, claims, metadata); which of them take another route");
    flags.Add("--vault", vault_, "with --trace LOG: the folder with vault.db and vault.key, to read texts of the log");
    flags.Add("--since", since_, "with --trace LOG: decisions from this instant on (2026-11-29, or RFC 3339)");
    flags.Add("--until", until_, "with --trace LOG: decisions before this instant");
    flags.Add("--brief", brief_, "one line an obligation, with what is broken");
    flags.Group("Output");
    flags.Add("--json", json_,
              "one JSON object: policy, digest, holds, obligations; cache with --explain, diff with --diff, trace with "
              "--trace");
    flags.Add("--schema", schema_, "print the JSON schema of policy files for editors, and nothing else");
  }
  int Run() override {
    if (schema_) {
      PrintText(PrettyJson(gateway::PolicySchema()));
      return kExitOk;
    }
    if (policy_.empty()) return ReportUsage(InvalidArgumentError("name the policy file: surety check POLICY"));
    if (explain_ && *explain_ != "cache") {
      return ReportUsage(
          InvalidArgumentError(fmt::format("--explain: '{}' cannot be explained; cache can", *explain_)));
    }
    if (trace_ && !old_) return ReportUsage(InvalidArgumentError("--trace: name the older policy with --diff too"));
    if (!trace_ && (vault_ || since_ || until_)) {
      return ReportUsage(InvalidArgumentError("--vault, --since and --until are for --trace LOG"));
    }
    for (const auto& [flag, text, instant] : {std::tuple("--since", &since_, &history_.from_ns),
                                              std::tuple("--until", &until_, &history_.to_ns)}) {
      if (!*text) continue;
      const auto read = gateway::ParseInstant(**text);
      if (!read) return ReportUsage(read.error().WithContext(flag));
      *instant = *read;
    }
    FileSystem& files = FileSystem::Real();
    const auto policy = gateway::ReadPolicy(files, policy_);
    if (!policy) return ReportFailure(policy.error());
    std::optional<gateway::Policy> old;
    if (old_) {
      auto read = gateway::ReadPolicy(files, *old_);
      if (!read) return ReportFailure(read.error());
      old = *std::move(read);
    }
    const gateway::CheckInput input{.policy = *policy, .files = files, .now_ns = Clock::Real().WallNanos(),
                                    .space = gateway::SpaceOf(*policy)};
    boost::json::object trace;
    if (trace_) {
      auto compared = Compare(*old, input);
      if (!compared) return ReportFailure(compared.error().WithContext("--trace " + *trace_));
      trace = *std::move(compared);
    }
    return Report(input, gateway::CheckPolicy(input), old, trace);
  }

 private:
  // Its folder, or a file whose first line is a row.
  Result<bool> TraceIsLog(FileSystem& files) const {
    if (files.IsDirectory(*trace_)) return true;
    SURETY_ASSIGN_OR_RETURN(const auto file, files.Map(*trace_));
    const auto bytes = file->bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 8));
    return text.starts_with("{\"seq\":");
  }

  Result<boost::json::object> CompareLog(const gateway::Policy& old, const gateway::CheckInput& input) const {
    gateway::HistoryOptions options = history_;
    std::shared_ptr<gateway::PayloadVault> vault;
    if (vault_) {
      const std::string database = *vault_ + "/vault.db", key = *vault_ + "/vault.key";
      for (const std::string& name : {database, key}) {   // the vault would make them
        if (!input.files.Exists(name)) return Error(NotFoundError("--vault: there is no '" + name + "'"));
      }
      SURETY_ASSIGN_OR_RETURN(vault, gateway::PayloadVault::Open(database, key));
      options.unseal = [vault](const boost::json::object& sealed, const std::string& decision) {
        return vault->Unseal(sealed, decision);
      };
    }
    SURETY_ASSIGN_OR_RETURN(const auto decisions, gateway::ReadPastDecisions(*trace_, options));
    return gateway::CompareHistory(old, input.policy, input.files, decisions);
  }

  Result<boost::json::object> Compare(const gateway::Policy& old, const gateway::CheckInput& input) const {
    SURETY_ASSIGN_OR_RETURN(const bool is_log, TraceIsLog(input.files));
    if (is_log) return CompareLog(old, input);
    if (vault_ || since_ || until_) {
      return Error(InvalidArgumentError("--vault, --since and --until are for an audit log, and this is a file of "
                                        "requests"));
    }
    SURETY_ASSIGN_OR_RETURN(const std::string text, input.files.ReadAll(*trace_, kMaxTraceBytes));
    SURETY_ASSIGN_OR_RETURN(const auto requests, gateway::ParseRequestTrace(text));
    return gateway::CompareTraces(old, input.policy, requests, input.now_ns);
  }
  int Report(const gateway::CheckInput& input, const std::vector<gateway::Obligation>& obligations,
             const std::optional<gateway::Policy>& old, const boost::json::object& trace) const {
    const bool holds = std::ranges::all_of(obligations, [](const auto& obligation) { return obligation.holds(); });
    boost::json::object out = gateway::ObligationsToJson(obligations);
    if (explain_) out["cache"] = gateway::ExplainCache(input);
    if (old) out["diff"] = gateway::DiffPolicies(*old, input.policy);
    if (trace_) out["trace"] = trace;
    if (json_) {
      out["policy"] = {{"id", input.policy.id}, {"version", input.policy.version}};
      out["digest"] = input.policy.digest;
      PrintJson(out);
    } else {
      Print("{} {} ({})\n", input.policy.id, input.policy.version, input.policy.digest.substr(0, 16));
      PrintObligations(obligations, brief_);
      if (explain_) PrintCacheMatrix(out["cache"].as_array());
      if (old) PrintDiff(out["diff"].as_object());
      if (trace_) PrintTrace(trace);
    }
    return holds ? kExitOk : kExitFailure;
  }

  std::string policy_;
  std::optional<std::string> explain_, old_, trace_, vault_, since_, until_;
  gateway::HistoryOptions history_;
  bool brief_ = false, json_ = false, schema_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeCheckCommand() { return std::make_unique<CheckCommand>(); }

}  // namespace surety::cli
