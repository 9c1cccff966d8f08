// Drafts for the sequences that decode: which tokens a step verifies beyond the one that each sequence has anyway.
//
// Verification is by the coupled rule: the token at a position is drawn from the target's own law with randomness of
// (seed, position), and a draft holds where it equals that token. So drafts change when tokens come, never which.
//
// Before a step: Plan sets Sequence::draft. After it: Observe for each token that came, AfterStep with its time.
// Threads: the engine thread. Owns: the store of earlier answers, the tables. Sequences own their lookup state.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/output_store.h"
#include "engine/sequence.h"
#include "kv/prefix_cache.h"
#include "spec/acceptance.h"
#include "spec/verify_cost.h"

namespace surety::engine {

struct SpeculationOptions {
  bool lookup = true;       // drafts from the request's own text and from earlier answers of its scope
  int max_draft_tokens = 16;  // of one sequence in one step
  int max_draft_rows = 32;  // of all sequences in one step
  OutputStoreOptions store = {};

  bool enabled() const { return lookup && max_draft_tokens > 0 && max_draft_rows > 0; }
  Status Validate() const;  // kInvalidArgument, naming the field
};

struct SpeculationCounters {
  static constexpr int kPositions = 16;  // later ones count as the last
  int64_t n_drafts = 0;           // sequences' drafts that a step verified
  int64_t draft_tokens = 0;
  int64_t accepted_tokens = 0;
  std::array<int64_t, kPositions> drafted_at{}, accepted_at{};  // by place in the draft
  int64_t passes = 0;             // decode rows' steps by sequence: tokens a pass = output tokens / passes
  double saved_ns = 0;            // what the accepted tokens would have taken in plain steps, less what drafts cost
};

class Speculator {
 public:
  explicit Speculator(const SpeculationOptions& options)
      : options_(options), shared_(spec::LookupDraft::Prior()), store_(options.store) {}

  // Sets `draft` of each running sequence that decodes; empty where none pays.
  void Plan(std::span<Sequence* const> running, kv::PrefixCache& cache, int64_t now_ns);
  // A token of a sequence's answer was committed.
  static void Observe(Sequence& sequence, int32_t token);
  // `n_kept` tokens of a draft held, of `n_drafted` that were verified.
  void NoteVerified(Sequence& sequence, int n_drafted, int n_kept);
  // A step that only decoded took this long.
  void NoteStep(int n_rows, int n_sequences, int64_t nanos);
  // A choice ended with an answer that may be looked up by others of its scope.
  void Keep(const Sequence& sequence, kv::PrefixCache& cache, int64_t now_ns);
  int64_t Forget(const kv::ScopeSet& scopes) { return store_.Forget(scopes); }

  const SpeculationCounters& counters() const { return counters_; }

 private:
  bool MayDraft(const Sequence& sequence) const;

  SpeculationOptions options_;
  spec::AcceptanceTable shared_;
  spec::VerifyCost cost_;
  OutputStore store_;
  SpeculationCounters counters_;
  int n_kept_in_step_ = 0;
  std::vector<std::vector<double>> acceptance_;  // by sequence of the step
};

}  // namespace surety::engine
