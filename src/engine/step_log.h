// What the last steps were: a ring, written by every step, for operators who ask why one was slow.
//
// Threads: the engine thread. Owns: its records; no allocation after construction.
// Units: nanoseconds; times of day in Unix time.
#pragma once

#include <cstdint>
#include <vector>

#include <boost/json.hpp>

namespace surety::engine {

struct StepRecord {
  int64_t number = 0;          // counts from 1
  int64_t start_unix_ns = 0;
  int64_t predicted_ns = 0;    // of plan_ns + compute_ns + pick_ns; 0: there was no prediction yet
  int64_t draft_ns = 0;        // drafting, by a model or by looking up
  int64_t plan_ns = 0;         // admission and choice of rows
  int64_t compute_ns = 0;      // the model
  int64_t pick_ns = 0;         // grammars and sampling
  int64_t commit_ns = 0;       // pages published, text released, ends
  int decode_rows = 0;         // draft_rows included
  int draft_rows = 0;
  int prefill_rows = 0;
  int prefills = 0;            // prompts that had rows
  double attended = 0;         // tokens that the rows looked at, summed
  int running = 0;             // choices with a place in the batch, after planning
  int waiting = 0;             // choices without
  int pages_free = 0;
  int64_t preemptions = 0;     // since the start
};

boost::json::object ToJson(const StepRecord& record);

class StepLog {
 public:
  explicit StepLog(int capacity) : records_(static_cast<size_t>(capacity)) {}

  // The record to fill in for the next step; the oldest one is overwritten.
  StepRecord& Next();
  // The last `n` at most, oldest first.
  std::vector<StepRecord> Last(int n) const;
  int64_t n_steps() const { return n_steps_; }

 private:
  std::vector<StepRecord> records_;
  int64_t n_steps_ = 0;
};

}  // namespace surety::engine
