// Where pages go that the pool has no room for, and come back from: host memory, then disk.
//
// A tier never sees a scope's fields and cannot be addressed by tokens: a TierKey starts from a ScopeKey and takes in
// the ids of every page up to its own, by SHA-256, so two prefixes or two scopes never have one key. A page is in one
// tier at a time: Take gives it back and forgets it.
//
// Threads: one (the engine thread).
// Errors: none reach the caller. A page that cannot be stored is dropped; one that cannot be read back, or whose
// content tag is wrong, is a miss.
// Invariants: (1) Take answers the bytes that Put was given, or nothing. (2) nothing is answered past its expiry or
// after Forget. (3) where an entry says so, its memory is overwritten when it leaves.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "kv/scope.h"

namespace surety::kv {

class TierKey {
 public:
  static TierKey Root(const ScopeKey& scope);                      // of no pages
  TierKey Next(std::span<const int32_t> page_tokens) const;        // of one page more
  bool operator==(const TierKey&) const = default;
  std::span<const uint8_t> bytes() const { return bytes_; }
  size_t hash() const;

 private:
  explicit TierKey(const std::array<uint8_t, 32>& bytes) : bytes_(bytes) {}
  std::array<uint8_t, 32> bytes_;
};

struct TierKeyHash {
  size_t operator()(const TierKey& key) const { return key.hash(); }
};

enum class TierLevel : uint8_t { kPool, kHost, kDisk };
std::string_view NameOf(TierLevel level);

inline constexpr int64_t kNeverNs = std::numeric_limits<int64_t>::max();

// What a scope's policy means for pages in a tier.
struct TierPolicy {
  int64_t ttl_ns = 0;  // since the page was computed; 0: no limit
  bool zero_on_release = false;
  TierLevel lowest = TierLevel::kDisk;  // pages go no further down

  int64_t ExpiryOf(int64_t created_ns) const { return ttl_ns == 0 ? kNeverNs : created_ns + ttl_ns; }
};

struct TierEntry {
  TierKey key;
  ScopeKey scope;
  std::vector<int32_t> tokens;  // of this page; compared on Take
  int64_t created_ns = 0;       // when the page was computed
  TierPolicy policy;
};

struct TierHit {
  int64_t created_ns = 0;
  TierLevel level = TierLevel::kHost;
};

struct ForgetReceipt {
  int64_t pages = 0;           // taken out of the cache, over all tiers
  int64_t bytes = 0;           // overwritten with zeros by the time of this receipt
  int64_t pages_in_use = 0;    // of `pages`: still read by running sequences; overwritten when those let go
  int64_t pages_unwritten = 0; // of `pages`: the disk refused to overwrite them; what lies there is ciphertext

  void Add(const ForgetReceipt& other) {
    pages += other.pages;
    bytes += other.bytes;
    pages_in_use += other.pages_in_use;
    pages_unwritten += other.pages_unwritten;
  }
};

struct TierStats {
  int64_t capacity_pages = 0;
  int64_t used_pages = 0;      // swapped pages included
  int64_t swapped_pages = 0;
  int64_t stored_pages = 0;    // counters from here
  int64_t taken_pages = 0;
  int64_t dropped_pages = 0;   // pushed out by others, for lack of room
  int64_t expired_pages = 0;
  int64_t zeroed_bytes = 0;
  int64_t io_errors = 0;       // refused by the system, or a wrong content tag
};

class PageTier {
 public:
  virtual ~PageTier() = default;
  // Keeps a copy of `page`, in place of one under the same key. May drop others, or itself.
  virtual void Put(TierEntry entry, std::span<const std::byte> page, int64_t now_ns) = 0;
  // A hint: Take may still miss.
  virtual bool Contains(const TierKey& key, int64_t now_ns) const = 0;
  // Moves the page's bytes to `page`, whose contents are undefined on a miss.
  virtual std::optional<TierHit> Take(const TierKey& key, std::span<const int32_t> tokens, int64_t now_ns,
                                      std::span<std::byte> page) = 0;
  virtual ForgetReceipt Forget(const ScopeSet& scopes) = 0;
  // Entries of the family obey this from now on.
  virtual void SetPolicy(const FamilyKey& family, const TierPolicy& policy) = 0;
  // Looks at up to max_slots entries, going round, and removes those that expired.
  virtual void Sweep(int64_t now_ns, int max_slots) = 0;
  virtual TierLevel level() const = 0;
  virtual TierStats stats() const = 0;
  virtual PageTier* below() const { return nullptr; }
  virtual Status Audit() const = 0;
};

}  // namespace surety::kv
