#include <algorithm>

#include "tensor/half.h"
#include "train/trainer.h"

namespace surety::train {
namespace {

class BatchMaker {
 public:
  BatchMaker(const Trainer::Data& data, const std::vector<int32_t>& draft_of, const HeadShape& shape, int unroll)
      : data_(data), draft_of_(draft_of), shape_(shape), unroll_(unroll) {
    batch_.n_top = data.features->shape().n_top;
    batch_.embeddings.resize(static_cast<size_t>(unroll));
    batch_.depths.resize(static_cast<size_t>(unroll));
  }

  void AddText(int32_t index) {
    const Sample& sample = (*data_.samples)[static_cast<size_t>(index)];
    const auto n = static_cast<int32_t>(sample.tokens.size());
    if (n < 2) return;
    std::vector<uint8_t> learns(static_cast<size_t>(n));
    for (int32_t i = 0; i < n; ++i) learns[static_cast<size_t>(i)] = sample.LearnsAfter(i);
    HeadBatch<float>::Text text = {batch_.n_roots(), n - 1, batch_.n_active(), 0};
    for (int32_t t = 0; t + 1 < n; ++t) {
      const FeatureFile::Row row = data_.features->At(static_cast<size_t>(index), t);
      for (const uint16_t bits : row.taps) batch_.taps.push_back(BF16ToF32(bits));
      AddEmbedding(sample.tokens[static_cast<size_t>(t) + 1], batch_.root_embeddings);
      bool active = false;
      for (int k = 0; k < unroll_ && t + 1 + k < n; ++k) active = active || learns[static_cast<size_t>(t + 1 + k)];
      if (active) AddActive(sample, index, t, learns);
      batch_.positions.push_back(t);
    }
    text.n_active = batch_.n_active() - text.first_active;
    batch_.texts.push_back(text);
  }

  HeadBatch<float> Take() { return std::move(batch_); }

 private:
  void AddEmbedding(int32_t token, std::vector<float>& rows) const {
    const size_t at = rows.size();
    rows.resize(at + static_cast<size_t>(shape_.d_model));
    data_.embedding(token, rows.data() + at);
  }

  void AddActive(const Sample& sample, int32_t index, int32_t t, const std::vector<uint8_t>& learns) {
    const auto n = static_cast<int32_t>(sample.tokens.size());
    const auto row_index = static_cast<int32_t>(batch_.n_active());
    batch_.active.push_back(static_cast<int32_t>(batch_.n_roots()));
    for (int k = 0; k < unroll_; ++k) {
      const int32_t i = t + 1 + k;  // the position whose next token is said
      if (k > 0) {
        auto& rows = batch_.embeddings[static_cast<size_t>(k)];
        if (i < n) {
          AddEmbedding(sample.tokens[static_cast<size_t>(i)], rows);
        } else {
          rows.resize(rows.size() + static_cast<size_t>(shape_.d_model));
        }
      }
      if (i >= n || !learns[static_cast<size_t>(i)]) continue;
      const FeatureFile::Row wanted = data_.features->At(static_cast<size_t>(index), i);
      auto& depth = batch_.depths[static_cast<size_t>(k)];
      const int32_t draft = draft_of_[static_cast<size_t>(wanted.most_likely)];
      depth.rows.push_back(row_index);
      depth.most_likely.push_back(draft);
      depth.learn.push_back(draft >= 0);
      depth.goes_on.push_back(i + 1 < n && sample.tokens[static_cast<size_t>(i) + 1] == wanted.most_likely);
      depth.ids.insert(depth.ids.end(), wanted.ids.begin(), wanted.ids.end());
      depth.probabilities.insert(depth.probabilities.end(), wanted.probabilities.begin(), wanted.probabilities.end());
    }
  }

  const Trainer::Data& data_;
  const std::vector<int32_t>& draft_of_;
  const HeadShape& shape_;
  const int unroll_;
  HeadBatch<float> batch_;
};

}  // namespace

HeadBatch<float> MakeBatch(const Trainer::Data& data, const std::vector<int32_t>& draft_of, const HeadShape& shape,
                           std::span<const int32_t> indices, int unroll) {
  BatchMaker maker(data, draft_of, shape, unroll);
  for (const int32_t index : indices) maker.AddText(index);
  return maker.Take();
}

}  // namespace surety::train
