// Drafts by looking up: how the request's own text, its prediction, or an earlier answer of its scope went on when the
// same tokens came last.
//
// Threads: the engine thread. Owns: the store of earlier answers, the shared scores.
#pragma once

#include "engine/drafter.h"
#include "engine/output_store.h"
#include "kv/prefix_cache.h"
#include "spec/lookup_draft.h"

namespace surety::engine {

class LookupDrafter final : public Drafter {
 public:
  explicit LookupDrafter(const OutputStoreOptions& options)
      : options_(options), shared_(spec::LookupDraft::Prior()), store_(options) {}

  DraftMethod method() const override { return DraftMethod::kLookup; }
  bool is_free() const override { return true; }
  void Draft(std::span<const DraftWish> wishes, std::span<DraftProposal* const> proposals) override;
  void Observe(Sequence& sequence, int32_t token) override;

  // Of the plan to come: where a scope's rules stand, and the time.
  void BeginPlan(kv::PrefixCache& cache, int64_t now_ns) {
    cache_ = &cache;
    now_ns_ = now_ns;
  }
  // Gives up the proposal, which may be from an answer that has been forgotten since.
  void Drop(Sequence& sequence) override {
    if (State* state = StateOf<State>(sequence.drafters, method())) state->lookup.DropProposal();
  }
  OutputStore& store() { return store_; }

 private:
  struct State final : DrafterState {
    explicit State(spec::RankedAcceptance& shared) : lookup(shared) {}
    spec::LookupDraft lookup;
  };
  spec::LookupDraft& LookupOf(Sequence& sequence);

  OutputStoreOptions options_;
  spec::RankedAcceptance shared_;
  OutputStore store_;
  kv::PrefixCache* cache_ = nullptr;
  int64_t now_ns_ = 0;
};

}  // namespace surety::engine
