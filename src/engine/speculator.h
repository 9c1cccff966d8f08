// Which tokens a step verifies beyond the one that each sequence has anyway: asks the drafters, merges what they
// propose into one tree a sequence, lets the policy choose what pays, and books what came of it.
//
// Verification is by the coupled rule: the token at a position is drawn from the target's own law with randomness of
// (seed, position), and a draft holds where it equals that token. So drafts change when tokens come, never which,
// unless a request asks for another rule.
//
// Before a step: Plan sets Sequence::draft. After it: Observe for each token that came, AfterStep, NoteStep.
// Threads: the engine thread. Owns: the drafters, the tables of costs. Sequences own what drafters keep for them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/draft_pages.h"
#include "engine/drafter.h"
#include "engine/lookup_drafter.h"
#include "engine/output_store.h"
#include "engine/sequence.h"
#include "kv/prefix_cache.h"
#include "model/tokenizer/tokenizer.h"
#include "spec/acceptance.h"
#include "spec/acceptance_monitor.h"
#include "spec/draft_ledger.h"
#include "spec/draft_policy.h"
#include "spec/verify_cost.h"

namespace surety::engine {

struct SpeculationOptions {
  bool lookup = true;         // drafts from the request's own text and from earlier answers of its scope
  int max_draft_tokens = 16;  // of one sequence in one step: how deep a draft goes
  int max_draft_rows = 32;    // of all sequences in one step
  int max_branches = 8;       // of one sequence's draft; 1: chains alone
  OutputStoreOptions store = {};
  bool whatever_it_costs = false;  // verifies all that is proposed: for tests, which must not depend on time

  // Rows of logits that verifying takes.
  int draft_rows() const { return max_draft_tokens > 0 ? max_draft_rows : 0; }
  Status Validate() const;  // kInvalidArgument, naming the field
};

struct SpeculationCounters {
  static constexpr int kPositions = 16;  // later ones count as the last
  static constexpr int kRanks = spec::RankedAcceptance::kRanks;  // the same
  static size_t PositionOf(int place) { return static_cast<size_t>(place < kPositions ? place : kPositions - 1); }
  static size_t RankOf(int rank) { return static_cast<size_t>(rank < kRanks ? rank : kRanks - 1); }
  struct Method {
    int64_t n_drafts = 0;        // drafts that a step verified whose first node is this method's
    int64_t draft_tokens = 0;
    int64_t accepted_tokens = 0;
    std::array<int64_t, kPositions> drafted_at{}, accepted_at{};    // by depth in the draft, from 0
    std::array<int64_t, kRanks> drafted_rank{}, accepted_rank{};    // by rank among siblings
  };
  std::array<Method, kDraftMethods> methods;  // by DraftMethod
  int64_t passes = 0;            // sequences' decode steps: tokens a pass
  int64_t branches = 0;          // of drafts, beyond the first of each
  double saved_ns = 0;           // what the accepted tokens would have taken in plain steps, less what drafts cost

  int64_t draft_tokens() const {
    int64_t sum = 0;
    for (const Method& method : methods) sum += method.draft_tokens;
    return sum;
  }
  int64_t accepted_tokens() const {
    int64_t sum = 0;
    for (const Method& method : methods) sum += method.accepted_tokens;
    return sum;
  }
};

class Speculator {
 public:
  // `drafters`: beyond lookup and what grammars force. The tokenizer outlives this. `context_share`: spec::BranchCost.
  Speculator(const SpeculationOptions& options, const model::Tokenizer& tokenizer,
             std::vector<std::unique_ptr<Drafter>> drafters, double context_share);

  void Add(std::unique_ptr<Drafter> drafter);

  // Sets `draft` of each running sequence that decodes; empty where none pays.
  void Plan(std::span<Sequence* const> running, kv::PrefixCache& cache, int64_t now_ns, DraftPages& pages);
  // A token of a sequence's answer was committed.
  void Observe(Sequence& sequence, int32_t token);
  // A step verified the sequence's draft; of it, the node held and its token was given.
  void NoteDrafted(Sequence& sequence);
  void NoteAccepted(Sequence& sequence, int node);
  // Of exact rules: how probable drafts were and whether they held. When the two cannot both be right any more, nothing
  // is drafted from then on. Only of requests whose seed no caller knew: who repeats a seed may draft from the very
  // answer that it gives.
  void NoteTrials(const Sequence& sequence, std::span<const std::pair<double, bool>> trials);
  bool wants_taps() const { return wants_taps_; }
  // Before NoteStep of the same step. Its time is drafting's.
  void AfterStep(std::span<const CommittedRows> steps, ConstMatrixF taps);
  // A step that only decoded took this long, without the time of drafting.
  void NoteStep(int n_rows, int n_sequences, int64_t nanos);
  // A choice ended with an answer that may be looked up by others of its scope.
  void Keep(const Sequence& sequence, kv::PrefixCache& cache, int64_t now_ns);
  // The sequence's scope was forgotten: proposals may be from texts that are no more, states are of such.
  void Drop(Sequence& sequence) {
    for (auto& drafter : drafters_) drafter->Drop(sequence);
  }
  int64_t Forget(const kv::ScopeSet& scopes) { return lookup_->store().Forget(scopes); }
  // Between steps: earlier answers that are past their time go.
  void Tidy(int64_t now_ns) { lookup_->store().Sweep(now_ns); }

  const SpeculationCounters& counters() const { return counters_; }
  const spec::AcceptanceMonitor& monitor() const { return monitor_; }

 private:
  // What the drafters propose for one sequence, merged.
  struct Offered {
    Sequence* sequence = nullptr;
    SequenceDraft draft;
    double expected = 0;  // nodes that are accepted
    bool is_forced = false;
    // A drafter was asked that may look at the random numbers of the next positions. Which nodes there are, and so
    // which would be trials, may then depend on them: the step has no trials for the monitor, whatever was proposed.
    bool saw_noise = false;
    bool is_walked = false;  // by its constraint
  };
  // How much a drafter that costs steps is asked for.
  struct Extent {
    int depth = 0, width = 1;
  };
  bool enabled() const {
    return options_.max_draft_tokens > 0 && options_.max_draft_rows > 0 && !monitor_.alarm();
  }
  bool MayDraft(const Sequence& sequence) const;
  int MostFor(const Sequence& sequence) const;
  Offered& AddOffer(Sequence& sequence);
  void AskFree(Drafter& drafter);
  void AskCostly(size_t index, int n_decoding, DraftPages& pages);
  void NoteGain(int n_sequences, int64_t nanos);
  Extent BestExtent(const Drafter& drafter, int n_decoding, std::span<const size_t> asking) const;
  DraftWish WishFor(const Drafter& drafter, Sequence& sequence, const Extent& extent, int n_decoding, int n_asking);
  void Ask(Drafter& drafter, std::span<const size_t> offers, std::span<const DraftWish> wishes);
  static void Arrange(Offered& offer, uint64_t keep);
  void Choose(int n_decoding);
  void ChooseAmongOffers(int n_decoding);
  bool DropForbidden();
  double BranchNanos(const Sequence& sequence) const { return branch_cost_.Of(sequence.n_tokens(), cost_.Of(1)); }

  SpeculationOptions options_;
  std::vector<std::unique_ptr<Drafter>> drafters_;
  LookupDrafter* lookup_ = nullptr;  // one of them
  bool wants_taps_ = false;
  // By drafter, of those that cost steps.
  struct Record {
    int n_steps_unasked = 0;  // while estimates say that it does not pay
    bool was_asked = false;   // in the step at hand
    spec::DraftLedger ledger;
  };
  std::vector<Record> records_;
  spec::VerifyCost cost_;
  spec::BranchCost branch_cost_;
  SpeculationCounters counters_;
  spec::AcceptanceMonitor monitor_;
  int n_kept_in_step_ = 0;
  double branch_units_in_step_ = 0;
  int64_t drafting_ns_in_step_ = 0;
  // Of the step that is planned; they keep their memory.
  std::vector<std::unique_ptr<Offered>> offered_;
  size_t n_offered_ = 0;
  std::vector<spec::DraftOffer> offers_;
  std::vector<std::unique_ptr<DraftProposal>> proposals_;
};

}  // namespace surety::engine
