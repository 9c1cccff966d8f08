// Drafts of a head on the target's hidden states: EAGLE-1, -2 and -3, Medusa (model/heads/draft_head.h).
//
// After each step the hidden states of rows that became a part of a sequence are kept, some for each sequence. When a
// sequence is asked for a draft, an EAGLE head first reads them: each with the token behind it, into the slot of that
// token (head_cache.h), over what earlier drafts left there. Then a tree grows level by level, a step of the head each:
// the likeliest nodes are gone on from, with the head's own states, in branches of pages for all but the first child;
// all children are candidates, and of all candidates those that are reached most probably are proposed. Medusa says all
// levels at once, and all nodes of a level have the same children. Prompts are read as they come while the head is
// asked often; else only their end is, and drafts start with a short context.
//
// Under the coupled rule children are the first ones of the race that the target will run, under the head's law with
// the request's parameters; under rejection the likeliest tokens, chosen without looking at any random number
// (one-hot).
//
// Threads: the engine thread. Owns: working memory, what is kept of sequences. Borrows: the model with its head, the
// pool. Errors: Make: kResourceExhausted.
// Source: Li et al. 2024 (EAGLE-2) for the growing tree and its re-ranking, with acceptance as it was learned in place
// of the head's own probabilities; Cai et al. 2024 (Medusa).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "engine/drafter.h"
#include "engine/head_cache.h"
#include "engine/kept_states.h"
#include "engine/local_model.h"
#include "engine/model_drafting.h"
#include "engine/sampler.h"
#include "kv/branch_table.h"
#include "model/heads/draft_head.h"
#include "spec/acceptance.h"
#include "spec/verify_cost.h"

namespace surety::engine {

struct HeadState final : ModelDrafterState {
  HeadState(size_t width, const spec::RankedAcceptance& by_sureness, const spec::RankedAcceptance& by_depth)
      : ModelDrafterState(by_sureness, by_depth), kept(width) {}

  int end() const { return first_kept + kept.size(); }  // the position behind the last state that is kept
  void Trim(int n_left);

  int first_kept = 0;  // position of the first state that is kept
  KeptStates kept;     // of consecutive positions
};

// A tree while it grows.
struct HeadGrowth {
  struct Node {
    int parent = -1, depth = 0;
    int32_t token = -1;
    int8_t rank = 0, a_class = 0;
    int8_t table = 0;         // 0: the sequence's pages, k: branches[k - 1]
    bool is_continued = false;  // a child has taken its table on
    double confidence = 1, joint = 1;
    int row = 0;              // its row in the last step of the head; what it says is there
  };
  DraftWish wish;
  DraftProposal* proposal = nullptr;
  HeadState* state = nullptr;
  int first_visible = 1;
  int pages_left = 0;
  std::vector<Node> nodes;    // the root first; parents before children
  std::vector<int> frontier;  // nodes that have a row in the step at hand
  std::vector<kv::BranchTable> branches;
};

class HeadDrafter final : public Drafter {
 public:
  // The layout of the target's pages with room for its head's part.
  static KvLayout LayoutWith(const LocalModel& target, const KvLayout& layout);
  // `target` has a head, and keeps the hidden states that it reads (Model::SetTaps).
  static Result<std::unique_ptr<HeadDrafter>> Make(LocalModel& target, kv::PagePool& pool, int max_sequences,
                                                   int context_tokens);

  DraftMethod method() const override { return eagle_ != nullptr ? DraftMethod::kEagle : DraftMethod::kMedusa; }
  bool is_free() const override { return false; }
  bool wants_taps() const override { return true; }
  void Draft(std::span<const DraftWish> wishes, std::span<DraftProposal* const> proposals) override;
  void Observe(Sequence& sequence, int32_t token) override;
  void Drop(Sequence& sequence) override;
  double MeanAcceptance(const Sequence& sequence, int depth, int rank) const override;
  double StepNanos(int n_rows) const override { return cost_.Of(n_rows); }
  int CoveredTokens(const Sequence& sequence) const override;
  void AfterStep(std::span<const CommittedRows> steps, ConstMatrixF taps) override;

 private:
  HeadDrafter(LocalModel& target, kv::PagePool& pool, int max_sequences, int context_tokens);
  HeadState& StateFor(Sequence& sequence);
  int FirstUnread(const Sequence& sequence, const HeadState& state) const;
  void KeepInPages(const CommittedRows& step, ConstMatrixF taps);
  void KeepStates(const CommittedRows& step, ConstMatrixF taps, bool is_read);

  void ClearRows();
  void AddRow(int32_t token, const float* state, size_t n_floats);
  void AddSequence(const Sequence& sequence, const HeadState& state, int first_slot, int end_slot, bool wants_logits);
  void RunHead(bool own);
  void Read(const Sequence& sequence, const HeadState& state, int end_slot);

  bool Begin(const DraftWish& wish, DraftProposal& proposal, HeadGrowth& growth);
  void DraftEagle(std::span<HeadGrowth> growths);
  void DraftMedusa(std::span<HeadGrowth> growths);
  bool ReadLogits(const HeadGrowth& growth, int row);
  void ChooseChildren(const HeadGrowth& growth, int depth);
  void AddChildren(HeadGrowth& growth, int node);
  void ChooseFrontier(HeadGrowth& growth, size_t first_new);
  bool AddNodeRow(HeadGrowth& growth, int node);
  void Finish(HeadGrowth& growth);

  static constexpr int kMaxKept = 64;       // states of a sequence that wait for being read
  static constexpr int kRareKept = 16;      // the same while drafts are hardly asked for: a probe reads them all
  static constexpr int kMaxReadRows = 256;  // of a step of the head
  static constexpr int kMaxFrontier = 32;   // rows of a level beyond one a sequence

  LocalModel& target_;
  model::EagleHead* eagle_ = nullptr;    // one of them
  model::MedusaHead* medusa_ = nullptr;
  kv::PagePool& pool_;
  HeadCache cache_;
  int context_tokens_, max_rows_, max_logit_rows_;
  size_t state_floats_, vocab_;          // of the head
  Sampler sampler_;
  std::vector<int32_t> end_ids_;
  std::vector<float> target_logits_;
  AlignedBuffer logits_;
  // The step of the head that is put together.
  std::vector<int32_t> ids_, positions_, logit_rows_;
  std::vector<SequenceRows> rows_;
  std::vector<KvCopy> copies_;
  std::vector<float> states_;
  struct Child {
    int32_t token;
    int8_t a_class;
  };
  std::vector<Child> children_;          // of the node at hand, the likeliest first
  double asked_share_ = 1;               // of the last steps, those in which drafts were asked for
  bool was_asked_ = false;
  spec::RankedAcceptance shared_, shared_by_depth_;
  spec::VerifyCost cost_;
};

}  // namespace surety::engine
