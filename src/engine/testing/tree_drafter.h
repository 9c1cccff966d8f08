// A drafter for tests: it knows what each answer is going to be and hides it in trees of all shapes, among tokens that
// are wrong; and it keeps what the engine tells a drafter that reads hidden states.
//
// Threads: the engine thread. Owns: what it was told.
#pragma once


#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/drafter.h"
#include "engine/engine.h"
#include "kv/page_pool.h"

namespace surety::engine::testing {

struct TreeDrafterOptions {
  uint64_t seed = 1;
  int vocab = 100;
  int percent_right = 75;     // of children of nodes on the right path; 100: nothing else is proposed
  int most_children = 4;
  bool only_wrong = false;
  // Not empty: no answer is known, children are of these tokens; drawn without replacement from a law of their own
  // where the rule asks for laws and `draws` is set, chosen else. Shapes do not look at tokens.
  std::vector<int32_t> tokens = {};
  bool draws = false;
  bool wants_taps = false;
};

class TreeDrafter final : public Drafter {
 public:
  explicit TreeDrafter(const TreeDrafterOptions& options) : options_(options) {}

  // The answer to a prompt, by the seed and the choice's lane of its sampling.
  void Learn(const std::vector<int32_t>& prompt, uint64_t seed, uint32_t lane, const std::vector<int32_t>& answer) {
    answers_[{prompt, seed, lane}] = answer;
  }

  DraftMethod method() const override { return DraftMethod::kModel; }
  bool is_free() const override { return true; }
  bool wants_taps() const override { return options_.wants_taps; }

  void Draft(std::span<const DraftWish> wishes, std::span<DraftProposal* const> proposals) override {
    for (size_t i = 0; i < wishes.size(); ++i) {
      if (options_.tokens.empty()) {
        Grow(wishes[i], proposals[i]->tree);
      } else {
        GrowFromTokens(wishes[i], *proposals[i]);
      }
    }
  }
  void Observe(Sequence&, int32_t) override {}

  void AfterStep(std::span<const CommittedRows> steps, ConstMatrixF) override {
    for (const CommittedRows& rows : steps) {
      const Sequence& sequence = *rows.sequence;
      const std::pair key = {sequence.state->id(), sequence.choice};
      EXPECT_EQ(rows.first_position + static_cast<int>(rows.rows.size()), sequence.n_computed);
      for (size_t i = 0; i < rows.rows.size(); ++i) {
        const int position = rows.first_position + static_cast<int>(i);
        // The row computed this very token, so what it left is this token's.
        EXPECT_EQ(engine->last_plan().token_ids[static_cast<size_t>(rows.rows[i])],
                  sequence.tokens[static_cast<size_t>(position)]);
        seen_positions[key].insert(position);
      }
      if (on_rows) on_rows(sequence);
    }
  }

  Engine* engine = nullptr;
  std::map<std::pair<api::RequestId, int>, std::set<int>> seen_positions;
  std::function<void(const Sequence&)> on_rows;

 private:
  int Below(int n) {
    return static_cast<int>(RandomBits({options_.seed, n_++, RandomPurpose::kTest}) % static_cast<uint64_t>(n));
  }

  void Grow(const DraftWish& wish, spec::DraftTree& tree) {
    const Sequence& sequence = *wish.sequence;
    const std::vector<int32_t> prompt(sequence.tokens.begin(), sequence.tokens.begin() + sequence.n_prompt);
    const auto known = answers_.find({prompt, sequence.state->request().sampling.seed, sequence.sampling.lane});
    const std::vector<int32_t> none;
    const std::vector<int32_t>& answer = known == answers_.end() || options_.only_wrong ? none : known->second;
    std::vector<bool> right = {true};
    const int n_nodes = 1 + Below(std::max(1, wish.max_nodes));
    for (int tries = 0; tree.size() <= n_nodes && tries < 4 * n_nodes; ++tries) {
      // Mostly where the right path has come to, so that it goes on somewhere in the tree.
      int parent = Below(tree.size());
      if (Below(3) > 0) {
        for (parent = tree.size() - 1; !right[static_cast<size_t>(parent)]; --parent) {}
      }
      if (tree.depth(parent) >= wish.max_depth) continue;
      const size_t next = static_cast<size_t>(sequence.n_output() + tree.depth(parent));
      const bool may_hit = right[static_cast<size_t>(parent)] && next < answer.size();
      if (!may_hit && options_.percent_right == 100) continue;
      int n_children = 0;
      for ([[maybe_unused]] const int child : tree.children(parent)) ++n_children;
      if (n_children >= options_.most_children) continue;
      const bool hits = may_hit && Below(100) < options_.percent_right;
      const int32_t token = hits ? answer[next] : Below(options_.vocab);
      const int node = tree.Add(parent, token, 0.05 + 0.9 * Below(100) / 100.0);
      if (node == static_cast<int>(right.size())) right.push_back(may_hit && token == answer[next]);
    }
  }

  void GrowFromTokens(const DraftWish& wish, DraftProposal& proposal) {
    const Sequence& sequence = *wish.sequence;
    const bool draws = options_.draws && wish.by_rejection;
    spec::DraftTree& tree = proposal.tree;
    proposal.is_blind = true;
    if (draws) proposal.kind = spec::ProposalKind::kWithoutReplacement;
    for (int node = 0; node < tree.size(); ++node) {
      proposal.laws.emplace_back();
      const int n_children = tree.depth(node) < wish.max_depth ? Below(options_.most_children + 1) : 0;
      std::vector<int32_t> tokens = options_.tokens;
      for (size_t i = tokens.size() - 1; i > 0; --i) {
        std::swap(tokens[i], tokens[static_cast<size_t>(Below(static_cast<int>(i) + 1))]);
      }
      tokens.resize(std::min(tokens.size(), static_cast<size_t>(n_children)));
      if (draws && n_children > 0) {
        auto& law = proposal.laws.back();
        for (const int32_t token : options_.tokens) law.emplace_back(token, 1.0 + Below(9));
        double sum = 0;
        for (const auto& entry : law) sum += entry.second;
        for (auto& entry : law) entry.second /= sum;
        const auto position = static_cast<uint64_t>(sequence.n_tokens() + tree.depth(node));
        const spec::RejectionKey key = {sequence.sampling.seed, position, sequence.sampling.lane};
        tokens.resize(static_cast<size_t>(spec::DraftWithoutReplacement(law, key, node, tokens)));
      }
      for (const int32_t token : tokens) {
        if (tree.size() <= wish.max_nodes) tree.Add(node, token, 0.9);
      }
    }
    if (!draws) proposal.laws.clear();
  }

  TreeDrafterOptions options_;
  std::map<std::tuple<std::vector<int32_t>, uint64_t, uint32_t>, std::vector<int32_t>> answers_;
  uint64_t n_ = 0;
};

}  // namespace surety::engine::testing
