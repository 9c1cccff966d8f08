// A second, smaller model that drafts for the target: whose text it has read, where its keys and values are, what it
// proposes next.
//
// With the target's vocabulary its keys and values lie in the target's own pages, so a prefix that is found in the
// cache brings them along; how many tokens of a page they cover is kept beside the page. With another vocabulary the
// texts have other tokens, and it has pages of its own.
//
// A draft is drawn as the target draws: from the draft's law under the request's parameters, by the same race
// (spec/coupling.h), so that both name the same token as often as the laws allow. Nothing here can change an answer.
//
// Threads: the engine thread. Owns: the drafter, the other vocabulary's pages. Borrows: the model, the target's pool.
// Errors: Make: kInvalidArgument (an encoder, too few common tokens), kResourceExhausted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/draft_state.h"
#include "engine/local_model.h"
#include "engine/sampler.h"
#include "engine/sequence.h"
#include "kv/page_pool.h"
#include "spec/acceptance.h"
#include "spec/model_drafter.h"
#include "spec/verify_cost.h"
#include "spec/vocabulary_map.h"

namespace surety::engine {

class DraftModel {
 public:
  // The layout of the target's pages when its draft drafts: with room for the draft's part where it fits.
  static KvLayout LayoutWith(const LocalModel& target, const KvLayout& layout);
  // Bytes of the pages that the draft needs beside the target's; 0 with the target's vocabulary.
  static int64_t PoolBytes(const LocalModel& target, const KvLayout& layout, int max_sequences, int context_tokens);
  // `target` has a draft.
  static Result<std::unique_ptr<DraftModel>> Make(LocalModel& target, kv::PagePool& pool, int max_sequences,
                                                  int context_tokens);

  struct Wish {
    Sequence* sequence;
    int n_most = 0;          // tokens wanted
    double least = 0;        // a token is not drafted behind ones that hold less often than this
  };
  // Fills DraftState::proposal and classes of each sequence. A sequence that has much to catch up on gets an empty
  // proposal and reads a part of it.
  void Draft(std::span<const Wish> wishes);
  // A token came: scores the proposal.
  void Observe(Sequence& sequence, int32_t token);

  // Of its tokens, how many hold given that those before do.
  double MeanAcceptance(const Sequence& sequence) const {
    return sequence.draft_state != nullptr ? sequence.draft_state->mean : shared_mean_;
  }
  // Tokens that the draft has not read yet.
  int Behind(const Sequence& sequence) const;
  const spec::VerifyCost& cost() const { return cost_; }  // of the draft's own steps, by rows
  int64_t spent_ns() const { return spent_ns_; }

 private:
  DraftModel(LocalModel& target, kv::PagePool& pool, int context_tokens);
  DraftState& StateOf(Sequence& sequence);
  std::optional<spec::ModelDraftRequest> RequestFor(const Wish& wish);
  void Read(Sequence& sequence, DraftState& state) const;
  int FoundInPages(const Sequence& sequence) const;
  void NotePages(const Sequence& sequence, int n_tokens);
  void NoteDraftedToken(const Sequence& sequence);
  bool PreparePages(const Sequence& sequence, DraftState& state, int n_tokens) const;
  int32_t Pick(const Wish& wish, DraftState& state, int depth, std::span<float> logits, double& holds);

  static constexpr int kMaxRows = 256;  // of a step of the draft: how much is caught up on at once

  LocalModel& draft_;
  kv::PagePool& pool_;
  int context_tokens_;
  const spec::VocabularyMap& map_;
  std::unique_ptr<kv::PagePool> own_pool_;  // null with the target's vocabulary
  std::unique_ptr<spec::ModelDrafter> drafter_;
  Sampler sampler_;
  std::vector<float> target_logits_;
  std::vector<int32_t> end_ids_;            // of the target
  struct PageNote {
    uint32_t serial = 0;
    int n_tokens = 0;
  };
  std::vector<PageNote> notes_;  // by page of the target's pool: how many of its tokens the draft has computed
  spec::AcceptanceTable shared_;
  double shared_mean_ = 0.6;
  spec::VerifyCost cost_;
  int64_t spent_ns_ = 0;
};

}  // namespace surety::engine
