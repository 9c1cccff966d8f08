// What each request of a run says and when it is due: made up from distributions, or read from a file.
//
// Bodies are made when they are asked for, so a trace of hundreds of millions of tokens takes no memory.
// Threads: one. Owns: everything. Errors: kInvalidArgument for files, with the line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/load_options.h"
#include "cli/load_text.h"
#include "cli/load_trace.h"

namespace surety::cli {

struct TurnPlan {
  int prompt_tokens = 0;  // that the turn adds, a shared prefix included; 0: not known (own files)
  int output_tokens = 0;
  int64_t think_ns = 0;  // from the answer before
};

struct ChatMessage {
  std::string role, content;
};

class Workload {
 public:
  static Result<Workload> Make(const LoadOptions& options);

  // When each item (a request, or the first one of a session) is due, from the start of the run; ascending. Of a closed
  // loop: empty, items are numbered as they come.
  const std::vector<int64_t>& arrivals_ns() const { return arrivals_ns_; }
  // Requests that a closed loop sends, the warm-up's not included.
  int64_t closed_loop_requests() const { return closed_loop_requests_; }
  int turns() const { return options_.turns; }

  TurnPlan Plan(int64_t item, int turn) const;
  // The text that the turn adds to the conversation: system prompt (turn 0) and question.
  std::vector<ChatMessage> NewMessages(int64_t item, int turn) const;
  // The request's JSON. `conversation` holds all messages so far, the turn's included; where the prompts come from a
  // file it is not read.
  std::string Body(int64_t item, int turn, const std::vector<ChatMessage>& conversation,
                   const std::string& model) const;

  // How the file's lengths and times were changed, for the report.
  boost::json::object DescribeTransform() const;

 private:
  explicit Workload(const LoadOptions& options) : options_(options) {}
  Status ReadFile();
  void MakeArrivals();
  const TraceRow* RowOf(int64_t item) const;
  std::vector<TextSegment> SegmentsOf(int64_t item, int turn) const;
  void PutPrompt(int64_t item, const std::vector<ChatMessage>& conversation, boost::json::object& body) const;

  LoadOptions options_;
  Trace trace_;
  double grid_s_ = 0;
  int64_t clipped_prompts_ = 0, clipped_outputs_ = 0;
  std::vector<int64_t> arrivals_ns_;
  int64_t closed_loop_requests_ = 0;
};

}  // namespace surety::cli
