#include "engine/local_model.h"

#include "base/memory_info.h"
#include "base/thread_pool.h"
#include "base/topology.h"
#include "engine/head_check.h"
#include "kernels/cpu/cpu_ops.h"

namespace surety::engine {

Result<std::unique_ptr<LocalModel>> LocalModel::Open(FileSystem& files, const LocalModelOptions& options,
                                                     model::LoadProgressFn progress) {
  auto local = std::unique_ptr<LocalModel>(new LocalModel());
  SURETY_ASSIGN_OR_RETURN(local->source_, model::OpenModelSource(files, options.path));
  if (options.with_tokenizer) {
    auto spec = local->source_->LoadTokenizer();
    if (!spec) return Error(spec.error().WithContext("'" + options.path + "'"));
    auto tokenizer = model::Tokenizer::Make(*std::move(spec));
    if (!tokenizer) return Error(tokenizer.error().WithContext("'" + options.path + "'"));
    local->tokenizer_ = *std::move(tokenizer);
    if (local->tokenizer_->vocab_size() > local->config().vocab_size) {
      return Error(InvalidArgumentError("'" + options.path + "': the tokenizer has " +
                                        std::to_string(local->tokenizer_->vocab_size()) +
                                        " tokens, but the embedding has only " +
                                        std::to_string(local->config().vocab_size) + " rows"));
    }
    if (!local->source_->chat_template().empty()) {
      auto chat_template = model::ChatTemplate::Parse(local->source_->chat_template());
      if (chat_template) {
        local->chat_template_ = *std::move(chat_template);
      } else {
        local->chat_template_status_ = chat_template.error();
      }
    }
  }
  local->executor_ = options.executor;
  if (local->executor_ == nullptr) {
    SURETY_ASSIGN_OR_RETURN(local->executor_, TryMakeThreadPool({.n_workers = options.n_threads}));
  }
  local->ops_ = kernels::cpu::MakeCpuOps(*local->executor_, &local->warning_);
  const InterleavedMemory interleaved(ThisTopology(), *local->executor_);  // all workers read all weights
  SURETY_ASSIGN_OR_RETURN(local->model_, model::Model::Load(*local->source_, *local->ops_, progress));
  local->source_->ReleaseAll();
  ReturnFreedMemory();  // what reading the file's metadata took
  if (!options.draft_path.empty() && options.with_tokenizer) {
    LocalModelOptions draft;
    draft.path = options.draft_path;
    draft.executor = local->executor_;
    SURETY_ASSIGN_OR_RETURN(local->draft_, Open(files, draft, progress));
    local->draft_vocabulary_ = std::make_unique<spec::VocabularyMap>(local->tokenizer(), local->draft_->tokenizer());
  }
  if (!options.head.path.empty() && options.with_tokenizer) {
    if (!options.draft_path.empty()) {
      return Error(InvalidArgumentError("a draft model ('" + options.draft_path + "') and a draft head ('" +
                                        options.head.path + "') exclude each other: one of them drafts"));
    }
    local->head_ops_ = kernels::cpu::MakeCpuOps(*local->executor_, nullptr);
    SURETY_ASSIGN_OR_RETURN(local->head_, model::LoadDraftHead(files, options.head, {*local->source_, *local->model_},
                                                               *local->head_ops_));
    if (options.head_check.floor > 0) {
      SURETY_ASSIGN_OR_RETURN(const HeadCheckResult tried, CheckHead(files, *local, options.head, options.head_check));
      local->head_acceptance_ = tried.share();
    }
  }
  return local;
}

}  // namespace surety::engine
