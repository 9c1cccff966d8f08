// The table of operations: one virtual call an operation, so an architecture is written once and runs on every device.
// All matrices are float32, row-major, one row a token. Views point to the device's memory.
//
// Threads: one caller at a time (the engine thread); an implementation may use its own workers inside a call.
// Owns: packed weights belong to the caller, and must not outlive the Ops that made them.
// Errors: only the Pack functions can fail; the others CHECK their shapes, which the model has validated at load.
// Invariants: (1) a row of an output depends only on its own inputs, and its bits do not depend on how many rows there
// are, on chunking or on the number of workers (docs/adr/0001). (2) No allocation after Reserve().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/function_ref.h"
#include "base/status.h"
#include "tensor/batch_view.h"
#include "tensor/paged_kv_view.h"
#include "tensor/view.h"

namespace surety::kernels {

// A weight matrix in the device's own layout. out[t][n] = sum_k x[t][k] w[n][k].
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  int64_t n_outputs() const { return n_outputs_; }
  int64_t n_inputs() const { return n_inputs_; }
  DType dtype() const { return dtype_; }
  int64_t size_bytes() const { return size_bytes_; }  // memory held

 protected:
  int64_t n_outputs_ = 0;
  int64_t n_inputs_ = 0;
  DType dtype_ = DType::kF32;
  int64_t size_bytes_ = 0;
};

enum class Activation : uint8_t { kSilu, kGeluTanh, kGeluErf, kRelu };

// One product of a group that shares its input.
struct MatMulTask {
  const PackedMatrix* weight = nullptr;
  MatrixF out;                        // [T, weight->n_outputs()]
  const float* bias = nullptr;        // n_outputs, or null
  bool accumulate = false;            // out += instead of out =
};

struct AttentionParams {
  int n_heads = 0;
  int n_kv_heads = 0;
  int k_dim = 0;
  int v_dim = 0;
  float scale = 1.0f;
  float soft_cap = 0.0f;         // > 0: score = cap * tanh(score / cap)
  int window = 0;                // > 0: a query sees the last `window` positions, itself included
  bool causal = true;            // false: a query sees all rows of its sequence (encoders)
  const float* sinks = nullptr;  // n_heads extra logits that take weight but carry no value, or null
};

inline constexpr int kMaxMadeDim = 256;  // largest nope_dim + rope_dim, and largest v_dim

struct MlaParams {
  int n_heads = 0;
  int nope_dim = 0;    // per head, the part of q and k without position
  int rope_dim = 0;    // per head for q, shared by all heads for k
  int latent_dim = 0;  // R
  int v_dim = 0;
  float scale = 1.0f;
};

// Rotary embedding of the first 2 * n_freqs elements of each head.
// Source: Su et al., "RoFormer". Pair i is (x[2i], x[2i+1]) if interleaved, else (x[i], x[i + n_freqs]).
struct RopeSpec {
  int n_freqs = 0;
  bool interleaved = false;
  const double* inv_freq = nullptr;  // n_freqs; angle = position * inv_freq[i]
  double magnitude = 1.0;            // cos and sin are multiplied by it (YaRN)
};

class Ops {
 public:
  virtual ~Ops() = default;
  virtual std::string_view name() const = 0;  // "cpu/avx2"

  // --- weights, at load -------------------------------------------------------------------------------------------
  // Stacks the tensors' rows ({outputs, inputs} each, same dtype and inputs) into one packed matrix.
  // Calls packed(part) for runs of rows as they are done with, so that the caller can let go of a mapped file's memory:
  // the source and the packed form of a large matrix never lie in memory together.
  // kUnimplemented: a dtype this device has no kernel for, named. kInvalidArgument: shapes that do not fit.
  virtual Result<std::unique_ptr<PackedMatrix>> Pack(std::span<const TensorView> parts,
                                                     FunctionRef<void(const TensorView&)> packed) = 0;

  // Makes all working memory for steps of up to max_rows rows and inputs of up to max_inputs columns.
  virtual Status Reserve(int64_t max_rows, int64_t max_inputs, int64_t max_context) = 0;
  virtual int64_t reserved_bytes() const = 0;

  // --- a step -------------------------------------------------------------------------------------------------------
  // out[t] = scale * table[ids[t]]; the table is as its file has it (any dtype). ids are in range (checked upstream).
  virtual void Embed(const TensorView& table, std::span<const int32_t> ids, float scale, MatrixF out) = 0;
  // Products that share the input x [T, K].
  virtual void MatMul(ConstMatrixF x, std::span<const MatMulTask> tasks) = 0;
  // out = x / sqrt(mean(x^2) + eps) * weight. Works per group of `weight_size` columns (QK-norm: head by head), x and
  // out may be the same.
  virtual void RmsNorm(ConstMatrixF x, const float* weight, int64_t weight_size, float eps, MatrixF out) = 0;
  // residual += delta; out = RmsNorm(residual). out may not alias.
  virtual void AddRmsNorm(MatrixF residual, ConstMatrixF delta, const float* weight, float eps, MatrixF out) = 0;
  // x and out may be the same.
  virtual void LayerNorm(ConstMatrixF x, const float* weight, const float* bias, float eps, MatrixF out) = 0;
  virtual void Add(MatrixF x, ConstMatrixF delta) = 0;  // x += delta
  virtual void Scale(MatrixF x, float factor) = 0;
  // x = cap * tanh(x / cap)
  virtual void SoftCap(MatrixF x, float cap) = 0;
  // gate_up [T, 2F]: out[t][i] = act(gate_up[t][i]) * gate_up[t][F + i].
  virtual void GatedActivation(Activation act, ConstMatrixF gate_up, MatrixF out) = 0;
  virtual void Activate(Activation act, MatrixF x) = 0;
  // Cosines then sines for each row: table [T, 2 * n_freqs]. Angles in double, the same bits on every machine.
  virtual void RopeTable(const RopeSpec& spec, std::span<const int32_t> positions, MatrixF table) = 0;
  // Rotates, in place, n_heads heads of `head_dim` columns each, starting at `offset` columns into each head.
  virtual void Rope(const RopeSpec& spec, ConstMatrixF table, int n_heads, int head_dim, int offset, MatrixF x) = 0;

  // Writes the batch's keys [T, K*E] and values [T, K*Ev] of one layer into their pages, converted to the cache's type.
  // For a latent cache k is [T, latent + rope] and v is empty.
  virtual void KvStore(int layer, ConstMatrixF k, ConstMatrixF v, const BatchView& batch, const PagedKvView& kv) = 0;
  // One layer's part of the copies, in their order; other positions of the pages stay as they are. The default suits
  // host memory.
  virtual void CopyKv(int layer, std::span<const KvCopy> copies, const PagedKvView& kv);
  // Exact attention over the pages: out[t][h] = sum_j softmax_j(scale q[t][h] . k[j]) v[j] over the visible j. Reads
  // keys and values as stored, the batch's own rows included (KvStore and CopyKv come first). q [T, H*E],
  // out [T, H*Ev].
  virtual void Attention(const AttentionParams& params, int layer, ConstMatrixF q, const BatchView& batch,
                         const PagedKvView& kv, MatrixF out) = 0;
  // MLA in absorbed form: q [T, H * (latent + rope)] already carries W_UK; out [T, H * latent], W_UV comes after.
  virtual void MlaAttention(const MlaParams& params, int layer, ConstMatrixF q, const BatchView& batch,
                            const PagedKvView& kv, MatrixF out) = 0;
  // MLA in materialised form: keys and values are computed from the latents tile by tile with kv_b, [H * (nope + v),
  // latent] as floats (per head: nope rows of W_UK, then v rows of W_UV). q [T, H * (nope + rope)], out [T, H * v].
  virtual void MlaAttentionMaterialised(const MlaParams& params, int layer, ConstMatrixF q, ConstMatrixF kv_b,
                                        const BatchView& batch, const PagedKvView& kv, MatrixF out) = 0;
  // Per-head products for absorption: for each head h, out[t][h] = W_h x[t][h], W = [H, out_dim, in_dim] as floats
  // (transposed: W_h^T). x [T, H * x_dim_stride ...] is described by the matrices' columns: x.cols / H per head, of
  // which the first in_dim are used; out.cols / H per head, of which the first out_dim are written.
  virtual void HeadMatMul(const float* w, int64_t head_stride, int n_heads, int in_dim, int out_dim, bool transposed,
                          ConstMatrixF x, MatrixF out) = 0;

  // --- moving rows about; the defaults suit host memory --------------------------------------------------------------
  // out[i] = x[rows[i]].
  virtual void GatherRows(ConstMatrixF x, std::span<const int32_t> rows, MatrixF out);
  // out[rows[i]] += weights[i] * x[i].
  virtual void ScatterAddRows(ConstMatrixF x, std::span<const int32_t> rows, std::span<const float> weights,
                              MatrixF out);
  // For each head: `width` columns from x_offset of x's head to out_offset of out's head.
  virtual void CopyHeads(ConstMatrixF x, int n_heads, int x_offset, int width, MatrixF out, int out_offset);
};

}  // namespace surety::kernels
