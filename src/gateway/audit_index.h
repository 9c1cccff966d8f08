// Where rows of the audit log lie, by kind and id: 128 bits of SHA-256 of the two and an offset, in open addressing. A
// key takes 28 to 43 bytes.
//
// Memory is bounded: rows are kept in two generations of half the limit each; when the younger is full the older is
// dropped. `complete_from()` says which part of the log is known; what lies before it has to be read.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace surety::gateway {

class AuditIndex {
 public:
  explicit AuditIndex(int64_t max_rows) : max_rows_(max_rows) {}

  // Offsets grow from call to call; the newest of a key counts.
  void Add(std::string_view kind, std::string_view id, int64_t offset);
  std::optional<int64_t> Find(std::string_view kind, std::string_view id) const;
  // Rows at this offset and behind it are all known.
  int64_t complete_from() const { return complete_from_; }
  int64_t size_bytes() const;

 private:
  struct Key {
    uint64_t high = 0, low = 0;
    bool operator==(const Key&) const = default;
  };
  struct Slot {
    Key key;
    int64_t offset = -1;  // -1: free
  };
  struct Generation {
    std::vector<Slot> slots;
    int64_t n_used = 0;
    int64_t first_offset = 0;
  };
  static Key KeyOf(std::string_view kind, std::string_view id);
  static size_t SlotOf(const Generation& generation, const Key& key);
  static void Grow(Generation& generation);

  int64_t max_rows_;
  Generation young_, old_;
  int64_t complete_from_ = 0;
};

}  // namespace surety::gateway
