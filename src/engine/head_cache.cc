#include "engine/head_cache.h"

#include <algorithm>
#include <cstring>

namespace surety::engine {
namespace {

int64_t RoundTo64(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

int64_t HeadCache::CompanionBytes(const model::HeadRecipe& recipe, const KvLayout& layout) {
  if (recipe.method == model::HeadMethod::kMedusa) return 0;
  return RoundTo64(recipe.KvLayoutFor(layout.type, layout.page_tokens).PageBytes()) +
         RoundTo64(recipe.feature_dim() * static_cast<int64_t>(sizeof(float)));
}

HeadCache::HeadCache(const model::HeadRecipe& recipe, kv::PagePool& pool)
    : pool_(pool), state_floats_(static_cast<size_t>(recipe.feature_dim())) {
  if (recipe.method == model::HeadMethod::kMedusa) return;
  const KvLayout layout = recipe.KvLayoutFor(pool.layout().type, pool.layout().page_tokens);
  view_ = pool.view().Companion(layout);
  state_offset_ = RoundTo64(layout.PageBytes());
  notes_.resize(static_cast<size_t>(pool.n_pages()));
}

HeadCache::Note& HeadCache::NoteOf(int32_t page) {
  Note& note = notes_[static_cast<size_t>(page)];
  if (note.serial != pool_.Serial(page)) note = {pool_.Serial(page), 0, 0, -1};
  return note;
}

const HeadCache::Note* HeadCache::ValidNote(int32_t page) const {
  const Note& note = notes_[static_cast<size_t>(page)];
  return note.serial == pool_.Serial(page) ? &note : nullptr;
}

float* HeadCache::StateMemory(int32_t page) const {
  return reinterpret_cast<float*>(view_.base + page * view_.page_stride_bytes + state_offset_);
}

int HeadCache::FirstCovered(std::span<const int32_t> pages, int end) const {
  const int page_tokens = view_.layout.page_tokens;
  int first = end;
  while (first > 1) {
    const int index = (first - 1) / page_tokens, start = index * page_tokens;
    if (static_cast<size_t>(index) >= pages.size()) return first;
    const Note* note = ValidNote(pages[static_cast<size_t>(index)]);
    if (note == nullptr || note->begin >= note->end || note->end < first - start || note->begin >= first - start) {
      return first;
    }
    first = start + note->begin;
    if (note->begin > 0) return first;
  }
  return first;
}

bool HeadCache::Covers(std::span<const int32_t> pages, int slot) const {
  const auto index = static_cast<size_t>(slot / view_.layout.page_tokens);
  if (index >= pages.size()) return false;
  const Note* note = ValidNote(pages[index]);
  const int at = slot % view_.layout.page_tokens;
  return note != nullptr && note->begin <= at && at < note->end;
}

void HeadCache::NoteWritten(std::span<const int32_t> pages, int begin, int end) {
  const int page_tokens = view_.layout.page_tokens;
  while (begin < end) {
    const int index = begin / page_tokens, start = index * page_tokens;
    if (static_cast<size_t>(index) >= pages.size()) return;
    const int from = begin - start, to = std::min(end - start, page_tokens);
    Note& note = NoteOf(pages[static_cast<size_t>(index)]);
    const bool joins = note.begin < note.end && from <= note.end && note.begin <= to;
    note.begin = static_cast<int16_t>(joins ? std::min<int>(note.begin, from) : from);
    note.end = static_cast<int16_t>(joins ? std::max<int>(note.end, to) : to);
    begin = start + to;
  }
}

void HeadCache::KeepState(std::span<const int32_t> pages, int position, const float* state) {
  const int page_tokens = view_.layout.page_tokens;
  const auto index = static_cast<size_t>(position / page_tokens);
  if (index >= pages.size()) return;
  NoteOf(pages[index]).state_at = static_cast<int16_t>(position % page_tokens);
  std::memcpy(StateMemory(pages[index]), state, state_floats_ * sizeof(float));
}

const float* HeadCache::StateAt(std::span<const int32_t> pages, int position) const {
  const int page_tokens = view_.layout.page_tokens;
  const auto index = static_cast<size_t>(position / page_tokens);
  if (position < 0 || index >= pages.size()) return nullptr;
  const Note* note = ValidNote(pages[index]);
  return note != nullptr && note->state_at == position % page_tokens ? StateMemory(pages[index]) : nullptr;
}

}  // namespace surety::engine
