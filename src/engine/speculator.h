// Drafts for the sequences that decode: which tokens a step verifies beyond the one that each sequence has anyway.
//
// Verification is by the coupled rule: the token at a position is drawn from the target's own law with randomness of
// (seed, position), and a draft holds where it equals that token. So drafts change when tokens come, never which,
// unless a request asks for another rule.
//
// Before a step: Plan sets Sequence::draft. After it: Observe for each token that came, AfterStep with its time.
// Threads: the engine thread. Owns: the store of earlier answers, the tables. Sequences own their lookup state.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "engine/draft_model.h"
#include "engine/output_store.h"
#include "engine/sequence.h"
#include "kv/prefix_cache.h"
#include "spec/acceptance.h"
#include "spec/acceptance_monitor.h"
#include "spec/draft_policy.h"
#include "spec/verify_cost.h"

namespace surety::engine {

struct SpeculationOptions {
  bool lookup = true;       // drafts from the request's own text and from earlier answers of its scope
  int max_draft_tokens = 16;  // of one sequence in one step
  int max_draft_rows = 32;  // of all sequences in one step
  OutputStoreOptions store = {};
  bool whatever_it_costs = false;  // verifies all that is proposed: for tests, which must not depend on time

  // Rows of logits that verifying takes.
  int draft_rows() const { return max_draft_tokens > 0 ? max_draft_rows : 0; }
  Status Validate() const;  // kInvalidArgument, naming the field
};

struct SpeculationCounters {
  static constexpr int kPositions = 16;  // later ones count as the last
  static size_t PositionOf(int place) { return static_cast<size_t>(place < kPositions ? place : kPositions - 1); }
  struct Method {
    int64_t n_drafts = 0;        // drafts that a step verified
    int64_t draft_tokens = 0;
    int64_t accepted_tokens = 0;
    std::array<int64_t, kPositions> drafted_at{}, accepted_at{};  // by place in the draft
  };
  std::array<Method, kDraftMethods> methods;  // by DraftMethod
  int64_t passes = 0;            // sequences' decode steps: tokens a pass = (passes + accepted tokens) / passes
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
  // `model`: a draft model, or null. The tokenizer outlives this.
  Speculator(const SpeculationOptions& options, const model::Tokenizer& tokenizer, std::unique_ptr<DraftModel> model);

  // Sets `draft` of each running sequence that decodes; empty where none pays. `extend`: Scheduler::ExtendForDraft.
  using ExtendFn = FunctionRef<int(Sequence& sequence, int n_tokens)>;
  void Plan(std::span<Sequence* const> running, kv::PrefixCache& cache, int64_t now_ns, ExtendFn extend);
  // A token of a sequence's answer was committed.
  void Observe(Sequence& sequence, int32_t token);
  // A step of the sequence verified this many drafted tokens; of them, the one at this place held and was given.
  void NoteDrafted(Sequence& sequence, int n_drafted);
  void NoteAccepted(Sequence& sequence, int place);
  // Of exact rules: how probable drafts were and whether they held. When the two cannot both be right any more, nothing
  // is drafted from then on. Only of requests whose seed no caller knew: who repeats a seed may draft from the very
  // answer that it gives.
  void NoteTrials(const Sequence& sequence, std::span<const std::pair<double, bool>> trials);
  // A step that only decoded took this long, without the time of drafting.
  void NoteStep(int n_rows, int n_sequences, int64_t nanos);
  // A choice ended with an answer that may be looked up by others of its scope.
  void Keep(const Sequence& sequence, kv::PrefixCache& cache, int64_t now_ns);
  int64_t Forget(const kv::ScopeSet& scopes) { return store_.Forget(scopes); }
  // Between steps: earlier answers that are past their time go.
  void Tidy(int64_t now_ns) { store_.Sweep(now_ns); }

  const SpeculationCounters& counters() const { return counters_; }
  const DraftModel* model() const { return model_.get(); }
  const spec::AcceptanceMonitor& monitor() const { return monitor_; }

 private:
  struct Offered {
    Sequence* sequence = nullptr;
    DraftMethod method = DraftMethod::kLookup;
    std::vector<int32_t> tokens;
    std::vector<double> acceptance;
    double expected = 0;  // tokens that hold
  };
  bool enabled() const {
    return options_.max_draft_tokens > 0 && options_.max_draft_rows > 0 && !monitor_.alarm();
  }
  bool MayDraft(const Sequence& sequence) const;
  static bool MustNotLookAtDrawn(const Sequence& sequence);
  int MostFor(const Sequence& sequence) const;
  std::span<const int32_t> LookUp(Sequence& sequence, kv::PrefixCache& cache, int64_t now_ns);
  void Force(Sequence& sequence) const;
  // Adds a draft to what the policy chooses from; of one sequence's drafts the one with more expected tokens stays.
  void Offer(Sequence& sequence, DraftMethod method, std::span<const int32_t> draft,
             FunctionRef<double(int depth)> acceptance);
  int BestDepth(int n_decoding, int n_wishes, double mean) const;
  void AskModel(int n_decoding, std::span<Sequence* const> asking, ExtendFn extend);

  SpeculationOptions options_;
  const model::Tokenizer& tokenizer_;
  spec::AcceptanceTable shared_;
  spec::AcceptanceTable forced_;  // by place in the draft
  spec::VerifyCost cost_;
  OutputStore store_;
  std::unique_ptr<DraftModel> model_;
  SpeculationCounters counters_;
  spec::AcceptanceMonitor monitor_;
  int n_kept_in_step_ = 0;
  int64_t model_ns_in_step_ = 0;
  int n_steps_unasked_ = 0;      // while the model does not pay
  // Of the step that is planned; they keep their memory.
  std::vector<Offered> offered_;
  size_t n_offered_ = 0;
  std::vector<spec::DraftOffer> offers_;
  std::vector<Sequence*> asking_;
};

}  // namespace surety::engine
