#include "train/head_pass.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/check.h"
#include "train/attention.h"
#include "train/parallel_math.h"

namespace surety::train {
namespace {

constexpr int64_t kLogitRows = 512;  // at a time: logits are not kept

template <typename T>
T* Sized(std::vector<T>& v, int64_t n) {
  if (static_cast<int64_t>(v.size()) < n) v.resize(static_cast<size_t>(n));
  return v.data();
}

template <typename T>
T* Zeroed(std::vector<T>& v, int64_t n) {
  T* data = Sized(v, n);
  std::fill_n(data, n, T(0));
  return data;
}

// What a depth leaves for its gradient. Rows: active roots, but z and its scales of depth 0: all roots.
template <typename T>
struct DepthTrace {
  std::vector<T> z, embedding_scale, state_scale;      // [rows, 2H]: both normed halves
  std::vector<T> q, k, v, p, heads;
  std::vector<T> middle, middle_scale, y, gate, up, a; // after attention; its norm; the MLP
  std::vector<T> state;                                // the layer's output
  std::vector<T> said, said_scale, d_said;             // rows with something to say: the state, and its gradient
  std::vector<T> dk, dv;
};

}  // namespace

template <typename T>
struct HeadPass<T>::Impl {
  Impl(const HeadShape& s, Executor& executor) : shape(s), layout(s), math(executor), attention(s, executor) {}

  const T* W(HeadTensor t) const { return weights + layout.tensors[t].offset; }
  T* G(HeadTensor t) const { return gradient + layout.tensors[t].offset; }

  void ForwardRoots();
  void ForwardLayer(int depth);
  DepthResult Say(int depth, double weight);
  void SayRows(int depth, int64_t first, int64_t n, double scale, std::vector<double>& losses);
  void BackwardLayer(int depth);
  void BackwardInputs(int depth);
  void BackwardRoots();

  const HeadShape shape;
  const HeadLayout layout;
  ParallelMath<T> math;
  Attention<T> attention;
  LogitsFn watch = nullptr;
  void* watch_context = nullptr;

  const T* weights = nullptr;
  T* gradient = nullptr;
  const HeadBatch<T>* batch = nullptr;
  std::vector<DepthTrace<T>> depths;
  std::vector<int32_t> active_positions;
  std::vector<T> root_state, z_active, first_state;  // fc's output; depth 0's input for active roots
  std::vector<T> logits, normed, d_normed;
  std::vector<T> d_state, d_a, d_y, d_heads, d_q, d_z, d_z_roots, d_root_state;
  std::vector<uint8_t> alive, alive_next;
};

// State, keys and values of every root, from the target's hidden states.
template <typename T>
void HeadPass<T>::Impl::ForwardRoots() {
  const int64_t n = batch->n_roots(), d = shape.d_model;
  DepthTrace<T>& t = depths[0];
  math.Linear(batch->taps.data(), n, shape.tap_width(), W(kFc), d, Sized(root_state, n * d));
  T* z = Sized(t.z, n * 2 * d);
  math.Norm(batch->root_embeddings.data(), n, d, W(kInputNorm), shape.norm_eps, Sized(t.embedding_scale, n), z, 2 * d);
  math.Norm(root_state.data(), n, d, W(kHiddenNorm), shape.norm_eps, Sized(t.state_scale, n), z + d, 2 * d);
  math.Linear(z, n, 2 * d, W(kKey), shape.kv_width(), Sized(t.k, n * shape.kv_width()));
  math.Linear(z, n, 2 * d, W(kValue), shape.kv_width(), Sized(t.v, n * shape.kv_width()));
  math.Rotate(t.k.data(), n, shape.n_kv_heads, shape.head_dim, batch->positions.data(), 0, shape.rope_base, false);
  math.Gather(z, batch->active.data(), batch->n_active(), 2 * d, Sized(z_active, batch->n_active() * 2 * d));
  math.Gather(root_state.data(), batch->active.data(), batch->n_active(), d,
              Sized(first_state, batch->n_active() * d));
}

template <typename T>
void HeadPass<T>::Impl::ForwardLayer(int depth) {
  const int64_t n = batch->n_active(), d = shape.d_model, qw = shape.q_width(), kvw = shape.kv_width();
  DepthTrace<T>& t = depths[static_cast<size_t>(depth)];
  const T* input = depth == 0 ? first_state.data() : depths[static_cast<size_t>(depth) - 1].state.data();
  const T* z = z_active.data();
  if (depth > 0) {
    T* made = Sized(t.z, n * 2 * d);
    math.Norm(batch->embeddings[static_cast<size_t>(depth)].data(), n, d, W(kInputNorm), shape.norm_eps,
              Sized(t.embedding_scale, n), made, 2 * d);
    math.Norm(input, n, d, W(kHiddenNorm), shape.norm_eps, Sized(t.state_scale, n), made + d, 2 * d);
    math.Linear(made, n, 2 * d, W(kKey), kvw, Sized(t.k, n * kvw));
    math.Linear(made, n, 2 * d, W(kValue), kvw, Sized(t.v, n * kvw));
    math.Rotate(t.k.data(), n, shape.n_kv_heads, shape.head_dim, active_positions.data(), depth, shape.rope_base,
                false);
    z = made;
  }
  math.Linear(z, n, 2 * d, W(kQuery), qw, Sized(t.q, n * qw));
  math.Rotate(t.q.data(), n, shape.n_heads, shape.head_dim, active_positions.data(), depth, shape.rope_base, false);
  std::vector<const T*> keys, values;
  for (int j = 0; j <= depth; ++j) {
    keys.push_back(depths[static_cast<size_t>(j)].k.data());
    values.push_back(depths[static_cast<size_t>(j)].v.data());
  }
  attention.Forward(*batch, depth, t.q.data(), keys, values, Sized(t.p, attention.ProbabilityCount(*batch, depth)),
                    Sized(t.heads, n * qw));
  T* middle = Sized(t.middle, n * d);
  math.Linear(t.heads.data(), n, qw, W(kOutput), d, middle);
  math.Add(input, n * d, middle);
  math.Norm(middle, n, d, W(kPostNorm), shape.norm_eps, Sized(t.middle_scale, n), Sized(t.y, n * d), d);
  const int64_t ff = shape.d_ff;
  math.Linear(t.y.data(), n, d, W(kGate), ff, Sized(t.gate, n * ff));
  math.Linear(t.y.data(), n, d, W(kUp), ff, Sized(t.up, n * ff));
  math.SwiGlu(t.gate.data(), t.up.data(), n * ff, Sized(t.a, n * ff));
  math.Linear(t.a.data(), n, ff, W(kDown), d, Sized(t.state, n * d));
  math.Add(middle, n * d, t.state.data());
}

// Loss, hits and, on the logits' place, the loss's gradient, for rows first .. first + n of a depth.
template <typename T>
void HeadPass<T>::Impl::SayRows(int depth, int64_t first, int64_t n, double scale, std::vector<double>& losses) {
  const typename HeadBatch<T>::Depth& wanted = batch->depths[static_cast<size_t>(depth)];
  const int64_t vocab = shape.draft_vocab, n_top = batch->n_top;
  ParallelFor(math.executor(), n, [&](int64_t i, int) {
    const auto r = static_cast<size_t>(first + i);
    T* row = logits.data() + i * vocab;
    const T* best = std::max_element(row, row + vocab);
    const T most = *best;
    const bool hit = best - row == wanted.most_likely[r];
    const auto root = static_cast<size_t>(wanted.rows[r]);
    alive_next[root] = alive[root] ? (hit ? (wanted.goes_on[r] ? 3 : 2) : 1) : 0;
    if (!wanted.learn[r]) {
      if (gradient != nullptr) std::fill_n(row, vocab, T(0));
      return;
    }
    const int32_t* ids = wanted.ids.data() + r * static_cast<size_t>(n_top);
    const float* p = wanted.probabilities.data() + r * static_cast<size_t>(n_top);
    double expected = 0;
    for (int64_t j = 0; j < n_top; ++j) {
      if (p[j] > 0) expected += static_cast<double>(p[j]) * static_cast<double>(row[ids[j]] - most);
    }
    const T sum = math.Exponentials(row, vocab, most);
    losses[r] = std::log(static_cast<double>(sum)) - expected;
    if (gradient == nullptr) return;
    const T factor = static_cast<T>(scale) / sum;
    for (int64_t j = 0; j < vocab; ++j) row[j] *= factor;
    for (int64_t j = 0; j < n_top; ++j) {
      if (p[j] > 0) row[ids[j]] -= static_cast<T>(scale * static_cast<double>(p[j]));
    }
  });
}

template <typename T>
DepthResult HeadPass<T>::Impl::Say(int depth, double weight) {
  const typename HeadBatch<T>::Depth& wanted = batch->depths[static_cast<size_t>(depth)];
  DepthTrace<T>& t = depths[static_cast<size_t>(depth)];
  const auto n = static_cast<int64_t>(wanted.rows.size());
  const int64_t d = shape.d_model, vocab = shape.draft_vocab;
  DepthResult result;
  for (const uint8_t learn : wanted.learn) result.n_learned += learn;
  T* said = Sized(t.said, n * d);
  math.Gather(t.state.data(), wanted.rows.data(), n, d, said);
  math.Norm(said, n, d, W(kFinalNorm), shape.norm_eps, Sized(t.said_scale, n), Sized(normed, n * d), d);
  if (gradient != nullptr) Sized(d_normed, n * d);
  std::vector<double> losses(static_cast<size_t>(n));
  std::fill(alive_next.begin(), alive_next.end(), uint8_t{0});
  const double scale = result.n_learned > 0 ? weight / static_cast<double>(result.n_learned) : 0;
  for (int64_t first = 0; first < n; first += kLogitRows) {
    const int64_t rows = std::min(kLogitRows, n - first);
    const T* x = normed.data() + first * d;
    math.Linear(x, rows, d, W(kLmHead), vocab, Sized(logits, rows * vocab));
    if (watch != nullptr) watch(watch_context, depth, first, rows, logits.data());
    SayRows(depth, first, rows, scale, losses);
    if (gradient != nullptr) {
      math.LinearGradient(x, logits.data(), rows, d, W(kLmHead), vocab, d_normed.data() + first * d, false,
                          G(kLmHead));
    }
  }
  if (gradient != nullptr) {
    math.NormGradient(said, t.said_scale.data(), W(kFinalNorm), d_normed.data(), d, n, d, Zeroed(t.d_said, n * d),
                      G(kFinalNorm));
  }
  double sum = 0;
  for (const double loss : losses) sum += loss;
  if (result.n_learned > 0) result.loss = sum / static_cast<double>(result.n_learned);
  for (size_t i = 0; i < alive.size(); ++i) {
    result.n_tried += alive_next[i] > 0;
    result.n_held += alive_next[i] > 1;
    alive[i] = alive_next[i] == 3;
  }
  return result;
}

// From the gradient of the layer's output in d_state to that of its input, also in d_state.
template <typename T>
void HeadPass<T>::Impl::BackwardLayer(int depth) {
  const int64_t n = batch->n_active(), d = shape.d_model, ff = shape.d_ff, qw = shape.q_width();
  DepthTrace<T>& t = depths[static_cast<size_t>(depth)];
  const auto& rows = batch->depths[static_cast<size_t>(depth)].rows;
  math.ScatterAdd(t.d_said.data(), rows.data(), static_cast<int64_t>(rows.size()), d, d_state.data());
  math.LinearGradient(t.a.data(), d_state.data(), n, ff, W(kDown), d, Sized(d_a, n * ff), false, G(kDown));
  math.SwiGluGradient(d_a.data(), n * ff, t.gate.data(), t.up.data());
  math.LinearGradient(t.y.data(), t.gate.data(), n, d, W(kGate), ff, Sized(d_y, n * d), false, G(kGate));
  math.LinearGradient(t.y.data(), t.up.data(), n, d, W(kUp), ff, d_y.data(), true, G(kUp));
  math.NormGradient(t.middle.data(), t.middle_scale.data(), W(kPostNorm), d_y.data(), d, n, d, d_state.data(),
                    G(kPostNorm));
  math.LinearGradient(t.heads.data(), d_state.data(), n, qw, W(kOutput), d, Sized(d_heads, n * qw), false,
                      G(kOutput));
  std::vector<const T*> keys, values;
  std::vector<T*> d_keys, d_values;
  for (int j = 0; j <= depth; ++j) {
    DepthTrace<T>& at = depths[static_cast<size_t>(j)];
    keys.push_back(at.k.data());
    values.push_back(at.v.data());
    d_keys.push_back(at.dk.data());
    d_values.push_back(at.dv.data());
  }
  attention.Backward(*batch, depth, t.q.data(), keys, values, t.p.data(), d_heads.data(), Sized(d_q, n * qw), d_keys,
                     d_values);
  math.Rotate(d_q.data(), n, shape.n_heads, shape.head_dim, active_positions.data(), depth, shape.rope_base, true);
  BackwardInputs(depth);
}

// Through the projections and the norms before them.
template <typename T>
void HeadPass<T>::Impl::BackwardInputs(int depth) {
  const int64_t n = batch->n_active(), d = shape.d_model, kvw = shape.kv_width();
  DepthTrace<T>& t = depths[static_cast<size_t>(depth)];
  const T* z = depth == 0 ? z_active.data() : t.z.data();
  math.LinearGradient(z, d_q.data(), n, 2 * d, W(kQuery), shape.q_width(), Sized(d_z, n * 2 * d), false, G(kQuery));
  if (depth == 0) return;  // its keys and values are those of all roots: BackwardRoots
  math.Rotate(t.dk.data(), n, shape.n_kv_heads, shape.head_dim, active_positions.data(), depth, shape.rope_base, true);
  math.LinearGradient(z, t.dk.data(), n, 2 * d, W(kKey), kvw, d_z.data(), true, G(kKey));
  math.LinearGradient(z, t.dv.data(), n, 2 * d, W(kValue), kvw, d_z.data(), true, G(kValue));
  math.NormGradient(batch->embeddings[static_cast<size_t>(depth)].data(), t.embedding_scale.data(), W(kInputNorm),
                    d_z.data(), 2 * d, n, d, nullptr, G(kInputNorm));
  math.NormGradient(depths[static_cast<size_t>(depth) - 1].state.data(), t.state_scale.data(), W(kHiddenNorm),
                    d_z.data() + d, 2 * d, n, d, d_state.data(), G(kHiddenNorm));
}

template <typename T>
void HeadPass<T>::Impl::BackwardRoots() {
  const int64_t n = batch->n_roots(), n_active = batch->n_active(), d = shape.d_model, kvw = shape.kv_width();
  DepthTrace<T>& t = depths[0];
  T* dz = Sized(d_z_roots, n * 2 * d);
  math.Rotate(t.dk.data(), n, shape.n_kv_heads, shape.head_dim, batch->positions.data(), 0, shape.rope_base, true);
  math.LinearGradient(t.z.data(), t.dk.data(), n, 2 * d, W(kKey), kvw, dz, false, G(kKey));
  math.LinearGradient(t.z.data(), t.dv.data(), n, 2 * d, W(kValue), kvw, dz, true, G(kValue));
  math.ScatterAdd(d_z.data(), batch->active.data(), n_active, 2 * d, dz);
  T* dg = Zeroed(d_root_state, n * d);
  math.ScatterAdd(d_state.data(), batch->active.data(), n_active, d, dg);
  math.NormGradient(batch->root_embeddings.data(), t.embedding_scale.data(), W(kInputNorm), dz, 2 * d, n, d, nullptr,
                    G(kInputNorm));
  math.NormGradient(root_state.data(), t.state_scale.data(), W(kHiddenNorm), dz + d, 2 * d, n, d, dg,
                    G(kHiddenNorm));
  math.LinearGradient(batch->taps.data(), dg, n, shape.tap_width(), W(kFc), d, nullptr, false, G(kFc));
}

template <typename T>
HeadPass<T>::HeadPass(const HeadShape& shape, Executor& executor) : impl_(std::make_unique<Impl>(shape, executor)) {}
template <typename T>
HeadPass<T>::~HeadPass() = default;

template <typename T>
void HeadPass<T>::WatchLogits(LogitsFn fn, void* context) {
  impl_->watch = fn;
  impl_->watch_context = context;
}

template <typename T>
std::vector<DepthResult> HeadPass<T>::Run(const T* weights, const HeadBatch<T>& batch,
                                          std::span<const double> depth_weights, T* gradient) {
  Impl& s = *impl_;
  const int unroll = batch.unroll();
  SURETY_CHECK(unroll > 0 && depth_weights.size() == static_cast<size_t>(unroll));
  s.weights = weights;
  s.gradient = gradient;
  s.batch = &batch;
  s.depths.resize(std::max(s.depths.size(), static_cast<size_t>(unroll)));
  std::vector<DepthResult> results(static_cast<size_t>(unroll));
  if (batch.n_active() == 0) return results;
  s.active_positions.clear();
  for (const int32_t root : batch.active) s.active_positions.push_back(batch.positions[static_cast<size_t>(root)]);
  s.alive.assign(batch.active.size(), 1);
  s.alive_next.assign(batch.active.size(), 0);
  s.ForwardRoots();
  for (int k = 0; k < unroll; ++k) {
    s.ForwardLayer(k);
    results[static_cast<size_t>(k)] = s.Say(k, depth_weights[static_cast<size_t>(k)]);
  }
  if (gradient == nullptr) return results;
  for (int k = 0; k < unroll; ++k) {
    const int64_t size = (k == 0 ? batch.n_roots() : batch.n_active()) * s.shape.kv_width();
    Zeroed(s.depths[static_cast<size_t>(k)].dk, size);
    Zeroed(s.depths[static_cast<size_t>(k)].dv, size);
  }
  Zeroed(s.d_state, batch.n_active() * s.shape.d_model);
  for (int k = unroll - 1; k >= 0; --k) s.BackwardLayer(k);
  s.BackwardRoots();
  return results;
}

int64_t PassBytes(const HeadShape& s, int64_t roots, int64_t longest_text, int unroll) {
  const int64_t d = s.d_model;
  const int64_t depth = roots * (8 * d + 2 * s.q_width() + 4 * s.kv_width() + 3 * s.d_ff +
                                 int64_t{s.n_heads} * (longest_text + unroll));
  const int64_t once = roots * (s.tap_width() + 14 * d + s.d_ff + 2 * s.q_width()) + kLogitRows * s.draft_vocab;
  return (unroll * depth + once) * static_cast<int64_t>(sizeof(float));
}

template class HeadPass<float>;
template class HeadPass<double>;

}  // namespace surety::train
