#include "kv/host_store.h"

#include <climits>
#include <cstring>
#include <string>

#include "base/check.h"

namespace surety::kv {

void SwappedPage::Reset() {
  if (store_ != nullptr) std::exchange(store_, nullptr)->Free(slot_);
  slot_ = -1;
}

Result<std::unique_ptr<HostStore>> HostStore::Make(PagePool& pool, int64_t capacity_bytes, PageTier* below) {
  const int64_t page_bytes = pool.layout().PageBytes();
  const int64_t n_slots = capacity_bytes / page_bytes;
  if (n_slots < 1 || n_slots > INT_MAX) {
    return Error(InvalidArgumentError("host KV store: " + std::to_string(capacity_bytes) + " bytes hold " +
                                      std::to_string(n_slots) + " pages of " + std::to_string(page_bytes) +
                                      " bytes, but there must be 1 to " + std::to_string(INT_MAX)));
  }
  auto memory = AlignedBuffer::TryAllocate(static_cast<size_t>(n_slots * page_bytes));
  if (!memory) return Error(memory.error().WithContext("host KV store of " + std::to_string(n_slots) + " pages"));
  return std::unique_ptr<HostStore>(new HostStore(pool, static_cast<int>(n_slots), *std::move(memory), below));
}

HostStore::HostStore(PagePool& pool, int n_slots, AlignedBuffer memory, PageTier* below)
    : pool_(pool), page_bytes_(static_cast<size_t>(pool.layout().PageBytes())), memory_(std::move(memory)),
      below_(below), table_(n_slots) {}

HostStore::~HostStore() {
  SURETY_CHECK_MSG(table_.n_held() == 0, "host KV store destroyed while pages are swapped out");
  while (table_.oldest() >= 0) Free(table_.oldest());
}

std::span<std::byte> HostStore::BytesOf(int slot) {
  return {memory_.data() + static_cast<size_t>(slot) * page_bytes_, page_bytes_};
}

void HostStore::Free(int slot) {
  if (table_.at(slot).zero) {
    std::memset(BytesOf(slot).data(), 0, page_bytes_);
    stats_.zeroed_bytes += static_cast<int64_t>(page_bytes_);
  }
  table_.Free(slot);
}

bool HostStore::MakeRoom(int64_t now_ns) {
  if (table_.n_free() > 0) return true;
  const int slot = table_.oldest();
  if (slot < 0) return false;
  const TierSlot& out = table_.at(slot);
  if (out.expires_ns <= now_ns) {
    ++stats_.expired_pages;
  } else {
    ++stats_.dropped_pages;
    if (below_ != nullptr && out.entry->policy.lowest >= below_->level()) {
      below_->Put(*out.entry, BytesOf(slot), now_ns);
    }
  }
  Free(slot);
  return true;
}

void HostStore::Put(TierEntry entry, std::span<const std::byte> page, int64_t now_ns) {
  SURETY_CHECK(page.size() == page_bytes_);
  if (const int same = table_.Find(entry.key); same >= 0) Free(same);
  if (entry.policy.lowest < level() || !MakeRoom(now_ns)) return;
  std::memcpy(BytesOf(table_.FreeSlot()).data(), page.data(), page_bytes_);
  table_.Bind(std::move(entry));
  ++stats_.stored_pages;
}

std::optional<TierHit> HostStore::Take(const TierKey& key, std::span<const int32_t> tokens, int64_t now_ns,
                                       std::span<std::byte> page) {
  SURETY_CHECK(page.size() == page_bytes_);
  const int slot = table_.FindLive(key, tokens, now_ns);
  if (slot < 0) return std::nullopt;
  std::memcpy(page.data(), BytesOf(slot).data(), page_bytes_);
  const TierHit hit{.created_ns = table_.at(slot).entry->created_ns, .level = level()};
  Free(slot);
  ++stats_.taken_pages;
  return hit;
}

Result<SwappedPage> HostStore::SwapOut(const PageHandle& page, const ScopeKey& scope, int64_t now_ns) {
  if (!MakeRoom(now_ns)) {
    return Error(ResourceExhaustedError("host KV store: all of its " + std::to_string(table_.n_slots()) +
                                        " pages hold swapped-out sequences"));
  }
  const int slot = table_.FreeSlot();
  std::memcpy(BytesOf(slot).data(), pool_.Bytes(page.page()).data(), page_bytes_);
  table_.Hold(scope, pool_.ZeroOnRelease(page.page()));
  return SwappedPage(this, slot);
}

void HostStore::SwapIn(SwappedPage swapped, const PageHandle& page) {
  SURETY_CHECK(swapped.store_ == this);
  std::memcpy(pool_.Bytes(page.page()).data(), BytesOf(swapped.slot_).data(), page_bytes_);
  if (table_.at(swapped.slot_).zero) page.MarkZeroOnRelease();
}

ForgetReceipt HostStore::Forget(const ScopeSet& scopes) {
  ForgetReceipt receipt;
  for (int slot = 0; slot < table_.n_slots(); ++slot) {
    TierSlot& one = table_.at(slot);
    if (one.state == TierSlot::State::kHeld && scopes.Covers(*one.scope)) {
      one.zero = true;
      ++receipt.pages;
      ++receipt.pages_in_use;
    } else if (one.state == TierSlot::State::kEntry && scopes.Covers(one.entry->scope)) {
      one.zero = true;
      Free(slot);
      ++receipt.pages;
      receipt.bytes += static_cast<int64_t>(page_bytes_);
    }
  }
  return receipt;
}

void HostStore::SetPolicy(const FamilyKey& family, const TierPolicy& policy) {
  for (int slot = 0; slot < table_.n_slots(); ++slot) {
    TierSlot& one = table_.at(slot);
    if (one.state == TierSlot::State::kHeld && one.scope->family() == family) {
      one.zero |= policy.zero_on_release;
    } else if (one.state == TierSlot::State::kEntry && one.entry->scope.family() == family) {
      one.entry->policy = policy;
      one.zero |= policy.zero_on_release;  // as marks of pages, never taken back
      one.expires_ns = policy.ExpiryOf(one.entry->created_ns);
      if (policy.lowest < level()) Free(slot);
    }
  }
}

void HostStore::Sweep(int64_t now_ns, int max_slots) {
  for (int i = 0; i < max_slots && i < table_.n_slots(); ++i) {
    const int slot = table_.SweepOne(now_ns);
    if (slot < 0) continue;
    Free(slot);
    ++stats_.expired_pages;
  }
}

TierStats HostStore::stats() const {
  TierStats stats = stats_;
  stats.capacity_pages = table_.n_slots();
  stats.used_pages = table_.n_slots() - table_.n_free();
  stats.swapped_pages = table_.n_held();
  return stats;
}

}  // namespace surety::kv
