// Takes tensors from a ModelSource, checks their shapes, packs or converts them, and reports progress by bytes.
// Threads: one. Errors: kNotFound, kInvalidArgument with the tensor's name and both shapes; kCancelled when the
// progress callback says stop.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "model/arch/model.h"
#include "model/model_source.h"

namespace surety::model {

class TensorLoader {
 public:
  TensorLoader(const ModelSource& source, kernels::Ops& ops, LoadProgressFn progress);

  bool Has(const std::string& name) const { return source_.Find(name) != nullptr; }
  // A weight matrix of the given shape, packed. The source's pages are released afterwards.
  Result<std::unique_ptr<kernels::PackedMatrix>> Pack(const std::string& name, int64_t outputs, int64_t inputs);
  // Expert `index` of a stacked tensor {n, outputs, inputs}, or the tensor named "<base>.<index>.weight" without one.
  Result<std::unique_ptr<kernels::PackedMatrix>> PackExpert(const std::string& base, int index, int64_t outputs,
                                                            int64_t inputs);
  // A tensor of n elements as floats, with `offset` added; an absent optional one gives an empty vector.
  Result<std::vector<float>> Floats(const std::string& name, int64_t n, float offset = 0.0f);
  Result<std::vector<float>> OptionalFloats(const std::string& name, int64_t n, float offset = 0.0f);
  // A table of rows that stays in its file, for Embed. Its shape is {rows, cols}.
  Result<TensorView> Table(const std::string& name, int64_t rows, int64_t cols);

  int64_t packed_bytes() const { return packed_bytes_; }

 private:
  Result<const TensorView*> FindShaped(const std::string& name, std::vector<int64_t> shape);
  Status Advance(int64_t bytes);

  const ModelSource& source_;
  kernels::Ops& ops_;
  LoadProgressFn progress_;
  LoadProgress state_;
  int64_t packed_bytes_ = 0;
};

}  // namespace surety::model
