#include "cli/load_trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/file.h"
#include "cli/load_random.h"

namespace surety::cli {
namespace {

namespace json = boost::json;
constexpr double kMaxArrivalSeconds = 1e9;
constexpr double kLeastGridSeconds = 0.1;
constexpr double kMostOwnStamps = 0.8;  // requests that have a stamp to themselves: with more there is no grid
constexpr double kGridDrift = 0.002, kOnGrid = 0.99;

Result<json::object> ObjectOf(std::string_view line) {
  boost::system::error_code error;
  json::value value = json::parse(line, error);
  if (error) return Error(InvalidArgumentError(fmt::format("no JSON: {}", error.message())));
  if (!value.is_object()) return Error(InvalidArgumentError("a line must be one JSON object"));
  return std::move(value.as_object());
}

Result<double> NumberIn(const json::object& row, const char* key, double least, double most) {
  const json::value* value = row.if_contains(key);
  if (value == nullptr) return Error(InvalidArgumentError(fmt::format("no \"{}\"", key)));
  boost::system::error_code error;
  const double number = value->is_number() ? value->to_number<double>(error) : std::nan("");
  if (error || !(number >= least && number <= most)) {
    return Error(InvalidArgumentError(fmt::format("\"{}\" must be a number from {} to {}", key, least, most)));
  }
  return number;
}

Result<int> TokensIn(const json::object& row, const char* key, int least) {
  SURETY_ASSIGN_OR_RETURN(const double number, NumberIn(row, key, least, kMaxTraceTokens));
  if (number != std::floor(number)) {
    return Error(InvalidArgumentError(fmt::format("\"{}\" must be a whole number", key)));
  }
  return static_cast<int>(number);
}

Result<TraceRow> MooncakeRow(std::string_view line) {
  SURETY_ASSIGN_OR_RETURN(const json::object object, ObjectOf(line));
  TraceRow row;
  SURETY_ASSIGN_OR_RETURN(const double millis, NumberIn(object, "timestamp", 0, kMaxArrivalSeconds * 1e3));
  row.arrival_s = millis / 1e3;
  SURETY_ASSIGN_OR_RETURN(row.prompt_tokens, TokensIn(object, "input_length", 1));
  SURETY_ASSIGN_OR_RETURN(row.output_tokens, TokensIn(object, "output_length", 1));
  const json::value* ids = object.if_contains("hash_ids");
  if (ids == nullptr || !ids->is_array()) return Error(InvalidArgumentError("\"hash_ids\" must be a list"));
  for (const json::value& id : ids->get_array()) {
    boost::system::error_code error;
    const auto number = id.is_number() ? id.to_number<uint64_t>(error) : 0;
    if (error || !id.is_number()) return Error(InvalidArgumentError("\"hash_ids\" must hold whole numbers from 0"));
    row.blocks.push_back(number);
  }
  const size_t needed = static_cast<size_t>((row.prompt_tokens - 1) / kTraceBlockTokens) + 1;
  if (row.blocks.size() != needed) {
    return Error(InvalidArgumentError(fmt::format("{} tokens have {} blocks of {}, but \"hash_ids\" holds {}",
                                                  row.prompt_tokens, needed, kTraceBlockTokens, row.blocks.size())));
  }
  return row;
}

Status CheckMessages(const json::value& messages) {
  const auto wrong = InvalidArgumentError("\"messages\" must be a list of objects with \"role\" and \"content\"");
  if (!messages.is_array() || messages.get_array().empty()) return wrong;
  for (const json::value& message : messages.get_array()) {
    const auto* object = message.if_object();
    if (object == nullptr || !object->contains("role") || !object->contains("content")) return wrong;
  }
  return OkStatus();
}

Result<TraceRow> OwnRow(std::string_view line, bool& has_arrival) {
  SURETY_ASSIGN_OR_RETURN(const json::object object, ObjectOf(line));
  TraceRow row;
  has_arrival = object.contains("arrival_s");
  if (has_arrival) {
    SURETY_ASSIGN_OR_RETURN(row.arrival_s, NumberIn(object, "arrival_s", 0, kMaxArrivalSeconds));
  }
  if (object.contains("max_tokens")) {
    SURETY_ASSIGN_OR_RETURN(row.output_tokens, TokensIn(object, "max_tokens", 1));
  }
  const json::value* prompt = object.if_contains("prompt");
  const json::value* messages = object.if_contains("messages");
  if ((prompt == nullptr) == (messages == nullptr)) {
    return Error(InvalidArgumentError("a line has either \"prompt\" or \"messages\""));
  }
  if (prompt != nullptr && !prompt->is_string()) return Error(InvalidArgumentError("\"prompt\" must be text"));
  if (messages != nullptr) SURETY_RETURN_IF_ERROR(CheckMessages(*messages));
  row.is_messages = messages != nullptr;
  row.content = json::serialize(row.is_messages ? *messages : *prompt);
  return row;
}

// Days since 1970-01-01 in the Gregorian calendar.
int64_t DaysOf(int year, int month, int day) {
  const int shifted = month <= 2 ? year - 1 : year;  // years that begin in March, so that leap days end them
  const int from_march = (month + 9) % 12;
  const int64_t leap = shifted / 4 - shifted / 100 + shifted / 400;
  return int64_t{365} * shifted + leap + (153 * from_march + 2) / 5 + day - 1 - 719'468;
}

// Digits at the front of the text, taken off it.
std::optional<int> TakeDigits(std::string_view& text, size_t n) {
  int value = 0;
  if (text.size() < n) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + n, value);
  if (error != std::errc() || end != text.data() + n || value < 0) return std::nullopt;
  text.remove_prefix(n);
  return value;
}

bool TakeAnyOf(std::string_view& text, std::string_view allowed) {
  if (text.empty() || allowed.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

struct Stamp {
  int64_t seconds = 0;
  double fraction = 0;
};

// "2023-11-16 18:15:46.6805900", with T for the space or a zone (Z, +00:00) behind, if need be.
std::optional<Stamp> StampOf(std::string_view text) {
  constexpr std::string_view kBorders[] = {"-", "-", " T", ":", ":", ""};
  constexpr size_t kDigits[] = {4, 2, 2, 2, 2, 2};
  constexpr int kLeast[] = {1, 1, 1, 0, 0, 0}, kMost[] = {9999, 12, 31, 23, 59, 60};
  int parts[6] = {};
  for (int i = 0; i < 6; ++i) {
    const auto value = TakeDigits(text, kDigits[i]);
    if (!value || *value < kLeast[i] || *value > kMost[i]) return std::nullopt;
    parts[i] = *value;
    if (!kBorders[i].empty() && !TakeAnyOf(text, kBorders[i])) return std::nullopt;
  }
  Stamp stamp;
  stamp.seconds = DaysOf(parts[0], parts[1], parts[2]) * 86'400 + parts[3] * 3600 + parts[4] * 60 + parts[5];
  if (TakeAnyOf(text, ".")) {
    double unit = 0.1;
    size_t digits = 0;
    while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
      stamp.fraction += unit * (text.front() - '0');
      unit /= 10;
      ++digits;
      text.remove_prefix(1);
    }
    if (digits == 0) return std::nullopt;
  }
  if (text.empty() || text == "Z") return stamp;
  const bool behind = text.front() == '-';
  if (!TakeAnyOf(text, "+-")) return std::nullopt;
  const auto hours = TakeDigits(text, 2);
  const bool colon = TakeAnyOf(text, ":");
  const auto minutes = hours && colon ? TakeDigits(text, 2) : std::nullopt;
  if (!minutes || !text.empty()) return std::nullopt;
  stamp.seconds += (behind ? 1 : -1) * (*hours * 3600 + *minutes * 60);
  return stamp;
}

std::vector<std::string_view> Fields(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

// Columns by name, so that later years' files with more of them are read, too.
class AzureReader {
 public:
  Status Header(std::string_view line) {
    const auto names = Fields(line);
    n_fields_ = names.size();
    constexpr std::string_view kNames[] = {"TIMESTAMP", "ContextTokens", "GeneratedTokens"};
    for (size_t i = 0; i < 3; ++i) {
      const auto found = std::find(names.begin(), names.end(), kNames[i]);
      if (found == names.end()) return InvalidArgumentError(fmt::format("no column {} in the first line", kNames[i]));
      columns_[i] = static_cast<size_t>(found - names.begin());
    }
    return OkStatus();
  }

  Result<TraceRow> Row(std::string_view line) {
    const auto fields = Fields(line);
    if (fields.size() != n_fields_) {
      return Error(InvalidArgumentError(fmt::format("{} fields, but the first line has {}", fields.size(), n_fields_)));
    }
    const std::string_view time = fields[columns_[0]];
    const auto stamp = StampOf(time);
    if (!stamp) return Error(InvalidArgumentError(fmt::format("'{}' is no time like 2023-11-16 18:15:46.68", time)));
    if (!origin_) origin_ = stamp->seconds;
    TraceRow row;
    row.arrival_s = static_cast<double>(stamp->seconds - *origin_) + stamp->fraction;
    SURETY_ASSIGN_OR_RETURN(row.prompt_tokens, Tokens(fields[columns_[1]], 1));
    SURETY_ASSIGN_OR_RETURN(row.output_tokens, Tokens(fields[columns_[2]], 1));
    return row;
  }

 private:
  static Result<int> Tokens(std::string_view text, int least) {
    int value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > kMaxTraceTokens) {
      return Error(InvalidArgumentError(
          fmt::format("'{}' is no number of tokens from {} to {}", text, least, kMaxTraceTokens)));
    }
    return value;
  }

  size_t columns_[3] = {};
  size_t n_fields_ = 0;
  std::optional<int64_t> origin_;
};

// Calls `take` with each line that is not blank; its error gets the line's place.
template <typename Take>
Status ForEachLine(std::string_view text, const std::string& file, Take take) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    if (const Status status = take(line); !status.ok()) {
      return Status(status.code(), fmt::format("{}:{}: {}", file, number, status.message()));
    }
  }
  return OkStatus();
}

TraceFormat FormatOf(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  if (line.find("TIMESTAMP") != std::string_view::npos && line.find('{') == std::string_view::npos) {
    return TraceFormat::kAzure;
  }
  return line.find("\"hash_ids\"") != std::string_view::npos ? TraceFormat::kMooncake : TraceFormat::kJsonl;
}

// The usual gap between stamps, if requests share stamps and nearly all of these lie on multiples of it, give or take
// what a timer drifts: Mooncake's are 3000 ms apart, many of them a few ms off. Rows sorted, from 0 on.
double GridOf(const std::vector<TraceRow>& rows) {
  std::vector<double> stamps, gaps;
  for (const TraceRow& row : rows) {
    if (!stamps.empty() && row.arrival_s == stamps.back()) continue;
    if (!stamps.empty()) gaps.push_back(row.arrival_s - stamps.back());
    stamps.push_back(row.arrival_s);
  }
  if (gaps.empty() || static_cast<double>(stamps.size()) > kMostOwnStamps * static_cast<double>(rows.size())) return 0;
  const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2);
  std::nth_element(gaps.begin(), middle, gaps.end());
  const double grid = std::round(*middle * 100) / 100;
  if (grid < kLeastGridSeconds) return 0;
  const auto on_grid = std::count_if(stamps.begin(), stamps.end(), [&](double stamp) {
    return std::abs(stamp - std::round(stamp / grid) * grid) <= kGridDrift * grid;
  });
  return static_cast<double>(on_grid) >= kOnGrid * static_cast<double>(stamps.size()) ? grid : 0;
}

void SortAndShift(std::vector<TraceRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const TraceRow& a, const TraceRow& b) { return a.arrival_s < b.arrival_s; });
  const double first = rows.front().arrival_s;
  for (TraceRow& row : rows) row.arrival_s -= first;
}

Status ReadAzure(std::string_view text, const std::string& file, Trace& trace) {
  AzureReader reader;
  bool header = true;
  return ForEachLine(text, file, [&](std::string_view line) -> Status {
    if (header) {
      header = false;
      return reader.Header(line);
    }
    SURETY_ASSIGN_OR_RETURN(TraceRow row, reader.Row(line));
    trace.rows.push_back(std::move(row));
    return OkStatus();
  });
}

}  // namespace

Result<Trace> ParseTrace(std::string_view text, const std::string& file, const std::string& format) {
  Trace trace;
  if (format == "auto") {
    trace.format = FormatOf(text);
  } else if (format == "mooncake") {
    trace.format = TraceFormat::kMooncake;
  } else if (format == "azure") {
    trace.format = TraceFormat::kAzure;
  } else if (format != "jsonl") {
    return Error(InvalidArgumentError(fmt::format("no trace format '{}': auto, mooncake, azure or jsonl", format)));
  }
  trace.has_arrivals = trace.format != TraceFormat::kJsonl;
  if (trace.format == TraceFormat::kAzure) {
    SURETY_RETURN_IF_ERROR(ReadAzure(text, file, trace));
  } else {
    SURETY_RETURN_IF_ERROR(ForEachLine(text, file, [&](std::string_view line) -> Status {
      bool has_arrival = true;
      SURETY_ASSIGN_OR_RETURN(
          TraceRow row, trace.format == TraceFormat::kMooncake ? MooncakeRow(line) : OwnRow(line, has_arrival));
      if (trace.rows.empty()) trace.has_arrivals = has_arrival;
      if (has_arrival != trace.has_arrivals) {
        const char* what = has_arrival ? "has" : "no";
        return InvalidArgumentError(fmt::format("{} \"arrival_s\", unlike the lines before", what));
      }
      trace.rows.push_back(std::move(row));
      return OkStatus();
    }));
  }
  if (trace.rows.empty()) return Error(InvalidArgumentError(fmt::format("{}: no requests in it", file)));
  SortAndShift(trace.rows);
  trace.grid_s = trace.has_arrivals ? GridOf(trace.rows) : 0;
  return trace;
}

Result<Trace> ReadTrace(const std::string& file, const std::string& format) {
  SURETY_ASSIGN_OR_RETURN(const std::string text, FileSystem::Real().ReadAll(file, int64_t{4} << 30));
  return ParseTrace(text, file, format);
}

void SpreadOverGrid(Trace& trace, double grid_s, uint64_t seed) {
  RandomStream stream(seed, 0, LoadLane::kGridSpread);
  for (TraceRow& row : trace.rows) row.arrival_s += grid_s * stream.Uniform();
  SortAndShift(trace.rows);
}

}  // namespace surety::cli
