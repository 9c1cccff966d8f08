// Where the engine's pages come from besides the free list: the prefix cache with its tiers, and kept conversations.
//
// A preempted choice loses its pages to the cache: its whole pages stay matchable, and what the pool needs meanwhile
// moves to the tiers, from where they are copied back; its last, partial page is swapped to host memory where that is
// predicted to cost less than computing its tokens again. What nobody holds any more is computed again.
// Threads: the engine thread. Owns: the cache, the tiers, the kept conversations.
#pragma once

#include <memory>
#include <unordered_map>

#include "engine/scheduler.h"
#include "engine/swap_cost.h"
#include "kv/disk_tier.h"
#include "kv/host_store.h"
#include "kv/prefix_cache.h"

namespace surety::engine {

struct PageKeeperOptions {
  kv::ScopePolicy policy;           // of scopes
  int64_t host_bytes = 0;           // 0: no host tier
  std::string disk_folder;          // empty: no disk tier; needs a host tier
  int64_t disk_bytes = 0;
};

class PageKeeper final : public PageSource {
 public:
  // kInvalidArgument, kResourceExhausted, kIoError: as the cache and the tiers state them.
  static Result<std::unique_ptr<PageKeeper>> Make(kv::PagePool& pool, Clock& clock, const PageKeeperOptions& options);

  int n_evictable() const override;
  int Evict(int n, bool last_resort) override;
  void Attach(Sequence& sequence) override;
  void AttachMore(Sequence& sequence) override;
  void Detach(Sequence& sequence, int64_t recompute_ns) override;
  bool SharesPrefixes(const Sequence& a, const Sequence& b) const override;

  // Gives a choice that has nothing the KV of another: whole pages are shared, the last, partial one is copied. Without
  // a free page for the copy it computes that one's tokens again.
  void Fork(const Sequence& from, Sequence& to);
  // After its scope was forgotten: what it computed and the cache does not have (its last page) is overwritten too.
  void MarkIfForgotten(Sequence& sequence);
  // After a step: the sequence's new whole pages become a prefix that others of its scope may read.
  void Publish(Sequence& sequence);
  // A choice ends: its pages are kept for its conversation, if it has one, else go.
  void Keep(Sequence& sequence);
  void Forget(uint64_t conversation) { kept_.erase(conversation); }
  // Between steps: what is past its time goes, a little at a time.
  void Tidy() { cache_->Sweep(16); }
  kv::PrefixCache& cache() { return *cache_; }
  // Partial pages of preempted choices: copied to host memory, or left to be computed again as that is cheaper.
  int64_t n_swapped() const { return n_swapped_; }
  int64_t n_left_to_recompute() const { return n_left_to_recompute_; }
  const kv::HostStore* host() const { return host_.get(); }
  const kv::DiskTier* disk() const { return disk_.get(); }

 private:
  // KV of a finished sequence that the next request of its conversation may continue.
  struct KeptSequence {
    std::vector<int32_t> tokens;  // whose KV is in `pages`
    kv::PageTable pages;
  };

  PageKeeper(kv::PagePool& pool, Clock& clock) : pool_(pool), clock_(clock) {}
  void SwapOutTail(Sequence& sequence, int64_t recompute_ns);

  kv::PagePool& pool_;
  Clock& clock_;
  std::unique_ptr<kv::DiskTier> disk_;
  std::unique_ptr<kv::HostStore> host_;   // its pages are pushed to disk_
  std::unique_ptr<kv::PrefixCache> cache_;
  std::unordered_map<uint64_t, KeptSequence> kept_;
  SwapCost swap_cost_;
  int64_t n_swapped_ = 0, n_left_to_recompute_ = 0;
};

}  // namespace surety::engine
