// Traces and prompt files: what to send, and where the file says so, when.
//
// Formats: mooncake (JSONL: timestamp in ms, input_length, output_length, hash_ids of 512-token blocks), azure (CSV:
// TIMESTAMP, ContextTokens, GeneratedTokens, in any order, others passed over), jsonl (our own: prompt or messages,
// max_tokens, and arrival_s).
// Errors: kInvalidArgument with "FILE:LINE: " before it for a bad line, and for a file without requests. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace surety::cli {

inline constexpr int kTraceBlockTokens = 512;
inline constexpr int kMaxTraceTokens = 10'000'000;

enum class TraceFormat { kMooncake, kAzure, kJsonl };

struct TraceRow {
  double arrival_s = 0;   // after the trace's first request
  int prompt_tokens = 0;  // 0: not stated (jsonl)
  int output_tokens = 0;  // 0: not stated (jsonl)
  std::vector<uint64_t> blocks;  // mooncake: ids of the prompt's blocks, ceil(prompt_tokens / 512) of them
  std::string content;           // jsonl: "prompt" as JSON text, or "messages"
  bool is_messages = false;
};

struct Trace {
  TraceFormat format = TraceFormat::kJsonl;
  bool has_arrivals = false;  // false: no line of a jsonl file has arrival_s
  std::vector<TraceRow> rows; // by arrival; lines with equal arrivals in the file's order
  double grid_s = 0;          // stamps were rounded to this grid, of 0.1 s or more; 0 where they were not
};

// Format "auto" looks at the first line. `file` is for messages only.
Result<Trace> ParseTrace(std::string_view text, const std::string& file, const std::string& format);
// Reads the file (up to 4 GiB).
Result<Trace> ReadTrace(const std::string& file, const std::string& format);

// Spreads each arrival uniformly over the grid cell that it begins: stamps rounded down to a grid would replay bursts
// that never happened. Keeps the rows sorted.
void SpreadOverGrid(Trace& trace, double grid_s, uint64_t seed);

}  // namespace surety::cli
