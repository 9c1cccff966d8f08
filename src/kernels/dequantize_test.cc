#include "kernels/dequantize.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"

namespace surety::kernels {
namespace {

// The bytes of one tensor of a safetensors file whose header is known to be plain: finds the name, then its offsets.
std::string_view TensorBytes(std::string_view file, const std::string& name) {
  uint64_t header_size = 0;
  std::memcpy(&header_size, file.data(), 8);
  const std::string_view header = file.substr(8, header_size);
  const size_t at = header.find("\"" + name + "\":");
  if (at == std::string_view::npos) return {};
  constexpr std::string_view kKey = "\"data_offsets\":[";
  const std::string text(header.substr(header.find(kKey, at) + kKey.size(), 60));
  char* comma = nullptr;
  const uint64_t begin = std::strtoull(text.c_str(), &comma, 10);
  const uint64_t end = std::strtoull(comma + 1, nullptr, 10);
  return file.substr(8 + header_size + begin, end - begin);
}

// Golden: values of the gguf package's dequantize (tools/goldens/quant_blocks.py).
TEST(DequantizeRowTest, GivesTheExactValuesOfEveryType) {
  std::ifstream in(SURETY_TESTDATA "/quant/blocks.safetensors", std::ios::binary);
  const std::string content(std::istreambuf_iterator<char>(in), {});
  ASSERT_GT(content.size(), 8u) << "golden is missing";
  for (const DTypeInfo& info : AllDTypes()) {
    if (info.dtype == DType::kF32) continue;
    const std::string_view blocks = TensorBytes(content, std::string(info.name) + ".blocks");
    const std::string_view values = TensorBytes(content, std::string(info.name) + ".values");
    ASSERT_FALSE(blocks.empty()) << info.name;
    const size_t n = values.size() / 4;
    ASSERT_EQ(RowBytes(info.dtype, static_cast<int64_t>(n)), static_cast<int64_t>(blocks.size())) << info.name;
    std::vector<float> expected(n), out(n);
    std::memcpy(expected.data(), values.data(), values.size());
    DequantizeRow(info.dtype, reinterpret_cast<const std::byte*>(blocks.data()), static_cast<int64_t>(n), out.data());
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(out[i], expected[i]) << info.name << " element " << i;
  }
}

TEST(DequantizeRowTest, CopiesFloats) {
  const float in[3] = {1.5f, -0.0f, 1e-40f};
  float out[3];
  DequantizeRow(DType::kF32, reinterpret_cast<const std::byte*>(in), 3, out);
  EXPECT_EQ(std::memcmp(in, out, sizeof(in)), 0);
}

}  // namespace
}  // namespace surety::kernels
