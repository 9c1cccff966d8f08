// What is wrong with a head's files is said with the file, the tensor or key, what was found and what would be right.
#include <cstring>
#include <functional>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "base/executor.h"
#include "kernels/cpu/cpu_ops.h"
#include "model/heads/draft_head.h"
#include "model/testing/memory_files.h"

namespace surety::model {
namespace {

// The files of one head of testdata/heads as tensors that a test can change.
struct HeadFolder {
  struct Tensor {
    std::string dtype;
    std::vector<int64_t> shape;
    std::string bytes;
  };
  boost::json::object config;
  std::map<std::string, Tensor> tensors;

  explicit HeadFolder(const std::string& name) {
    const std::string folder = std::string(SURETY_TESTDATA) + "/heads/" + name;
    config = boost::json::parse(*FileSystem::Real().ReadAll(folder + "/config.json", 1 << 20)).as_object();
    const std::string file = *FileSystem::Real().ReadAll(folder + "/model.safetensors", 1 << 24);
    uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    const boost::json::value header = boost::json::parse(file.substr(8, length));
    for (const auto& [key, entry] : header.as_object()) {
      if (key == "__metadata__") continue;
      Tensor tensor;
      tensor.dtype = std::string(entry.at("dtype").as_string());
      for (const auto& size : entry.at("shape").as_array()) tensor.shape.push_back(size.as_int64());
      const auto begin = static_cast<size_t>(entry.at("data_offsets").at(0).as_int64());
      const auto end = static_cast<size_t>(entry.at("data_offsets").at(1).as_int64());
      tensor.bytes = file.substr(8 + length + begin, end - begin);
      tensors[std::string(key)] = std::move(tensor);
    }
  }

  // Half as many rows.
  void Halve(const std::string& name) {
    Tensor& tensor = tensors.at(name);
    tensor.shape[0] /= 2;
    tensor.bytes.resize(tensor.bytes.size() / 2);
  }
  void Rename(const std::string& from, const std::string& to) {
    auto node = tensors.extract(from);
    ASSERT_FALSE(node.empty()) << from;
    node.key() = to;
    tensors.insert(std::move(node));
  }

  std::string File() const {
    boost::json::object header;
    size_t at = 0;
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      boost::json::array shape;
      for (const int64_t size : tensor.shape) shape.push_back(size);
      header[name] = boost::json::object{
          {"dtype", tensor.dtype}, {"shape", shape}, {"data_offsets", {at, at + tensor.bytes.size()}}};
      at += tensor.bytes.size();
      data += tensor.bytes;
    }
    const std::string text = boost::json::serialize(header);
    const uint64_t length = text.size();
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, 8);
    return file + text + data;
  }
};

class HeadFilesTest : public ::testing::Test {
 protected:
  HeadFilesTest() {
    ops_ = kernels::cpu::MakeCpuOps(executor_, nullptr);
    source_ = *OpenModelSource(FileSystem::Real(), std::string(SURETY_TESTDATA) + "/tiny/llama");
    model_ = *Model::Load(*source_, *ops_, [](const LoadProgress&) { return true; });
  }

  Result<std::unique_ptr<DraftHead>> Load(const HeadFolder& head, HeadOptions options = {}) {
    files_.files.clear();
    files_.files["head/config.json"] = boost::json::serialize(head.config);
    files_.files["head/model.safetensors"] = head.File();
    if (options.path.empty()) options.path = "head";
    return LoadDraftHead(files_, options, {*source_, *model_}, *ops_);
  }

  // The changed head is refused, with all of these in the message.
  void Refused(const std::string& name, const std::function<void(HeadFolder&)>& change,
               const std::vector<std::string>& parts, const HeadOptions& options = {}) {
    HeadFolder head(name);
    change(head);
    const auto loaded = Load(head, options);
    ASSERT_FALSE(loaded.has_value()) << name << ": " << parts[0];
    EXPECT_NE(loaded.error().message().find("'head"), std::string::npos) << loaded.error().ToString();
    for (const std::string& part : parts) {
      EXPECT_NE(loaded.error().message().find(part), std::string::npos) << part << " in: " << loaded.error().ToString();
    }
  }

  SerialExecutor executor_;
  std::unique_ptr<kernels::Ops> ops_;
  std::unique_ptr<ModelSource> source_;
  std::unique_ptr<Model> model_;
  MemoryFiles files_;
};

TEST_F(HeadFilesTest, PicklesAreRefusedWithTheWayToConvertThem) {
  files_.files = {{"head/config.json", "{}"}, {"head/medusa_lm_head.pt", "PK"}};
  for (const char* path : {"head", "head/medusa_lm_head.pt"}) {
    const auto loaded = LoadDraftHead(files_, {.path = path}, {*source_, *model_}, *ops_);
    ASSERT_FALSE(loaded.has_value());
    EXPECT_NE(loaded.error().message().find("tools/convert_head.py head/medusa_lm_head.pt"), std::string::npos)
        << loaded.error().ToString();
  }
  files_.files = {{"head/config.json", "{}"}};
  EXPECT_EQ(LoadDraftHead(files_, {.path = "head"}, {*source_, *model_}, *ops_).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(LoadDraftHead(files_, {.path = "no"}, {*source_, *model_}, *ops_).error().code(), StatusCode::kNotFound);
}

TEST_F(HeadFilesTest, MissingTensorsAndWrongShapesAreNamed) {
  for (const char* name : {"eagle1", "eagle3", "eagle3_speculators", "eagle3_narrow", "medusa", "medusa_vllm"}) {
    ASSERT_TRUE(Load(HeadFolder(name)).has_value()) << name;
  }
  Refused("eagle1", [](auto& h) { h.tensors.erase("layers.0.mlp.up_proj.weight"); },
          {"layers.0.mlp.up_proj.weight", "missing"});
  Refused("eagle1", [](auto& h) { h.Halve("fc.weight"); }, {"'fc.weight'", "[32, 128]", "[64, 128]"});
  Refused("eagle1", [](auto& h) { h.Halve("fc.bias"); }, {"'fc.bias'", "[32]", "64"});
  Refused("eagle3", [](auto& h) { h.tensors.erase("norm.weight"); }, {"norm.weight", "missing"});
  Refused("eagle3", [](auto& h) { h.Halve("midlayer.self_attn.k_proj.weight"); },
          {"midlayer.self_attn.k_proj.weight", "[8, 128]", "[16, 128]"});
  Refused("eagle3", [](auto& h) { h.Halve("lm_head.weight"); }, {"lm_head.weight", "[48, 64]", "[96, 64]"});
  Refused("eagle3", [](auto& h) { h.tensors.erase("lm_head.weight"); }, {"lm_head.weight", "missing", "[96, 64]"});
  Refused("eagle3_narrow", [](auto& h) { h.tensors.erase("embed_tokens.weight"); },
          {"embed_tokens.weight", "missing", "64 columns", "48"});
  Refused("eagle3_narrow", [](auto& h) { h.Halve("embed_tokens.weight"); }, {"[128, 48]", "[256, 48]"});
  Refused("eagle3_narrow", [](auto& h) { h.tensors.erase("fc_norm.1.weight"); }, {"fc_norm.1.weight", "missing"});
  Refused("eagle3_speculators", [](auto& h) { h.tensors.erase("input_norm.weight"); },
          {"input_norm.weight", "norm_before_fc"});
  Refused("medusa", [](auto& h) { h.Halve("1.0.linear.weight"); }, {"1.0.linear.weight", "[32, 64]", "[64, 64]"});
  Refused("medusa", [](auto& h) { h.tensors.erase("2.1.weight"); }, {"2.1.weight", "missing"});
  Refused("medusa_vllm", [](auto& h) { h.tensors.erase("token_map"); }, {"lm_heads.0.weight", "[64, 64]", "[256, 64]"});
  Refused("medusa_vllm", [](auto& h) { h.Halve("lm_heads.0.weight"); }, {"lm_heads.0.weight", "[32, 64]"});
}

TEST_F(HeadFilesTest, TensorsWithoutAPlaceAreNotOverlooked) {
  Refused("eagle1", [](auto& h) { h.tensors["layers.0.input_layernorm.weight"] = {"F32", {64}, std::string(256, 0)}; },
          {"layers.0.input_layernorm.weight", "EAGLE-1"});
  Refused("eagle3", [](auto& h) { h.tensors["midlayer.self_attn.q_norm.weight"] = {"F32", {8}, std::string(32, 0)}; },
          {"midlayer.self_attn.q_norm.weight", "EAGLE-3"});
  Refused("medusa", [](auto& h) { h.Rename("1.0.linear.weight", "1.3.linear.weight"); }, {"1.0", "missing"});
  Refused("eagle1", [](auto& h) { h.tensors["fc.weight"].dtype = "I32"; }, {"fc.weight", "I32", "F16"});
  Refused("eagle3", [](auto& h) { h.tensors["norm.weight"].dtype = "I32"; }, {"norm.weight", "I32", "F16"});
}

TEST_F(HeadFilesTest, TheVocabulariesMustFit) {
  Refused("eagle3", [](auto& h) { h.tensors.erase("d2t"); h.tensors.erase("t2d"); },
          {"d2t", "missing", "256", "96"});
  Refused("eagle3", [](auto& h) { h.Halve("d2t"); }, {"'d2t'", "48", "96"});
  Refused("eagle3", [](auto& h) { h.Halve("t2d"); }, {"'t2d'", "128", "256"});
  Refused("eagle3", [](auto& h) { h.tensors["d2t"].bytes = std::string(96 * 8, '\x7F'); }, {"'d2t'", "offsets", "256"});
  // Absolute ids where offsets are meant: token 95 of the head would be past the end or twice the same.
  Refused("eagle3",
          [](auto& h) {
            auto* ids = reinterpret_cast<int64_t*>(h.tensors["d2t"].bytes.data());
            for (int64_t i = 0; i < 96; ++i) ids[i] += i;
          },
          {"'d2t'", "offsets"});
  Refused("eagle3", [](auto& h) { std::swap(h.tensors["t2d"].bytes[0], h.tensors["t2d"].bytes[255]);
                                  h.tensors["t2d"].bytes = std::string(256, 0); }, {"d2t", "t2d"});
  Refused("eagle3",
          [](auto& h) {
            const int64_t far[] = {INT64_MAX, INT64_MIN};
            std::memcpy(h.tensors["d2t"].bytes.data() + 8, far, sizeof(far));
          },
          {"'d2t'", "9223372036854775807", "256"});
  Refused("eagle3", [](auto& h) { h.config["vocab_size"] = 300; }, {"vocab_size", "300", "256"});
  Refused("eagle3", [](auto& h) { h.config["draft_vocab_size"] = 1000; }, {"draft_vocab_size", "1000", "256"});
  // Without d2t the mask alone says it.
  HeadFolder masked("eagle3");
  const auto full = Load(masked);
  ASSERT_TRUE(full.has_value());
  masked.tensors.erase("d2t");
  const auto without = Load(masked);
  ASSERT_TRUE(without.has_value()) << without.error().ToString();
  EXPECT_TRUE(std::ranges::equal((*full)->target_ids(), (*without)->target_ids()));
}

TEST_F(HeadFilesTest, LayersAndWidthsMustBeTheTargets) {
  const auto set_layers = [](std::vector<int> ids) {
    return [ids](HeadFolder& h) {
      h.config["eagle_config"].as_object()["eagle_aux_hidden_state_layer_ids"] = boost::json::value_from(ids);
    };
  };
  Refused("eagle3", set_layers({0, 1}), {"fc.weight", "3 hidden states", "2 layers"});
  Refused("eagle3", set_layers({0, 1, 2}), {"entering layer 2", "0 to 1"});
  Refused("eagle3", set_layers({0, 1, 0}), {"entering layer 2"}, {.layer_ids_are_outputs = true});
  Refused("eagle3", [](auto& h) { h.config.erase("eagle_config"); }, {"by default: 2, L/2 and L-3", "0 to 1"});
  Refused("eagle3", [](auto&) {}, {"3 hidden states", "1 layers"}, {.entering_layers = {1}});
  Refused("eagle3_narrow", [](auto& h) { h.config["target_hidden_size"] = 4096; },
          {"target_hidden_size", "4096", "64"});
  Refused("eagle1", [](auto& h) { h.config["hidden_size"] = 128; }, {"hidden_size", "128", "64"});
  Refused("eagle1", [](auto& h) { h.config["num_hidden_layers"] = 2; }, {"num_hidden_layers", "2", "1 layer"});
  Refused("eagle1", [](auto& h) { h.config["num_key_value_heads"] = 3; }, {"num_key_value_heads", "3", "4"});
  Refused("eagle1", [](auto& h) { h.config["hidden_act"] = "relu"; }, {"hidden_act", "relu", "silu"});
  Refused("eagle1", [](auto& h) { h.config.erase("intermediate_size"); }, {"intermediate_size", "missing"});
  HeadFolder outputs("eagle3");
  set_layers({0, 0, 0})(outputs);
  const auto loaded = Load(outputs, {.layer_ids_are_outputs = true});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().ToString();
  EXPECT_EQ((*loaded)->recipe().taps, (std::vector<HiddenTap>{{1}, {1}, {1}}));
}

TEST_F(HeadFilesTest, NumbersThatNothingCanComputeWithAreRefused) {
  for (const char* name : {"eagle1", "eagle3"}) {
    for (const double theta : {0.0, -10000.0}) {
      Refused(name, [&](auto& h) { h.config["rope_theta"] = theta; }, {"rope.base", "above 1"});
    }
    for (const double eps : {0.0, -1e-5, 1e300}) {
      Refused(name, [&](auto& h) { h.config["rms_norm_eps"] = eps; }, {"'rms_norm_eps'", "positive"});
    }
  }
  Refused("eagle3",
          [](auto& h) {
            h.config["eagle_config"].as_object()["eagle_aux_hidden_state_layer_ids"] = boost::json::array(17, 1);
          },
          {"17 layers", "at most 16"});
  Refused("eagle3", [](auto&) {}, {"17 layers", "at most 16"}, {.entering_layers = std::vector<int>(17, 1)});
}

// Names that make a file look like Medusa, without anything to compute with.
TEST_F(HeadFilesTest, AMedusaOfNoHeadsOrOfEmptyHeadsIsRefused) {
  const HeadFolder::Tensor one = {"F32", {1}, std::string(4, 0)};
  const auto only = [&](std::vector<std::string> names) {
    return [&one, names](HeadFolder& h) {
      h.tensors.clear();
      for (const std::string& name : names) h.tensors[name] = one;
    };
  };
  Refused("medusa", only({"0.rotary_emb.inv_freq", "blocks.rotary_emb.inv_freq"}), {"0.0.weight", "missing"});
  Refused("medusa", only({"blocks.0.rotary_emb.inv_freq"}), {"blocks.0.layers.0.weight", "missing"});
  Refused("medusa", only({"0.rotary_emb.inv_freq"}), {"0.0.weight", "missing"});
  Refused("medusa", [&](auto& h) { h.tensors["0.rotary_emb.inv_freq"] = one; }, {"inv_freq", "no place"});
  HeadFolder eagle("eagle1");
  eagle.tensors["layers.0.self_attn.rotary_emb.inv_freq"] = one;
  EXPECT_TRUE(Load(eagle).has_value()) << "which public files of EAGLE have";
}

TEST_F(HeadFilesTest, OtherPublishedNamesAreTheSameHead) {
  HeadFolder prefixed("eagle3_speculators");
  std::vector<std::string> names;
  for (const auto& [name, tensor] : prefixed.tensors) names.push_back(name);
  for (const std::string& name : names) {
    if (name != "lm_head.weight") prefixed.Rename(name, "model." + name);
  }
  EXPECT_TRUE(Load(prefixed).has_value());
  HeadFolder medusa("medusa");
  names.clear();
  for (const auto& [name, tensor] : medusa.tensors) names.push_back(name);
  for (const std::string& name : names) medusa.Rename(name, "medusa_head." + name);
  medusa.config = {};
  const auto loaded = Load(medusa);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().ToString();
  EXPECT_EQ((*loaded)->recipe().n_medusa_heads, 3);
  // One file by name, with the configuration beside it.
  EXPECT_TRUE(Load(HeadFolder("eagle1"), {.path = "head/model.safetensors"}).has_value());
  // A copy of the target's output matrix beside an EAGLE-1 head is not used.
  HeadFolder copy("eagle1");
  copy.tensors["lm_head.weight"] = {"F32", {256, 64}, std::string(256 * 64 * 4, 0)};
  EXPECT_TRUE(Load(copy).has_value());
}

}  // namespace
}  // namespace surety::model
