// What an EAGLE head keeps in the target's pages, behind the target's own keys and values: those of its layer, and the
// target's hidden state at one position of each page, the last one computed there. Notes beside the pages say which
// slots hold what, and are void when a page is given out anew.
//
// A slot's keys and values are a function of the tokens up to its own, so whoever finds the page by its tokens may use
// them. Where a page has none, or only from some slot on, a sequence sees keys from there on only: it drafts with less
// context, never with a wrong one. The state lets the sequence that continues a found prefix compute the first slot
// behind it.
//
// Threads: the engine thread. Owns: the notes. Borrows: the pool.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/page_pool.h"
#include "model/heads/head_recipe.h"

namespace surety::engine {

class HeadCache {
 public:
  // Bytes of a page of `layout` that a head needs (KvLayout::companion_bytes); 0 for Medusa.
  static int64_t CompanionBytes(const model::HeadRecipe& recipe, const KvLayout& layout);

  // The pool's pages have room for the head.
  HeadCache(const model::HeadRecipe& recipe, kv::PagePool& pool);

  const PagedKvView& view() const { return view_; }  // of the head's layer

  // The least slot from which on all slots before `end` are there, at least 1; `end` where the one before is not.
  int FirstCovered(std::span<const int32_t> pages, int end) const;
  // Whether a slot from 1 on is there: its page's note says so.
  bool Covers(std::span<const int32_t> pages, int slot) const;
  // Slots [begin, end) have been written from the target's own states.
  void NoteWritten(std::span<const int32_t> pages, int begin, int end);

  // Keeps the state of a position, in place of an earlier one of its page.
  void KeepState(std::span<const int32_t> pages, int position, const float* state);
  // Null where it is not there.
  const float* StateAt(std::span<const int32_t> pages, int position) const;

 private:
  struct Note {
    uint32_t serial = 0;
    int16_t begin = 0, end = 0;  // slots of the page
    int16_t state_at = -1;
  };
  Note& NoteOf(int32_t page);  // empty if it is void
  const Note* ValidNote(int32_t page) const;
  float* StateMemory(int32_t page) const;

  kv::PagePool& pool_;
  PagedKvView view_;
  int64_t state_offset_ = 0;  // in a page
  size_t state_floats_ = 0;
  std::vector<Note> notes_;   // by page
};

}  // namespace surety::engine
