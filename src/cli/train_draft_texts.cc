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

// A transcript, whose answers are where the tokens of "the messages before, now you" end in the tokens of the whole.
Result<Sample> TranscriptSample(const engine::LocalModel& model, const TrainDraftOptions& options,
                                const CorpusText& text, int64_t now_s) {
  const auto tokens_of = [&](size_t n) {
    return engine::TokenizeRequest(model, RequestOf(model, options, text, n), now_s);
  };
  Sample sample;
  // The last answer ends the text, so the whole is its prompt and itself: what serving it computes.
  SURETY_ASSIGN_OR_RETURN(sample.tokens, tokens_of(text.messages.size() - 1));
  const std::vector<api::TokenId> prompt = sample.tokens;
  const auto answer_of = [&](size_t i) {
    return model.tokenizer().Encode(std::string_view(text.messages[i].as_object().at("content").as_string()),
                                    /*trusted=*/false);
  };
  for (size_t i = 0; i + 1 < text.messages.size(); ++i) {
    if (!IsBy(text.messages[i], "assistant")) continue;
    SURETY_ASSIGN_OR_RETURN(const auto before, tokens_of(i));
    const auto answer = answer_of(i);
    const auto at = static_cast<ptrdiff_t>(before.size());
    const bool found = before.size() + answer.size() <= prompt.size() &&
                       std::equal(before.begin(), before.end(), prompt.begin()) &&
                       std::equal(answer.begin(), answer.end(), prompt.begin() + at);
    // A template that shows earlier turns otherwise than it did then: that turn is read, not learned.
    if (found) sample.answers.emplace_back(at, at + static_cast<ptrdiff_t>(answer.size()));
  }
  const auto last = answer_of(text.messages.size() - 1);
  sample.tokens.insert(sample.tokens.end(), last.begin(), last.end());
  const auto n = static_cast<int32_t>(sample.tokens.size());
  sample.answers.emplace_back(static_cast<int32_t>(prompt.size()), n + 1);
  return sample;
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
    ProgressLine progress("answering", ProgressUnit::kCount, "texts");
    while (file_.samples().size() < n_texts_) {
      if (Interrupted()) return Error(CancelledError("what was answered"));
      SURETY_RETURN_IF_ERROR(Feed());
      SURETY_RETURN_IF_ERROR(StepEngine());
      SURETY_RETURN_IF_ERROR(AppendReady());
      progress.Update(static_cast<int64_t>(file_.samples().size()), static_cast<int64_t>(n_texts_));
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
      const CorpusText& text = corpus_.texts[next_];
      if (text.answered) {
        auto sample = TranscriptSample(model_, options_, text, now_s_);
        if (!sample) return sample.error().WithContext(text.where);
        ready_[next_++] = *std::move(sample);
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
};

}  // namespace

Result<TextCounts> MakeSamples(engine::LocalModel& model, const TrainDraftOptions& options,
                               const train::Corpus& corpus, train::SampleFile& file) {
  return SampleMaker(model, options, corpus, file).Run();
}

}  // namespace surety::cli
