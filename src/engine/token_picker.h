// The next tokens of each choice of a step: check, penalties, constraint, draw, log-probabilities. One token, or more
// where drafts held: each is picked by the same code, after the ones before it have entered the history and the
// constraint. The choices of a step are shared out over the workers.
//
// Threads: one caller, between steps of the model (it uses the same workers). Owns: one sampler a worker.
// Invariant: a token is a function of its logits, parameters, history and position alone, whichever worker drew it;
// under another rule than the coupled one also of what was drafted.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/executor.h"
#include "engine/sampler.h"
#include "engine/sequence.h"
#include "spec/rejection.h"

namespace surety::engine {

// kDataLoss: logits at this position of the text are no numbers.
Status NotFiniteError(int64_t position);

// The tokens of one choice: the one behind its last row, and where a node of its draft holds that token the one behind
// that node's row, and so on down the tree.
struct PickJob {
  PickJob(Sequence* s, std::span<float> first_row) : sequence(s), logits(first_row) {}

  Sequence* sequence;
  std::span<float> logits;             // the first row's, of the vocabulary; changed, as are those of further rows
  std::vector<std::span<float>> more_logits = {};  // a row for each node of the draft, in order
  std::vector<int32_t> tokens = {};    // the result, in the history already
  std::vector<int> path = {};          // path[i]: the node that holds tokens[i]; the last token may be held by none
  Status status = {};                  // the logits are not all finite, or nothing may follow: there ends `tokens`
  std::vector<api::TokenLogprob> logprobs = {};  // one a token, where the request asks for them
  // Of nodes whose children were chosen without looking at this draw: (the target's probability of them, whether one
  // held).
  std::vector<std::pair<double, bool>> trials = {};
};

// The model's own tokens that end an answer.
std::vector<int32_t> EndIds(const model::Tokenizer& tokenizer);

class TokenPicker {
 public:
  TokenPicker(Executor& executor, int vocab_size, std::vector<int32_t> end_ids);
  void Pick(std::span<PickJob> jobs);
  bool Ends(const Sequence& sequence, int32_t token) const;   // the token ends the answer

 private:
  // What one worker needs.
  struct Tools {
    explicit Tools(int vocab_size) : sampler(vocab_size) {}
    Sampler sampler;
    std::unique_ptr<spec::RejectionVerifier> verifier;  // made when a request asks for it
    std::vector<int> typical_path;                      // of the job at hand: the nodes that the lossy rule takes
  };
  void PickRun(PickJob& job, Tools& tools) const;
  int32_t PickOne(PickJob& job, int node, Tools& tools) const;
  // Bias, penalties, what may not come now: all but the draw. `shaped`: the constraint's state there.
  Status Transform(const Sequence& sequence, const TokenHistory& history, ShapedAnswer& shaped, std::span<float> logits,
                   Tools& tools) const;
  // The token behind a node whose logits have all transforms, by the request's rule.
  int32_t Decide(PickJob& job, int node, std::span<const float> logits, Tools& tools) const;
  int32_t DecideByRejection(PickJob& job, int node, std::span<const float> logits, Tools& tools) const;
  // The nodes that the lossy rule accepts, from the root down.
  std::vector<int> TypicalPath(const PickJob& job, Tools& tools) const;

  Executor& executor_;
  int vocab_size_;
  std::vector<std::unique_ptr<Tools>> tools_;
  std::vector<int32_t> end_ids_;
};

}  // namespace surety::engine
