#include "model/tokenizer/word_cache.h"

#include <algorithm>
#include <functional>

namespace surety::model {

bool WordCache::Find(std::string_view word, std::vector<TokenId>& ids) const {
  if (word.size() > kMaxBytes || word.empty()) return false;
  const size_t hash = std::hash<std::string_view>()(word);
  const Slot& slot = slots_[hash % kSlots];
  const std::lock_guard lock(locks_[hash % kLocks]);
  if (std::string_view(slot.bytes.data(), slot.n_bytes) != word) return false;
  ids.insert(ids.end(), slot.ids.begin(), slot.ids.begin() + slot.n_ids);
  return true;
}

void WordCache::Store(std::string_view word, std::span<const TokenId> ids) const {
  if (word.size() > kMaxBytes || word.empty() || ids.size() > kMaxIds) return;
  const size_t hash = std::hash<std::string_view>()(word);
  Slot& slot = slots_[hash % kSlots];
  const std::lock_guard lock(locks_[hash % kLocks]);
  slot.n_bytes = static_cast<uint8_t>(word.size());
  slot.n_ids = static_cast<uint8_t>(ids.size());
  std::copy(word.begin(), word.end(), slot.bytes.begin());
  std::copy(ids.begin(), ids.end(), slot.ids.begin());
}

}  // namespace surety::model
