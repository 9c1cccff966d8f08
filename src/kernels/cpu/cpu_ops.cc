#include "kernels/cpu/cpu_ops.h"

#include <vector>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "kernels/cpu/activation.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/embed.h"
#include "kernels/cpu/head_matmul.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kv_store.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/rope.h"

namespace surety::kernels::cpu {
namespace {

class CpuOps final : public Ops {
 public:
  explicit CpuOps(Executor& executor) : executor_(executor), name_("cpu/" + std::string(NameOf(CurrentIsa()))) {}

  std::string_view name() const override { return name_; }

  Result<std::unique_ptr<PackedMatrix>> Pack(std::span<const TensorView> parts,
                                             FunctionRef<void(const TensorView&)> packed) override {
    return PackMatrix(parts, executor_, packed, &weights_);
  }
  Status Reserve(int64_t max_rows, int64_t max_inputs, int64_t /*max_context*/) override {
    SURETY_RETURN_IF_ERROR(matmul_.Reserve(max_rows, max_inputs, executor_.n_workers()));
    return attention_.Reserve(max_rows, executor_.n_workers());
  }
  int64_t reserved_bytes() const override { return matmul_.reserved_bytes() + attention_.reserved_bytes(); }

  void Embed(const TensorView& table, std::span<const int32_t> ids, float scale, MatrixF out) override {
    cpu::Embed(executor_, table, ids, scale, out);
  }
  void MatMul(ConstMatrixF x, std::span<const MatMulTask> tasks) override { matmul_.Run(executor_, x, tasks); }
  void RmsNorm(ConstMatrixF x, const float* weight, int64_t weight_size, float eps, MatrixF out) override {
    cpu::RmsNorm(executor_, x, weight, weight_size, eps, out);
  }
  void AddRmsNorm(MatrixF residual, ConstMatrixF delta, const float* weight, float eps, MatrixF out) override {
    cpu::AddRmsNorm(executor_, residual, delta, weight, eps, out);
  }
  void LayerNorm(ConstMatrixF x, const float* weight, const float* bias, float eps, MatrixF out) override {
    cpu::LayerNorm(executor_, x, weight, bias, eps, out);
  }
  void Add(MatrixF x, ConstMatrixF delta) override { cpu::Add(executor_, x, delta); }
  void Scale(MatrixF x, float factor) override { cpu::Scale(executor_, x, factor); }
  void SoftCap(MatrixF x, float cap) override { cpu::SoftCap(executor_, x, cap); }
  void GatedActivation(Activation act, ConstMatrixF gate_up, MatrixF out) override {
    cpu::GatedActivation(executor_, act, gate_up, out);
  }
  void Activate(Activation act, MatrixF x) override { cpu::Activate(executor_, act, x); }
  void RopeTable(const RopeSpec& spec, std::span<const int32_t> positions, MatrixF table) override {
    cpu::RopeTable(executor_, spec, positions, table);
  }
  void Rope(const RopeSpec& spec, ConstMatrixF table, int n_heads, int head_dim, int offset, MatrixF x) override {
    cpu::Rope(executor_, spec, table, n_heads, head_dim, offset, x);
  }
  void KvStore(int layer, ConstMatrixF k, ConstMatrixF v, const BatchView& batch, const PagedKvView& kv) override {
    cpu::KvStore(executor_, layer, k, v, batch, kv);
  }
  void Attention(const AttentionParams& params, int layer, ConstMatrixF q, const BatchView& batch,
                 const PagedKvView& kv, MatrixF out) override {
    attention_.Run(executor_, params, layer, q, batch, kv, out);
  }
  void MlaAttention(const MlaParams& params, int layer, ConstMatrixF q, const BatchView& batch, const PagedKvView& kv,
                    MatrixF out) override {
    attention_.RunMla(executor_, params, layer, q, batch, kv, out);
  }
  void MlaAttentionMaterialised(const MlaParams& params, int layer, ConstMatrixF q, ConstMatrixF kv_b,
                                const BatchView& batch, const PagedKvView& kv, MatrixF out) override {
    attention_.RunMlaMaterialised(executor_, params, layer, q, kv_b, batch, kv, out);
  }
  void HeadMatMul(const float* w, int64_t head_stride, int n_heads, int in_dim, int out_dim, bool transposed,
                  ConstMatrixF x, MatrixF out) override {
    cpu::HeadMatMul(executor_, w, head_stride, n_heads, in_dim, out_dim, transposed, x, out);
  }

 private:
  Executor& executor_;
  std::string name_;
  BufferArena weights_;
  cpu::MatMul matmul_;
  cpu::Attention attention_;
};

}  // namespace

std::unique_ptr<Ops> MakeCpuOps(Executor& executor, std::string* warning, Status (*check)(Ops&)) {
  for (;;) {
    auto ops = std::make_unique<CpuOps>(executor);
    // The check gets a table of its own, so that the real one starts without working memory.
    SerialExecutor serial;
    CpuOps probe(serial);
    const Status status = check(probe);
    if (status.ok()) return ops;
    Isa weaker = CurrentIsa();
    for (Isa isa : SupportedIsas()) {
      if (isa == CurrentIsa()) break;
      weaker = isa;
    }
    SURETY_CHECK_MSG(weaker != CurrentIsa(), "no instruction set computes correctly here: " + status.ToString());
    if (warning != nullptr) {
      *warning += "instruction set " + std::string(NameOf(CurrentIsa())) + " fails its self-check (" +
                  status.message() + "); using " + std::string(NameOf(weaker)) + ". ";
    }
    SURETY_CHECK(SetIsa(weaker).ok());
  }
}

}  // namespace surety::kernels::cpu
