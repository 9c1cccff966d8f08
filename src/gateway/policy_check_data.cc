// Obligation 12: tables, ready-made answers, and that everything which the policy describes can be made.
#include "gateway/policy_check_data.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gateway/policy_check.h"
#include "gateway/policy_check_controls.h"
#include "gateway/policy_runtime.h"
#include "gateway/policy_values.h"
#include "gateway/signals.h"
#include "gateway/tool_call.h"
#include "gateway/verifier.h"

namespace surety::gateway {
namespace {

constexpr int64_t kMaxCheckedTableBytes = 16LL << 20;

// The rows of one code say from when they hold, follow each other without a gap, and reach over the policy's own time.
// (That they do not overlap is the table's own rule.)
void CheckRows(const std::string& where, std::vector<const CodeEntry*> rows, const Validity& served, Obligation& out) {
  std::ranges::sort(rows, {}, [](const CodeEntry* row) { return row->validity.from_ns; });
  const auto fault = [&](const std::string& what) {
    out.faults.push_back(fmt::format("{}: code {} {}", where, rows[0]->code, what));
  };
  const CodeEntry &first = *rows.front(), &last = *rows.back();
  if (first.validity.from_ns == Validity{}.from_ns) {
    return fault("has no effective_from, its own or the table's: from when it holds is not said");
  }
  for (size_t i = 0; i + 1 < rows.size(); ++i) {
    const Validity &one = rows[i]->validity, &next = rows[i + 1]->validity;
    if (next.from_ns > one.to_ns && one.to_ns < served.to_ns && next.from_ns > served.from_ns) {
      fault(fmt::format("has a gap from {} to {}", FormatInstant(one.to_ns), FormatInstant(next.from_ns)));
    }
  }
  if (last.validity.to_ns <= served.from_ns) return;   // it ended before anybody is served
  if (first.validity.from_ns > served.from_ns && !first.introduced) {
    fault(fmt::format("holds from {} only, and the policy from {}; if it is new, say introduced: true",
                      FormatInstant(first.validity.from_ns), FormatInstant(served.from_ns)));
  }
  if (last.validity.to_ns < served.to_ns && !last.withdrawn) {
    fault(fmt::format("ends on {}, before the policy does; if it is no longer used, say withdrawn: true",
                      FormatInstant(last.validity.to_ns)));
  }
}

std::map<std::string, std::vector<const CodeEntry*>> RowsByCode(const CodeTable& table) {
  std::map<std::string, std::vector<const CodeEntry*>> rows;
  for (const CodeEntry& entry : table.entries()) rows[entry.code].push_back(&entry);
  return rows;
}

// A template that answers by codes of a table answers all of them, or sends the others on.
void CheckTableTemplates(const CheckInput& input, const std::string& where, const CodeTable& table, Obligation& out) {
  for (const RouteSpec& route : input.policy.routes) {
    const auto made = input.policy.templates.find(route.template_name);
    if (route.answer != RouteSpec::Answer::kTemplate || made == input.policy.templates.end()) continue;
    const auto& texts = made->second.texts;
    const bool by_code = std::ranges::any_of(texts, [&](const auto& text) { return table.Knows(text.first); });
    const bool goes_on = std::ranges::any_of(route.fallback, [](const FallbackSpec& fallback) {
      return TakenFor(fallback, FallbackSpec::Cause::kError);
    });
    if (!by_code || goes_on || texts.contains("default")) continue;
    for (const auto& [code, rows] : RowsByCode(table)) {
      const bool served = std::ranges::any_of(rows, [&](const CodeEntry* row) {
        const Validity both = row->validity.Intersect(input.policy.validity);
        return both.from_ns < both.to_ns;
      });
      if (!served || texts.contains(code)) continue;
      out.faults.push_back(fmt::format("{}: code {} has no text in template '{}' of route '{}', and no way to a "
                                       "person: give it a text, or the route a fallback on error", where, code,
                                       made->second.name, route.name));
    }
  }
}

void CheckTable(const CheckInput& input, const VerifierSpec& verifier, Obligation& out) {
  const std::string where = fmt::format("verifier '{}', table '{}'", verifier.name, verifier.table);
  const auto table = ReadCheckedTable(input.policy, input.files, verifier.table);
  if (!table) {
    out.faults.push_back(fmt::format("{}: {}", where, table.error().message()));
    return;
  }
  const auto rows = RowsByCode(*table);
  for (const auto& [code, entries] : rows) CheckRows(where, entries, input.policy.validity, out);
  CheckTableTemplates(input, where, *table, out);
  std::vector<std::string> unconfirmed;
  for (const auto& [code, entries] : rows) {
    if (std::ranges::any_of(entries, [](const CodeEntry* entry) { return !entry->unconfirmed.empty(); })) {
      unconfirmed.push_back(code);
    }
  }
  if (!unconfirmed.empty() && verifier.fail == VerifierSpec::Action::kBlock) {
    out.faults.push_back(fmt::format("{}: {} codes are unconfirmed ({}, ...), and what names one is for a person: say "
                                     "fail: review", where, unconfirmed.size(), unconfirmed.front()));
  }
  for (const RouteSpec& route : input.policy.routes) {
    const auto reads = [&](const std::string& tool) {
      const auto found = input.policy.tools.find(tool);
      return found != input.policy.tools.end() && found->second.kind == ToolSpec::Kind::kRead;
    };
    const bool checked = std::ranges::find(route.verify, verifier.name) != route.verify.end();
    if (!verifier.complete || !checked || std::ranges::any_of(route.tools, reads)) continue;
    out.faults.push_back(fmt::format("{}: complete wants the codes of a tool, and route '{}' asks none, so nothing "
                                     "passes there", where, route.name));
  }
  out.details.push_back(
      fmt::format("{}: {} codes, {} of them unconfirmed and so for a person; source {}, checked on "
                  "{}",
                  where, rows.size(), unconfirmed.size(), table->source(), table->checked_on()));
}

// Every label with which a request can come here has a text, or there is a default, or a way on.
void CheckTexts(const CheckInput& input, size_t r, Obligation& out) {
  const RouteSpec& route = input.policy.routes[r];
  const auto made = input.policy.templates.find(route.template_name);
  if (route.answer != RouteSpec::Answer::kTemplate) return;
  if (made == input.policy.templates.end()) {
    out.faults.push_back(fmt::format("route '{}': its template is not defined", route.name));
    return;
  }
  const auto& texts = made->second.texts;
  const bool goes_on = std::ranges::any_of(route.fallback, [](const FallbackSpec& fallback) {
    return TakenFor(fallback, FallbackSpec::Cause::kError);
  });
  if (texts.contains("default") || goes_on) return;
  for (const std::string& label : input.space.routes[r].intents) {
    if (texts.contains(label)) continue;
    out.faults.push_back(
        fmt::format("route '{}': template '{}' has no text for the intent '{}', no default, and the route "
                    "no fallback that is taken on error",
                    route.name, route.template_name, label));
  }
  const bool reached = input.space.routes[r].kind != RouteReach::Kind::kNever;  // else it is obligation 9's
  if (reached && input.space.routes[r].intents.empty()) {
    out.faults.push_back(
        fmt::format("route '{}': template '{}' answers by intent, but no signal is called so: give it a "
                    "default",
                    route.name, route.template_name));
  }
}

// What `serve` makes of the policy is made here too, and what it would refuse is a fault now. Not made: what belongs to
// the machine that serves (models, stores, classifiers).
void CheckMakeable(const CheckInput& input, Obligation& out) {
  const Policy& policy = input.policy;
  for (const auto& [name, spec] : policy.verifiers) {
    if (spec.kind == VerifierSpec::Kind::kTable && !spec.table.empty()) continue;   // CheckTable
    const auto made = MakeVerifier(spec, DirectoryOf(policy), Clock::Real());
    if (!made) out.faults.push_back(made.error().message());
  }
  for (const SignalSpec& signal : policy.signals) {
    if (signal.by == SignalSpec::By::kClassifier) continue;
    Policy alone;
    alone.signals = {signal};
    const auto made = SignalReader::Make(alone, DirectoryOf(policy), {});
    if (!made) out.faults.push_back(made.error().message());
  }
  for (const auto& [name, spec] : policy.tools) {
    const Status made = CheckTool(spec);
    if (made.ok()) continue;
    const bool elsewhere = spec.by == ToolSpec::By::kCommand && !spec.command.empty() &&
                           ::access(spec.command[0].c_str(), F_OK) != 0 && spec.command[0].starts_with('/');
    auto& lines = elsewhere ? out.warnings : out.faults;
    lines.push_back(fmt::format("tool '{}': {}{}", name, made.message(),
                                elsewhere ? " on this machine; where it is served it must be there" : ""));
  }
}

}  // namespace

Result<CodeTable> ReadCheckedTable(const Policy& policy, FileSystem& files, const std::string& name) {
  const std::filesystem::path relative(name);
  const auto path = relative.is_absolute() ? relative : std::filesystem::path(policy.path).parent_path() / relative;
  SURETY_ASSIGN_OR_RETURN(const std::string text, files.ReadAll(path.string(), kMaxCheckedTableBytes));
  return CodeTable::Parse(text, name);
}

Obligation CheckTables(const CheckInput& input) {
  Obligation out{12, "data", {}, {}, {}};
  for (const auto& [name, verifier] : input.policy.verifiers) {
    if (!verifier.table.empty()) CheckTable(input, verifier, out);
  }
  for (size_t r = 0; r < input.policy.routes.size(); ++r) CheckTexts(input, r, out);
  CheckMakeable(input, out);
  out.details.push_back(fmt::format("{} verifiers: each can be made, says what follows where it fails and where it "
                                    "cannot tell; {} templates: every intent that reaches them has a text or a way on",
                                    input.policy.verifiers.size(), input.policy.templates.size()));
  return out;
}

}  // namespace surety::gateway
