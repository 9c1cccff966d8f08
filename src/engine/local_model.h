// Everything that belongs to one model in this process: source, tokenizer, template, workers, operations, weights.
//
// Threads: Open on any; afterwards tokenizer and template from any, model and ops from the engine thread.
// Errors: as the parts state them, with the model's path in front.
#pragma once

#include <memory>
#include <string>

#include "base/executor.h"
#include "kernels/ops.h"
#include "model/arch/model.h"
#include "model/chat/template.h"
#include "model/heads/draft_head.h"
#include "model/model_source.h"
#include "model/tokenizer/tokenizer.h"
#include "spec/vocabulary_map.h"

namespace surety::engine {

// The trial of a draft head when it is loaded (head_check.h).
struct HeadCheckOptions {
  double floor = 0.35;  // share of the target's own tokens that it must know; 0: it is not tried
  int n_tokens = 256;   // that the target writes for it
};

struct LocalModelOptions {
  std::string path;
  int n_threads = 0;      // 0: all usable processors
  bool with_tokenizer = true;
  std::string draft_path = {};           // a smaller model that drafts for it; empty: none
  model::HeadOptions head = {};          // a draft head on it; path empty: none. Not with a draft model.
  HeadCheckOptions head_check = {};
  std::shared_ptr<Executor> executor = {};  // shared with another model; null: its own, of n_threads
};

class LocalModel {
 public:
  static Result<std::unique_ptr<LocalModel>> Open(FileSystem& files, const LocalModelOptions& options,
                                                  model::LoadProgressFn progress);

  const model::ModelSource& source() const { return *source_; }
  const model::ModelConfig& config() const { return source_->config(); }
  const model::Tokenizer& tokenizer() const { return *tokenizer_; }
  const model::ChatTemplate* chat_template() const { return chat_template_.get(); }  // null if it has none
  const Status& chat_template_status() const { return chat_template_status_; }       // why it could not be parsed
  model::Model& model() { return *model_; }
  const model::Model& model() const { return *model_; }
  kernels::Ops& ops() { return *ops_; }
  Executor& executor() { return *executor_; }
  LocalModel* draft() const { return draft_.get(); }  // null: none
  const spec::VocabularyMap* draft_vocabulary() const { return draft_vocabulary_.get(); }  // null without a draft
  model::DraftHead* head() const { return head_.get(); }  // null: none
  double head_acceptance() const { return head_acceptance_; }  // in its trial; negative: it was not tried
  const std::string& warning() const { return warning_; }  // e.g. an instruction set that failed its self-check

 private:
  LocalModel() = default;
  std::unique_ptr<model::ModelSource> source_;
  std::unique_ptr<model::Tokenizer> tokenizer_;
  std::unique_ptr<model::ChatTemplate> chat_template_;
  Status chat_template_status_;
  std::shared_ptr<Executor> executor_;
  std::unique_ptr<kernels::Ops> ops_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<LocalModel> draft_;
  std::unique_ptr<spec::VocabularyMap> draft_vocabulary_;
  std::unique_ptr<kernels::Ops> head_ops_;
  std::unique_ptr<model::DraftHead> head_;
  double head_acceptance_ = -1;
  std::string warning_;
};

}  // namespace surety::engine
