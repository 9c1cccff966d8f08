#include "gateway/code_table.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <tuple>
#include <utility>

#include <boost/json/value.hpp>
#include <re2/re2.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/nearest_name.h"
#include "gateway/strict_json.h"

namespace surety::gateway {
namespace {

constexpr int64_t kMaxTableBytes = 16 << 20;

using TableObject = boost::json::object;

Status TableError(const std::string& file, std::string message) {
  return InvalidArgumentError("table '" + file + "': " + std::move(message));
}

Status OnlyMembers(const TableObject& object, std::span<const std::string> known, const std::string& where) {
  for (const auto& member : object) {
    const std::string name(std::string_view(member.key()));
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string nearest = NearestName(name, known);
    return InvalidArgumentError(where + "unknown member '" + name + "'" +
                                (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
  }
  return OkStatus();
}

Result<std::string> TextMember(const TableObject& object, std::string_view name, const std::string& where) {
  const auto* value = object.if_contains(name);
  if (value == nullptr || !value->is_string() || value->get_string().empty()) {
    return Error(InvalidArgumentError(where + "'" + std::string(name) + "' must be a text"));
  }
  return std::string(std::string_view(value->get_string()));
}

Status ReadMarks(const TableObject& object, const std::string& where, CodeEntry& entry) {
  for (const auto& [name, day, target] : {std::tuple("introduced", "effective_from", &entry.introduced),
                                          std::tuple("withdrawn", "effective_to", &entry.withdrawn)}) {
    const auto* value = object.if_contains(name);
    if (value == nullptr) continue;
    if (!value->is_bool()) return InvalidArgumentError(where + "'" + name + "' must be true or false");
    *target = value->get_bool();
    if (*target && !object.contains(day)) return InvalidArgumentError(where + name + " needs " + day);
  }
  return OkStatus();
}

// `from_ns`: where it says none itself.
Result<CodeEntry> ReadCodeEntry(const boost::json::value& value, const re2::RE2& pattern, size_t index,
                                int64_t from_ns) {
  static const std::vector<std::string> known = {"code",       "titles",    "effective_from", "effective_to",
                                                 "introduced", "withdrawn", "unconfirmed",   "fields"};
  std::string where = "codes[" + std::to_string(index) + "]: ";
  if (!value.is_object()) return Error(InvalidArgumentError(where + "must be an object"));
  const TableObject& object = value.get_object();
  CodeEntry entry;
  entry.validity.from_ns = from_ns;
  SURETY_ASSIGN_OR_RETURN(entry.code, TextMember(object, "code", where));
  where = "code " + entry.code + ": ";
  SURETY_RETURN_IF_ERROR(OnlyMembers(object, known, where));
  if (!re2::RE2::FullMatch(entry.code, pattern)) {
    return Error(InvalidArgumentError(where + "is not of the pattern " + pattern.pattern()));
  }
  for (const auto& [name, target] : {std::pair("effective_from", &entry.validity.from_ns),
                                     std::pair("effective_to", &entry.validity.to_ns)}) {
    if (!object.contains(name)) continue;
    SURETY_ASSIGN_OR_RETURN(const std::string text, TextMember(object, name, where));
    const auto day = ParseDay(text);
    if (!day) return Error(day.error().WithContext(where + name));
    *target = *day;
  }
  if (entry.validity.from_ns >= entry.validity.to_ns) {
    return Error(InvalidArgumentError(where + "effective_from must be before effective_to"));
  }
  SURETY_RETURN_IF_ERROR(ReadMarks(object, where, entry));
  const auto* titles = object.if_contains("titles");
  if (titles == nullptr || !titles->is_array() || titles->get_array().empty()) {
    return Error(InvalidArgumentError(where + "'titles' must be a list of at least one text"));
  }
  for (const auto& title : titles->get_array()) {
    if (!title.is_string() || title.get_string().empty()) {
      return Error(InvalidArgumentError(where + "each title must be a text"));
    }
    entry.titles.emplace_back(std::string_view(title.get_string()));
  }
  if (object.contains("unconfirmed")) {
    SURETY_ASSIGN_OR_RETURN(entry.unconfirmed, TextMember(object, "unconfirmed", where));
  }
  if (const auto* fields = object.if_contains("fields")) {
    if (!fields->is_object()) return Error(InvalidArgumentError(where + "'fields' must be an object of texts"));
    for (const auto& field : fields->get_object()) {
      SURETY_ASSIGN_OR_RETURN(entry.fields[std::string(std::string_view(field.key()))],
                              TextMember(fields->get_object(), field.key(), where));
    }
  }
  return entry;
}

}  // namespace

Result<int64_t> ParseDay(std::string_view text) {
  static const re2::RE2 form(R"((\d{4})-(\d\d)-(\d\d))");
  int year = 0;
  unsigned month = 0, day = 0;
  if (re2::RE2::FullMatch(re2::StringPiece(text.data(), text.size()), form, &year, &month, &day)) {
    const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
    // Beyond these, nanoseconds since the epoch do not fit 64 bits.
    if (date.ok() && year >= 1700 && year <= 2200) {
      return std::chrono::nanoseconds(std::chrono::sys_days(date).time_since_epoch()).count();
    }
  }
  return Error(InvalidArgumentError("'" + std::string(text) + "' is no day; the form is 2026-11-30"));
}

Result<CodeTable> CodeTable::Parse(std::string_view json, const std::string& file) {
  static const std::vector<std::string> known = {"name",    "version", "source",         "checked_on",
                                                 "pattern", "note",    "effective_from", "codes"};
  const auto parsed = ParseStrictJson(json);
  if (!parsed) return Error(TableError(file, parsed.error().message()));
  if (!parsed->is_object()) return Error(TableError(file, "must be a JSON object"));
  const TableObject& object = parsed->get_object();
  CodeTable table;
  table.digest_ = HexOf(Sha256Of(std::as_bytes(std::span(json))));
  const Status members = OnlyMembers(object, known, "");
  if (!members.ok()) return Error(TableError(file, members.message()));
  for (const auto& [name, target] :
       {std::pair("name", &table.name_), std::pair("version", &table.version_), std::pair("source", &table.source_),
        std::pair("checked_on", &table.checked_on_), std::pair("pattern", &table.pattern_)}) {
    auto text = TextMember(object, name, "");
    if (!text) return Error(TableError(file, text.error().message()));
    *target = *std::move(text);
  }
  if (const auto day = ParseDay(table.checked_on_); !day) {
    return Error(TableError(file, "checked_on: " + day.error().message()));
  }
  int64_t from_ns = Validity{}.from_ns;
  if (object.contains("effective_from")) {
    const auto text = TextMember(object, "effective_from", "");
    if (!text) return Error(TableError(file, text.error().message()));
    const auto day = ParseDay(*text);
    if (!day) return Error(TableError(file, "effective_from: " + day.error().message()));
    from_ns = *day;
  }
  re2::RE2::Options options;
  options.set_log_errors(false);
  const re2::RE2 pattern(table.pattern_, options);
  if (!pattern.ok()) return Error(TableError(file, "pattern: " + pattern.error()));
  if (re2::RE2::FullMatch("", pattern)) return Error(TableError(file, "pattern matches the empty text"));
  const auto* codes = object.if_contains("codes");
  if (codes == nullptr || !codes->is_array() || codes->get_array().empty()) {
    return Error(TableError(file, "'codes' must be a list of at least one code"));
  }
  for (const auto& value : codes->get_array()) {
    auto entry = ReadCodeEntry(value, pattern, table.entries_.size(), from_ns);
    if (!entry) return Error(TableError(file, entry.error().message()));
    const auto [first, last] = table.by_code_.equal_range(entry->code);
    for (auto other = first; other != last; ++other) {
      const Validity both = table.entries_[other->second].validity.Intersect(entry->validity);
      if (both.from_ns < both.to_ns) {
        return Error(TableError(file, "code " + entry->code + " stands twice for the same time"));
      }
    }
    table.by_code_.emplace(entry->code, table.entries_.size());
    table.entries_.push_back(*std::move(entry));
  }
  return table;
}

Result<CodeTable> CodeTable::Read(const std::string& path) {
  SURETY_ASSIGN_OR_RETURN(const std::string text, FileSystem::Real().ReadAll(path, kMaxTableBytes));
  return Parse(text, path);
}

bool CodeTable::Knows(std::string_view code) const { return by_code_.find(code) != by_code_.end(); }

const CodeEntry* CodeTable::Find(std::string_view code, int64_t as_of_ns) const {
  const auto [first, last] = by_code_.equal_range(code);
  for (auto at = first; at != last; ++at) {
    if (entries_[at->second].validity.Contains(as_of_ns)) return &entries_[at->second];
  }
  return nullptr;
}

Validity CodeTable::ValidityAt(int64_t as_of_ns) const {
  Validity all;
  for (const CodeEntry& entry : entries_) {
    // Before its begin and after its end a code does not exist; that does not last either.
    if (entry.validity.Contains(as_of_ns)) {
      all = all.Intersect(entry.validity);
    } else if (as_of_ns < entry.validity.from_ns) {
      all.to_ns = std::min(all.to_ns, entry.validity.from_ns);
    } else {
      all.from_ns = std::max(all.from_ns, entry.validity.to_ns);
    }
  }
  return all;
}

}  // namespace surety::gateway
