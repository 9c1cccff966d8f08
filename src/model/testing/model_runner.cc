#include "model/testing/model_runner.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/random.h"
#include "base/thread_pool.h"
#include "kernels/cpu/cpu_ops.h"
#include "model/testing/allocation_counter.h"

namespace surety::model {

Result<std::unique_ptr<ModelRunner>> ModelRunner::Open(const std::string& path, const RunnerOptions& options) {
  auto runner = std::unique_ptr<ModelRunner>(new ModelRunner());
  runner->options_ = options;
  SURETY_ASSIGN_OR_RETURN(runner->source_, OpenModelSource(FileSystem::Real(), path));
  runner->executor_ = MakeThreadPool({.n_workers = options.n_threads});
  std::string warning;
  runner->ops_ = kernels::cpu::MakeCpuOps(*runner->executor_, &warning);
  SURETY_ASSIGN_OR_RETURN(runner->model_,
                          Model::Load(*runner->source_, *runner->ops_, [](const LoadProgress&) { return true; }));
  SURETY_RETURN_IF_ERROR(runner->model_->SetTaps(options.taps));
  SURETY_RETURN_IF_ERROR(runner->model_->Reserve(options.max_rows, options.max_context));
  runner->kv_.layout = runner->model_->config().KvLayoutFor(options.kv_type, options.page_tokens);
  SURETY_RETURN_IF_ERROR(runner->kv_.layout.Validate());
  runner->kv_.n_pages = 4 * options.max_context / options.page_tokens;
  runner->kv_.page_stride_bytes = runner->kv_.layout.PageStrideBytes();
  runner->kv_memory_ = AlignedBuffer(static_cast<size_t>(runner->kv_.page_stride_bytes * runner->kv_.n_pages));
  runner->kv_.base = runner->kv_memory_.data();
  return runner;
}

int ModelRunner::out_cols() const {
  return model_->config().encoder ? model_->config().d_model : model_->config().vocab_size;
}

void ModelRunner::PoisonAndShuffle() {
  std::memset(kv_memory_.data(), 0xFF, kv_memory_.size_bytes());  // NaN in every float format
  page_order_.resize(static_cast<size_t>(kv_.n_pages));
  std::iota(page_order_.begin(), page_order_.end(), 0);
  for (size_t i = page_order_.size() - 1; i > 0; --i) {
    std::swap(page_order_[i],
              page_order_[RandomBits({options_.shuffle_seed, i, RandomPurpose::kTest}) % (i + 1)]);
  }
}

void ModelRunner::Forward(const BatchView& batch, MatrixF out) {
  const int64_t before = AllocationsSoFar();
  model_->Forward(batch, kv_, out);
  forward_allocations_ += AllocationsSoFar() - before;
}

std::vector<float> ModelRunner::Run(std::span<const int32_t> ids, const std::vector<int>& chunks) {
  PoisonAndShuffle();
  const int n = static_cast<int>(ids.size());
  std::vector<float> out(static_cast<size_t>(n) * static_cast<size_t>(out_cols()));
  int done = 0;
  tapped_.clear();
  for (size_t c = 0; done < n; ++c) {
    const int rows = std::min(n - done, chunks[std::min(c, chunks.size() - 1)]);
    std::vector<int32_t> positions(static_cast<size_t>(rows)), logit_rows(static_cast<size_t>(rows));
    std::iota(positions.begin(), positions.end(), done);
    std::iota(logit_rows.begin(), logit_rows.end(), 0);
    if (last_logits_only_) logit_rows.erase(logit_rows.begin(), logit_rows.end() - 1);
    const int first_out = last_logits_only_ ? done + rows - 1 : done;
    const SequenceRows sequence = {0, rows, done, page_order_};
    const BatchView batch = {ids.subspan(static_cast<size_t>(done), static_cast<size_t>(rows)), positions,
                             {&sequence, 1}, logit_rows};
    Forward(batch, MatrixF(out.data() + int64_t{first_out} * out_cols(), static_cast<int64_t>(logit_rows.size()),
                           out_cols()));
    const ConstMatrixF taps = model_->taps();
    tapped_.insert(tapped_.end(), taps.data, taps.data + taps.rows * taps.cols);
    done += rows;
  }
  return out;
}

std::vector<std::vector<float>> ModelRunner::RunTogether(const std::vector<std::vector<int32_t>>& sequences,
                                                         int chunk) {
  PoisonAndShuffle();
  const size_t pages_each = page_order_.size() / sequences.size();
  std::vector<std::vector<float>> results(sequences.size());
  std::vector<int> done(sequences.size(), 0);
  while (true) {
    std::vector<int32_t> ids, positions, logit_rows;
    std::vector<SequenceRows> rows;
    std::vector<size_t> owners;
    for (size_t s = 0; s < sequences.size(); ++s) {
      const int n = std::min(chunk, static_cast<int>(sequences[s].size()) - done[s]);
      if (n <= 0) continue;
      rows.push_back({static_cast<int>(ids.size()), n, done[s],
                      std::span<const int32_t>(page_order_).subspan(s * pages_each, pages_each)});
      owners.push_back(s);
      for (int i = 0; i < n; ++i) {
        logit_rows.push_back(static_cast<int32_t>(ids.size()));
        ids.push_back(sequences[s][static_cast<size_t>(done[s] + i)]);
        positions.push_back(done[s] + i);
      }
      done[s] += n;
    }
    if (ids.empty()) return results;
    const auto cols = static_cast<size_t>(out_cols());
    std::vector<float> out(ids.size() * cols);
    Forward({ids, positions, rows, logit_rows},
            MatrixF(out.data(), static_cast<int64_t>(ids.size()), out_cols()));
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto first = out.begin() + static_cast<int64_t>(static_cast<size_t>(rows[i].first_row) * cols);
      results[owners[i]].insert(results[owners[i]].end(), first,
                                first + static_cast<int64_t>(static_cast<size_t>(rows[i].n_rows) * cols));
    }
  }
}

}  // namespace surety::model
