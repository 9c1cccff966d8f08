#include "engine/token_picker.h"

#include <algorithm>
#include <limits>
#include <string>

#include "spec/typical.h"

namespace surety::engine {

std::vector<int32_t> EndIds(const model::Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  if (tokenizer.spec().eos >= 0) ids.push_back(tokenizer.spec().eos);
  ids.insert(ids.end(), tokenizer.spec().end_of_turn.begin(), tokenizer.spec().end_of_turn.end());
  return ids;
}

TokenPicker::TokenPicker(Executor& executor, int vocab_size, std::vector<int32_t> end_ids)
    : executor_(executor), vocab_size_(vocab_size), end_ids_(std::move(end_ids)) {
  for (int i = 0; i < executor.n_workers(); ++i) tools_.push_back(std::make_unique<Tools>(vocab_size));
}

void TokenPicker::Pick(std::span<PickJob> jobs) {
  ParallelFor(executor_, static_cast<int64_t>(jobs.size()), [&](int64_t job, int worker) {
    PickRun(jobs[static_cast<size_t>(job)], *tools_[static_cast<size_t>(worker)]);
  });
}

bool TokenPicker::Ends(const Sequence& sequence, int32_t token) const {
  const api::GenerationRequest& request = sequence.state->request();
  const auto is_in = [token](const std::vector<int32_t>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  return is_in(request.stop_tokens) || (!request.ignore_end_of_text && is_in(end_ids_));
}

void TokenPicker::PickRun(PickJob& job, Tools& tools) const {
  Sequence& sequence = *job.sequence;
  for (size_t row = 0;; ++row) {
    const int32_t token = PickOne(job, row, tools);
    if (token < 0) return;
    job.tokens.push_back(token);
    sequence.history.AddOutput(token);
    if (row >= job.more_logits.size() || token != sequence.draft[row] || Ends(sequence, token)) return;
  }
}

int32_t TokenPicker::Decide(PickJob& job, size_t row, std::span<const float> logits, Tools& tools) const {
  const Sequence& sequence = *job.sequence;
  const auto position = static_cast<uint64_t>(sequence.n_prompt + sequence.history.n_output());
  const bool has_draft = row < job.more_logits.size();
  switch (sequence.state->request().verification) {
    case api::Verification::kCoupled: break;
    case api::Verification::kRejection: {
      if (tools.verifier == nullptr) tools.verifier = std::make_unique<spec::RejectionVerifier>(vocab_size_);
      spec::NodeLaws laws;
      laws.p = tools.sampler.Distribution(logits, sequence.sampling);
      const spec::Trial trial = {has_draft ? sequence.draft[row] : -1, 1};
      if (has_draft) {
        laws.proposal.trials = {&trial, 1};
        if (sequence.draft_method == DraftMethod::kModel) {  // drawn; what is looked up or forced is chosen
          laws.proposal.kind = spec::ProposalKind::kIndependent;
          laws.proposal.q = sequence.draft_state->laws[row];
        }
      }
      const int32_t token =
          tools.verifier->VerifyNode(laws, {sequence.sampling.seed, position, sequence.sampling.lane}).token;
      if (has_draft && sequence.draft_is_blind) {
        job.trials.emplace_back(spec::ProbabilityOf(laws.p, trial.token), token == trial.token);
      }
      return token;
    }
    case api::Verification::kLossyTypical:
      if (has_draft && spec::LossyTypicalAccepts(tools.sampler.Distribution(logits, sequence.sampling),
                                                 sequence.draft[row])) {
        return sequence.draft[row];
      }
      break;
  }
  const int32_t token = tools.sampler.Sample(logits, sequence.sampling, position);
  // One position in eight is enough, since the law has to be worked out again.
  if (has_draft && sequence.draft_is_blind && position % 8 == 0 && sequence.sampling.temperature > 0) {
    const auto law = tools.sampler.Distribution(logits, sequence.sampling);
    job.trials.emplace_back(spec::ProbabilityOf(law, sequence.draft[row]), token == sequence.draft[row]);
  }
  return token;
}

// -1: nothing may follow, and why is in the job's status.
int32_t TokenPicker::PickOne(PickJob& job, size_t row, Tools& tools) const {
  const std::span<float> logits = row == 0 ? job.logits : job.more_logits[row - 1];
  const Sequence& sequence = *job.sequence;
  const api::GenerationRequest& request = sequence.state->request();
  const auto position = static_cast<uint64_t>(sequence.n_prompt + sequence.history.n_output());
  if (!AllFinite(logits)) {
    job.status = DataLossError("the model's logits at position " + std::to_string(position - 1) +
                               " are not all finite numbers: its weights are damaged, or it overflows");
    return -1;
  }
  const bool wants_logprobs = request.n_logprobs >= 0;
  std::vector<float> raw;
  if (wants_logprobs) raw.assign(logits.begin(), logits.end());
  std::vector<int32_t> ends = request.stop_tokens;
  if (!request.ignore_end_of_text) ends.insert(ends.end(), end_ids_.begin(), end_ids_.end());
  tools.sampler.Penalise(logits, sequence.sampling, sequence.history, ends);
  if (request.ignore_end_of_text) {
    for (int32_t id : end_ids_) logits[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
  }
  ShapedAnswer& shaped = job.sequence->shaped;
  if (shaped.constrained()) {
    job.status = shaped.Mask(logits);
    if (!job.status.ok()) return -1;
  }
  const int32_t token = Decide(job, row, logits, tools);
  if (shaped.constrained()) shaped.Accept(token);
  if (wants_logprobs) job.logprobs.push_back(LogprobOf(raw, token, request.n_logprobs));
  return token;
}

}  // namespace surety::engine
