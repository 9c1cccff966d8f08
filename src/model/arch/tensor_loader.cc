#include "model/arch/tensor_loader.h"

#include "kernels/dequantize.h"
#include "model/formats/text.h"

namespace surety::model {

TensorLoader::TensorLoader(const ModelSource& source, kernels::Ops& ops, LoadProgressFn progress)
    : source_(source), ops_(ops), progress_(progress) {
  for (const TensorView& tensor : source.tensors()) {
    state_.total_bytes += static_cast<int64_t>(tensor.bytes.size());
  }
}

Status TensorLoader::Advance(int64_t bytes) {
  state_.done_bytes += bytes;
  if (!progress_(state_)) return CancelledError("loading was stopped");
  return OkStatus();
}

Result<const TensorView*> TensorLoader::FindShaped(const std::string& name, std::vector<int64_t> shape) {
  const TensorView* tensor = source_.Find(name);
  if (tensor == nullptr) {
    return Error(NotFoundError("tensor '" + name + "' is missing from '" + source_.path() + "'"));
  }
  int64_t wanted = 1;
  for (int64_t d : shape) wanted *= d;
  if (tensor->ElementCount() != wanted || tensor->cols() != shape.back()) {
    return Error(InvalidArgumentError("tensor '" + name + "' has shape " + ShapeText(tensor->shape) + ", but " +
                                      ShapeText(shape) + " is needed"));
  }
  return tensor;
}

Result<std::unique_ptr<kernels::PackedMatrix>> TensorLoader::Pack(const std::string& name, int64_t outputs,
                                                                  int64_t inputs) {
  SURETY_ASSIGN_OR_RETURN(const TensorView* tensor, FindShaped(name, {outputs, inputs}));
  auto packed = ops_.Pack({tensor, 1}, [this](const TensorView& done) { source_.Release(done); });
  if (!packed) return Error(packed.error().WithContext("tensor '" + name + "'"));
  packed_bytes_ += (*packed)->size_bytes();
  SURETY_RETURN_IF_ERROR(Advance(static_cast<int64_t>(tensor->bytes.size())));
  return packed;
}

Result<std::unique_ptr<kernels::PackedMatrix>> TensorLoader::PackExpert(const std::string& base, int index,
                                                                        int64_t outputs, int64_t inputs) {
  const TensorView* stacked = source_.Find(base + ".weight");
  if (stacked == nullptr) return Pack(base + "." + std::to_string(index) + ".weight", outputs, inputs);
  if (stacked->shape.size() != 3 || index >= stacked->shape[0] || stacked->shape[1] != outputs ||
      stacked->shape[2] != inputs) {
    return Error(InvalidArgumentError("tensor '" + stacked->name + "' has shape " + ShapeText(stacked->shape) +
                                      ", but [experts, " + std::to_string(outputs) + ", " + std::to_string(inputs) +
                                      "] is needed"));
  }
  const size_t bytes = stacked->bytes.size() / static_cast<size_t>(stacked->shape[0]);
  TensorView slice{stacked->name, stacked->dtype, {outputs, inputs},
                   stacked->bytes.subspan(bytes * static_cast<size_t>(index), bytes)};
  auto packed = ops_.Pack({&slice, 1}, [this](const TensorView& done) { source_.Release(done); });
  if (!packed) return Error(packed.error().WithContext("tensor '" + stacked->name + "'"));
  packed_bytes_ += (*packed)->size_bytes();
  SURETY_RETURN_IF_ERROR(Advance(static_cast<int64_t>(bytes)));
  return packed;
}

Result<std::vector<float>> TensorLoader::Floats(const std::string& name, int64_t n, float offset) {
  const TensorView* tensor = source_.Find(name);
  if (tensor == nullptr) {
    return Error(NotFoundError("tensor '" + name + "' is missing from '" + source_.path() + "'"));
  }
  if (tensor->ElementCount() != n) {
    return Error(InvalidArgumentError("tensor '" + name + "' has shape " + ShapeText(tensor->shape) + ", but " +
                                      std::to_string(n) + " elements are needed"));
  }
  std::vector<float> values(static_cast<size_t>(n));
  kernels::DequantizeRow(tensor->dtype, tensor->bytes.data(), n, values.data());
  for (float& value : values) value += offset;
  packed_bytes_ += n * static_cast<int64_t>(sizeof(float));
  SURETY_RETURN_IF_ERROR(Advance(static_cast<int64_t>(tensor->bytes.size())));
  return values;
}

Result<std::vector<float>> TensorLoader::OptionalFloats(const std::string& name, int64_t n, float offset) {
  if (!Has(name)) return std::vector<float>();
  return Floats(name, n, offset);
}

Result<TensorView> TensorLoader::Table(const std::string& name, int64_t rows, int64_t cols) {
  SURETY_ASSIGN_OR_RETURN(const TensorView* tensor, FindShaped(name, {rows, cols}));
  TensorView table = *tensor;
  table.shape = {rows, cols};
  return table;
}

}  // namespace surety::model
