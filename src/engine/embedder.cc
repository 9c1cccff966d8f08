#include "engine/embedder.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "engine/text_front.h"

namespace surety::engine {
namespace {

constexpr int kPageTokens = 16;
constexpr int kRowsWanted = 1024;  // a pass takes several short texts together


}  // namespace

Result<std::unique_ptr<Embedder>> Embedder::Make(LocalModel& model) {
  const model::ModelConfig& config = model.config();
  if (!config.encoder) {
    return Error(FailedPreconditionError("'" + model.source().path() + "' is a text generator (" +
                                         config.architecture + "), not an encoder: it has no embeddings to give"));
  }
  auto embedder = std::unique_ptr<Embedder>(new Embedder(model));
  embedder->max_rows_ = std::max(config.max_context, kRowsWanted);
  // Keys and values live for one pass only, so they stay in full precision. Every text may waste most of a page.
  const KvLayout layout = config.KvLayoutFor(KvType::kF32, kPageTokens);
  SURETY_ASSIGN_OR_RETURN(embedder->pool_, kv::PagePool::Make(layout, embedder->max_rows_));
  SURETY_RETURN_IF_ERROR(model.model().Reserve(embedder->max_rows_, config.max_context));
  const size_t bytes = static_cast<size_t>(embedder->max_rows_) * static_cast<size_t>(config.d_model) * sizeof(float);
  SURETY_ASSIGN_OR_RETURN(embedder->hidden_, AlignedBuffer::TryAllocate(bytes));
  return embedder;
}

Result<std::vector<Embedding>> Embedder::Embed(std::span<const std::string> texts) {
  std::vector<std::vector<int32_t>> sequences;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string& text = texts[i];
    SURETY_RETURN_IF_ERROR(CheckUtf8(text, "text " + std::to_string(i)));
    sequences.push_back(model_.tokenizer().Encode(text, false, {.add_special = true}));
  }
  return EmbedTokens(sequences);
}

Result<std::vector<Embedding>> Embedder::EmbedTokens(std::span<const std::vector<int32_t>> sequences) {
  const auto context = static_cast<size_t>(model_.config().max_context);
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i].empty()) {
      return Error(InvalidArgumentError("text " + std::to_string(i) + " has no tokens"));
    }
    if (sequences[i].size() > context) {
      return Error(OutOfRangeError("text " + std::to_string(i) + " is too large: it has " +
                                   std::to_string(sequences[i].size()) + " tokens, but the model takes " +
                                   std::to_string(context) + "; shorten or split it"));
    }
  }
  std::vector<Embedding> out;
  out.reserve(sequences.size());
  for (size_t first = 0; first < sequences.size();) {
    size_t n = 0, rows = 0;
    while (first + n < sequences.size() && rows + sequences[first + n].size() <= static_cast<size_t>(max_rows_)) {
      rows += sequences[first + n++].size();
    }
    RunPass(sequences.subspan(first, n), out);
    first += n;
  }
  return out;
}

void Embedder::RunPass(std::span<const std::vector<int32_t>> sequences, std::vector<Embedding>& out) {
  std::vector<int32_t> ids, positions;
  std::vector<kv::PageTable> tables;
  std::vector<SequenceRows> rows;
  for (const auto& sequence : sequences) {
    tables.emplace_back(*pool_);
    SURETY_CHECK(tables.back().Extend(static_cast<int>(sequence.size())));  // max_rows pages: one a token suffices
    rows.push_back({static_cast<int>(ids.size()), static_cast<int>(sequence.size()), 0, {}});
    for (size_t i = 0; i < sequence.size(); ++i) {
      ids.push_back(sequence[i]);
      positions.push_back(static_cast<int32_t>(i));
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) rows[i].page_table = tables[i].pages();
  const MatrixF hidden(hidden_.as<float>(), static_cast<int64_t>(ids.size()), model_.config().d_model);
  model_.model().Forward({ids, positions, rows, {}}, pool_->view(), hidden);
  for (const SequenceRows& sequence : rows) out.push_back(Pool(hidden.Rows(sequence.first_row, sequence.n_rows)));
}

Embedding Embedder::Pool(ConstMatrixF hidden) const {
  const auto d = static_cast<size_t>(hidden.cols);
  std::vector<double> sum(d, 0.0);
  const model::Pooling pooling = model_.config().pooling;
  if (pooling == model::Pooling::kCls || pooling == model::Pooling::kLast) {
    const float* row = hidden.Row(pooling == model::Pooling::kCls ? 0 : hidden.rows - 1);
    std::copy(row, row + d, sum.begin());
  } else {
    for (int64_t t = 0; t < hidden.rows; ++t) {
      for (size_t i = 0; i < d; ++i) sum[i] += hidden.Row(t)[i];
    }
    for (double& s : sum) s /= static_cast<double>(hidden.rows);
  }
  if (model_.config().normalise_embedding) {
    double norm = 0;
    for (double s : sum) norm += s * s;
    norm = std::sqrt(norm);
    for (double& s : sum) s /= std::max(norm, 1e-12);
  }
  Embedding embedding;
  embedding.values.assign(sum.begin(), sum.end());
  embedding.n_tokens = static_cast<int>(hidden.rows);
  return embedding;
}

}  // namespace surety::engine
