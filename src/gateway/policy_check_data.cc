// Obligation 12: tables and ready-made answers.
#include <algorithm>
#include <filesystem>
#include <map>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "gateway/policy_check.h"
#include "gateway/policy_check_data.h"
#include "gateway/policy_values.h"

namespace surety::gateway {
namespace {

constexpr int64_t kMaxCheckedTableBytes = 16LL << 20;

const std::string* TextOfMember(const boost::json::object& object, std::string_view name, std::string& out) {
  const auto* value = object.if_contains(name);
  if (value == nullptr || !value->is_string() || value->get_string().empty()) return nullptr;
  out = std::string(std::string_view(value->get_string()));
  return &out;
}

// The time of one row; a fault where it is none.
Result<Validity> ValidityOfRow(const boost::json::object& row) {
  Validity validity;
  std::string text;
  for (const auto& [name, end] : {std::pair("effective_from", &validity.from_ns), std::pair("effective_to", &validity.to_ns)}) {
    if (!row.contains(name)) continue;
    if (TextOfMember(row, name, text) == nullptr) return Error(InvalidArgumentError(fmt::format("{} is no text", name)));
    SURETY_ASSIGN_OR_RETURN(*end, ParseInstant(text));
  }
  if (validity.from_ns < validity.to_ns) return validity;
  return Error(InvalidArgumentError("effective_to is not later than effective_from"));
}

// The rows of one code follow each other without a gap and do not overlap, as far as the policy's own time goes.
void CheckRows(const std::string& where, const std::string& code, std::vector<Validity> rows, const Validity& served,
               Obligation& out) {
  std::ranges::sort(rows, {}, &Validity::from_ns);
  for (size_t i = 0; i + 1 < rows.size(); ++i) {
    const Validity& one = rows[i];
    const Validity& next = rows[i + 1];
    if (next.from_ns < one.to_ns) {
      out.faults.push_back(fmt::format("{}: code {} stands twice from {} on", where, code, FormatInstant(next.from_ns)));
    } else if (next.from_ns > one.to_ns && one.to_ns < served.to_ns && next.from_ns > served.from_ns) {
      out.faults.push_back(fmt::format("{}: code {} has a gap from {} to {}", where, code, FormatInstant(one.to_ns),
                                       FormatInstant(next.from_ns)));
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
  if (table->source.empty()) out.faults.push_back(where + ": no source says where its facts are from");
  if (table->checked_on.empty()) out.faults.push_back(where + ": no checked_on says when somebody compared them");
  for (const auto& [code, rows] : table->rows) CheckRows(where, code, rows, input.policy.validity, out);
  out.details.push_back(fmt::format("{}: {} codes, source {}, checked on {}", where, table->rows.size(), table->source,
                                    table->checked_on));
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
  if (texts.contains("default") || !route.fallback.empty()) return;
  for (const std::string& label : input.space.routes[r].intents) {
    if (texts.contains(label)) continue;
    out.faults.push_back(fmt::format("route '{}': template '{}' has no text for the intent '{}', no default, and the route "
                                     "no fallback", route.name, route.template_name, label));
  }
  if (input.space.routes[r].intents.empty()) {
    out.faults.push_back(fmt::format("route '{}': template '{}' answers by intent, but no signal is called so: give it a "
                                     "default", route.name, route.template_name));
  }
}

}  // namespace

Result<CheckedTable> ReadCheckedTable(const Policy& policy, FileSystem& files, const std::string& name) {
  const std::filesystem::path relative(name);
  const auto path = relative.is_absolute() ? relative : std::filesystem::path(policy.path).parent_path() / relative;
  SURETY_ASSIGN_OR_RETURN(const std::string text, files.ReadAll(path.string(), kMaxCheckedTableBytes));
  boost::system::error_code error;
  const boost::json::value json = boost::json::parse(text, error);
  if (error || !json.is_object()) return Error(InvalidArgumentError("holds no JSON object"));
  const boost::json::object& object = json.get_object();
  CheckedTable table;
  TextOfMember(object, "source", table.source);
  TextOfMember(object, "checked_on", table.checked_on);
  const auto* codes = object.if_contains("codes");
  if (codes == nullptr || !codes->is_array()) return Error(InvalidArgumentError("'codes' is no list"));
  for (const auto& value : codes->get_array()) {
    std::string code;
    if (!value.is_object() || TextOfMember(value.get_object(), "code", code) == nullptr) {
      return Error(InvalidArgumentError("a row without a code"));
    }
    const auto validity = ValidityOfRow(value.get_object());
    if (!validity) return Error(InvalidArgumentError(fmt::format("code {}: {}", code, validity.error().message())));
    table.rows[code].push_back(*validity);
  }
  return table;
}

Obligation CheckTables(const CheckInput& input) {
  Obligation out{12, "data", {}, {}, {}};
  for (const auto& [name, verifier] : input.policy.verifiers) {
    if (!verifier.table.empty()) CheckTable(input, verifier, out);
  }
  for (size_t r = 0; r < input.policy.routes.size(); ++r) CheckTexts(input, r, out);
  out.details.push_back(fmt::format("{} verifiers: each says what follows where it fails and where it cannot tell; {} "
                                    "templates: every intent that reaches them has a text or a way on",
                                    input.policy.verifiers.size(), input.policy.templates.size()));
  return out;
}

}  // namespace surety::gateway
