#include "cli/load_workload.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/clock.h"
#include "cli/load_arrivals.h"

namespace surety::cli {
namespace {

namespace json = boost::json;

constexpr double kGridWorthSpreading = 1.0;  // seconds

ArrivalLaw LawOf(const std::string& name) {
  if (name == "gamma") return ArrivalLaw::kGamma;
  if (name == "constant") return ArrivalLaw::kConstant;
  if (name == "ramp") return ArrivalLaw::kRamp;
  if (name == "burst") return ArrivalLaw::kBurst;
  return ArrivalLaw::kPoisson;
}

uint64_t PositionOf(int64_t item, int turn) {
  return static_cast<uint64_t>(item) * kMaxTurns + static_cast<uint64_t>(turn);
}

}  // namespace

Result<Workload> Workload::Make(const LoadOptions& options) {
  Workload workload(options);
  SURETY_RETURN_IF_ERROR(workload.ReadFile());
  workload.MakeArrivals();
  if (workload.arrivals_ns_.empty() && !options.closed_loop()) {
    return Error(InvalidArgumentError("no request arrives within --warmup and --duration at this --rate"));
  }
  return workload;
}

Status Workload::ReadFile() {
  const std::string& file = options_.trace.empty() ? options_.prompts : options_.trace;
  if (file.empty()) return OkStatus();
  SURETY_ASSIGN_OR_RETURN(trace_, ReadTrace(file, options_.trace.empty() ? "jsonl" : options_.trace_format));
  if (options_.arrivals == "trace" && !trace_.has_arrivals) {
    return InvalidArgumentError(fmt::format(
        "{}: no line has \"arrival_s\"; give --arrivals poisson, or use the file with --prompts", file));
  }
  for (size_t i = 0; i < trace_.rows.size(); ++i) {
    TraceRow& row = trace_.rows[i];
    if (row.is_messages && options_.endpoint == "completions") {
      return InvalidArgumentError(
          fmt::format("{}: request {} has \"messages\", which --endpoint completions does not take", file, i + 1));
    }
    if (trace_.format == TraceFormat::kJsonl && options_.token_ids > 0) {
      return InvalidArgumentError(fmt::format("{}: its prompts are text; --token-ids is for other formats", file));
    }
    clipped_prompts_ += row.prompt_tokens > options_.clip_prompt;
    clipped_outputs_ += row.output_tokens > options_.clip_output;
    row.prompt_tokens = std::min(row.prompt_tokens, options_.clip_prompt);
    row.output_tokens = std::min(row.output_tokens, options_.clip_output);
  }
  grid_s_ = options_.trace_grid_ms ? *options_.trace_grid_ms / 1e3
                                   : (trace_.grid_s >= kGridWorthSpreading ? trace_.grid_s : 0);
  if (grid_s_ > 0 && options_.arrivals == "trace") SpreadOverGrid(trace_, grid_s_, options_.seed);
  return OkStatus();
}

void Workload::MakeArrivals() {
  const bool has_file = !trace_.rows.empty();
  const auto n_rows = static_cast<int64_t>(trace_.rows.size());
  const double end_s = options_.duration_s ? options_.warmup_s + *options_.duration_s
                                           : std::numeric_limits<double>::infinity();
  // A file is used once where nothing else says how much.
  const int64_t default_most = has_file && !options_.duration_s ? n_rows : std::numeric_limits<int32_t>::max();
  const int64_t most = options_.requests ? *options_.requests : default_most;
  if (options_.closed_loop()) {
    closed_loop_requests_ = most;
    return;
  }
  std::vector<double> times;
  if (options_.arrivals == "trace") {
    for (const TraceRow& row : trace_.rows) {
      const double time = row.arrival_s * options_.time_scale;
      if (time < end_s) times.push_back(time);
    }
  } else {
    ArrivalProcess process{LawOf(options_.arrivals), options_.rate, options_.burstiness,
                           options_.ramp_to.value_or(options_.rate), end_s, options_.seed};
    const double warmup_arrivals = options_.warmup_s * std::max(options_.rate, process.ramp_to);
    // Enough for the warm-up, whose number is not known beforehand; what is too many is cut below.
    const double enough = static_cast<double>(most) + 2 * warmup_arrivals + 1000;
    times = ArrivalTimes(process, end_s, process.law == ArrivalLaw::kBurst ? most : static_cast<int64_t>(enough));
  }
  int64_t measured = 0;
  for (size_t i = 0; i < times.size() && measured < most; ++i) {
    measured += times[i] >= options_.warmup_s;
    arrivals_ns_.push_back(SecondsToNanos(times[i]));
  }
}

const TraceRow* Workload::RowOf(int64_t item) const {
  if (trace_.rows.empty()) return nullptr;
  return &trace_.rows[static_cast<size_t>(item) % trace_.rows.size()];
}

TurnPlan Workload::Plan(int64_t item, int turn) const {
  RandomStream lengths(options_.seed, PositionOf(item, turn), LoadLane::kLengths);
  const int prompt = std::min(static_cast<int>(std::lround(options_.prompt_law.Draw(lengths))), options_.clip_prompt);
  const int output = std::min(static_cast<int>(std::lround(options_.output_law.Draw(lengths))), options_.clip_output);
  if (const TraceRow* row = RowOf(item)) {
    return {row->prompt_tokens, row->output_tokens > 0 ? row->output_tokens : output, 0};
  }
  RandomStream think(options_.seed, PositionOf(item, turn), LoadLane::kThinkTime);
  const int shared = turn == 0 && options_.system_prompts > 0 ? options_.system_tokens : 0;
  return {prompt + shared, output, turn == 0 ? 0 : SecondsToNanos(options_.think_law.Draw(think))};
}

std::vector<TextSegment> Workload::SegmentsOf(int64_t item, int turn) const {
  const int tokens = Plan(item, turn).prompt_tokens;
  std::vector<TextSegment> segments;
  if (const TraceRow* row = RowOf(item); row != nullptr && !row->blocks.empty()) {
    int left = tokens;
    for (const uint64_t block : row->blocks) {
      if (left <= 0) break;
      segments.push_back({LoadLane::kBlockText, block, std::min(left, kTraceBlockTokens)});
      left -= kTraceBlockTokens;
    }
    return segments;
  }
  const int shared = turn == 0 && options_.system_prompts > 0 && RowOf(item) == nullptr ? options_.system_tokens : 0;
  if (shared > 0) {
    RandomStream choice(options_.seed, static_cast<uint64_t>(item), LoadLane::kSystemChoice);
    segments.push_back({LoadLane::kSystemText, choice.Below(static_cast<uint64_t>(options_.system_prompts)), shared});
  }
  segments.push_back({LoadLane::kUserText, PositionOf(item, turn), tokens - shared});
  return segments;
}

std::vector<ChatMessage> Workload::NewMessages(int64_t item, int turn) const {
  std::vector<ChatMessage> messages;
  for (const TextSegment& segment : SegmentsOf(item, turn)) {
    const bool system = segment.lane == LoadLane::kSystemText;
    messages.push_back({system ? "system" : "user",
                        WordsOf(std::span(&segment, 1), options_.seed, options_.tokens_per_word)});
  }
  return messages;
}

void Workload::PutPrompt(int64_t item, const std::vector<ChatMessage>& conversation, json::object& body) const {
  const bool chat = options_.endpoint == "chat";
  const TraceRow* row = RowOf(item);
  if (row != nullptr && !row->content.empty()) {
    boost::system::error_code error;
    json::value content = json::parse(row->content, error);  // was serialised from a value: no error
    if (row->is_messages) {
      body["messages"] = std::move(content);
    } else if (chat) {
      body["messages"] = json::array{json::object{{"role", "user"}, {"content", std::move(content)}}};
    } else {
      body["prompt"] = std::move(content);
    }
    return;
  }
  if (options_.token_ids > 0) {
    json::array ids;
    for (const int64_t id : TokenIdsOf(SegmentsOf(item, 0), options_.seed, options_.token_ids)) ids.push_back(id);
    body["prompt"] = std::move(ids);
    return;
  }
  if (row != nullptr) {  // a trace's blocks are one text
    const std::string text = WordsOf(SegmentsOf(item, 0), options_.seed, options_.tokens_per_word);
    if (chat) {
      body["messages"] = json::array{json::object{{"role", "user"}, {"content", text}}};
    } else {
      body["prompt"] = text;
    }
    return;
  }
  if (chat) {
    json::array messages;
    for (const ChatMessage& message : conversation) {
      messages.push_back(json::object{{"role", message.role}, {"content", message.content}});
    }
    body["messages"] = std::move(messages);
    return;
  }
  std::string text;
  for (const ChatMessage& message : conversation) text += (text.empty() ? "" : " ") + message.content;
  body["prompt"] = std::move(text);
}

std::string Workload::Body(int64_t item, int turn, const std::vector<ChatMessage>& conversation,
                           const std::string& model) const {
  json::object body;
  body["model"] = model;
  PutPrompt(item, conversation, body);
  body["max_tokens"] = Plan(item, turn).output_tokens;
  body["stream"] = true;
  body["stream_options"] = json::object{{"include_usage", true}};
  if (options_.ignore_eos) body["ignore_eos"] = true;
  for (const auto& member : options_.extra) body[member.key()] = member.value();
  return json::serialize(body);
}

json::object Workload::DescribeTransform() const {
  json::object out;
  if (trace_.rows.empty()) {
    out["source"] = "synthetic";
    return out;
  }
  constexpr const char* kNames[] = {"mooncake", "azure", "jsonl"};
  out["source"] = options_.trace.empty() ? "prompts" : kNames[static_cast<int>(trace_.format)];
  out["rows"] = trace_.rows.size();
  out["clipped_prompts"] = clipped_prompts_;
  out["clipped_outputs"] = clipped_outputs_;
  if (options_.arrivals == "trace") {
    out["time_scale"] = options_.time_scale;
    out["spread_over_s"] = grid_s_;
  }
  return out;
}

}  // namespace surety::cli
