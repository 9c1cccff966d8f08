#include "engine/token_picker.h"

#include <algorithm>
#include <limits>
#include <string>

namespace surety::engine {

TokenPicker::TokenPicker(Executor& executor, int vocab_size, std::vector<int32_t> end_ids)
    : executor_(executor), end_ids_(std::move(end_ids)) {
  for (int i = 0; i < executor.n_workers(); ++i) samplers_.push_back(std::make_unique<Sampler>(vocab_size));
}

void TokenPicker::Pick(std::span<PickJob> jobs) {
  ParallelFor(executor_, static_cast<int64_t>(jobs.size()), [&](int64_t job, int worker) {
    PickOne(jobs[static_cast<size_t>(job)], *samplers_[static_cast<size_t>(worker)]);
  });
}

bool TokenPicker::Ends(const Sequence& sequence, int32_t token) const {
  const api::GenerationRequest& request = sequence.state->request();
  const auto is_in = [token](const std::vector<int32_t>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  return is_in(request.stop_tokens) || (!request.ignore_end_of_text && is_in(end_ids_));
}

void TokenPicker::PickOne(PickJob& job, Sampler& sampler) const {
  const Sequence& sequence = *job.sequence;
  const api::GenerationRequest& request = sequence.state->request();
  if (!AllFinite(job.logits)) {
    job.status = DataLossError("the model's logits at position " + std::to_string(sequence.n_tokens() - 1) +
                               " are not all finite numbers: its weights are damaged, or it overflows");
    return;
  }
  const bool wants_logprobs = request.n_logprobs >= 0;
  std::vector<float> raw;
  if (wants_logprobs) raw.assign(job.logits.begin(), job.logits.end());
  std::vector<int32_t> ends = request.stop_tokens;
  if (!request.ignore_end_of_text) ends.insert(ends.end(), end_ids_.begin(), end_ids_.end());
  sampler.Penalise(job.logits, sequence.sampling, sequence.history, ends);
  if (request.ignore_end_of_text) {
    for (int32_t id : end_ids_) job.logits[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
  }
  ShapedAnswer& shaped = job.sequence->shaped;
  if (shaped.constrained()) {
    job.status = shaped.Mask(job.logits);
    if (!job.status.ok()) return;
  }
  job.token = sampler.Sample(job.logits, sequence.sampling, static_cast<uint64_t>(sequence.n_tokens()));
  if (shaped.constrained()) shaped.Accept(job.token);
  if (wants_logprobs) job.logprob = LogprobOf(raw, job.token, request.n_logprobs);
}

}  // namespace surety::engine
