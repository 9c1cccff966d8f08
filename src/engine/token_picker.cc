#include "engine/token_picker.h"

#include <algorithm>
#include <array>
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

Status NotFiniteError(int64_t position) {
  return DataLossError("the model's logits at position " + std::to_string(position) +
                       " are not all finite numbers: its weights are damaged, or it overflows");
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
  const bool has_draft = !job.more_logits.empty();
  if (has_draft && sequence.state->request().verification == api::Verification::kLossyTypical) {
    tools.typical_path = TypicalPath(job, tools);
  } else {
    tools.typical_path.clear();
  }
  for (int node = 0;;) {
    const int32_t token = PickOne(job, node, tools);
    if (token < 0) return;
    job.tokens.push_back(token);
    sequence.history.AddOutput(token);
    node = has_draft ? sequence.draft.tree.FindChild(node, token) : -1;
    if (node < 0) return;
    job.path.push_back(node);
    if (Ends(sequence, token)) return;
  }
}

int32_t TokenPicker::DecideByRejection(PickJob& job, int node, std::span<const float> logits, Tools& tools) const {
  const Sequence& sequence = *job.sequence;
  const auto position = static_cast<uint64_t>(sequence.n_prompt + sequence.history.n_output());
  if (tools.verifier == nullptr) tools.verifier = std::make_unique<spec::RejectionVerifier>(vocab_size_);
  std::array<spec::Trial, spec::DraftTree::kMaxNodes> trials;
  spec::NodeLaws laws;
  laws.p = tools.sampler.Distribution(logits, sequence.sampling);
  if (!job.more_logits.empty()) {
    const SequenceDraft& draft = sequence.draft;
    int n_trials = spec::ChildTrials(draft.tree, node, trials);
    laws.proposal.kind = draft.kind;
    if (draft.kind != spec::ProposalKind::kOneHot) {
      laws.proposal.q = draft.laws[static_cast<size_t>(node)];
      // Behind the drawn children there may be places that no draw has filled.
      int n_drawn = 0;
      while (n_drawn < n_trials &&
             spec::ProbabilityOf(laws.proposal.q, trials[static_cast<size_t>(n_drawn)].token) > 0) {
        ++n_drawn;
      }
      n_trials = n_drawn;
    }
    laws.proposal.trials = std::span(trials).first(static_cast<size_t>(n_trials));
  }
  return tools.verifier->VerifyNode(laws, {sequence.sampling.seed, position, sequence.sampling.lane}).token;
}

int32_t TokenPicker::Decide(PickJob& job, int node, std::span<const float> logits, Tools& tools) const {
  const Sequence& sequence = *job.sequence;
  const auto position = static_cast<uint64_t>(sequence.n_prompt + sequence.history.n_output());
  const size_t place = job.tokens.size();
  if (place < tools.typical_path.size()) return sequence.draft.tree.token(tools.typical_path[place]);
  const bool by_rejection = sequence.state->request().verification == api::Verification::kRejection;
  const int32_t token = by_rejection ? DecideByRejection(job, node, logits, tools)
                                     : tools.sampler.Sample(logits, sequence.sampling, position);
  const auto children = sequence.draft.tree.children(node);
  if (job.more_logits.empty() || children.empty()) return token;
  // Under the coupled rule one position in eight is enough, since the law has to be worked out again.
  if (!by_rejection && (position % 8 != 0 || sequence.sampling.temperature <= 0)) return token;
  double probability = 0;
  bool held = false;
  const auto law = tools.sampler.Distribution(logits, sequence.sampling);
  for (const int child : children) {
    if ((sequence.draft.blind >> child & 1) == 0) return token;
    probability += spec::ProbabilityOf(law, sequence.draft.tree.token(child));
    held |= sequence.draft.tree.token(child) == token;
  }
  job.trials.emplace_back(std::min(probability, 1.0), held);
  return token;
}

Status TokenPicker::Transform(const Sequence& sequence, const TokenHistory& history, ShapedAnswer& shaped,
                              std::span<float> logits, Tools& tools) const {
  const api::GenerationRequest& request = sequence.state->request();
  std::vector<int32_t> ends = request.stop_tokens;
  if (!request.ignore_end_of_text) ends.insert(ends.end(), end_ids_.begin(), end_ids_.end());
  tools.sampler.Penalise(logits, sequence.sampling, history, ends);
  if (request.ignore_end_of_text) {
    for (int32_t id : end_ids_) logits[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
  }
  return shaped.constrained() ? shaped.Mask(logits) : OkStatus();
}

// On copies of the logits, with the history and the constraint's state of each node: several paths are looked at, of
// which one is taken, by the code of all others (PickOne).
std::vector<int> TokenPicker::TypicalPath(const PickJob& job, Tools& tools) const {
  const Sequence& sequence = *job.sequence;
  const spec::DraftTree& tree = sequence.draft.tree;
  std::vector<float> logits;
  const int last = spec::LossyTypicalPath(tree, [&](int node) -> spec::Law {
    TokenHistory history = sequence.history;
    ShapedAnswer shaped = sequence.shaped.Fork();
    std::vector<int32_t> above;
    for (int n = node; n > 0; n = tree.parent(n)) above.insert(above.begin(), tree.token(n));
    for (const int32_t token : above) {
      history.AddOutput(token);
      shaped.Accept(token);
    }
    const std::span<float> row = node == 0 ? job.logits : job.more_logits[static_cast<size_t>(node) - 1];
    if (!AllFinite(row) || (node > 0 && Ends(sequence, tree.token(node)))) return {};
    logits.assign(row.begin(), row.end());
    if (!Transform(sequence, history, shaped, logits, tools).ok()) return {};
    return tools.sampler.Distribution(logits, sequence.sampling);
  });
  std::vector<int> path;
  for (int n = last; n > 0; n = tree.parent(n)) path.insert(path.begin(), n);
  return path;
}

// -1: nothing may follow, and why is in the job's status.
int32_t TokenPicker::PickOne(PickJob& job, int node, Tools& tools) const {
  const std::span<float> logits = node == 0 ? job.logits : job.more_logits[static_cast<size_t>(node) - 1];
  Sequence& sequence = *job.sequence;
  const api::GenerationRequest& request = sequence.state->request();
  const auto position = static_cast<uint64_t>(sequence.n_prompt + sequence.history.n_output());
  job.status = sequence.prompt_status;
  if (job.status.ok() && !AllFinite(logits)) job.status = NotFiniteError(static_cast<int64_t>(position) - 1);
  if (!job.status.ok()) {
    return -1;
  }
  const bool wants_logprobs = request.n_logprobs >= 0;
  std::vector<float> raw;
  if (wants_logprobs) raw.assign(logits.begin(), logits.end());
  job.status = Transform(sequence, sequence.history, sequence.shaped, logits, tools);
  if (!job.status.ok()) return -1;
  const int32_t token = Decide(job, node, logits, tools);
  if (sequence.shaped.constrained()) sequence.shaped.Accept(token);
  if (wants_logprobs) job.logprobs.push_back(LogprobOf(raw, token, request.n_logprobs));
  return token;
}

}  // namespace surety::engine
