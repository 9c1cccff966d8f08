// Pages in host memory: a tier of the prefix cache, and the place where a preempted sequence's pages wait. Swapped
// pages come first: they push cached ones out (to the tier below), never the other way round.
//
// Threads: one (the engine thread). Owns: the memory, which takes physical pages as it fills. The pool and the tier
// below must outlive it; it must outlive every SwappedPage.
// Errors: Make: kInvalidArgument, kResourceExhausted (memory). SwapOut: kResourceExhausted.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/aligned_buffer.h"
#include "kv/page_pool.h"
#include "kv/slot_table.h"
#include "kv/tier.h"

namespace surety::kv {

class HostStore;

// A move-only reference to one page's copy. Gives its room back when it goes, overwritten where the page would be.
class SwappedPage {
 public:
  SwappedPage() = default;
  ~SwappedPage() { Reset(); }
  SwappedPage(SwappedPage&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)), slot_(std::exchange(other.slot_, -1)) {}
  SwappedPage& operator=(SwappedPage&& other) noexcept {
    if (this != &other) {
      Reset();
      store_ = std::exchange(other.store_, nullptr);
      slot_ = std::exchange(other.slot_, -1);
    }
    return *this;
  }
  explicit operator bool() const { return store_ != nullptr; }
  void Reset();

 private:
  friend class HostStore;
  SwappedPage(HostStore* store, int slot) : store_(store), slot_(slot) {}
  HostStore* store_ = nullptr;
  int slot_ = -1;
};

class HostStore final : public PageTier {
 public:
  // Room for capacity_bytes / PageBytes() pages of the pool, at least one. `below`: takes what is pushed out, or null.
  static Result<std::unique_ptr<HostStore>> Make(PagePool& pool, int64_t capacity_bytes, PageTier* below = nullptr);
  ~HostStore() override;

  // Copies the page. The copy is overwritten at its end if the page is marked zero-on-release, or once `scope` is
  // forgotten. The caller then gives the page back.
  Result<SwappedPage> SwapOut(const PageHandle& page, const ScopeKey& scope, int64_t now_ns);
  // Copies back, with the mark, and gives the room back.
  void SwapIn(SwappedPage swapped, const PageHandle& page);
  // Pages that could be swapped out now.
  int SwapRoom() const { return table_.n_slots() - table_.n_held(); }

  void Put(TierEntry entry, std::span<const std::byte> page, int64_t now_ns) override;
  bool Contains(const TierKey& key, int64_t now_ns) const override { return table_.ContainsLive(key, now_ns); }
  std::optional<TierHit> Take(const TierKey& key, std::span<const int32_t> tokens, int64_t now_ns,
                              std::span<std::byte> page) override;
  ForgetReceipt Forget(const ScopeSet& scopes) override;
  void SetPolicy(const FamilyKey& family, const TierPolicy& policy) override;
  void Sweep(int64_t now_ns, int max_slots) override;
  TierLevel level() const override { return TierLevel::kHost; }
  TierStats stats() const override;
  PageTier* below() const override { return below_; }
  Status Audit() const override { return table_.Audit(); }

  // A slot's bytes, for tests of overwriting.
  std::span<const std::byte> memory() const { return {memory_.data(), memory_.size_bytes()}; }

 private:
  friend class SwappedPage;
  HostStore(PagePool& pool, int n_slots, AlignedBuffer memory, PageTier* below);
  std::span<std::byte> BytesOf(int slot);
  void Free(int slot);
  bool MakeRoom(int64_t now_ns);

  PagePool& pool_;
  size_t page_bytes_;
  AlignedBuffer memory_;
  PageTier* below_;
  SlotTable table_;
  TierStats stats_;
};

}  // namespace surety::kv
