#include "model/formats/gguf.h"

#include <filesystem>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/formats/gguf_model.h"
#include "model/testing/gguf_writer.h"

namespace surety::model {
namespace {

using ::testing::HasSubstr;

const std::string kCorpus = std::string(SURETY_TESTDATA) + "/fuzz/gguf_fuzz/";

std::span<const std::byte> BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

void ExpectError(const GgufWriter& writer, StatusCode code, const std::string& text) {
  const auto file = writer.Parse();
  ASSERT_FALSE(file.has_value()) << "accepted; expected: " << text;
  EXPECT_EQ(file.error().code(), code) << file.error().ToString();
  EXPECT_THAT(file.error().message(), HasSubstr(text));
  EXPECT_THAT(file.error().message(), HasSubstr("test.gguf"));
}

TEST(GgufTest, ReadsEveryScalarTypeWidened) {
  GgufWriter w;
  w.Key("u8", GgufType::kUint8, GgufWriter::Raw(uint8_t{200})).Key("i8", GgufType::kInt8, GgufWriter::Raw(int8_t{-5}));
  w.Key("u16", GgufType::kUint16, GgufWriter::Raw(uint16_t{60000}));
  w.Key("i16", GgufType::kInt16, GgufWriter::Raw(int16_t{-300}));
  w.Int("u32", 4000000000u).Key("i32", GgufType::kInt32, GgufWriter::Raw(int32_t{-70000}));
  w.Key("u64", GgufType::kUint64, GgufWriter::Raw(~uint64_t{0}));
  w.Key("i64", GgufType::kInt64, GgufWriter::Raw(int64_t{-1} << 40));
  w.Float("f32", 0.5f).Key("f64", GgufType::kFloat64, GgufWriter::Raw(0.1)).String("s", "text");
  w.Key("b", GgufType::kBool, std::string(1, '\1'));
  const auto parsed = w.Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().ToString();
  const GgufFile& file = **parsed;
  EXPECT_EQ(*file.Int("u8"), 200);
  EXPECT_EQ(*file.Int("i8"), -5);
  EXPECT_EQ(*file.Int("u16"), 60000);
  EXPECT_EQ(*file.Int("i16"), -300);
  EXPECT_EQ(*file.Int("u32"), 4000000000);
  EXPECT_EQ(*file.Int("i32"), -70000);
  EXPECT_EQ(*file.Int("i64"), int64_t{-1} << 40);
  EXPECT_EQ(*file.Float("f32"), 0.5);
  EXPECT_EQ(*file.Float("f64"), 0.1);
  EXPECT_EQ(*file.Float("u8"), 200.0);
  EXPECT_EQ(*file.String("s"), "text");
  EXPECT_TRUE(*file.Bool("b"));
  EXPECT_THAT(file.Int("u64").error().message(), HasSubstr("'u64' is 18446744073709551615"));
  EXPECT_THAT(file.Int("s").error().message(), HasSubstr("'s' is a string, but an integer is needed"));
  EXPECT_EQ(file.Int("absent").error().code(), StatusCode::kNotFound);
  EXPECT_THAT(file.Int("absent").error().message(), HasSubstr("'absent'"));
}

TEST(GgufTest, ShapesAreSlowestFirstAndViewsLieInTheData) {
  GgufWriter w;
  w.Tensor("a", DType::kF32, {3, 5}).Tensor("b", DType::kQ8_0, {2, 4, 32}).Tensor("c", DType::kF16, {7});
  const auto parsed = w.Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().ToString();
  const GgufFile& file = **parsed;
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.FindTensor("a")->shape, (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(file.FindTensor("b")->shape, (std::vector<int64_t>{2, 4, 32}));
  EXPECT_EQ(file.FindTensor("b")->bytes.size(), 8u * 34);
  EXPECT_EQ(file.FindTensor("c")->bytes.data() + 32, file.map().bytes().data() + file.map().bytes().size());
  EXPECT_EQ(file.FindTensor("d"), nullptr);
}

TEST(GgufTest, VersionTwoIsReadOthersAreNamed) {
  GgufWriter w;
  w.version = 2;
  EXPECT_TRUE(w.Parse().has_value());
  w.version = 1;
  ExpectError(w, StatusCode::kUnimplemented, "byte 4: GGUF version 1");
  w.version = 0x03000000;
  ExpectError(w, StatusCode::kUnimplemented, "a big-endian GGUF file of version 3");
  w.version = 3;
  w.magic = "GGML";
  ExpectError(w, StatusCode::kDataLoss, "byte 0: not a GGUF file");
}

TEST(GgufTest, HostileCountsAreRefusedBeforeAnythingIsAllocated) {
  for (uint64_t count : {~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 40, uint64_t{1000}}) {
    GgufWriter keys;
    keys.n_keys = count;
    ExpectError(keys, StatusCode::kDataLoss, "byte 16: metadata count " + std::to_string(count));
    GgufWriter tensors;
    tensors.n_tensors = count;
    ExpectError(tensors, StatusCode::kDataLoss, "byte 8: tensor count " + std::to_string(count));
    GgufWriter text;
    text.Key("k", GgufType::kString, GgufWriter::Raw(count));
    ExpectError(text, StatusCode::kOutOfRange, "within the value of key 'k' (" + std::to_string(count));
    for (GgufType type : {GgufType::kUint8, GgufType::kString, GgufType::kArray, GgufType::kFloat64}) {
      GgufWriter array;
      array.Key("k", GgufType::kArray, GgufWriter::Raw(static_cast<uint32_t>(type)) + GgufWriter::Raw(count));
      ExpectError(array, StatusCode::kDataLoss, "key 'k' has " + std::to_string(count) + " elements");
    }
  }
}

TEST(GgufTest, DimensionsOfZeroAndPastSixtyThreeBitsAreRefused) {
  ExpectError(GgufWriter().Tensor("t", DType::kF32, {4, 0}), StatusCode::kDataLoss, "'t': dimension 0 is 0");
  ExpectError(GgufWriter().Tensor("t", DType::kF32, {~uint64_t{0}}), StatusCode::kDataLoss, "zero or too large");
  ExpectError(GgufWriter().Tensor("t", DType::kF32, {uint64_t{1} << 33, uint64_t{1} << 33}), StatusCode::kDataLoss,
              "zero or too large");
  ExpectError(GgufWriter().Tensor("t", DType::kF32, {uint64_t{1} << 62}), StatusCode::kDataLoss, "past 64 bits");
  ExpectError(GgufWriter().Tensor("t", DType::kF32, {uint64_t{1} << 60}), StatusCode::kOutOfRange, "is the file trunc");
  ExpectError(GgufWriter().Tensor("t", DType::kF32, {}), StatusCode::kDataLoss, "has 0 dimensions");
  ExpectError(GgufWriter().Tensor("t", DType::kF32, {1, 1, 1, 1, 1}), StatusCode::kDataLoss, "has 5 dimensions");
  ExpectError(GgufWriter().Tensor("t", DType::kQ4_K, {2, 128}), StatusCode::kDataLoss, "no multiple of the 256");
}

TEST(GgufTest, AlignmentMustBeAPowerOfTwo) {
  for (uint32_t alignment : {0u, 1u, 4u, 24u, 33u, 0xFFFFFFFFu}) {
    GgufWriter w;
    w.Int("general.alignment", alignment).Tensor("t", DType::kF32, {4});
    ExpectError(w, StatusCode::kDataLoss, "'general.alignment' is " + std::to_string(alignment));
  }
  GgufWriter w;
  w.alignment = 64;
  w.Int("general.alignment", 64).Tensor("a", DType::kF32, {4}).Tensor("b", DType::kF32, {4});
  EXPECT_TRUE(w.Parse().has_value());
  ExpectError(GgufWriter().Tensor("t", DType::kF32, {4}, 16), StatusCode::kDataLoss, "offset 16 is no multiple of");
}

TEST(GgufTest, OverlapsAndDuplicatesAreNamed) {
  GgufWriter overlap;
  overlap.Tensor("first", DType::kF32, {64}, 0).Tensor("second", DType::kF32, {8}, 32);
  ExpectError(overlap, StatusCode::kDataLoss, "'second' at offset 32 overlaps tensor 'first', which ends at 256");
  GgufWriter twice;
  twice.Tensor("t", DType::kF32, {8}).Tensor("t", DType::kF32, {8});
  ExpectError(twice, StatusCode::kDataLoss, "tensor 't' is there twice");
  ExpectError(GgufWriter().Int("k", 1).Int("k", 2), StatusCode::kDataLoss, "key 'k' is there twice");
}

TEST(GgufTest, TypesWithoutSupportAreNamed) {
  ExpectError(GgufWriter().TensorOfType("t", 16, {256}), StatusCode::kUnimplemented, "'t' has type IQ2_XXS");
  ExpectError(GgufWriter().TensorOfType("t", 12345, {256}), StatusCode::kUnimplemented, "number 12345");
  ExpectError(GgufWriter().Key("k", static_cast<GgufType>(13), "xxxxxxxx"), StatusCode::kDataLoss,
              "key 'k' has the unknown type 13");
  ExpectError(GgufWriter().Key("k", GgufType::kBool, "\2"), StatusCode::kDataLoss, "boolean of value 2");
  ExpectError(GgufWriter().String("", "x"), StatusCode::kDataLoss, "byte 24: empty metadata key");
}

TEST(GgufTest, NestedArraysAreSkippedToALimit) {
  const std::string array = GgufWriter::Raw(uint32_t{9}) + GgufWriter::Raw(uint64_t{1});
  const std::string leaf = GgufWriter::Raw(uint32_t{0}) + GgufWriter::Raw(uint64_t{2}) + "ab";
  const auto nested = GgufWriter().Key("k", GgufType::kArray, array + array + leaf).Int("after", 7).Parse();
  ASSERT_TRUE(nested.has_value()) << nested.error().ToString();
  EXPECT_TRUE((*(*nested)->Array("k"))->Values().empty());
  EXPECT_EQ(*(*nested)->Int("after"), 7);
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += array;
  ExpectError(GgufWriter().Key("k", GgufType::kArray, deep), StatusCode::kDataLoss, "nested too deeply");
}

TEST(GgufTest, MessagesStayPrintable) {
  const auto file = GgufWriter().Tensor(std::string("a\n\x1b[31m\xff"), DType::kF32, {0}).Parse();
  ASSERT_FALSE(file.has_value());
  EXPECT_THAT(file.error().message(), HasSubstr("a\\x0a\\x1b[31m\\xff"));
}

TEST(GgufTest, AbsentFilesFoldersAndEmptyFilesAreErrors) {
  FileSystem& files = FileSystem::Real();
  EXPECT_EQ(GgufFile::Open(files, "/no/such/file.gguf").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(GgufFile::Open(files, SURETY_TESTDATA).error().code(), StatusCode::kInvalidArgument);
  const auto empty = GgufFile::FromMap(MakeMemoryFile("empty.gguf", {}));
  ASSERT_FALSE(empty.has_value());
  EXPECT_THAT(empty.error().message(), HasSubstr("'empty.gguf': byte 0"));
}

class GgufCorpusTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string ReadCorpus() {
    auto text = FileSystem::Real().ReadAll(kCorpus + GetParam(), 1 << 20);
    EXPECT_TRUE(text.has_value());
    return text ? *text : std::string();
  }
};

TEST_P(GgufCorpusTest, IsAWholeModel) {
  const auto model = OpenGgufModel(MakeMemoryFile("m.gguf", BytesOf(ReadCorpus())));
  EXPECT_TRUE(model.has_value()) << model.error().ToString();
}

TEST_P(GgufCorpusTest, TruncationAtEveryByteIsAnError) {
  const std::string whole = ReadCorpus();
  const auto full = GgufFile::FromMap(MakeMemoryFile("m.gguf", BytesOf(whole)));
  ASSERT_TRUE(full.has_value());
  size_t needed = 0;  // padding after the last tensor may be absent
  for (const TensorView& tensor : (*full)->tensors()) {
    const auto end = static_cast<size_t>(tensor.bytes.data() - (*full)->map().bytes().data()) + tensor.bytes.size();
    needed = std::max(needed, end);
  }
  for (size_t size = 0; size < needed; ++size) {
    const auto cut = GgufFile::FromMap(MakeMemoryFile("m.gguf", BytesOf(whole).first(size)));
    ASSERT_FALSE(cut.has_value()) << "cut at " << size;
    ASSERT_THAT(cut.error().message(), HasSubstr("byte ")) << "cut at " << size;
  }
}

TEST_P(GgufCorpusTest, FlippedBytesGiveAModelOrAnError) {
  const std::string whole = ReadCorpus();
  const auto parsed = GgufFile::FromMap(MakeMemoryFile("m.gguf", BytesOf(whole)));
  ASSERT_TRUE(parsed.has_value());
  size_t header = whole.size();  // flips in the data change nothing here
  for (const TensorView& tensor : (*parsed)->tensors()) {
    header = std::min(header, static_cast<size_t>(tensor.bytes.data() - (*parsed)->map().bytes().data()));
  }
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string flipped = whole;
    for (uint32_t i = 0; i <= random() % 3; ++i) flipped[random() % header] ^= static_cast<char>(1 << random() % 8);
    const auto model = OpenGgufModel(MakeMemoryFile("m.gguf", BytesOf(flipped)));
    if (!model) {
      ASSERT_THAT(model.error().message(), HasSubstr("m.gguf"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Corpus, GgufCorpusTest,
                         ::testing::Values("bert", "deepseek2", "gemma3", "llama", "llama-yarn-v2", "qwen2", "qwen3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace surety::model
