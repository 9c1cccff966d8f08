#include "engine/grammar/char_set.h"

#include <algorithm>

namespace surety::engine {
namespace {

constexpr char32_t kBeforeSurrogates = 0xD7FF, kAfterSurrogates = 0xE000;

int Encode(char32_t c, uint8_t* out) {
  if (c < 0x80) {
    out[0] = static_cast<uint8_t>(c);
    return 1;
  }
  const int length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  constexpr uint8_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (int i = length - 1; i > 0; --i, c >>= 6) out[i] = static_cast<uint8_t>(0x80 | (c & 0x3F));
  out[0] = static_cast<uint8_t>(kLead[length] | c);
  return length;
}

// Cuts [first, last] where a whole group of continuation bytes begins or ends, so that each part is a product of
// ranges.
void Split(char32_t first, char32_t last, std::vector<Utf8Sequence>& out) {
  for (const char32_t border : {char32_t{0x7F}, char32_t{0x7FF}, char32_t{0xFFFF}}) {
    if (first <= border && border < last) {
      Split(first, border, out);
      return Split(border + 1, last, out);
    }
  }
  for (int i = 1; i < 4; ++i) {
    const char32_t group = (char32_t{1} << (6 * i)) - 1;
    if (last < 0x80 || (first & ~group) == (last & ~group)) break;
    if ((first & group) != 0) {
      Split(first, first | group, out);
      return Split((first | group) + 1, last, out);
    }
    if ((last & group) != group) {
      Split(first, (last & ~group) - 1, out);
      return Split(last & ~group, last, out);
    }
  }
  uint8_t low[4], high[4];
  Utf8Sequence sequence;
  sequence.length = Encode(first, low);
  Encode(last, high);
  for (int i = 0; i < sequence.length; ++i) sequence.bytes[i] = {low[i], high[i]};
  out.push_back(sequence);
}

}  // namespace

CharSet::CharSet(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end());
  const auto add = [this](char32_t first, char32_t last) {
    if (first > last) return;
    if (!ranges_.empty() && first <= ranges_.back().second + 1) {
      ranges_.back().second = std::max(ranges_.back().second, last);
    } else {
      ranges_.emplace_back(first, last);
    }
  };
  for (const auto& [first, last] : ranges) {
    add(first, std::min(last, kBeforeSurrogates));
    add(std::max(first, kAfterSurrogates), std::min(last, kLast));
  }
}

CharSet CharSet::All() { return CharSet{{0, kLast}}; }

bool CharSet::Contains(char32_t c) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), c,
                                      [](char32_t value, const Range& range) { return value < range.first; });
  return after != ranges_.begin() && c <= std::prev(after)->second;
}

CharSet CharSet::Union(const CharSet& other) const {
  std::vector<Range> all = ranges_;
  all.insert(all.end(), other.ranges_.begin(), other.ranges_.end());
  return CharSet(std::move(all));
}

CharSet CharSet::Intersect(const CharSet& other) const {
  std::vector<Range> common;
  for (size_t i = 0, j = 0; i < ranges_.size() && j < other.ranges_.size();) {
    const auto& a = ranges_[i];
    const auto& b = other.ranges_[j];
    if (std::max(a.first, b.first) <= std::min(a.second, b.second)) {
      common.emplace_back(std::max(a.first, b.first), std::min(a.second, b.second));
    }
    a.second < b.second ? ++i : ++j;
  }
  return CharSet(std::move(common));
}

CharSet CharSet::Complement() const {
  std::vector<Range> rest;
  char32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (first > next) rest.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kLast) rest.emplace_back(next, kLast);
  return CharSet(std::move(rest));
}

std::vector<Utf8Sequence> Utf8Sequences(const CharSet& set) {
  std::vector<Utf8Sequence> sequences;
  for (const auto& [first, last] : set.ranges()) Split(first, last, sequences);
  return sequences;
}

}  // namespace surety::engine
