// Number formats of stored tensors: plain floats and the block-quantised formats of GGUF.
// Source: the GGUF specification's tensor types; block layouts are in quant_block.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace surety {

// Values are GGUF's type numbers, so that a file's number converts by a range check alone.
enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kIQ4_XS = 23,
  kBF16 = 30,
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // "Q4_K"
  int block_elements;     // 1 for plain floats
  int block_bytes;
};

// All the types that weights may have, in order of number.
std::span<const DTypeInfo> AllDTypes();
const DTypeInfo& InfoOf(DType dtype);
inline std::string_view NameOf(DType dtype) { return InfoOf(dtype).name; }

// From GGUF's number, or from a name such as "Q4_K" or safetensors' "BF16". Empty if unknown.
std::optional<DType> DTypeFromGgufNumber(uint32_t number);
std::optional<DType> DTypeFromName(std::string_view name);

// The name of a GGUF type number that exists but is not supported here ("IQ2_XXS", ...), or "unknown type N".
std::string_view GgufTypeName(uint32_t number);

// Bytes of a row of n elements; n must be a multiple of the block.
inline int64_t RowBytes(DType dtype, int64_t n) {
  const DTypeInfo& info = InfoOf(dtype);
  return n / info.block_elements * info.block_bytes;
}

}  // namespace surety
