#include "tensor/dtype.h"

#include <array>

#include "base/check.h"
#include "tensor/quant_block.h"

namespace surety {
namespace {

constexpr std::array<DTypeInfo, 15> kInfos = {{
    {DType::kF32, "F32", 1, 4},
    {DType::kF16, "F16", 1, 2},
    {DType::kQ4_0, "Q4_0", 32, sizeof(BlockQ4_0)},
    {DType::kQ4_1, "Q4_1", 32, sizeof(BlockQ4_1)},
    {DType::kQ5_0, "Q5_0", 32, sizeof(BlockQ5_0)},
    {DType::kQ5_1, "Q5_1", 32, sizeof(BlockQ5_1)},
    {DType::kQ8_0, "Q8_0", 32, sizeof(BlockQ8_0)},
    {DType::kQ2_K, "Q2_K", 256, sizeof(BlockQ2_K)},
    {DType::kQ3_K, "Q3_K", 256, sizeof(BlockQ3_K)},
    {DType::kQ4_K, "Q4_K", 256, sizeof(BlockQ4_K)},
    {DType::kQ5_K, "Q5_K", 256, sizeof(BlockQ5_K)},
    {DType::kQ6_K, "Q6_K", 256, sizeof(BlockQ6_K)},
    {DType::kIQ4_NL, "IQ4_NL", 32, sizeof(BlockIQ4_NL)},
    {DType::kIQ4_XS, "IQ4_XS", 256, sizeof(BlockIQ4_XS)},
    {DType::kBF16, "BF16", 1, 2},
}};

// GGUF's numbers with their names, supported here or not. Numbers 4 and 5 (Q4_2, Q4_3) were withdrawn.
constexpr std::array<std::string_view, 40> kGgufNames = {
    "F32",     "F16",    "Q4_0",  "Q4_1",   "Q4_2",  "Q4_3",   "Q5_0",     "Q5_1",     "Q8_0",     "Q8_1",
    "Q2_K",    "Q3_K",   "Q4_K",  "Q5_K",   "Q6_K",  "Q8_K",   "IQ2_XXS",  "IQ2_XS",   "IQ3_XXS",  "IQ1_S",
    "IQ4_NL",  "IQ3_S",  "IQ2_S", "IQ4_XS", "I8",    "I16",    "I32",      "I64",      "F64",      "IQ1_M",
    "BF16",    "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "TQ1_0", "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8",
    "MXFP4"};

}  // namespace

std::span<const DTypeInfo> AllDTypes() { return kInfos; }

const DTypeInfo& InfoOf(DType dtype) {
  for (const DTypeInfo& info : kInfos) {
    if (info.dtype == dtype) return info;
  }
  SURETY_CHECK_MSG(false, "no such dtype");
  __builtin_unreachable();
}

std::optional<DType> DTypeFromGgufNumber(uint32_t number) {
  for (const DTypeInfo& info : kInfos) {
    if (static_cast<uint32_t>(info.dtype) == number) return info.dtype;
  }
  return std::nullopt;
}

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const DTypeInfo& info : kInfos) {
    if (info.name == name) return info.dtype;
  }
  return std::nullopt;
}

std::string_view GgufTypeName(uint32_t number) {
  return number < kGgufNames.size() ? kGgufNames[number] : std::string_view("an unknown type");
}

}  // namespace surety
