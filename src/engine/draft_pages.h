// Where pages for drafts come from: drafts take what nobody else needs now, and never push anybody out.
// Threads: the engine thread. Owns: nothing.
#pragma once

namespace surety::engine {

struct Sequence;

class DraftPages {
 public:
  virtual ~DraftPages() = default;
  // Pages for drafted tokens behind a running choice's own, up to n_tokens in all. Kept prefixes give way to them as
  // they would to the tokens themselves a few steps later; what runs does not, and each running choice still finds a
  // page. Returns for how many tokens there are pages now.
  virtual int ExtendForDraft(Sequence& sequence, int n_tokens) = 0;
  // Pages that may be taken from the pool on the same terms, `wanted` at most: that many are free.
  virtual int SparePages(int wanted) = 0;
};

}  // namespace surety::engine
