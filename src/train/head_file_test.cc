#include "train/head_file.h"

#include <cmath>
#include <cstring>
#include <map>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "kernels/dequantize.h"
#include "model/formats/safetensors.h"
#include "model/heads/head_recipe.h"
#include "tensor/half.h"
#include "train/testing/plain_head.h"
#include "train/testing/temporary_folder.h"

namespace surety::train {
namespace {

const HeadShape kFileHead = {.d_model = 8, .n_heads = 2, .n_kv_heads = 1, .head_dim = 4, .d_ff = 12, .draft_vocab = 5,
                             .norm_eps = 1e-6, .rope_base = 5000};

HeadDescription FileHead(HeadNumbers numbers) {
  return {.shape = kFileHead, .tap_layers = {2, 6, 9}, .draft_ids = {0, 3, 4, 7, 11}, .vocab_size = 13,
          .max_context = 512, .target = "tiny", .numbers = numbers};
}

// The raw bytes of an entry, found by the format's own rules.
struct RawEntry {
  std::string dtype, bytes;
};
RawEntry EntryOf(const std::string& file, const char* name) {
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), 8);
  const auto header = boost::json::parse(file.substr(8, header_bytes));
  const auto& entry = header.at(name);
  const auto begin = entry.at("data_offsets").at(0).to_number<size_t>();
  const auto end = entry.at("data_offsets").at(1).to_number<size_t>();
  return {std::string(entry.at("dtype").as_string()), file.substr(8 + header_bytes + begin, end - begin)};
}

TEST(HeadFileTest, TheProjectsReaderGetsEveryTensorBack) {
  const auto exact = RandomWeights(kFileHead, 8);
  const std::vector<float> weights(exact.begin(), exact.end());
  for (const HeadNumbers numbers : {HeadNumbers::kF32, HeadNumbers::kF16, HeadNumbers::kBF16}) {
    const TemporaryFolder folder;
    ASSERT_TRUE(WriteHead(FileSystem::Real(), folder.path(), FileHead(numbers), weights).ok());
    const auto file = model::SafetensorsFile::Open(FileSystem::Real(), folder.Path("model.safetensors"));
    ASSERT_TRUE(file) << file.error().message();
    std::map<std::string, TensorView> tensors;
    for (const TensorView& tensor : (*file)->tensors()) tensors[tensor.name] = tensor;
    for (const HeadTensorPlace& place : HeadLayout(kFileHead).tensors) {
      ASSERT_TRUE(tensors.contains(std::string(place.name))) << place.name;
      const TensorView& tensor = tensors[std::string(place.name)];
      const std::vector<int64_t> shape = place.matrix() ? std::vector<int64_t>{place.rows, place.cols}
                                                        : std::vector<int64_t>{place.rows};
      EXPECT_EQ(tensor.shape, shape) << place.name;
      std::vector<float> values(static_cast<size_t>(place.size()));
      kernels::DequantizeRow(tensor.dtype, tensor.bytes.data(), place.size(), values.data());
      for (size_t i = 0; i < values.size(); ++i) {
        const float written = weights[static_cast<size_t>(place.offset) + i];
        // Half a unit in the last of 24, 11 or 8 bits.
        const double error = numbers == HeadNumbers::kF32 ? 0 : numbers == HeadNumbers::kF16 ? 0x1p-11 : 0x1p-8;
        ASSERT_NEAR(values[i], written, error * std::abs(static_cast<double>(written)) + 0x1p-25) << place.name;
      }
    }
  }
}

TEST(HeadFileTest, MapsOfTheVocabularyAndConfigAreInThePublicForm) {
  const TemporaryFolder folder;
  const auto exact = RandomWeights(kFileHead, 8);
  ASSERT_TRUE(WriteHead(FileSystem::Real(), folder.path(), FileHead(HeadNumbers::kBF16),
                        std::vector<float>(exact.begin(), exact.end())).ok());
  const std::string file = *FileSystem::Real().ReadAll(folder.Path("model.safetensors"), 1 << 20);
  const RawEntry d2t = EntryOf(file, "d2t"), t2d = EntryOf(file, "t2d");
  EXPECT_EQ(d2t.dtype, "I64");
  EXPECT_EQ(t2d.dtype, "BOOL");
  ASSERT_EQ(d2t.bytes.size(), 40u);
  const int32_t ids[] = {0, 3, 4, 7, 11};
  for (int64_t i = 0; i < 5; ++i) {
    int64_t offset = 0;
    std::memcpy(&offset, d2t.bytes.data() + 8 * i, 8);
    EXPECT_EQ(i + offset, ids[i]);
  }
  EXPECT_EQ(t2d.bytes, std::string("\1\0\0\1\1\0\0\1\0\0\0\1\0", 13));
  const auto config = boost::json::parse(*FileSystem::Real().ReadAll(folder.Path("config.json"), 1 << 20));
  EXPECT_EQ(config.at("architectures").at(0), "LlamaForCausalLMEagle3");
  EXPECT_EQ(config.at("eagle_config").at("eagle_aux_hidden_state_layer_ids"), (boost::json::array{2, 6, 9}));
  EXPECT_EQ(config.at("vocab_size"), 13);
  EXPECT_EQ(config.at("draft_vocab_size"), 5);
  EXPECT_EQ(config.at("head_dim"), 4);
  EXPECT_EQ(config.at("num_key_value_heads"), 1);
  EXPECT_NEAR(config.at("rms_norm_eps").to_number<double>(), 1e-6, 1e-12);
  EXPECT_EQ(config.at("rope_theta").to_number<double>(), 5000);
  EXPECT_EQ(config.at("norm_before_residual"), false);
}

TEST(HeadFileTest, TheLoaderOfDraftHeadsReadsWhatWasMeant) {
  const auto source = model::OpenModelSource(FileSystem::Real(), SURETY_TESTDATA "/tiny/llama");
  ASSERT_TRUE(source) << source.error().message();
  const model::ModelConfig& config = (*source)->config();
  HeadDescription head = FileHead(HeadNumbers::kBF16);
  head.shape.d_model = config.d_model;
  head.tap_layers = {0, 1, 1};
  head.vocab_size = config.vocab_size;
  const TemporaryFolder folder;
  const auto exact = RandomWeights(head.shape, 8);
  ASSERT_TRUE(WriteHead(FileSystem::Real(), folder.path(), head, std::vector<float>(exact.begin(), exact.end())).ok());
  const auto weights = model::HeadWeights::Open(FileSystem::Real(), folder.path());
  ASSERT_TRUE(weights) << weights.error().message();
  const auto recipe = model::ReadHeadRecipe(**weights, config, {});
  ASSERT_TRUE(recipe) << recipe.error().message();
  EXPECT_EQ(recipe->method, model::HeadMethod::kEagle3);
  EXPECT_EQ(recipe->taps, (std::vector<model::HiddenTap>{{0}, {1}, {1}}));
  EXPECT_EQ(recipe->d_model, config.d_model);
  EXPECT_EQ(recipe->d_ff, 12);
  EXPECT_EQ(recipe->n_heads, 2);
  EXPECT_EQ(recipe->n_kv_heads, 1);
  EXPECT_EQ(recipe->head_dim, 4);
  EXPECT_EQ(recipe->draft_vocab_size, 5);
  EXPECT_EQ(recipe->max_context, 512);
  EXPECT_EQ(recipe->norm_eps, 1e-6f);
  EXPECT_EQ(recipe->rope.base, 5000);
  EXPECT_FALSE(recipe->rope.interleaved);
  EXPECT_FALSE(recipe->norm_before_residual || recipe->input_norm || recipe->fc_norm || recipe->norm_output);
  EXPECT_FALSE(recipe->own_embedding);
  EXPECT_TRUE(recipe->own_output);
}

TEST(HeadFileTest, FirstWeightsEndInTheTargetsOwnWords) {
  const auto source = model::OpenModelSource(FileSystem::Real(), SURETY_TESTDATA "/tiny/llama");
  ASSERT_TRUE(source) << source.error().message();
  const model::ModelConfig& config = (*source)->config();
  HeadShape shape = kFileHead;
  shape.d_model = config.d_model;
  shape.draft_vocab = 3;
  const std::vector<int32_t> ids = {1, 4, config.vocab_size - 1};
  const auto weights = InitialWeights(shape, **source, ids, 1);
  ASSERT_TRUE(weights) << weights.error().message();
  const HeadLayout layout(shape);
  const TensorView* output = (*source)->Find("output.weight");
  if (output == nullptr) output = (*source)->Find("token_embd.weight");
  const int64_t row_bytes = static_cast<int64_t>(output->bytes.size()) / output->rows();
  std::vector<float> row(static_cast<size_t>(config.d_model));
  for (size_t i = 0; i < ids.size(); ++i) {
    kernels::DequantizeRow(output->dtype, output->bytes.data() + ids[i] * row_bytes, config.d_model, row.data());
    for (size_t c = 0; c < row.size(); ++c) {
      ASSERT_EQ((*weights)[static_cast<size_t>(layout.tensors[kLmHead].offset) + i * row.size() + c], row[c]);
    }
  }
  EXPECT_NE(*weights, *InitialWeights(shape, **source, ids, 2));
  EXPECT_EQ(*weights, *InitialWeights(shape, **source, ids, 1));
  EXPECT_EQ(HeadNumbersFromName("f64").error().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace surety::train
