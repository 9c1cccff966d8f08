#include "kernels/dequantize.h"

#include <cstring>

#include "base/check.h"
#include "tensor/half.h"
#include "tensor/quant_block.h"

namespace surety::kernels {
namespace {

// Bit i of a little-endian bit string.
int BitOf(const uint8_t* bits, int i) { return (bits[i / 8] >> (i % 8)) & 1; }
// Element i < 32 of the simple formats' nibbles.
int NibbleOf(const uint8_t* qs, int i) { return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4; }

// The 6-bit scales and minima of Q4_K and Q5_K: 12 bytes hold 8 of each.
void UnpackScalesAndMins(const uint8_t* packed, uint8_t* scales, uint8_t* mins) {
  for (int j = 0; j < 4; ++j) {
    scales[j] = packed[j] & 63;
    mins[j] = packed[j + 4] & 63;
    scales[j + 4] = static_cast<uint8_t>((packed[j + 8] & 15) | (packed[j] >> 6 << 4));
    mins[j + 4] = static_cast<uint8_t>((packed[j + 8] >> 4) | (packed[j + 4] >> 6 << 4));
  }
}

// The 16 6-bit scales of Q3_K, not yet less 32.
void UnpackScales(const uint8_t* packed, uint8_t* scales) {
  for (int j = 0; j < 16; ++j) {
    const int low = j < 8 ? packed[j] & 15 : packed[j - 8] >> 4;
    const int high = (packed[8 + j % 4] >> (2 * (j / 4))) & 3;
    scales[j] = static_cast<uint8_t>(low | (high << 4));
  }
}

void Decode(const BlockQ4_0& b, float* out) {
  const float d = F16ToF32(b.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(NibbleOf(b.qs, i) - 8);
}

void Decode(const BlockQ4_1& b, float* out) {
  const float d = F16ToF32(b.d), m = F16ToF32(b.m);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(NibbleOf(b.qs, i)) + m;
}

void Decode(const BlockQ5_0& b, float* out) {
  const float d = F16ToF32(b.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>((NibbleOf(b.qs, i) | (BitOf(b.qh, i) << 4)) - 16);
}

void Decode(const BlockQ5_1& b, float* out) {
  const float d = F16ToF32(b.d), m = F16ToF32(b.m);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(NibbleOf(b.qs, i) | (BitOf(b.qh, i) << 4)) + m;
}

void Decode(const BlockQ8_0& b, float* out) {
  const float d = F16ToF32(b.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(b.qs[i]);
}

void Decode(const BlockIQ4_NL& b, float* out) {
  const float d = F16ToF32(b.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(kIq4NlValues[NibbleOf(b.qs, i)]);
}

void Decode(const BlockQ2_K& b, float* out) {
  const float d = F16ToF32(b.d), dmin = F16ToF32(b.dmin);
  for (int i = 0; i < 256; ++i) {
    const int sub = b.scales[i / 16];
    const int q = (b.qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
    out[i] = d * static_cast<float>(sub & 15) * static_cast<float>(q) - dmin * static_cast<float>(sub >> 4);
  }
}

void Decode(const BlockQ3_K& b, float* out) {
  const float d = F16ToF32(b.d);
  uint8_t scales[16];
  UnpackScales(b.scales, scales);
  for (int i = 0; i < 256; ++i) {
    const int low = (b.qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
    const int high = (b.hmask[i % 32] >> (i / 32)) & 1;
    out[i] = d * static_cast<float>(scales[i / 16] - 32) * static_cast<float>(low + 4 * high - 4);
  }
}

void Decode(const BlockQ4_K& b, float* out) {
  const float d = F16ToF32(b.d), dmin = F16ToF32(b.dmin);
  uint8_t scales[8], mins[8];
  UnpackScalesAndMins(b.scales, scales, mins);
  for (int i = 0; i < 256; ++i) {
    const int byte = b.qs[i / 64 * 32 + i % 32];
    const int q = i % 64 < 32 ? byte & 15 : byte >> 4;
    out[i] = d * static_cast<float>(scales[i / 32]) * static_cast<float>(q) - dmin * static_cast<float>(mins[i / 32]);
  }
}

void Decode(const BlockQ5_K& b, float* out) {
  const float d = F16ToF32(b.d), dmin = F16ToF32(b.dmin);
  uint8_t scales[8], mins[8];
  UnpackScalesAndMins(b.scales, scales, mins);
  for (int i = 0; i < 256; ++i) {
    const int byte = b.qs[i / 64 * 32 + i % 32];
    const int q = (i % 64 < 32 ? byte & 15 : byte >> 4) | (((b.qh[i % 32] >> (i / 32)) & 1) << 4);
    out[i] = d * static_cast<float>(scales[i / 32]) * static_cast<float>(q) - dmin * static_cast<float>(mins[i / 32]);
  }
}

void Decode(const BlockQ6_K& b, float* out) {
  const float d = F16ToF32(b.d);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, row = i % 128 / 32, l = i % 32;
    const int byte = b.ql[64 * half + 32 * (row % 2) + l];
    const int low = row < 2 ? byte & 15 : byte >> 4;
    const int high = (b.qh[32 * half + l] >> (2 * row)) & 3;
    out[i] = d * static_cast<float>(b.scales[i / 16]) * static_cast<float>((low | (high << 4)) - 32);
  }
}

void Decode(const BlockIQ4_XS& b, float* out) {
  const float d = F16ToF32(b.d);
  for (int i = 0; i < 256; ++i) {
    const int sub = i / 32;
    const int low = (b.scales_l[sub / 2] >> (4 * (sub % 2))) & 15;
    const int scale = (low | (((b.scales_h >> (2 * sub)) & 3) << 4)) - 32;
    out[i] = d * static_cast<float>(scale) * static_cast<float>(kIq4NlValues[NibbleOf(b.qs + 16 * sub, i % 32)]);
  }
}

template <typename Block, int kElements>
void DecodeBlocks(const std::byte* bytes, int64_t n, float* out) {
  SURETY_CHECK_MSG(n % kElements == 0, "a row must hold whole blocks");
  for (int64_t i = 0; i < n; i += kElements, bytes += sizeof(Block)) {
    Block block;
    std::memcpy(&block, bytes, sizeof(Block));
    Decode(block, out + i);
  }
}

template <float (*kConvert)(uint16_t)>
void ConvertHalves(const std::byte* bytes, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes + 2 * i, 2);
    out[i] = kConvert(bits);
  }
}

}  // namespace

void DequantizeRow(DType dtype, const std::byte* bytes, int64_t n, float* out) {
  switch (dtype) {
    case DType::kF32: std::memcpy(out, bytes, static_cast<size_t>(n) * 4); return;
    case DType::kF16: return ConvertHalves<F16ToF32>(bytes, n, out);
    case DType::kBF16: return ConvertHalves<BF16ToF32>(bytes, n, out);
    case DType::kQ4_0: return DecodeBlocks<BlockQ4_0, 32>(bytes, n, out);
    case DType::kQ4_1: return DecodeBlocks<BlockQ4_1, 32>(bytes, n, out);
    case DType::kQ5_0: return DecodeBlocks<BlockQ5_0, 32>(bytes, n, out);
    case DType::kQ5_1: return DecodeBlocks<BlockQ5_1, 32>(bytes, n, out);
    case DType::kQ8_0: return DecodeBlocks<BlockQ8_0, 32>(bytes, n, out);
    case DType::kQ2_K: return DecodeBlocks<BlockQ2_K, 256>(bytes, n, out);
    case DType::kQ3_K: return DecodeBlocks<BlockQ3_K, 256>(bytes, n, out);
    case DType::kQ4_K: return DecodeBlocks<BlockQ4_K, 256>(bytes, n, out);
    case DType::kQ5_K: return DecodeBlocks<BlockQ5_K, 256>(bytes, n, out);
    case DType::kQ6_K: return DecodeBlocks<BlockQ6_K, 256>(bytes, n, out);
    case DType::kIQ4_NL: return DecodeBlocks<BlockIQ4_NL, 32>(bytes, n, out);
    case DType::kIQ4_XS: return DecodeBlocks<BlockIQ4_XS, 256>(bytes, n, out);
  }
  SURETY_CHECK_MSG(false, "no such dtype");
}

}  // namespace surety::kernels
