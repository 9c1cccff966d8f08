// Levenshtein distance by bit vectors: 64 rows of the matrix at a time.
//
// Source: G. Myers, "A fast bit-vector algorithm for approximate string matching based on dynamic programming", JACM 46
// (1999); H. Hyyrö, "A bit-vector algorithm for computing Levenshtein and Damerau edit distances" (2003).
#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include <utf8proc.h>

#include "gateway/review_store.h"

namespace surety::gateway {
namespace {

using Characters = std::span<const uint32_t>;

// Texts that differ in more than this are compared piece by piece, which gives an upper bound in linear time.
constexpr size_t kMaxDistancePiece = 32'768;

// Code points; a byte that is no UTF-8 stands for itself, apart from all code points.
std::vector<uint32_t> CharactersOf(std::string_view text) {
  std::vector<uint32_t> out;
  out.reserve(text.size());
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t code = 0;
    utf8proc_ssize_t length = utf8proc_iterate(at, left, &code);
    if (length <= 0) {
      code = 0x110000 + *at;
      length = 1;
    }
    out.push_back(static_cast<uint32_t>(code));
    at += length;
    left -= length;
  }
  return out;
}

// Characters as small numbers, so that a table by character is short.
void Renumber(std::vector<uint32_t>& a, std::vector<uint32_t>& b, size_t& n_distinct) {
  std::unordered_map<uint32_t, uint32_t> numbers;
  for (auto* text : {&a, &b}) {
    for (uint32_t& c : *text) c = numbers.try_emplace(c, static_cast<uint32_t>(numbers.size())).first->second;
  }
  n_distinct = numbers.size();
}

size_t BlockDistance(Characters rows, Characters columns, size_t n_distinct) {
  if (rows.empty() || columns.empty()) return std::max(rows.size(), columns.size());
  std::vector<uint64_t> equal(n_distinct, 0);
  std::vector<int8_t> step(columns.size(), 1);  // D[i][j] - D[i][j-1] along the row above the block
  for (size_t top = 0; top < rows.size(); top += 64) {
    const Characters block = rows.subspan(top, std::min<size_t>(64, rows.size() - top));
    for (size_t i = 0; i < block.size(); ++i) equal[block[i]] |= uint64_t{1} << i;
    const uint64_t last = uint64_t{1} << (block.size() - 1);
    uint64_t plus = ~uint64_t{0}, minus = 0;  // where D grows and shrinks down a column
    for (size_t j = 0; j < columns.size(); ++j) {
      const uint64_t below = step[j] < 0 ? 1 : 0, above = step[j] > 0 ? 1 : 0;
      uint64_t match = equal[columns[j]];
      const uint64_t vertical = match | minus;
      match |= below;
      const uint64_t horizontal = (((match & plus) + plus) ^ plus) | match;
      uint64_t grows = minus | ~(horizontal | plus);
      uint64_t shrinks = plus & horizontal;
      step[j] = static_cast<int8_t>(((grows & last) != 0 ? 1 : 0) - ((shrinks & last) != 0 ? 1 : 0));
      grows = (grows << 1) | above;
      shrinks = (shrinks << 1) | below;
      plus = shrinks | ~(vertical | grows);
      minus = grows & vertical;
    }
    for (const uint32_t c : block) equal[c] = 0;
  }
  int64_t distance = static_cast<int64_t>(rows.size());
  for (const int8_t s : step) distance += s;
  return static_cast<size_t>(distance);
}

}  // namespace

double NormalisedEditDistance(std::string_view a, std::string_view b) {
  if (a == b) return 0;
  std::vector<uint32_t> from = CharactersOf(a), to = CharactersOf(b);
  const double longer = static_cast<double>(std::max(from.size(), to.size()));
  size_t n_distinct = 0;
  Renumber(from, to, n_distinct);
  // What both begin and end with costs nothing.
  Characters x = from, y = to;
  size_t same = 0;
  while (same < std::min(x.size(), y.size()) && x[same] == y[same]) ++same;
  x = x.subspan(same);
  y = y.subspan(same);
  same = 0;
  while (same < std::min(x.size(), y.size()) && x[x.size() - 1 - same] == y[y.size() - 1 - same]) ++same;
  x = x.first(x.size() - same);
  y = y.first(y.size() - same);
  const size_t n_pieces = std::max<size_t>(1, (std::max(x.size(), y.size()) - 1) / kMaxDistancePiece + 1);
  size_t distance = 0;
  for (size_t i = 0; i < n_pieces; ++i) {
    const auto piece = [&](Characters text) {
      const size_t from_at = text.size() * i / n_pieces, to_at = text.size() * (i + 1) / n_pieces;
      return text.subspan(from_at, to_at - from_at);
    };
    distance += BlockDistance(piece(x), piece(y), n_distinct);
  }
  return static_cast<double>(distance) / longer;
}

}  // namespace surety::gateway
