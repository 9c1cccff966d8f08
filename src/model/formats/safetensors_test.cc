#include "model/formats/safetensors.h"

#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace surety::model {
namespace {

using ::testing::HasSubstr;

std::span<const std::byte> AsBytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string File(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  bytes += header;
  for (size_t i = 0; i < data_bytes; ++i) bytes += static_cast<char>(i);
  return bytes;
}

Result<std::unique_ptr<SafetensorsFile>> Parse(const std::string& bytes) {
  return SafetensorsFile::FromMap(MakeMemoryFile("t.safetensors", AsBytes(bytes)));
}

void ExpectError(const std::string& bytes, const std::string& text) {
  const auto file = Parse(bytes);
  ASSERT_FALSE(file.has_value()) << "accepted; expected: " << text;
  EXPECT_THAT(file.error().message(), HasSubstr(text));
  EXPECT_THAT(file.error().message(), HasSubstr("'t.safetensors'"));
}

TEST(SafetensorsTest, ReadsTheThreeFloatTypesAndNamesTheOthers) {
  const auto file = Parse(File(R"({"__metadata__":{"format":"pt"},)"
                               R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                               R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]},)"
                               R"("c":{"dtype":"F16","shape":[],"data_offsets":[12,14]},)"
                               R"("d":{"dtype":"I64","shape":[1],"data_offsets":[14,22]},)"
                               R"("e":{"dtype":"NEW4","shape":[3],"data_offsets":[22,24]},)"
                               R"("z":{"dtype":"F32","shape":[0,4],"data_offsets":[24,24]}})",
                               24));
  ASSERT_TRUE(file.has_value()) << file.error().ToString();
  ASSERT_EQ((*file)->tensors().size(), 3u);
  EXPECT_EQ((*file)->tensors()[0].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ((*file)->tensors()[1].dtype, DType::kBF16);
  EXPECT_EQ((*file)->tensors()[2].ElementCount(), 1);
  ASSERT_EQ((*file)->unread().size(), 3u);
  EXPECT_EQ((*file)->unread()[0].dtype, "I64");
  EXPECT_EQ((*file)->unread()[1].dtype, "NEW4");
  EXPECT_EQ((*file)->unread()[2].name, "z");
}

TEST(SafetensorsTest, TensorsAtUnfitAddressesAreCopied) {
  for (size_t pad = 0; pad < 8; ++pad) {
    const auto file = Parse(File(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})" + std::string(pad, ' '),
                                 12));
    ASSERT_TRUE(file.has_value()) << file.error().ToString();
    const TensorView& tensor = (*file)->tensors()[0];
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % 4, 0u);
    for (size_t i = 0; i < 12; ++i) EXPECT_EQ(tensor.bytes[i], static_cast<std::byte>(i));
  }
}

TEST(SafetensorsTest, HeaderLengthsAreCheckedAgainstTheFile) {
  ExpectError("", "byte 0: the file has 0 bytes");
  ExpectError("1234567", "byte 0: the file has 7 bytes");
  std::string bytes = File("{}", 0);
  for (uint64_t length : {~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 33}) {
    std::memcpy(bytes.data(), &length, 8);
    ExpectError(bytes, "header length " + std::to_string(length));
  }
  const uint64_t three = 3;
  std::memcpy(bytes.data(), &three, 8);
  ExpectError(bytes, "byte 8: the file ends within the header of 3 bytes (2 left)");
  ExpectError(File("", 0), "does not start with '{'");
  ExpectError(File(" {}", 0), "does not start with '{'");
  ExpectError(File("{\"a\":", 0), "not valid JSON");
  ExpectError(File("{}x", 0), "text after the end of the JSON");
}

TEST(SafetensorsTest, WrongEntriesAreNamed) {
  const auto entry = [](const std::string& body) { return File("{\"w\":" + body + "}", 8); };
  ExpectError(entry("1"), "'w' has no object");
  ExpectError(entry(R"({"shape":[2],"data_offsets":[0,8]})"), "'w' has no string 'dtype'");
  ExpectError(entry(R"({"dtype":"F32","data_offsets":[0,8]})"), "'w' has no array 'shape'");
  ExpectError(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"), "'w' has no pair");
  ExpectError(entry(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), "'w' has a dimension");
  ExpectError(entry(R"({"dtype":"F32","shape":[2.5],"data_offsets":[0,8]})"), "'w' has a dimension");
  ExpectError(entry(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"), "'w' has a dimension");
  ExpectError(entry(R"({"dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8]})"), "which is not the size");
  ExpectError(entry(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"), "which is not the size of [3] F32");
  ExpectError(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), "not ascending");
  ExpectError(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[-1,7]})"), "not ascending");
  ExpectError(entry(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})"), "has 8 bytes (is the file truncated?)");
  ExpectError(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]})"), "file truncated?");
}

TEST(SafetensorsTest, HolesAndOverlapsAreRefused) {
  ExpectError(File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                   R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
              "'b' starts at byte 4 of the data, but the one before ends at 8");
  ExpectError(File(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8), "'a' starts at byte 4");
  ExpectError(File(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8), "end at byte 4 of the data");
  ExpectError(File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                   R"("a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})", 16),
              "'a' starts at byte 8");
}

TEST(SafetensorsTest, TruncationAndFlippedBytesNeverCrash) {
  auto read = FileSystem::Real().ReadAll(std::string(SURETY_TESTDATA) + "/fuzz/safetensors_fuzz/decoder", 1 << 20);
  ASSERT_TRUE(read.has_value());
  const std::string whole = *read;
  ASSERT_TRUE(Parse(whole).has_value());
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(Parse(whole.substr(0, size)).has_value()) << size;
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    std::string flipped = whole;
    for (uint32_t i = 0; i <= random() % 3; ++i) {
      flipped[random() % whole.size()] ^= static_cast<char>(1 << random() % 8);
    }
    const auto file = Parse(flipped);
    if (!file) {
      ASSERT_THAT(file.error().message(), HasSubstr("t.safetensors"));
    }
  }
}

TEST(SafetensorsTest, DeeplyNestedHeadersAreRefused) {
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100000; ++i) deep += '[';
  ExpectError(File(deep, 0), "not valid JSON");
}

}  // namespace
}  // namespace surety::model
