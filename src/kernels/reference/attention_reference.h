// Attention by plain loops in double, with a bound on the error that float32 arithmetic may add. For tests.
//
// The bound, u = 2^-24, for one output element o = sum_j p_j v_j / sum_j p_j:
//   score j is off by at most d_j = u ((E + 3) scale sum_e |q_e k_je| + |s_j - max| + 4 |cap|) + 4u (exp's own error);
//   o is off by at most sum_j p_j |v_j| (d_j + mean d) / sum p + (sum_j p_j |v_j| / sum p) (2 n_add) u,
//   n_add = 128 additions in a tile, 4 roundings a merge of tiles, 16 for sums, sink and division.
// Values that are themselves rounded (MLA's) add their own error through `value_error`.
#pragma once

#include <vector>

#include "kernels/ops.h"

namespace surety::kernels::reference {

struct Bounded {
  std::vector<double> value;  // [T, H * Ev]
  std::vector<double> bound;
};

Bounded Attention(const AttentionParams& params, int layer, ConstMatrixF q, const BatchView& batch,
                  const PagedKvView& kv);
// Absorbed form.
Bounded MlaAttention(const MlaParams& params, int layer, ConstMatrixF q, const BatchView& batch,
                     const PagedKvView& kv);
Bounded MlaAttentionMaterialised(const MlaParams& params, int layer, ConstMatrixF q, ConstMatrixF kv_b,
                                 const BatchView& batch, const PagedKvView& kv);

}  // namespace surety::kernels::reference
