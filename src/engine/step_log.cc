#include "engine/step_log.h"

#include <algorithm>

namespace surety::engine {

boost::json::object ToJson(const StepRecord& r) {
  const auto seconds = [](int64_t nanos) { return static_cast<double>(nanos) * 1e-9; };
  return {{"step", r.number},
          {"start_unix_seconds", seconds(r.start_unix_ns)},
          {"predicted_seconds", seconds(r.predicted_ns)},
          {"draft_seconds", seconds(r.draft_ns)},
          {"plan_seconds", seconds(r.plan_ns)},
          {"compute_seconds", seconds(r.compute_ns)},
          {"pick_seconds", seconds(r.pick_ns)},
          {"commit_seconds", seconds(r.commit_ns)},
          {"decode_rows", r.decode_rows},
          {"draft_rows", r.draft_rows},
          {"prefill_rows", r.prefill_rows},
          {"prefills", r.prefills},
          {"attended_tokens", r.attended},
          {"running", r.running},
          {"waiting", r.waiting},
          {"pages_free", r.pages_free},
          {"preemptions", r.preemptions}};
}

StepRecord& StepLog::Next() {
  StepRecord& record = records_[static_cast<size_t>(n_steps_) % records_.size()];
  record = {};
  record.number = ++n_steps_;
  return record;
}

std::vector<StepRecord> StepLog::Last(int n) const {
  const int64_t held = std::min(n_steps_, static_cast<int64_t>(records_.size()));
  const int64_t count = std::clamp<int64_t>(n, 0, held);
  std::vector<StepRecord> result;
  result.reserve(static_cast<size_t>(count));
  for (int64_t i = n_steps_ - count; i < n_steps_; ++i) {
    result.push_back(records_[static_cast<size_t>(i) % records_.size()]);
  }
  return result;
}

}  // namespace surety::engine
