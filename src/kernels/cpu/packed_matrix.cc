#include "kernels/cpu/packed_matrix.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/matmul.h"
#include "tensor/half.h"
#include "tensor/quant_block.h"

namespace surety::kernels::cpu {
namespace {

static_assert(std::endian::native == std::endian::little, "packed words are little-endian");

// The codes of 32 inputs of one output, four to a word in order.
using Codes = uint32_t[kQuads];

// --- one output's codes out of GGUF's blocks ------------------------------------------------------------------------

uint32_t Word(const uint8_t* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, 4);
  return word;
}
// Bit i of `bits` as the lowest bit of byte i, for the lowest four.
uint32_t SpreadBits(uint32_t bits) {
  return (bits & 1) | ((bits & 2) << 7) | ((bits & 4) << 14) | ((bits & 8) << 21);
}

// 16 bytes: inputs 0..15 in the low nibbles, 16..31 in the high ones.
void SimpleNibbles(const uint8_t* qs, Codes& codes) {
  for (int q = 0; q < 4; ++q) {
    codes[q] = Word(qs + 4 * q) & 0x0F0F0F0F;
    codes[q + 4] = (Word(qs + 4 * q) >> 4) & 0x0F0F0F0F;
  }
}
void SimpleFifthBits(const uint8_t* qh, Codes& codes) {
  const uint32_t bits = Word(qh);
  for (int q = 0; q < kQuads; ++q) codes[q] |= SpreadBits(bits >> (4 * q)) << 4;
}

void CodesOf(const BlockQ4_0& b, int, Codes& codes) { SimpleNibbles(b.qs, codes); }
void CodesOf(const BlockQ4_1& b, int, Codes& codes) { SimpleNibbles(b.qs, codes); }
void CodesOf(const BlockIQ4_NL& b, int, Codes& codes) { SimpleNibbles(b.qs, codes); }
void CodesOf(const BlockIQ4_XS& b, int sub, Codes& codes) { SimpleNibbles(b.qs + 16 * sub, codes); }
void CodesOf(const BlockQ5_0& b, int, Codes& codes) {
  SimpleNibbles(b.qs, codes);
  SimpleFifthBits(b.qh, codes);
}
void CodesOf(const BlockQ5_1& b, int, Codes& codes) {
  SimpleNibbles(b.qs, codes);
  SimpleFifthBits(b.qh, codes);
}
void CodesOf(const BlockQ8_0& b, int, Codes& codes) { std::memcpy(codes, b.qs, kBlock); }
void CodesOf(const BlockQ4_K& b, int sub, Codes& codes) {
  for (int q = 0; q < kQuads; ++q) codes[q] = (Word(b.qs + sub / 2 * 32 + 4 * q) >> (sub % 2 * 4)) & 0x0F0F0F0F;
}
void CodesOf(const BlockQ5_K& b, int sub, Codes& codes) {
  for (int q = 0; q < kQuads; ++q) {
    codes[q] = ((Word(b.qs + sub / 2 * 32 + 4 * q) >> (sub % 2 * 4)) & 0x0F0F0F0F) |
               (((Word(b.qh + 4 * q) >> sub) & 0x01010101) << 4);
  }
}
void CodesOf(const BlockQ6_K& b, int sub, Codes& codes) {
  const int half = sub / 4, row = sub % 4;
  for (int q = 0; q < kQuads; ++q) {
    codes[q] = ((Word(b.ql + 64 * half + 32 * (row % 2) + 4 * q) >> (row / 2 * 4)) & 0x0F0F0F0F) |
               (((Word(b.qh + 32 * half + 4 * q) >> (2 * row)) & 0x03030303) << 4);
  }
}
void CodesOf(const BlockQ2_K& b, int sub, Codes& codes) {
  for (int q = 0; q < kQuads; ++q) codes[q] = (Word(b.qs + sub / 4 * 32 + 4 * q) >> (sub % 4 * 2)) & 0x03030303;
}
void CodesOf(const BlockQ3_K& b, int sub, Codes& codes) {
  for (int q = 0; q < kQuads; ++q) {
    codes[q] = ((Word(b.qs + sub / 4 * 32 + 4 * q) >> (sub % 4 * 2)) & 0x03030303) |
               (((Word(b.hmask + 4 * q) >> sub) & 0x01010101) << 2);
  }
}

// --- headers --------------------------------------------------------------------------------------------------------

void PutHalf(std::byte* header, int slot, int r, uint16_t half) {
  std::memcpy(header + slot * 2 * kGroup + 2 * r, &half, 2);
}
void PutByte(std::byte* bytes, int row, int r, int value) {
  bytes[row * kGroup + r] = static_cast<std::byte>(value);
}

template <class Block>
void PutHeader(const Block& b, int r, std::byte* header)
  requires(sizeof(Block) < 64)
{
  PutHalf(header, 0, r, b.d);
  if constexpr (requires { b.m; }) PutHalf(header, 1, r, b.m);
}
// Q4_K and Q5_K: scale, then minimum, of each block.
template <class Block>
void PutHeader(const Block& b, int r, std::byte* header)
  requires(sizeof(b.scales) == 12 && requires { b.dmin; })
{
  PutHalf(header, 0, r, b.d);
  PutHalf(header, 1, r, b.dmin);
  std::byte* bytes = header + 4 * kGroup;
  for (int j = 0; j < 4; ++j) {
    const int s0 = b.scales[j], s1 = b.scales[j + 4], s2 = b.scales[j + 8];
    PutByte(bytes, 2 * j, r, s0 & 63);
    PutByte(bytes, 2 * j + 1, r, s1 & 63);
    PutByte(bytes, 2 * (j + 4), r, (s2 & 15) | (s0 >> 6 << 4));
    PutByte(bytes, 2 * (j + 4) + 1, r, (s2 >> 4) | (s1 >> 6 << 4));
  }
}
void PutHeader(const BlockQ6_K& b, int r, std::byte* header) {
  PutHalf(header, 0, r, b.d);
  for (int j = 0; j < 16; ++j) PutByte(header + 2 * kGroup, j, r, b.scales[j]);
}
void PutHeader(const BlockQ3_K& b, int r, std::byte* header) {
  PutHalf(header, 0, r, b.d);
  for (int j = 0; j < 16; ++j) {
    const int low = j < 8 ? b.scales[j] & 15 : b.scales[j - 8] >> 4;
    const int high = (b.scales[8 + j % 4] >> (2 * (j / 4))) & 3;
    PutByte(header + 2 * kGroup, j, r, (low | (high << 4)) - 32);
  }
}
void PutHeader(const BlockQ2_K& b, int r, std::byte* header) {
  PutHalf(header, 0, r, b.d);
  PutHalf(header, 1, r, b.dmin);
  for (int j = 0; j < 16; ++j) PutByte(header + 4 * kGroup, j, r, b.scales[j]);
}
void PutHeader(const BlockIQ4_XS& b, int r, std::byte* header) {
  PutHalf(header, 0, r, b.d);
  for (int j = 0; j < 8; ++j) {
    const int low = (b.scales_l[j / 2] >> (4 * (j % 2))) & 15;
    const int high = (b.scales_h >> (2 * j)) & 3;
    PutByte(header + 2 * kGroup, j, r, (low | (high << 4)) - 32);
  }
}

// --- planes ---------------------------------------------------------------------------------------------------------

void PutWord(std::byte* to, int row, int r, uint32_t word) { std::memcpy(to + row * 64 + 4 * r, &word, 4); }

void PutFourBits(const Codes& c, int r, std::byte* to) {
  for (int p = 0; p < 4; ++p) PutWord(to, p, r, (c[p] & 0x0F0F0F0F) | ((c[p + 4] & 0x0F0F0F0F) << 4));
}
// Bits `from` and up, two of each code.
void PutTwoBits(const Codes& c, int from, int r, std::byte* to) {
  for (int p = 0; p < 2; ++p) {
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word |= ((c[4 * p + i] >> from) & 0x03030303) << (2 * i);
    PutWord(to, p, r, word);
  }
}
void PutOneBit(const Codes& c, int from, int r, std::byte* to) {
  uint32_t word = 0;
  for (int q = 0; q < kQuads; ++q) word |= ((c[q] >> from) & 0x01010101) << q;
  PutWord(to, 0, r, word);
}

template <DType kType>
void PutCodes(const Codes& c, int r, std::byte* to) {
  if constexpr (kType == DType::kQ8_0) {
    for (int q = 0; q < kQuads; ++q) PutWord(to, q, r, c[q]);
  } else if constexpr (kType == DType::kQ2_K) {
    PutTwoBits(c, 0, r, to);
  } else if constexpr (kType == DType::kQ3_K) {
    PutTwoBits(c, 0, r, to);
    PutOneBit(c, 2, r, to + 128);
  } else {
    PutFourBits(c, r, to);
    if constexpr (kType == DType::kQ6_K) PutTwoBits(c, 4, r, to + 256);
    if constexpr (kType == DType::kQ5_0 || kType == DType::kQ5_1 || kType == DType::kQ5_K) PutOneBit(c, 4, r, to + 256);
  }
}

// --- groups ---------------------------------------------------------------------------------------------------------

// rows: the 16 outputs' raw bytes, null for padding (whose bytes stay zero).
template <DType kType, class Block>
void PackGroup(const std::byte* const* rows, int64_t n_inputs, std::byte* group) {
  constexpr PackedLayout kLayout = PackedLayoutOf(kType);
  const int64_t n_supers = n_inputs / kBlock / kLayout.blocks_per_super;
  for (int64_t s = 0; s < n_supers; ++s, group += kLayout.super_bytes()) {
    for (int r = 0; r < kGroup; ++r) {
      if (rows[r] == nullptr) continue;
      Block block;
      std::memcpy(&block, rows[r] + s * static_cast<int64_t>(sizeof(Block)), sizeof(Block));
      PutHeader(block, r, group);
      for (int b = 0; b < kLayout.blocks_per_super; ++b) {
        Codes codes;
        CodesOf(block, b, codes);
        PutCodes<kType>(codes, r, group + kLayout.header_bytes + b * kLayout.block_bytes);
      }
    }
  }
}

template <typename T>
void PackFloatGroup(const std::byte* const* rows, int64_t n_inputs, std::byte* group) {
  for (int r = 0; r < kGroup; ++r) {
    if (rows[r] == nullptr) continue;
    for (int64_t k = 0; k < n_inputs; ++k) {
      std::memcpy(group + (k * kGroup + r) * sizeof(T), rows[r] + k * sizeof(T), sizeof(T));
    }
  }
}

constexpr int64_t kBytesAtOnce = 16 << 20;  // packed between two calls of `packed`

using PackFunction = void (*)(const std::byte* const* rows, int64_t n_inputs, std::byte* group);

PackFunction PackFunctionOf(DType dtype) {
  switch (dtype) {
    case DType::kF32: return PackFloatGroup<uint32_t>;
    case DType::kF16:
    case DType::kBF16: return PackFloatGroup<uint16_t>;
    case DType::kQ4_0: return PackGroup<DType::kQ4_0, BlockQ4_0>;
    case DType::kQ4_1: return PackGroup<DType::kQ4_1, BlockQ4_1>;
    case DType::kQ5_0: return PackGroup<DType::kQ5_0, BlockQ5_0>;
    case DType::kQ5_1: return PackGroup<DType::kQ5_1, BlockQ5_1>;
    case DType::kQ8_0: return PackGroup<DType::kQ8_0, BlockQ8_0>;
    case DType::kQ2_K: return PackGroup<DType::kQ2_K, BlockQ2_K>;
    case DType::kQ3_K: return PackGroup<DType::kQ3_K, BlockQ3_K>;
    case DType::kQ4_K: return PackGroup<DType::kQ4_K, BlockQ4_K>;
    case DType::kQ5_K: return PackGroup<DType::kQ5_K, BlockQ5_K>;
    case DType::kQ6_K: return PackGroup<DType::kQ6_K, BlockQ6_K>;
    case DType::kIQ4_NL: return PackGroup<DType::kIQ4_NL, BlockIQ4_NL>;
    case DType::kIQ4_XS: return PackGroup<DType::kIQ4_XS, BlockIQ4_XS>;
  }
  return nullptr;
}

std::string Describe(const TensorView& t) {
  std::string text = "tensor '" + t.name + "' (" + std::string(NameOf(t.dtype)) + " [";
  for (size_t i = 0; i < t.shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(t.shape[i]);
  return text + "])";
}

Status CheckParts(std::span<const TensorView> parts) {
  if (parts.empty()) return InvalidArgumentError("a weight matrix needs at least one tensor");
  const TensorView& first = parts[0];
  for (const TensorView& part : parts) {
    if (part.shape.size() != 2 || part.shape[0] <= 0 || part.shape[1] <= 0) {
      return InvalidArgumentError(Describe(part) + " is no weight matrix: it needs the shape {outputs, inputs}");
    }
    if (part.dtype != first.dtype || part.cols() != first.cols()) {
      return InvalidArgumentError(Describe(part) + " cannot be stacked with " + Describe(first) +
                                  ": type and inputs must agree");
    }
    const int block = InfoOf(part.dtype).block_elements;
    if (part.cols() % block != 0) {
      return InvalidArgumentError(Describe(part) + ": inputs must be a multiple of " + std::to_string(block));
    }
    if (static_cast<int64_t>(part.bytes.size()) != part.rows() * RowBytes(part.dtype, part.cols())) {
      return InvalidArgumentError(Describe(part) + " holds " + std::to_string(part.bytes.size()) + " bytes, not the " +
                                  std::to_string(part.rows() * RowBytes(part.dtype, part.cols())) + " of its shape");
    }
  }
  return OkStatus();
}

// The bytes of stacked row r, or null past the end.
const std::byte* RowOf(std::span<const TensorView> parts, int64_t r, int64_t row_bytes) {
  for (const TensorView& part : parts) {
    if (r < part.rows()) return part.bytes.data() + r * row_bytes;
    r -= part.rows();
  }
  return nullptr;
}

// Calls body with the runs of the parts' rows that stand at [begin, end) of the stack.
void ForParts(std::span<const TensorView> parts, int64_t begin, int64_t end,
              FunctionRef<void(const TensorView&)> body) {
  for (const TensorView& part : parts) {
    const int64_t first = std::max<int64_t>(begin, 0), last = std::min(end, part.rows());
    if (first < last) {
      const auto row_bytes = static_cast<size_t>(RowBytes(part.dtype, part.cols()));
      body({part.name, part.dtype, {last - first, part.cols()},
            part.bytes.subspan(static_cast<size_t>(first) * row_bytes, static_cast<size_t>(last - first) * row_bytes)});
    }
    begin -= part.rows();
    end -= part.rows();
  }
}

}  // namespace

CpuPackedMatrix::CpuPackedMatrix(DType dtype, int64_t n_outputs, int64_t n_inputs, AlignedBuffer bytes)
    : group_bytes_(GroupBytes(dtype, n_inputs)), bytes_(std::move(bytes)) {
  n_outputs_ = n_outputs;
  n_inputs_ = n_inputs;
  dtype_ = dtype;
  size_bytes_ = static_cast<int64_t>(bytes_.size_bytes());
}

Result<std::unique_ptr<PackedMatrix>> PackMatrix(std::span<const TensorView> parts, Executor& executor,
                                                 FunctionRef<void(const TensorView&)> packed, BufferArena* arena) {
  SURETY_RETURN_IF_ERROR(CheckParts(parts));
  const DType dtype = parts[0].dtype;
  const int64_t n_inputs = parts[0].cols();
  int64_t n_outputs = 0;
  for (const TensorView& part : parts) n_outputs += part.rows();
  const int64_t n_groups = (n_outputs + kGroup - 1) / kGroup;
  const int64_t group_bytes = GroupBytes(dtype, n_inputs);
  const auto size = static_cast<size_t>(n_groups * group_bytes);
  SURETY_ASSIGN_OR_RETURN(AlignedBuffer bytes,
                          arena != nullptr ? arena->TryAllocate(size) : AlignedBuffer::TryAllocate(size));

  const PackFunction pack = PackFunctionOf(dtype);
  SURETY_CHECK(pack != nullptr);
  const int64_t row_bytes = RowBytes(dtype, n_inputs);
  const int64_t groups_at_once = std::max<int64_t>(1, kBytesAtOnce / group_bytes);
  for (int64_t from = 0; from < n_groups; from += groups_at_once) {
    const int64_t n = std::min(groups_at_once, n_groups - from);
    ParallelFor(executor, n, [&](int64_t i, int) {
      const std::byte* rows[kGroup];
      for (int r = 0; r < kGroup; ++r) rows[r] = RowOf(parts, (from + i) * kGroup + r, row_bytes);
      pack(rows, n_inputs, bytes.data() + (from + i) * group_bytes);
    });
    ForParts(parts, from * kGroup, std::min((from + n) * kGroup, n_outputs), packed);
  }
  return std::make_unique<CpuPackedMatrix>(dtype, n_outputs, n_inputs, std::move(bytes));
}

}  // namespace surety::kernels::cpu
