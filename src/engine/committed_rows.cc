#include "engine/committed_rows.h"

#include <algorithm>

namespace surety::engine {

CommittedRows* CommittedRowsList::Find(const Sequence* sequence) {
  const auto it =
      std::find_if(list_.begin(), list_.end(), [&](const CommittedRows& rows) { return rows.sequence == sequence; });
  return it == list_.end() ? nullptr : &*it;
}

void CommittedRowsList::Note(Sequence& sequence, const SequenceStep& step) {
  if (!wanted_) return;
  CommittedRows& rows = list_.emplace_back();
  rows.sequence = &sequence;
  rows.first_position = step.first_position;
  for (int i = 0; i < step.n_rows - step.n_drafted; ++i) rows.rows.push_back(step.first_row + i);
}

void CommittedRowsList::NoteFork(const Sequence& from, Sequence& to) {
  const CommittedRows* rows = Find(&from);
  if (rows == nullptr || to.n_computed != from.n_computed) return;  // else it computes its last page again
  const int32_t last = rows->rows.back();
  list_.push_back({&to, to.n_computed - 1, {last}});
}

// A node's row is as far behind the root's as its number says.
void CommittedRowsList::NoteDrafted(const Sequence& sequence, int node) {
  CommittedRows* rows = Find(&sequence);
  if (rows == nullptr) return;
  const int root = sequence.n_computed - 1 - sequence.draft.tree.depth(node);  // its position
  rows->rows.push_back(rows->rows.front() + root - rows->first_position + node);
}

std::span<const CommittedRows> CommittedRowsList::Final() {
  std::erase_if(list_, [](const CommittedRows& rows) { return rows.sequence->n_computed <= rows.first_position; });
  return list_;
}

void CommittedRowsList::Drop(const Sequence* sequence) {
  std::erase_if(list_, [&](const CommittedRows& rows) { return rows.sequence == sequence; });
}

}  // namespace surety::engine
