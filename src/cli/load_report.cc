#include "cli/load_report.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <span>
#include <thread>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "cli/bench_roofline.h"
#include "cli/file_writer.h"
#include "cli/json_out.h"

namespace surety::cli {
namespace {

namespace json = boost::json;
constexpr size_t kRecordPieceBytes = 1 << 20;

json::value Number(const std::optional<double>& value) {
  return value ? json::value(Rounded(*value)) : json::value(nullptr);
}

json::object LatencyJson(const LatencySummary& latency) {
  json::object out;
  out["count"] = latency.count;
  if (latency.count == 0) return out;
  out["mean"] = Rounded(latency.mean);
  out["min"] = Rounded(latency.least);
  out["max"] = Rounded(latency.most);
  for (const Percentile& p : latency.percentiles) {
    const std::string name = fmt::format("p{:.0f}", p.percent);
    out[name] = Rounded(p.value);
    out[name + "_low"] = Rounded(p.interval.low);
    out[name + "_high"] = Rounded(p.interval.high);
  }
  return out;
}

json::object OutcomesJson(const LoadSummary& summary) {
  json::object out;
  for (int i = 0; i < kLoadOutcomes; ++i) {
    out[LoadOutcomeName(static_cast<LoadOutcome>(i))] = summary.outcomes[static_cast<size_t>(i)];
  }
  return out;
}

// The first error of each kind, so that a report says what happened without the records.
json::object FirstErrors(const LoadReport& report) {
  json::object out;
  for (const LoadRecord& record : report.result.records) {
    const std::string_view name = LoadOutcomeName(record.outcome);
    if (record.outcome != LoadOutcome::kOk && !record.error.empty() && !out.contains(name)) out[name] = record.error;
  }
  return out;
}

json::object TokensJson(const LoadSummary& s) {
  return {{"prompt_tokens", s.prompt_tokens},
          {"cached_tokens", s.cached_tokens},
          {"output_tokens", s.output_tokens},
          {"planned_prompt_tokens", s.planned_prompt_tokens},
          {"planned_output_tokens", s.planned_output_tokens},
          {"counted_by_usage", s.counted_by_usage},
          {"counted_by_chunks", s.counted_by_chunks}};
}

json::object SloJson(const SloSummary& slo) {
  return {{"limits", slo.text},
          {"met", slo.met},
          {"goodput_per_s", Rounded(slo.goodput)},
          {"attainment", Rounded(slo.attainment)},
          {"attainment_low", Rounded(slo.interval.low)},
          {"attainment_high", Rounded(slo.interval.high)}};
}

std::string HostName() {
  std::array<char, 256> name = {};
  if (gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

json::object ClientJson(const LoadResult& result) {
  return {{"cpu_share", Rounded(result.cpu_s / result.wall_s)},
          {"cpu_seconds", Rounded(result.cpu_s)},
          {"connections_opened", result.connections_opened},
          {"host", HostName()},
          {"processor", ProcessorName()},
          {"processors", std::thread::hardware_concurrency()}};
}

// To the nanosecond, without the digits that binary fractions add.
double Fixed(double value, int digits) { return std::strtod(fmt::format("{:.{}f}", value, digits).c_str(), nullptr); }

json::value Millis(const std::optional<double>& value) {
  return value ? json::value(Fixed(*value, 6)) : json::value(nullptr);
}

json::value SecondsOrNull(int64_t nanos) {
  return nanos < 0 ? json::value(nullptr) : json::value(Fixed(static_cast<double>(nanos) * 1e-9, 9));
}

void AppendPlain(const json::value& value, std::string& out) {
  if (const auto* number = value.if_double()) {
    out += fmt::format("{}", *number);
  } else if (const auto* array = value.if_array()) {
    out += '[';
    for (size_t i = 0; i < array->size(); ++i) {
      if (i > 0) out += ',';
      AppendPlain((*array)[i], out);
    }
    out += ']';
  } else {
    out += json::serialize(value);
  }
}

// On one line, numbers in their shortest form.
std::string LineOf(const json::object& object) {
  std::string out;
  for (const auto& member : object) {
    out += (out.empty() ? "{\"" : ",\"") + std::string(member.key()) + "\":";
    AppendPlain(member.value(), out);
  }
  return ValidJsonText(out + "}\n");
}

json::value Count(int64_t value) { return value < 0 ? json::value(nullptr) : json::value(value); }

json::object RecordJson(const LoadRecord& record, const LoadWindow& window) {
  const RequestLatency latency = LatencyOf(record);
  json::object out;
  out["item"] = record.item;
  out["turn"] = record.turn;
  out["measured"] = window.Holds(record.intended_ns);
  out["outcome"] = LoadOutcomeName(record.outcome);
  out["http_status"] = record.http_status;
  if (!record.error.empty()) out["error"] = record.error;
  if (record.retry_after_s >= 0) out["retry_after_s"] = record.retry_after_s;
  out["intended_s"] = SecondsOrNull(record.intended_ns);
  out["sent_s"] = SecondsOrNull(record.sent_ns);
  out["first_token_s"] = record.events.empty() ? json::value(nullptr) : SecondsOrNull(record.events.front().time_ns);
  out["last_token_s"] = record.events.empty() ? json::value(nullptr) : SecondsOrNull(record.events.back().time_ns);
  out["end_s"] = SecondsOrNull(record.end_ns);
  out["ttft_ms"] = Millis(latency.ttft_ms);
  out["service_ttft_ms"] = Millis(latency.service_ttft_ms);
  out["tpot_ms"] = Millis(latency.tpot_ms);
  out["e2e_ms"] = Millis(latency.e2e_ms);
  out["send_lag_ms"] = Millis(latency.lag_ms);
  out["stalls"] = latency.stalls;
  out["planned_prompt_tokens"] = record.planned_prompt_tokens;
  out["planned_output_tokens"] = record.planned_output_tokens;
  out["prompt_tokens"] = Count(record.prompt_tokens);
  out["cached_tokens"] = Count(record.cached_tokens);
  out["output_tokens"] = record.output_tokens;
  out["counted_by"] = TokenCountName(record.counted);
  out["finish_reason"] = record.finish_reason;
  json::array times, tokens;
  for (const TokenEvent& event : record.events) {
    times.push_back(SecondsOrNull(event.time_ns));
    tokens.push_back(event.tokens);
  }
  out["event_s"] = std::move(times);
  out["event_tokens"] = std::move(tokens);
  return out;
}

}  // namespace

std::string UtcTime(int64_t unix_ns) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(unix_ns / 1'000'000'000)));
}

json::object DescribeReport(const LoadReport& report) {
  const LoadSummary& s = report.summary;
  const LoadResult& result = report.result;
  json::object out;
  out["schema_version"] = kLoadSchemaVersion;
  out["version"] = SURETY_VERSION;
  out["label"] = report.options.label;
  out["url"] = report.options.url;
  out["model"] = report.model;
  out["started_at"] = UtcTime(result.started_unix_ns);
  out["seed"] = report.options.seed;
  out["config"] = report.options.Describe();
  out["config_hash"] = report.options.ConfigHash();
  out["workload"] = report.workload.DescribeTransform();
  out["loop"] = report.options.closed_loop() ? "closed" : "open";
  out["valid"] = s.invalid.empty();
  json::array reasons;
  for (const std::string& reason : s.invalid) reasons.emplace_back(reason);
  out["invalid_reasons"] = std::move(reasons);
  out["interrupted"] = result.interrupted;
  out["window"] = {{"start_s", Rounded(static_cast<double>(s.window.start_ns) * 1e-9)},
                   {"seconds", Rounded(s.window.seconds())},
                   {"run_seconds", Rounded(result.wall_s)}};
  out["arrivals"] = s.arrivals;
  out["warmup_arrivals"] = s.warmup_arrivals;
  out["lost_turns"] = result.lost_turns;
  out["outcomes"] = OutcomesJson(s);
  out["first_errors"] = FirstErrors(report);
  out["ttft_ms"] = LatencyJson(s.ttft_ms);
  out["service_ttft_ms"] = LatencyJson(s.service_ttft_ms);
  out["tpot_ms"] = LatencyJson(s.tpot_ms);
  out["itl_ms"] = LatencyJson(s.itl_ms);
  out["icl_ms"] = LatencyJson(s.icl_ms);
  out["e2e_ms"] = LatencyJson(s.e2e_ms);
  out["send_lag_ms"] = LatencyJson(s.lag_ms);
  out["refusal_ms"] = LatencyJson(s.refusal_ms);
  out["stalls"] = {{"requests", s.stalled_requests}, {"gaps", s.stalls}};
  json::array slos;
  for (const SloSummary& slo : s.slos) slos.push_back(SloJson(slo));
  out["slos"] = std::move(slos);
  out["throughput"] = {{"requests_per_s", Rounded(s.requests_per_s)},
                       {"prompt_tok_per_s", Rounded(s.prompt_tok_per_s)},
                       {"output_tok_per_s", Rounded(s.output_tok_per_s)},
                       {"in_flight_mean", Rounded(s.in_flight_mean)}};
  out["tokens"] = TokensJson(s);
  out["steady"] = {{"within_5_percent", s.steady},
                   {"output_change", Number(s.output_change)},
                   {"ttft_change", Number(s.ttft_change)}};
  out["client"] = ClientJson(result);
  return out;
}

namespace {

std::string Row(const char* name, const LatencySummary& latency) {
  if (latency.count == 0) return {};
  std::string out = fmt::format("{:<16}{:>9}{:>10.1f}", name, latency.count, latency.mean);
  for (const Percentile& p : latency.percentiles) {
    out += fmt::format("{:>10.1f} {:<19}", p.value, fmt::format("({:.1f} - {:.1f})", p.interval.low, p.interval.high));
  }
  while (out.ends_with(' ')) out.pop_back();
  return out + "\n";
}

std::string ErrorsLine(const LoadSummary& s) {
  std::string out;
  for (int i = 1; i < kLoadOutcomes; ++i) {
    const int64_t n = s.outcomes[static_cast<size_t>(i)];
    if (n > 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", n, LoadOutcomeName(static_cast<LoadOutcome>(i)));
  }
  return out.empty() ? "none" : out;
}

}  // namespace

std::string TableOf(const LoadReport& report) {
  const LoadSummary& s = report.summary;
  const LoadResult& result = report.result;
  std::string out = fmt::format("{} at {}, {} loop, {} arrivals in {:.1f} s ({} before them)\n\n", report.model,
                                report.options.url, report.options.closed_loop() ? "closed" : "open", s.arrivals,
                                s.window.seconds(), s.warmup_arrivals);
  out += fmt::format("{:<16}{:>9}{:>10}{:>10} {:<19}{:>10} {:<19}{:>10} {}\n", "ms", "count", "mean", "p50",
                     "(95 % interval)", "p95", "", "p99", "");
  while (out.ends_with(" \n")) out.erase(out.size() - 2, 1);
  out += Row("TTFT", s.ttft_ms) + Row("service TTFT", s.service_ttft_ms) + Row("TPOT", s.tpot_ms) +
         Row("ITL", s.itl_ms) + Row("ICL", s.icl_ms) + Row("E2E", s.e2e_ms) + Row("send lag", s.lag_ms) +
         Row("refused after", s.refusal_ms);
  out += fmt::format("\nthroughput  {:.2f} requests/s, {:.1f} output tok/s, {:.1f} prompt tok/s, {:.1f} in flight\n",
                     s.requests_per_s, s.output_tok_per_s, s.prompt_tok_per_s, s.in_flight_mean);
  for (const SloSummary& slo : s.slos) {
    out += fmt::format("slo         {}: {} of {}, attainment {:.2f} % ({:.2f} - {:.2f}), goodput {:.2f} requests/s\n",
                       slo.text, slo.met, s.arrivals, slo.attainment * 100, slo.interval.low * 100,
                       slo.interval.high * 100, slo.goodput);
  }
  out += fmt::format("errors      {}\n", ErrorsLine(s));
  if (result.lost_turns > 0) out += fmt::format("sessions    {} turns never came to be\n", result.lost_turns);
  if (s.stalls > 0) out += fmt::format("stalls      {} in {} requests\n", s.stalls, s.stalled_requests);
  if (s.counted_by_chunks > 0) {
    out += fmt::format("tokens      of {} answers without usage an event was taken for a token\n", s.counted_by_chunks);
  }
  out += fmt::format("steady      {} (second half against the first: output {:+.1f} %, TTFT p50 {:+.1f} %)\n",
                     s.steady ? "yes" : "no", s.output_change.value_or(0) * 100, s.ttft_change.value_or(0) * 100);
  out += fmt::format("client      {:.0f} % of a processor\n", result.cpu_s / result.wall_s * 100);
  if (report.options.closed_loop()) {
    out += "A closed loop waits for the server before it sends: queueing does not show in these figures.\n";
  }
  return out;
}

Status WriteRecords(const LoadReport& report, const std::string& path) {
  SURETY_ASSIGN_OR_RETURN(auto writer, FileWriter::Create(path));
  std::string piece;
  for (const LoadRecord& record : report.result.records) {
    piece += LineOf(RecordJson(record, report.summary.window));
    if (piece.size() < kRecordPieceBytes) continue;
    SURETY_RETURN_IF_ERROR(writer->Append(std::as_bytes(std::span(piece))));
    piece.clear();
  }
  SURETY_RETURN_IF_ERROR(writer->Append(std::as_bytes(std::span(piece))));
  return writer->Commit();
}

}  // namespace surety::cli
