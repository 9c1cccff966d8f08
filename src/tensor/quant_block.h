// Block layouts of the quantised formats, as GGUF stores them. All scales named d, dmin, m are IEEE half bits.
// Source: the public GGUF/GGML format. In each formula q is the stored integer of element i.
#pragma once

#include <cstdint>

namespace surety {

inline constexpr int kSmallBlock = 32;   // elements in a block of the simple formats
inline constexpr int kSuperBlock = 256;  // elements in a block of the K formats

#pragma pack(push, 1)

// x = d (q - 8); element i in the low nibble of qs[i] for i < 16, in the high nibble of qs[i - 16] above.
struct BlockQ4_0 {
  uint16_t d;
  uint8_t qs[16];
};
// x = d q + m; nibbles as in Q4_0.
struct BlockQ4_1 {
  uint16_t d, m;
  uint8_t qs[16];
};
// x = d (q - 16); low 4 bits as in Q4_0, fifth bit of element i is bit i of the little-endian qh.
struct BlockQ5_0 {
  uint16_t d;
  uint8_t qh[4];
  uint8_t qs[16];
};
// x = d q + m; bits as in Q5_0.
struct BlockQ5_1 {
  uint16_t d, m;
  uint8_t qh[4];
  uint8_t qs[16];
};
// x = d q, q signed.
struct BlockQ8_0 {
  uint16_t d;
  int8_t qs[32];
};
// 16 sub-blocks of 16: x = d (scales & 15) q - dmin (scales >> 4). Two bits an element: for each half of 128, element
// 32 j + l (l < 32) is bits 2j of qs[32 half + l].
struct BlockQ2_K {
  uint8_t scales[16];
  uint8_t qs[64];
  uint16_t d, dmin;
};
// 16 sub-blocks of 16: x = d (sc - 32) (q - 4), q = two low bits as in Q2_K plus 4 if the element's bit of hmask is set
// (bit 4 half + j of hmask[l]); sc = 6 bits packed in scales: low 4 bits in bytes 0-7 (two nibbles), high 2 in 8-11.
struct BlockQ3_K {
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  uint16_t d;
};
// 8 sub-blocks of 32: x = d sc q - dmin m, sc and m of 6 bits packed in scales; element 64 c + l in the low nibble of
// qs[32 c + l], 64 c + 32 + l in the high one.
struct BlockQ4_K {
  uint16_t d, dmin;
  uint8_t scales[12];
  uint8_t qs[128];
};
// As Q4_K with a fifth bit: bit 2c (low nibble) or 2c + 1 (high) of qh[l].
struct BlockQ5_K {
  uint16_t d, dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};
// 16 sub-blocks of 16: x = d scales (q - 32); per half of 128 elements: low nibbles of ql[64 half + l], ql[64 half + 32
// + l], then their high nibbles; high two bits from qh[32 half + l], two bits for each of the four rows of 32.
struct BlockQ6_K {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;
};
// x = d kIq4NlValues[q]; nibbles as in Q4_0.
struct BlockIQ4_NL {
  uint16_t d;
  uint8_t qs[16];
};
// 8 sub-blocks of 32: x = d (ls - 32) kIq4NlValues[q]; ls = 4 low bits in scales_l (two a byte), 2 high in scales_h;
// sub-block b's nibbles as in Q4_0 from qs[16 b].
struct BlockIQ4_XS {
  uint16_t d;
  uint16_t scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];
};

#pragma pack(pop)

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockQ2_K) == 84);
static_assert(sizeof(BlockQ3_K) == 110 && sizeof(BlockQ4_K) == 144 && sizeof(BlockQ5_K) == 176);
static_assert(sizeof(BlockQ6_K) == 210 && sizeof(BlockIQ4_NL) == 18 && sizeof(BlockIQ4_XS) == 136);

inline constexpr int8_t kIq4NlValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

}  // namespace surety
