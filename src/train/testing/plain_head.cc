#include "train/testing/plain_head.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace surety::train {
namespace {

using Vector = std::vector<double>;

class PlainHead {
 public:
  PlainHead(const HeadShape& shape, const Vector& weights) : s_(shape), layout_(shape), w_(weights) {}

  Vector Fuse(const Vector& taps) const { return Times(kFc, taps); }

  // Reads one token at a position with the state that goes with it; keys and values are appended.
  Vector Read(const Vector& embedding, const Vector& state, int position) {
    Vector a = Normed(kInputNorm, embedding);
    const Vector b = Normed(kHiddenNorm, state);
    a.insert(a.end(), b.begin(), b.end());
    Vector q = Times(kQuery, a), k = Times(kKey, a);
    Turn(q, s_.n_heads, position);
    Turn(k, s_.n_kv_heads, position);
    keys_.push_back(k);
    values_.push_back(Times(kValue, a));
    Vector heads;
    for (int h = 0; h < s_.n_heads; ++h) {
      const int shared = h / (s_.n_heads / s_.n_kv_heads) * s_.head_dim;
      Vector scores;
      double sum = 0;
      for (const Vector& key : keys_) {
        double score = 0;
        for (int i = 0; i < s_.head_dim; ++i) score += q[At(h * s_.head_dim + i)] * key[At(shared + i)];
        scores.push_back(std::exp(score / std::sqrt(s_.head_dim)));
        sum += scores.back();
      }
      for (int i = 0; i < s_.head_dim; ++i) {
        double out = 0;
        for (size_t c = 0; c < scores.size(); ++c) out += scores[c] / sum * values_[c][At(shared + i)];
        heads.push_back(out);
      }
    }
    Vector next = Sum(state, Times(kOutput, heads));
    const Vector y = Normed(kPostNorm, next);
    Vector gate = Times(kGate, y);
    const Vector up = Times(kUp, y);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    return Sum(next, Times(kDown, gate));
  }

  Vector Logits(const Vector& state) const { return Times(kLmHead, Normed(kFinalNorm, state)); }

 private:
  static size_t At(int i) { return static_cast<size_t>(i); }
  Vector Times(HeadTensor t, const Vector& x) const {
    const HeadTensorPlace& place = layout_.tensors[t];
    Vector y;
    for (int64_t r = 0; r < place.rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < place.cols; ++c) {
        sum += w_[static_cast<size_t>(place.offset + r * place.cols + c)] * x[static_cast<size_t>(c)];
      }
      y.push_back(sum);
    }
    return y;
  }
  Vector Normed(HeadTensor t, const Vector& x) const {
    double sum = 0;
    for (const double v : x) sum += v * v;
    Vector y;
    for (size_t i = 0; i < x.size(); ++i) {
      y.push_back(x[i] / std::sqrt(sum / static_cast<double>(x.size()) + s_.norm_eps) *
                  w_[static_cast<size_t>(layout_.tensors[t].offset) + i]);
    }
    return y;
  }
  static Vector Sum(Vector a, const Vector& b) {
    for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
  }
  void Turn(Vector& x, int n_heads, int position) const {
    const int half = s_.head_dim / 2;
    for (int h = 0; h < n_heads; ++h) {
      for (int i = 0; i < half; ++i) {
        const double angle = position / std::pow(s_.rope_base, 2.0 * i / s_.head_dim);
        double &a = x[At(h * s_.head_dim + i)], &b = x[At(h * s_.head_dim + half + i)];
        const double was = a;
        a = was * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + was * std::sin(angle);
      }
    }
  }

  const HeadShape& s_;
  const HeadLayout layout_;
  const Vector& w_;
  std::vector<Vector> keys_, values_;
};

class Numbers {
 public:
  explicit Numbers(uint64_t seed) : key_{.seed = seed, .purpose = RandomPurpose::kTest} {}
  double Uniform() { return RandomUniform(key_, index_++); }
  double Centred(double width) { return (2 * Uniform() - 1) * width; }
  int Below(int n) { return static_cast<int>(Uniform() * n); }
  Vector Row(int64_t n, double width) {
    Vector row(static_cast<size_t>(n));
    for (double& x : row) x = Centred(width);
    return row;
  }

 private:
  RandomKey key_;
  uint32_t index_ = 0;
};

void AddWanted(Numbers& numbers, int vocab, int n_top, HeadBatch<double>::Depth& depth) {
  std::vector<int> ids(static_cast<size_t>(vocab));
  for (int i = 0; i < vocab; ++i) ids[static_cast<size_t>(i)] = i;
  double sum = 0;
  Vector p;
  for (int j = 0; j < n_top; ++j) {
    std::swap(ids[static_cast<size_t>(j)], ids[static_cast<size_t>(j + numbers.Below(vocab - j))]);
    p.push_back(numbers.Uniform());
    sum += p.back();
  }
  for (int j = 0; j < n_top; ++j) {
    depth.ids.push_back(ids[static_cast<size_t>(j)]);
    depth.probabilities.push_back(static_cast<float>(p[static_cast<size_t>(j)] / sum));
  }
  depth.learn.push_back(numbers.Below(5) > 0);
  depth.most_likely.push_back(numbers.Below(vocab + 1) - 1);
  depth.goes_on.push_back(static_cast<uint8_t>(numbers.Below(2)));
}

}  // namespace

std::vector<std::vector<double>> PlainDraft(const HeadShape& shape, const std::vector<double>& weights,
                                            const PlainText& text, int root, int unroll) {
  PlainHead head(shape, weights);
  Vector state;
  for (int t = 0; t <= root; ++t) {
    const auto at = static_cast<size_t>(t);
    state = head.Read(text.embeddings[at + 1], head.Fuse(text.taps[at]), t);
  }
  std::vector<Vector> logits = {head.Logits(state)};
  for (int k = 1; k < unroll && root + 1 + k < static_cast<int>(text.embeddings.size()); ++k) {
    state = head.Read(text.embeddings[static_cast<size_t>(root + 1 + k)], state, root + k);
    logits.push_back(head.Logits(state));
  }
  return logits;
}

RandomTexts MakeRandomTexts(const HeadShape& shape, const std::vector<int>& lengths, int prompt, int unroll, int n_top,
                            uint64_t seed) {
  Numbers numbers(seed);
  RandomTexts made;
  HeadBatch<double>& batch = made.batch;
  batch.n_top = n_top;
  batch.depths.resize(static_cast<size_t>(unroll));
  batch.embeddings.resize(static_cast<size_t>(unroll));
  for (const int length : lengths) {
    PlainText text;
    for (int t = 0; t < length; ++t) {
      text.embeddings.push_back(numbers.Row(shape.d_model, 1));
      text.taps.push_back(numbers.Row(shape.tap_width(), 2));
    }
    HeadBatch<double>::Text place = {batch.n_roots(), length - 1, batch.n_active(), 0};
    for (int t = 0; t + 1 < length; ++t) {
      const auto at = static_cast<size_t>(t);
      if (t >= prompt) batch.active.push_back(static_cast<int32_t>(batch.n_roots()));
      batch.positions.push_back(t);
      batch.taps.insert(batch.taps.end(), text.taps[at].begin(), text.taps[at].end());
      batch.root_embeddings.insert(batch.root_embeddings.end(), text.embeddings[at + 1].begin(),
                                   text.embeddings[at + 1].end());
      if (t < prompt) continue;
      for (int k = 0; k < unroll; ++k) {
        const bool there = t + 1 + k < length;
        auto& embeddings = batch.embeddings[static_cast<size_t>(k)];
        const Vector none(static_cast<size_t>(shape.d_model), 0.0);
        const Vector& row = there ? text.embeddings[at + 1 + static_cast<size_t>(k)] : none;
        if (k > 0) embeddings.insert(embeddings.end(), row.begin(), row.end());
        if (!there) continue;
        auto& depth = batch.depths[static_cast<size_t>(k)];
        depth.rows.push_back(static_cast<int32_t>(batch.n_active() - 1));
        AddWanted(numbers, shape.draft_vocab, n_top, depth);
      }
    }
    place.n_active = batch.n_active() - place.first_active;
    batch.texts.push_back(place);
    made.texts.push_back(std::move(text));
  }
  return made;
}

std::vector<double> RandomWeights(const HeadShape& shape, uint64_t seed) {
  const HeadLayout layout(shape);
  Numbers numbers(seed);
  Vector weights(static_cast<size_t>(layout.size), 0.0);
  for (const HeadTensorPlace& place : layout.tensors) {
    for (int64_t i = 0; i < place.size(); ++i) {
      double& w = weights[static_cast<size_t>(place.offset + i)];
      w = place.matrix() ? numbers.Centred(1.7 / std::sqrt(static_cast<double>(place.cols))) : 1 + numbers.Centred(0.3);
    }
  }
  return weights;
}

HeadBatch<float> ToFloat(const HeadBatch<double>& from) {
  HeadBatch<float> to;
  to.n_top = from.n_top;
  for (const auto& text : from.texts) {
    to.texts.push_back({text.first_root, text.n_roots, text.first_active, text.n_active});
  }
  to.positions = from.positions;
  to.active = from.active;
  to.taps.assign(from.taps.begin(), from.taps.end());
  to.root_embeddings.assign(from.root_embeddings.begin(), from.root_embeddings.end());
  for (const auto& rows : from.embeddings) to.embeddings.emplace_back(rows.begin(), rows.end());
  for (const auto& d : from.depths) {
    to.depths.push_back({d.rows, d.most_likely, d.learn, d.goes_on, d.ids, d.probabilities});
  }
  return to;
}

}  // namespace surety::train
