#include "gateway/audit_index.h"

#include <cstring>
#include <span>
#include <utility>

#include "base/hash.h"

namespace surety::gateway {

AuditIndex::Key AuditIndex::KeyOf(std::string_view kind, std::string_view id) {
  Sha256 sha;
  sha.Update(std::as_bytes(std::span(kind)));
  sha.Update(std::as_bytes(std::span("\0", 1)));  // no kind holds it
  sha.Update(std::as_bytes(std::span(id)));
  const Sha256Digest digest = sha.Finish();
  Key key;
  std::memcpy(&key.high, digest.data(), 8);
  std::memcpy(&key.low, digest.data() + 8, 8);
  return key;
}

// The key's slot, or the free one where it would stand. Any number of slots will do.
size_t AuditIndex::SlotOf(const Generation& generation, const Key& key) {
  const size_t n = generation.slots.size();
  auto slot = static_cast<size_t>((static_cast<unsigned __int128>(key.high) * n) >> 64);
  while (generation.slots[slot].offset >= 0 && generation.slots[slot].key != key) {
    if (++slot == n) slot = 0;
  }
  return slot;
}

void AuditIndex::Grow(Generation& generation) {
  std::vector<Slot> before = std::exchange(generation.slots, {});
  generation.slots.resize(before.size() < 64 ? 64 : before.size() + before.size() / 2);
  for (const Slot& slot : before) {
    if (slot.offset >= 0) generation.slots[SlotOf(generation, slot.key)] = slot;
  }
}

void AuditIndex::Add(std::string_view kind, std::string_view id, int64_t offset) {
  if (young_.n_used > 0 && young_.n_used >= max_rows_ / 2) {
    old_ = std::exchange(young_, {});
    complete_from_ = old_.first_offset;
  }
  if (static_cast<double>(young_.n_used + 1) > 0.85 * static_cast<double>(young_.slots.size())) Grow(young_);
  if (young_.n_used == 0) young_.first_offset = offset;
  const Key key = KeyOf(kind, id);
  Slot& slot = young_.slots[SlotOf(young_, key)];
  if (slot.offset < 0) ++young_.n_used;
  slot = {key, offset};
}

std::optional<int64_t> AuditIndex::Find(std::string_view kind, std::string_view id) const {
  const Key key = KeyOf(kind, id);
  for (const Generation* generation : {&young_, &old_}) {
    if (generation->slots.empty()) continue;
    const Slot& slot = generation->slots[SlotOf(*generation, key)];
    if (slot.offset >= 0) return slot.offset;
  }
  return std::nullopt;
}

int64_t AuditIndex::size_bytes() const {
  return static_cast<int64_t>((young_.slots.size() + old_.slots.size()) * sizeof(Slot));
}

}  // namespace surety::gateway
