#include "model/heads/head_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "kernels/dequantize.h"
#include "model/formats/text.h"
#include "tensor/half.h"
#include "tensor/quant_block.h"

namespace surety::model {
namespace {

constexpr int64_t kMaxHeadConfigBytes = int64_t{4} << 20;
constexpr int64_t kMaxHeadIndexBytes = int64_t{16} << 20;

bool IsPickle(std::string_view name) {
  return name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".ckpt");
}

Status PickleRefused(const std::string& path) {
  return InvalidArgumentError("'" + path + "' is a pickle, which can run code when it is read, so it never is. Convert "
                              "it once: tools/convert_head.py " + path);
}

std::string CommonName(std::string name) {
  for (const std::string_view prefix : {"model.", "medusa_heads.", "medusa_head."}) {
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  }
  if (name.starts_with("midlayer.")) name.replace(0, std::strlen("midlayer."), "layers.0.");
  return name;
}

// Rows as Q8_0: for each 32 values the largest magnitude over 127 as the scale.
std::vector<std::byte> RowsAsQ8(const TensorView& view) {
  const int64_t cols = view.cols(), rows = view.rows(), row_bytes = RowBytes(view.dtype, cols);
  std::vector<std::byte> bytes(static_cast<size_t>(rows * RowBytes(DType::kQ8_0, cols)));
  auto* block = reinterpret_cast<BlockQ8_0*>(bytes.data());
  std::vector<float> values(static_cast<size_t>(cols));
  for (int64_t row = 0; row < rows; ++row) {
    kernels::DequantizeRow(view.dtype, view.bytes.data() + row * row_bytes, cols, values.data());
    for (int64_t c = 0; c < cols; c += kSmallBlock, ++block) {
      float largest = 0;
      for (int i = 0; i < kSmallBlock; ++i) largest = std::max(largest, std::abs(values[static_cast<size_t>(c + i)]));
      block->d = F32ToF16(largest / 127);
      const float scale = F16ToF32(block->d);
      for (int i = 0; i < kSmallBlock; ++i) {
        const float q = scale > 0 ? std::nearbyint(values[static_cast<size_t>(c + i)] / scale) : 0.0f;
        block->qs[i] = static_cast<int8_t>(std::clamp(q, -127.0f, 127.0f));
      }
    }
  }
  return bytes;
}

}  // namespace

Result<std::unique_ptr<HeadWeights>> HeadWeights::Open(FileSystem& files, const std::string& path) {
  auto weights = std::unique_ptr<HeadWeights>(new HeadWeights());
  weights->path_ = path;
  if (files.IsDirectory(path)) {
    SURETY_RETURN_IF_ERROR(weights->ReadConfig(files, path + "/config.json"));
    SURETY_RETURN_IF_ERROR(weights->OpenFolder(files, path));
    return weights;
  }
  if (IsPickle(path)) return Error(PickleRefused(path));
  if (!files.Exists(path)) return Error(NotFoundError("cannot open '" + path + "': no such file or folder"));
  if (!path.ends_with(".safetensors")) {
    return Error(InvalidArgumentError("'" + path + "' is no draft head: a folder with config.json and safetensors is "
                                      "needed, or a .safetensors file"));
  }
  const size_t slash = path.rfind('/');
  SURETY_RETURN_IF_ERROR(
      weights->ReadConfig(files, (slash == std::string::npos ? "" : path.substr(0, slash + 1)) + "config.json"));
  SURETY_RETURN_IF_ERROR(weights->OpenFile(files, path));
  return weights;
}

Status HeadWeights::ReadConfig(FileSystem& files, const std::string& path) {
  config_path_ = path;
  if (!files.Exists(path)) return OkStatus();  // Medusa's tensors say all; the others complain of the first key
  SURETY_ASSIGN_OR_RETURN(config_, ReadJsonObject(files, path, kMaxHeadConfigBytes));
  has_config_ = true;
  return OkStatus();
}

Status HeadWeights::OpenFolder(FileSystem& files, const std::string& folder) {
  const std::string index = folder + "/model.safetensors.index.json";
  if (files.Exists(index)) {
    SURETY_ASSIGN_OR_RETURN(const auto json, ReadJsonObject(files, index, kMaxHeadIndexBytes));
    const boost::json::value* map = json.if_contains("weight_map");
    if (map == nullptr || !map->is_object()) return NotFoundError(Quoted(index) + ": no object 'weight_map'");
    std::set<std::string> names;
    for (const auto& [tensor, value] : map->get_object()) {
      const std::string file = value.is_string() ? std::string(value.get_string()) : "";
      if (!file.ends_with(".safetensors") || file.find('/') != std::string::npos) {
        return InvalidArgumentError("'" + index + "': tensor '" + Printable(tensor) + "' is said to lie in '" +
                                    Printable(file) + "', which is no .safetensors file of this folder");
      }
      names.insert(file);
    }
    for (const std::string& name : names) SURETY_RETURN_IF_ERROR(OpenFile(files, folder + "/" + name));
    return OkStatus();
  }
  if (files.Exists(folder + "/model.safetensors")) return OpenFile(files, folder + "/model.safetensors");
  SURETY_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder));
  std::string found, pickle;
  for (const std::string& name : names) {
    if (IsPickle(name)) pickle = folder + "/" + name;
    if (!name.ends_with(".safetensors")) continue;
    if (!found.empty()) {
      return InvalidArgumentError("'" + folder + "': more than one file of weights ('" + found + "', '" + name +
                                  "') and no model.safetensors.index.json; name one of them");
    }
    found = name;
  }
  if (!found.empty()) return OpenFile(files, folder + "/" + found);
  if (!pickle.empty()) return PickleRefused(pickle);
  return NotFoundError("'" + folder + "': no .safetensors file; a draft head is a folder with config.json and "
                       "model.safetensors");
}

Status HeadWeights::OpenFile(FileSystem& files, const std::string& path) {
  SURETY_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(files, path));
  const auto twice = [&](const std::string& name) {
    return DataLossError("'" + path + "': two tensors are '" + Printable(name) + "'");
  };
  for (const TensorView& tensor : file->tensors()) {
    const std::string name = CommonName(tensor.name);
    if (Has(name)) return twice(name);
    tensors_[name] = tensor;
  }
  for (const SafetensorsFile::Unread& tensor : file->unread()) {
    const std::string name = CommonName(tensor.name);
    if (Has(name)) return twice(name);
    other_[name] = tensor;
  }
  maps_.push_back(std::move(file));
  return OkStatus();
}

bool HeadWeights::HasPrefix(const std::string& prefix) const {
  const auto at = tensors_.lower_bound(prefix);
  return at != tensors_.end() && at->first.starts_with(prefix);
}

int64_t HeadWeights::Rows(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? 0 : found->second.rows();
}

int64_t HeadWeights::Cols(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? 0 : found->second.cols();
}

Status HeadWeights::Missing(const std::string& name, const std::string& why) const {
  if (const auto other = other_.find(name); other != other_.end()) {
    return UnimplementedError("'" + path_ + "': tensor '" + Printable(other->second.name) + "' has type " +
                              Printable(other->second.dtype) + " or is empty; weights in F32, F16 and BF16 are read");
  }
  return NotFoundError("'" + path_ + "': tensor '" + name + "' is missing" + (why.empty() ? "" : "; " + why));
}

Result<TensorView> HeadWeights::Matrix(const std::string& name, int64_t rows, int64_t cols, const std::string& why) {
  used_[name] = true;
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return Error(Missing(name, why));
  const TensorView& view = found->second;
  const int64_t wanted[] = {rows, cols};
  if (view.shape.size() != 2 || view.shape[0] != rows || view.shape[1] != cols) {
    return Error(InvalidArgumentError("'" + path_ + "': tensor '" + Printable(view.name) + "' has shape " +
                                      ShapeText(view.shape) + ", but " + ShapeText(wanted) + " is needed" +
                                      (why.empty() ? "" : "; " + why)));
  }
  return view;
}

Result<std::unique_ptr<kernels::PackedMatrix>> HeadWeights::Pack(const std::string& name, int64_t rows, int64_t cols,
                                                                 const std::string& why, kernels::Ops& ops,
                                                                 bool as_q8) {
  SURETY_ASSIGN_OR_RETURN(TensorView view, Matrix(name, rows, cols, why));
  std::vector<std::byte> rounded;
  if (as_q8 && cols % kSmallBlock == 0) {
    rounded = RowsAsQ8(view);
    view.dtype = DType::kQ8_0;
    view.bytes = rounded;
  }
  auto packed = ops.Pack({&view, 1}, [](const TensorView&) {});
  if (!packed) return Error(packed.error().WithContext("'" + path_ + "': tensor '" + name + "'"));
  packed_bytes_ += (*packed)->size_bytes();
  return packed;
}

Result<std::vector<float>> HeadWeights::Floats(const std::string& name, int64_t n, const std::string& why) {
  used_[name] = true;
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return Error(Missing(name, why));
  const TensorView& view = found->second;
  if (view.ElementCount() != n) {
    return Error(InvalidArgumentError("'" + path_ + "': tensor '" + Printable(view.name) + "' has shape " +
                                      ShapeText(view.shape) + ", but " + std::to_string(n) + " elements are needed" +
                                      (why.empty() ? "" : "; " + why)));
  }
  std::vector<float> values(static_cast<size_t>(n));
  kernels::DequantizeRow(view.dtype, view.bytes.data(), n, values.data());
  packed_bytes_ += n * static_cast<int64_t>(sizeof(float));
  return values;
}

Result<std::vector<float>> HeadWeights::OptionalFloats(const std::string& name, int64_t n, const std::string& why) {
  return Has(name) ? Floats(name, n, why) : Result<std::vector<float>>(std::vector<float>());
}

Result<std::vector<int64_t>> HeadWeights::Integers(const std::string& name) {
  used_[name] = true;
  const auto found = other_.find(name);
  const std::string type = found == other_.end() ? "" : found->second.dtype;
  const size_t bytes = type == "I64" ? 8 : type == "I32" ? 4 : type == "U8" || type == "BOOL" ? 1 : 0;
  if (bytes == 0) {
    return Error(InvalidArgumentError("'" + path_ + "': tensor '" + name + "' must hold integers (I64, I32, U8 or "
                                      "BOOL), one for each token"));
  }
  const std::span<const std::byte> data = found->second.bytes;
  std::vector<int64_t> values(data.size() / bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    int32_t four = 0;
    if (bytes == 8) std::memcpy(&values[i], data.data() + 8 * i, 8);
    if (bytes == 4) std::memcpy(&four, data.data() + 4 * i, 4);
    if (bytes == 4) values[i] = four;
    if (bytes == 1) values[i] = static_cast<int64_t>(data[i]);
  }
  return values;
}

Status HeadWeights::CheckAllUsed(const std::string& kind, bool rotates) const {
  const auto unused = [&](const std::string& name, const std::string& as_named) -> Status {
    if (used_.contains(name) || (rotates && name.ends_with("rotary_emb.inv_freq"))) return OkStatus();
    return InvalidArgumentError("'" + path_ + "': tensor '" + Printable(as_named) + "' has no place in " + kind +
                                "; a head that computes with it would be read wrongly");
  };
  for (const auto& [name, tensor] : tensors_) SURETY_RETURN_IF_ERROR(unused(name, tensor.name));
  for (const auto& [name, tensor] : other_) SURETY_RETURN_IF_ERROR(unused(name, tensor.name));
  return OkStatus();
}

void HeadWeights::ReleaseAll() const {
  for (const auto& file : maps_) file->map().Release(file->map().bytes());
}

}  // namespace surety::model
