// A second, smaller model that drafts for the target: whose text it has read, where its keys and values are, what it
// proposes next.
//
// With the target's vocabulary its keys and values lie in the target's own pages, so a prefix that is found in the
// cache brings them along; how many tokens of a page they cover is kept beside the page. With another vocabulary the
// texts have other tokens, and it has pages of its own.
//
// A tree grows level by level, a step of the draft each. The nodes that are reached most probably are gone on from, in
// branches of the draft's own for all but the likeliest child; of their children the likeliest become candidates. Under
// the coupled rule the children of a node are the first ones of the race that the target will run (spec/coupling.h),
// under the draft's law with the request's parameters: both name the same winner as often as the laws allow. Under
// rejection the shape is laid down first and filled with draws without replacement. Nothing here can change an answer.
//
// Only the likeliest path's keys and values are kept; a token that came on another branch is read again.
//
// Threads: the engine thread. Owns: the drafter, the other vocabulary's pages. Borrows: the model, the target's pool.
// Errors: Make: kInvalidArgument (an encoder, too few common tokens), kResourceExhausted.
// Source: the growing tree, Li et al. 2024 (EAGLE-2), with acceptance as it was learned in place of the draft's own
// probabilities.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/drafter.h"
#include "engine/local_model.h"
#include "engine/model_drafting.h"
#include "engine/sampler.h"
#include "engine/sequence.h"
#include "kv/page_pool.h"
#include "spec/acceptance.h"
#include "spec/model_drafter.h"
#include "spec/verify_cost.h"
#include "spec/vocabulary_map.h"

namespace surety::engine {

struct DraftGrowth;

// What a sequence's drafting has come to.
struct DraftModelState final : ModelDrafterState {
  using ModelDrafterState::ModelDrafterState;

  std::vector<int32_t> text;        // what the draft reads, in its vocabulary
  std::vector<int32_t> in_pages;    // another vocabulary's: tokens whose keys and values are in `pages`
  std::optional<kv::PageTable> pages;  // overwritten when they are given back, whatever the scope's policy
  // The target's pages that the last draft wrote behind the text, as they were then.
  struct Written {
    int index = 0;  // in the sequence's table
    int32_t page = -1;
    uint32_t serial = 0;
  };
  std::vector<Written> written;
  int n_taken = 0;                  // of the sequence's tokens, that are in `text`
  uint64_t in_own_pages = 0;        // of the last proposal: nodes whose keys and values are in the sequence's own pages
};

class DraftModel final : public Drafter {
 public:
  // The layout of the target's pages when its draft drafts: with room for the draft's part where it fits.
  static KvLayout LayoutWith(const LocalModel& target, const KvLayout& layout);
  // Bytes of the pages that the draft needs beside the target's; 0 with the target's vocabulary.
  static int64_t PoolBytes(const LocalModel& target, const KvLayout& layout, int max_sequences, int context_tokens);
  // `target` has a draft.
  static Result<std::unique_ptr<DraftModel>> Make(LocalModel& target, kv::PagePool& pool, int max_sequences,
                                                  int context_tokens);

  DraftMethod method() const override { return DraftMethod::kModel; }
  bool is_free() const override { return false; }
  // A sequence that has much to catch up on gets no proposal and reads a part of it.
  void Draft(std::span<const DraftWish> wishes, std::span<DraftProposal* const> proposals) override;
  void Observe(Sequence& sequence, int32_t token) override;
  double MeanAcceptance(const Sequence& sequence, int depth, int rank) const override;
  double StepNanos(int n_rows) const override { return cost_.Of(n_rows); }
  int CoveredTokens(const Sequence& sequence) const override;

 private:
  using State = DraftModelState;
  DraftModel(LocalModel& target, kv::PagePool& pool, int context_tokens);
  State& StateFor(Sequence& sequence);
  kv::PagePool& pages() { return own_pool_ ? *own_pool_ : pool_; }
  std::span<const int32_t> TableOf(const Sequence& sequence, const State& state) const;
  int FoundInPages(const Sequence& sequence) const;
  void NotePages(const Sequence& sequence, int n_tokens);
  void NoteDraftedToken(const Sequence& sequence, const State& state);
  bool PreparePages(const Sequence& sequence, State& state, int n_tokens) const;
  std::optional<DraftGrowth> Begin(const DraftWish& wish, DraftProposal& proposal);
  void CatchUp(DraftGrowth& growth, int n_rows);
  void AddFrontier(DraftGrowth& growth);
  bool AddNode(DraftGrowth& growth, int node);
  bool ReadLogits(const DraftGrowth& growth, std::span<float> logits);
  void GrowByRace(DraftGrowth& growth, int node, int n_children);
  void GrowByLaw(DraftGrowth& growth, int node);
  void AddCandidates(DraftGrowth& growth);
  void Finish(DraftGrowth& growth);

  static constexpr int kMaxRows = 256;  // of a step of the draft: how much is caught up on at once
  static constexpr int kMaxFrontier = 32;   // rows of a level beyond one a sequence
  static constexpr int kOwnBranchPages = 64;

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
  spec::RankedAcceptance shared_, shared_by_depth_;
  spec::VerifyCost cost_;
};

}  // namespace surety::engine
