// Lossless verification of drafts by rejection: whatever the drafter proposes, the tokens that come out have the
// target's law.
//
// At a node with the target's law p and trials x_1 .. x_k that were drawn from q_1 .. q_k: r = p; trial i is accepted
// where u_i q_i(x_i) < r(x_i), else r = norm(max(r - q_i, 0)); when none is accepted the token is drawn from r. A chain
// is the case of one trial a node.
//
// What the engine owes, or the result is biased: (1) q is the law that the trials were really drawn from, after all
// transforms; p has all transforms of the request. (2) whether a node gets trials, and how many, may depend on tokens
// above it and on q as a whole, never on the tokens drawn there and never on p. So a tree pruned by the value of its
// drawn tokens counts as chosen: kOneHot. (3) a draft that the grammar forbids stays a trial, with p = 0.
//
// The residual is used down to a mass of 0, with no threshold: drawing from p instead where the mass m is small would
// shift the result by up to m. A small residual is known badly only relative to itself; it is reached with probability
// m, so what rounding does to the result stays near 1e-16 for each entry.
//
// Threads: one caller an object. Owns: scratch of V entries (24 bytes each), made once; no call allocates.
// Errors: a trial that its own q cannot give is a bug.
// Source: Leviathan, Kalman, Matias 2023 and Chen et al. 2023 (chains); Miao et al. 2024 (SpecInfer), Yang et al. 2024
// and Jeon et al. 2024 (recursive rejection, with and without replacement).
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "spec/draft_tree.h"
#include "spec/law.h"

namespace surety::spec {

// Where the random numbers of one decision come from: a purpose of its own for drafts, accept tests, residual and bonus
// (base/random.h), at the absolute output position of the token that is decided. Within the stream of the accept tests
// the word's index is the trial's place at its node, within that of the drafts (node, draw). A walk stands on one node
// a depth, so a position's accept tests are used once. Draft noise of a position whose drafts were discarded unseen
// comes again in the next step; nothing that was emitted depended on it.
struct RejectionKey {
  uint64_t seed = 0;
  uint64_t position = 0;
  uint32_t lane = 0;
};

double DraftUniform(const RejectionKey& key, int node, int draw);
double AcceptUniform(const RejectionKey& key, int trial);
double ResidualUniform(const RejectionKey& key);
double BonusUniform(const RejectionKey& key);

// How the trials of a node came about.
enum class ProposalKind : uint8_t {
  kOneHot,              // chosen, not drawn (greedy, top-k, n-grams, Medusa): each q_i is one-hot; distinct tokens
  kIndependent,         // each drawn from q; equal tokens are separate trials and may name the same node
  kWithoutReplacement,  // each drawn from q without the tokens drawn before, renormalised
};

struct Trial {
  int32_t token = -1;
  int node = -1;
};

// Views; valid for the call that takes it.
struct Proposal {
  ProposalKind kind = ProposalKind::kOneHot;
  Law q = {};  // not looked at for kOneHot
  std::span<const Trial> trials = {};  // in the order drawn; empty: a leaf
};

// Draws out.size() tokens from q for the children of `node`, for kIndependent. `key` is the children's position.
void DraftIndependent(Law q, const RejectionKey& key, int node, std::span<int32_t> out);
// The same for kWithoutReplacement; returns how many there are, fewer where q has no more tokens.
int DraftWithoutReplacement(Law q, const RejectionKey& key, int node, std::span<int32_t> out);
// The children of a node as trials in their order, for kOneHot and kWithoutReplacement; `out` holds kMaxNodes. Returns
// how many there are. Where draws are independent the drafter itself keeps the list, with its repeats.
int ChildTrials(const DraftTree& tree, int node, std::span<Trial> out);

struct TrialOdds {
  double target = 0;  // r(x)
  double draft = 1;   // q_i(x)
};

// Strict, and u > 0: what has target probability 0 is never accepted.
inline bool Accepts(const TrialOdds& odds, double u) { return u * odds.draft < odds.target; }
// The probability that Accepts says yes.
inline double AcceptProbability(const TrialOdds& odds) {
  return odds.target < odds.draft ? odds.target / odds.draft : 1.0;
}

// The law that is left at a node while its trials are refused one after another. Costs at most a pass over p and q for
// each call.
class Remainder {
 public:
  explicit Remainder(int vocab_size);

  // p and q must stay valid until the last call for this node. Trials come in order: OddsOf, then Reject or the end.
  void Begin(Law p, ProposalKind kind, Law q);
  TrialOdds OddsOf(int32_t token) const;
  void Reject(int32_t token);
  // r, up to the factor 1 / mass().
  Law law() const { return law_; }
  double mass() const { return mass_; }

 private:
  template <typename LeftOf>
  void Keep(LeftOf left_of);
  bool IsTaken(int32_t token) const;

  Law law_;
  double mass_ = 1;
  ProposalKind kind_ = ProposalKind::kOneHot;
  Law q_;
  double q_mass_ = 1;           // of the tokens that are not taken
  std::vector<int32_t> taken_;  // rejected, under kWithoutReplacement
  std::vector<std::pair<int32_t, double>> remaining_;
  std::vector<double> q_of_;  // by token; all 0 between calls
};

struct Outcome {
  int node = -1;  // of the accepted trial; -1: none was
  int32_t token = -1;
};

struct NodeLaws {
  Law p;
  Proposal proposal = {};
};

class RejectionVerifier {
 public:
  explicit RejectionVerifier(int vocab_size) : remainder_(vocab_size) {}

  // Decides the token at key.position, below a node with these laws.
  Outcome VerifyNode(const NodeLaws& laws, const RejectionKey& key);

  // From the root down: laws_of(node) is asked for a node once the walk stands on it, and its views need to be valid
  // until the next call; emit(token, node) tells each token of the result, with the node that holds it (-1: none does,
  // it is the last), and says whether to go on. Where the run is cut, no further token is drawn. `key` is the position
  // of the first token below the root. Returns the last accepted node, 0 if none.
  int Walk(RejectionKey key, FunctionRef<NodeLaws(int node)> laws_of, FunctionRef<bool(int32_t token, int node)> emit);

 private:
  Remainder remainder_;
};

}  // namespace surety::spec
