// A set of Unicode code points (surrogates excepted) as sorted ranges. Threads: a value.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace surety::engine {

class CharSet {
 public:
  using Range = std::pair<char32_t, char32_t>;  // both ends included
  static constexpr char32_t kLast = 0x10FFFF;

  CharSet() = default;
  CharSet(std::initializer_list<Range> ranges) : CharSet(std::vector<Range>(ranges)) {}
  explicit CharSet(std::vector<Range> ranges);
  static CharSet All();

  bool empty() const { return ranges_.empty(); }
  bool Contains(char32_t c) const;
  const std::vector<Range>& ranges() const { return ranges_; }
  CharSet Union(const CharSet& other) const;
  CharSet Intersect(const CharSet& other) const;
  CharSet Complement() const;
  CharSet Minus(const CharSet& other) const { return Intersect(other.Complement()); }

 private:
  std::vector<Range> ranges_;  // sorted, apart by at least one code point that is no surrogate
};

// The byte sequences that encode a range of code points, as one range of bytes a place.
struct Utf8Sequence {
  int length = 0;
  std::pair<uint8_t, uint8_t> bytes[4] = {};
};
std::vector<Utf8Sequence> Utf8Sequences(const CharSet& set);

}  // namespace surety::engine
