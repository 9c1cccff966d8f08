#include "train/head_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/random.h"
#include "kernels/dequantize.h"
#include "tensor/half.h"

namespace surety::train {
namespace {

namespace json = boost::json;
constexpr uint32_t kInitLane = 0x7261'0003;
constexpr float kFcSpread = 0.1f;  // of what fc's random part has beside the passed-on state

size_t BytesOf(HeadNumbers numbers) { return numbers == HeadNumbers::kF32 ? 4 : 2; }
const char* DtypeOf(HeadNumbers numbers) {
  return numbers == HeadNumbers::kF32 ? "F32" : numbers == HeadNumbers::kF16 ? "F16" : "BF16";
}
const char* TorchDtypeOf(HeadNumbers numbers) {
  return numbers == HeadNumbers::kF32 ? "float32" : numbers == HeadNumbers::kF16 ? "float16" : "bfloat16";
}

// Header and data of a safetensors file, built tensor by tensor.
class TensorWriter {
 public:
  void Add(const std::string& name, const char* dtype, json::array shape, std::string_view bytes) {
    header_[name] = json::object{{"dtype", dtype}, {"shape", std::move(shape)},
                                 {"data_offsets", json::array{data_.size(), data_.size() + bytes.size()}}};
    data_ += bytes;
  }
  void Note(const std::string& key, const std::string& value) { notes_[key] = value; }

  std::string Take() {
    header_["__metadata__"] = notes_;
    std::string text = json::serialize(header_);
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const uint64_t size = text.size();
    std::string out(reinterpret_cast<const char*>(&size), 8);
    return out + text + data_;
  }

 private:
  json::object header_, notes_;
  std::string data_;
};

std::string Rounded16(std::span<const float> values, HeadNumbers numbers) {
  std::string out(values.size() * BytesOf(numbers), '\0');
  if (numbers == HeadNumbers::kF32) {
    std::memcpy(out.data(), values.data(), out.size());
    return out;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = numbers == HeadNumbers::kF16 ? F32ToF16(values[i]) : F32ToBF16(values[i]);
    std::memcpy(out.data() + 2 * i, &bits, 2);
  }
  return out;
}

std::string HeadConfig(const HeadDescription& head) {
  const HeadShape& s = head.shape;
  const json::object config = {
      {"architectures", json::array{"LlamaForCausalLMEagle3"}},
      {"model_type", "llama"},
      {"hidden_size", s.d_model},
      {"target_hidden_size", s.d_model},
      {"intermediate_size", s.d_ff},
      {"num_hidden_layers", 1},
      {"num_attention_heads", s.n_heads},
      {"num_key_value_heads", s.n_kv_heads},
      {"head_dim", s.head_dim},
      {"hidden_act", "silu"},
      {"rms_norm_eps", s.norm_eps},
      {"rope_theta", s.rope_base},
      {"max_position_embeddings", head.max_context},
      {"vocab_size", head.vocab_size},
      {"draft_vocab_size", s.draft_vocab},
      {"tie_word_embeddings", false},
      {"torch_dtype", TorchDtypeOf(head.numbers)},
      {"norm_before_residual", false},
      {"eagle_config", json::object{{"eagle_aux_hidden_state_layer_ids",
                                     json::array(head.tap_layers.begin(), head.tap_layers.end())},
                                    {"use_aux_hidden_state", true}}},
      {"base_model_name_or_path", head.target}};
  return json::serialize(config) + "\n";
}

Result<const TensorView*> OutputMatrixOf(const model::ModelSource& target) {
  const TensorView* output = target.Find("output.weight");
  if (output == nullptr) output = target.Find("token_embd.weight");
  if (output == nullptr) return Error(NotFoundError(target.path() + ": no output.weight and no token_embd.weight"));
  const model::ModelConfig& config = target.config();
  if (output->rows() != config.vocab_size || output->cols() != config.d_model) {
    return Error(InvalidArgumentError(fmt::format("{}: {} is [{}, {}], not [{}, {}]", target.path(), output->name,
                                                  output->rows(), output->cols(), config.vocab_size, config.d_model)));
  }
  return output;
}

void ReadRow(const TensorView& tensor, int64_t row, float* out) {
  const size_t bytes = tensor.bytes.size() / static_cast<size_t>(tensor.rows());
  kernels::DequantizeRow(tensor.dtype, tensor.bytes.data() + static_cast<size_t>(row) * bytes, tensor.cols(), out);
}

}  // namespace

Result<HeadNumbers> HeadNumbersFromName(std::string_view name) {
  if (name == "f32") return HeadNumbers::kF32;
  if (name == "f16") return HeadNumbers::kF16;
  if (name == "bf16") return HeadNumbers::kBF16;
  return Error(InvalidArgumentError(fmt::format("'{}' is none of f32, f16, bf16", name)));
}

Status WriteHead(FileSystem& files, const std::string& folder, const HeadDescription& head,
                 std::span<const float> weights) {
  TensorWriter writer;
  writer.Note("format", "pt");
  // Token ids first: eight bytes each, at an address for them.
  const auto n = static_cast<int64_t>(head.draft_ids.size());
  std::vector<int64_t> offsets;
  std::string known(static_cast<size_t>(head.vocab_size), '\0');
  for (int64_t i = 0; i < n; ++i) {
    const int32_t id = head.draft_ids[static_cast<size_t>(i)];
    offsets.push_back(id - i);
    known[static_cast<size_t>(id)] = 1;
  }
  writer.Add("d2t", "I64", {n}, {reinterpret_cast<const char*>(offsets.data()), offsets.size() * 8});
  for (const HeadTensorPlace& place : HeadLayout(head.shape).tensors) {
    json::array shape = {place.rows};
    if (place.matrix()) shape.push_back(place.cols);
    const auto values = weights.subspan(static_cast<size_t>(place.offset), static_cast<size_t>(place.size()));
    writer.Add(std::string(place.name), DtypeOf(head.numbers), std::move(shape), Rounded16(values, head.numbers));
  }
  writer.Add("t2d", "BOOL", {head.vocab_size}, known);
  SURETY_RETURN_IF_ERROR(files.WriteAll(folder + "/model.safetensors", writer.Take()));
  return files.WriteAll(folder + "/config.json", HeadConfig(head));
}

Result<std::vector<float>> InitialWeights(const HeadShape& shape, const model::ModelSource& target,
                                          std::span<const int32_t> draft_ids, uint64_t seed) {
  const HeadLayout layout(shape);
  std::vector<float> weights(static_cast<size_t>(layout.size), 0.0f);
  const auto at = [&](HeadTensor t) { return weights.data() + layout.tensors[t].offset; };
  for (int t = 0; t < kHeadTensors; ++t) {
    const HeadTensorPlace& place = layout.tensors[static_cast<size_t>(t)];
    float* w = at(static_cast<HeadTensor>(t));
    const double width = place.matrix() ? 1 / std::sqrt(static_cast<double>(place.cols)) : 0;
    for (int64_t i = 0; i < place.size(); ++i) {
      const RandomKey key = {.seed = seed, .position = static_cast<uint64_t>(place.offset + i),
                             .purpose = RandomPurpose::kWorkload, .lane = kInitLane};
      w[i] = place.matrix() ? static_cast<float>((2 * RandomUniform(key) - 1) * width) : 1.0f;
    }
  }
  SURETY_ASSIGN_OR_RETURN(const TensorView* output, OutputMatrixOf(target));
  for (size_t i = 0; i < draft_ids.size(); ++i) {
    ReadRow(*output, draft_ids[i], at(kLmHead) + static_cast<int64_t>(i) * shape.d_model);
  }
  if (const TensorView* norm = target.Find("output_norm.weight"); norm != nullptr &&
      norm->ElementCount() == shape.d_model) {
    kernels::DequantizeRow(norm->dtype, norm->bytes.data(), shape.d_model, at(kFinalNorm));
    for (int i = 0; i < shape.d_model; ++i) at(kFinalNorm)[i] += target.config().norm_weight_offset;
  }
  for (int64_t r = 0; r < shape.d_model; ++r) {
    float* row = at(kFc) + r * shape.tap_width();
    for (int64_t c = 0; c < shape.tap_width(); ++c) row[c] *= kFcSpread;
    row[shape.tap_width() - shape.d_model + r] += 1;
  }
  return weights;
}

}  // namespace surety::train
