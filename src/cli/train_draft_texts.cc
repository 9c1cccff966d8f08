#include "cli/train_draft_texts.h"

#include <algorithm>
#include <ctime>
#include <map>

#include <fmt/format.h>

#include "base/clock.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "engine/engine.h"
#include "engine/text_front.h"
#include "train/transcript.h"

namespace surety::cli {
namespace {

using train::CorpusText;
using train::Sample;

// The text's request, without what an assistant said from message `n_messages` on.
api::GenerationRequest RequestOf(const engine::LocalModel& model, const TrainDraftOptions& options,
                                 const CorpusText& text, size_t n_messages) {
  api::GenerationRequest request;
  if (!text.messages.empty()) {
    for (size_t i = 0; i < n_messages; ++i) request.messages.push_back(text.messages[i]);
    request.has_messages = true;
  } else if (options.raw || model.chat_template() == nullptr) {
    request.prompt = text.prompt;
    request.has_prompt = true;
  } else {
    request.messages.push_back(boost::json::object{{"role", "user"}, {"content", text.prompt}});
    request.has_messages = true;
  }
  return request;
}

bool IsBy(const boost::json::value& message, std::string_view role) {
  return message.as_object().at("role").as_string() == role;
}

Result<Sample> SampleOfTranscript(const engine::LocalModel& model, const TrainDraftOptions& options,
                                  const CorpusText& text, int64_t now_s, int64_t& n_lost) {
  api::GenerationRequest request = RequestOf(model, options, text, text.messages.size());
  request.template_values["add_generation_prompt"] = false;
  SURETY_ASSIGN_OR_RETURN(const auto segments, engine::RenderMessageSegments(model, request, now_s));
  std::vector<train::TranscriptTurn> turns;
  for (const boost::json::value& message : text.messages) {
    turns.push_back({std::string_view(message.as_object().at("content").as_string()), IsBy(message, "assistant")});
  }
  return train::TranscriptSample(model.tokenizer(), segments, turns, [] { return Interrupted(); }, n_lost);
}

// Answers come as they are done and are appended in the order of the texts.
class SampleMaker {
 public:
  SampleMaker(engine::LocalModel& model, const TrainDraftOptions& options, const train::Corpus& corpus,
              train::SampleFile& file)
      : model_(model), options_(options), corpus_(corpus), file_(file), now_s_(std::time(nullptr)) {}

  Result<TextCounts> Run() {
    n_texts_ = corpus_.texts.size();
    if (options_.max_texts > 0) n_texts_ = std::min(n_texts_, static_cast<size_t>(options_.max_texts));
    next_ = file_.samples().size();
    while (file_.samples().size() < n_texts_) {
      if (Interrupted()) return Error(CancelledError("what was answered"));
      SURETY_RETURN_IF_ERROR(Feed());
      SURETY_RETURN_IF_ERROR(StepEngine());
      SURETY_RETURN_IF_ERROR(AppendReady());
      progress_.Update(static_cast<int64_t>(file_.samples().size()), static_cast<int64_t>(n_texts_));
    }
    return counts_;
  }

 private:
  struct Running {
    size_t text = 0;
    Sample sample;
  };

  Status Feed() {
    while (next_ < n_texts_ && running_.size() < 2 * static_cast<size_t>(options_.parallel_answers) &&
           ready_.size() < 1024) {
      if (Interrupted()) return CancelledError("what was answered");
      const CorpusText& text = corpus_.texts[next_];
      if (text.answered) {
        auto sample = SampleOfTranscript(model_, options_, text, now_s_, counts_.n_lost_turns);
        if (!sample && sample.error().code() == StatusCode::kCancelled) return sample.error();
        if (!sample) return sample.error().WithContext(text.where);
        ready_[next_++] = *std::move(sample);
        SURETY_RETURN_IF_ERROR(AppendReady());
        progress_.Update(static_cast<int64_t>(file_.samples().size()), static_cast<int64_t>(n_texts_));
      } else if (const Status status = Submit(text); !status.ok()) {
        return status.WithContext(text.where);
      }
    }
    return OkStatus();
  }

  Status Submit(const CorpusText& text) {
    api::GenerationRequest request = RequestOf(model_, options_, text, text.messages.size());
    SURETY_ASSIGN_OR_RETURN(auto tokens, engine::TokenizeRequest(model_, request, now_s_));
    const auto n = static_cast<int>(tokens.size());
    if (n + 1 > options_.context) {
      ready_[next_++] = {};
      ++counts_.n_cut;
      return OkStatus();
    }
    if (engine_ == nullptr) SURETY_RETURN_IF_ERROR(MakeEngine());
    request.has_messages = request.has_prompt = false;
    request.has_tokens = true;
    request.tokens = tokens;
    request.sampling.temperature = static_cast<float>(options_.temperature);
    request.sampling.seed = options_.train.seed + next_;
    request.max_tokens = std::min(options_.answer_tokens, options_.context - n);
    SURETY_ASSIGN_OR_RETURN(const api::RequestId id, engine_->Submit(request));
    running_[id] = {next_++, {std::move(tokens), {{n, n}}}};
    return OkStatus();
  }

  Status MakeEngine() {
    engine::EngineOptions options;
    options.context_tokens = std::min(options_.context, model_.config().max_context);
    options.max_sequences = options_.parallel_answers;
    const KvLayout layout = model_.config().KvLayoutFor(options.kv_type, options.page_tokens);
    const int64_t pages = (options.context_tokens + options.page_tokens - 1) / options.page_tokens;
    options.kv_budget_bytes = layout.PageBytes() * pages * options.max_sequences;
    SURETY_ASSIGN_OR_RETURN(engine_, engine::Engine::Make(model_, options));
    return OkStatus();
  }

  Status StepEngine() {
    if (running_.empty()) return OkStatus();
    events_.clear();
    SURETY_RETURN_IF_ERROR(engine_->Step(events_));
    for (const api::Event& event : events_) {
      const auto at = running_.find(event.request);
      if (at == running_.end()) continue;
      Sample& sample = at->second.sample;
      sample.tokens.insert(sample.tokens.end(), event.tokens.begin(), event.tokens.end());
      if (event.finish == api::FinishReason::kNone) continue;
      if (event.finish == api::FinishReason::kError) {
        return event.error.WithContext(corpus_.texts[at->second.text].where);
      }
      const auto n = static_cast<int32_t>(sample.tokens.size());
      ++counts_.n_answered;
      counts_.n_answer_tokens += n - sample.answers[0].first;
      // Where the model ended the answer itself, that it did is learned, too.
      const bool shown = n > 0 && model_.tokenizer().IsEndOfText(sample.tokens.back());
      sample.answers[0].second = event.finish == api::FinishReason::kStop && !shown ? n + 1 : n;
      ready_[at->second.text] = std::move(sample);
      running_.erase(at);
    }
    return OkStatus();
  }

  Status AppendReady() {
    for (auto at = ready_.find(file_.samples().size()); at != ready_.end();
         at = ready_.find(file_.samples().size())) {
      Sample sample = std::move(at->second);
      ready_.erase(at);
      counts_.n_cut += static_cast<int>(sample.tokens.size()) > options_.context;
      sample.Truncate(options_.context);
      if (options_.learn == "all" && !sample.tokens.empty()) {
        const int32_t end = sample.answers.empty() ? 0 : sample.answers.back().second;
        sample.answers = {{1, std::max(end, static_cast<int32_t>(sample.tokens.size()))}};
      }
      SURETY_RETURN_IF_ERROR(file_.Append(std::move(sample)));
    }
    return OkStatus();
  }

  engine::LocalModel& model_;
  const TrainDraftOptions& options_;
  const train::Corpus& corpus_;
  train::SampleFile& file_;
  const int64_t now_s_;
  size_t n_texts_ = 0, next_ = 0;
  std::unique_ptr<engine::Engine> engine_;
  std::map<api::RequestId, Running> running_;
  std::map<size_t, Sample> ready_;  // by text
  std::vector<api::Event> events_;
  TextCounts counts_;
  ProgressLine progress_{"answering", ProgressUnit::kCount, "texts"};
};

}  // namespace

Result<TextCounts> MakeSamples(engine::LocalModel& model, const TrainDraftOptions& options,
                               const train::Corpus& corpus, train::SampleFile& file) {
  return SampleMaker(model, options, corpus, file).Run();
}

}  // namespace surety::cli
