// Pages on disk, below the host store: one file of slots.
//
// A page is written encrypted, AES-256-GCM under a key that exists only in this object's memory, with a number used
// once and, as associated data, the entry's key, slot and generation. The tag stays in memory. So what is read back is
// what was written for this entry, or a miss: an old version, another slot's bytes, or half a write never pass. And
// what stays on the medium, after a crash or in blocks that a disk has remapped, can be read by nobody.
//
// Threads: one (the engine thread). Owns: the file. Errors: Make: kInvalidArgument, kUnavailable (no randomness). After
// kMostErrors failed reads in a row, or as many writes, the tier is out of service: it stores and answers nothing more.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kv/slot_table.h"
#include "kv/tier.h"
#include "kv/tier_file.h"

namespace surety::kv {

class DiskTier final : public PageTier {
 public:
  static constexpr int kMostErrors = 8;

  static Result<std::unique_ptr<DiskTier>> Make(std::unique_ptr<TierFile> file, int64_t page_bytes,
                                                int64_t capacity_bytes);
  // Overwrites what policy wants overwritten; the key goes in any case.
  ~DiskTier() override;

  void Put(TierEntry entry, std::span<const std::byte> page, int64_t now_ns) override;
  bool Contains(const TierKey& key, int64_t now_ns) const override {
    return in_service() && table_.ContainsLive(key, now_ns);
  }
  std::optional<TierHit> Take(const TierKey& key, std::span<const int32_t> tokens, int64_t now_ns,
                              std::span<std::byte> page) override;
  ForgetReceipt Forget(const ScopeSet& scopes) override;
  void SetPolicy(const FamilyKey& family, const TierPolicy& policy) override;
  void Sweep(int64_t now_ns, int max_slots) override;
  TierLevel level() const override { return TierLevel::kDisk; }
  TierStats stats() const override;
  Status Audit() const override { return table_.Audit(); }
  bool in_service() const { return n_write_errors_ < kMostErrors && n_read_errors_ < kMostErrors; }
  // Bytes from one slot to the next.
  int64_t slot_bytes() const { return slot_bytes_; }

 private:
  using Tag = std::array<uint8_t, 16>;
  struct Cipher;

  DiskTier(std::unique_ptr<TierFile> file, int64_t page_bytes, int n_slots, std::unique_ptr<Cipher> cipher);
  bool Free(int slot);  // false: the slot should have been overwritten, and could not
  void NoteIo(bool ok, int& n_in_row);
  std::array<uint8_t, 48> AssociatedData(const TierKey& key, int slot, uint64_t generation) const;

  std::unique_ptr<TierFile> file_;
  size_t page_bytes_;
  int64_t slot_bytes_;
  SlotTable table_;
  std::unique_ptr<Cipher> cipher_;
  std::vector<Tag> tags_;           // by slot
  std::vector<uint64_t> nonces_;    // by slot
  uint64_t last_nonce_ = 0;
  std::vector<std::byte> scratch_;  // a page of ciphertext
  std::vector<std::byte> zeros_;
  int n_write_errors_ = 0;          // in a row
  int n_read_errors_ = 0;
  TierStats stats_;
};

}  // namespace surety::kv
