// The next token of each choice of a step: check, penalties, constraint, draw, log-probabilities. The choices of a step
// are shared out over the workers.
//
// Threads: one caller, between steps of the model (it uses the same workers). Owns: one sampler a worker.
// Invariant: a token is a function of its logits, parameters, history and position alone, whichever worker drew it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/executor.h"
#include "engine/sampler.h"
#include "engine/sequence.h"

namespace surety::engine {

struct PickJob {
  PickJob(Sequence* s, std::span<float> l) : sequence(s), logits(l) {}

  Sequence* sequence;
  std::span<float> logits;        // of the vocabulary; changed
  int32_t token = -1;             // the result; -1: the logits are not all finite, or nothing may follow (`status`)
  Status status;
  api::TokenLogprob logprob;      // where the request asks for it
};

class TokenPicker {
 public:
  TokenPicker(Executor& executor, int vocab_size, std::vector<int32_t> end_ids);
  void Pick(std::span<PickJob> jobs);
  bool Ends(const Sequence& sequence, int32_t token) const;   // the token ends the answer

 private:
  void PickOne(PickJob& job, Sampler& sampler) const;

  Executor& executor_;
  std::vector<std::unique_ptr<Sampler>> samplers_;
  std::vector<int32_t> end_ids_;
};

}  // namespace surety::engine
