#include "model/arch/model.h"

#include <string>

#include "base/check.h"
#include "base/memory_info.h"
#include "model/arch/decoder.h"
#include "model/arch/encoder.h"

namespace surety::model {
namespace {

std::string MiB(int64_t bytes) { return std::to_string(bytes / (1 << 20)) + " MiB"; }

}  // namespace

Result<std::unique_ptr<Model>> Model::Load(const ModelSource& source, kernels::Ops& ops, LoadProgressFn progress) {
  SURETY_RETURN_IF_ERROR(source.config().Validate());
  int64_t needed = 0;
  for (const TensorView& tensor : source.tensors()) needed += static_cast<int64_t>(tensor.bytes.size());
  const int64_t available = AvailableMemoryBytes();
  if (available >= 0 && needed > available) {
    return Error(ResourceExhaustedError("'" + source.path() + "' has " + MiB(needed) + " of weights, but only " +
                                        MiB(available) + " of memory are available; use a smaller model or a smaller "
                                        "quantisation"));
  }
  return source.config().encoder ? Encoder::Load(source, ops, progress) : Decoder::Load(source, ops, progress);
}

Status Model::SetTaps(std::span<const HiddenTap> taps) {
  if (taps.empty()) return OkStatus();
  return UnimplementedError("hidden states can be kept of decoders only, not of architecture '" +
                            config().architecture + "'");
}

void Model::Logits(ConstMatrixF /*hidden*/, MatrixF /*logits*/) { SURETY_CHECK_MSG(false, "no decoder"); }

}  // namespace surety::model
