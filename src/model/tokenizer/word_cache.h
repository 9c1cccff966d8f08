// What short words were encoded to: a table of fixed size where a new word takes an old one's place.
// Threads: any; each part of the table has its lock. Owns: about 1 MB.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "model/tokenizer/tokenizer_spec.h"

namespace surety::model {

class WordCache {
 public:
  // Appends the word's ids if it is known.
  bool Find(std::string_view word, std::vector<TokenId>& ids) const;
  // Long words and words of many ids are not kept.
  void Store(std::string_view word, std::span<const TokenId> ids) const;

 private:
  static constexpr size_t kMaxBytes = 30, kMaxIds = 8, kSlots = 1 << 14, kLocks = 64;
  struct alignas(64) Slot {
    uint8_t n_bytes = 0, n_ids = 0;
    std::array<char, kMaxBytes> bytes;
    std::array<TokenId, kMaxIds> ids;
  };

  // A cache changes nothing that a caller can see, so its users stay const.
  mutable std::array<std::mutex, kLocks> locks_;
  std::unique_ptr<Slot[]> slots_ = std::make_unique<Slot[]>(kSlots);
};

}  // namespace surety::model
