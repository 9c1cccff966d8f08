#include "engine/engine.h"

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/memory_info.h"
#include "engine/executor.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/text_front.h"

namespace surety::engine {
namespace {

Status Wrong(std::string_view field, int64_t value, std::string_view rule) {
  return InvalidArgumentError(std::string(field) + " is " + std::to_string(value) + ", but must be " +
                              std::string(rule));
}

// KV of a finished sequence that the next request of its conversation may continue.
struct KeptSequence {
  std::vector<int32_t> tokens;  // whose KV is in `pages`
  kv::PageTable pages;
};

class EngineImpl final : public Engine {
 public:
  EngineImpl(LocalModel& model, const EngineOptions& options, Clock& clock, std::unique_ptr<kv::PagePool> pool,
             std::unique_ptr<StepExecutor> executor)
      : model_(model), options_(options), clock_(clock), pool_(std::move(pool)), executor_(std::move(executor)),
        scheduler_(options.max_sequences, options.max_rows), sampler_(model.tokenizer().vocab_size()) {
    plan_.Reserve(options.max_sequences, options.max_rows);
    const auto& spec = model.tokenizer().spec();
    if (spec.eos >= 0) end_ids_.push_back(spec.eos);
    end_ids_.insert(end_ids_.end(), spec.end_of_turn.begin(), spec.end_of_turn.end());
  }

  Result<std::vector<api::TokenId>> Tokenize(const api::GenerationRequest& request) const override {
    return TokenizeRequest(model_, request, clock_.WallNanos() / 1'000'000'000);
  }

  Result<api::RequestId> Submit(const api::GenerationRequest& request, uint64_t keep) override {
    SURETY_RETURN_IF_ERROR(request.sampling.Validate(model_.tokenizer().vocab_size()));
    SURETY_ASSIGN_OR_RETURN(auto prompt, Tokenize(request));
    if (prompt.empty()) return Error(InvalidArgumentError("the prompt has no tokens"));
    const int n_prompt = static_cast<int>(prompt.size());
    if (n_prompt >= options_.context_tokens) {
      return Error(Status(StatusCode::kOutOfRange,
                          "the prompt has " + std::to_string(n_prompt) + " tokens, but the context of " +
                              std::to_string(options_.context_tokens) + " must hold it and at least one more"));
    }
    if (request.max_tokens == 0 || request.max_tokens < -1) {
      return Error(Wrong("max_tokens", request.max_tokens, "positive, or -1 for the rest of the context"));
    }
    const api::RequestId id = next_id_++;
    auto sequence = std::make_unique<Sequence>(id, request, std::move(prompt), model_.tokenizer(), *pool_);
    const int room = options_.context_tokens - n_prompt;
    sequence->max_tokens = request.max_tokens < 0 ? room : std::min(request.max_tokens, room);
    sequence->conversation = keep;
    if (keep != 0) ContinueConversation(keep, *sequence);
    scheduler_.Enqueue(sequence.get());
    sequences_[id] = std::move(sequence);
    return id;
  }

  void Cancel(api::RequestId id) override {
    const auto it = sequences_.find(id);
    if (it == sequences_.end()) return;
    cancelled_.push_back(id);
  }

  void Forget(uint64_t conversation) override { kept_.erase(conversation); }

  bool idle() const override { return scheduler_.idle() && cancelled_.empty(); }

  Status Step(std::vector<api::Event>& events) override {
    for (api::RequestId id : std::exchange(cancelled_, {})) {
      if (const auto it = sequences_.find(id); it != sequences_.end()) {
        Finish(*it->second, api::FinishReason::kCancelled, api::Event(), events);
      }
    }
    scheduler_.Plan(plan_);
    if (plan_.empty()) {
      EvictKeptIfStuck();
      return OkStatus();
    }
    const int64_t start = clock_.NowNanos();
    const Status status = executor_->Run(plan_);
    if (!status.ok()) {
      FailPlanned(status, events);
      return OkStatus();
    }
    Count(clock_.NowNanos() - start);
    const std::vector<Sequence*> planned = scheduler_.planned();
    int logit_index = 0;
    for (size_t i = 0; i < planned.size(); ++i) {
      planned[i]->n_computed += plan_.sequences[i].n_rows;
      if (plan_.sequences[i].wants_logits) CommitToken(*planned[i], executor_->LogitsOf(logit_index++), events);
    }
    return OkStatus();
  }

  const EngineCounters& counters() const override { return counters_; }
  const EngineOptions& options() const override { return options_; }
  int64_t kv_bytes() const override { return pool_->size_bytes(); }
  int64_t workspace_bytes() const override {
    return model_.model().workspace_bytes() + int64_t{options_.max_sequences} * model_.config().vocab_size * 4;
  }
  kv::PagePool& pages() override { return *pool_; }

 private:
  // Takes over the kept KV as far as the tokens agree; at least one prompt token is computed, to have its logits.
  void ContinueConversation(uint64_t key, Sequence& sequence) {
    const auto it = kept_.find(key);
    if (it == kept_.end()) return;
    KeptSequence kept = std::move(it->second);
    kept_.erase(it);
    const auto limit = std::min(kept.tokens.size(), sequence.tokens.size() - 1);
    size_t same = 0;
    while (same < limit && kept.tokens[same] == sequence.tokens[same]) ++same;
    kept.pages.Truncate(static_cast<int>(same));
    sequence.pages = std::move(kept.pages);
    sequence.n_computed = sequence.n_cached = static_cast<int>(same);
  }

  // Nothing could be planned although something waits: kept conversations hold the pages it needs, so the oldest goes;
  // at last those that waiting requests have taken over.
  void EvictKeptIfStuck() {
    if (scheduler_.idle()) return;
    if (kept_.empty()) {
      scheduler_.ReleaseWaitingPages();
      return;
    }
    auto oldest = kept_.begin();
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
      if (it->first < oldest->first) oldest = it;
    }
    kept_.erase(oldest);
  }

  void CommitToken(Sequence& sequence, std::span<float> all_logits, std::vector<api::Event>& events) {
    // Rows that an embedding has beyond the vocabulary are padding: no text belongs to them.
    const std::span<float> logits = all_logits.first(static_cast<size_t>(model_.tokenizer().vocab_size()));
    const api::GenerationRequest& request = sequence.request;
    if (!AllFinite(logits)) {
      Fail(sequence,
           DataLossError("the model's logits at position " + std::to_string(sequence.n_tokens() - 1) +
                         " are not all finite numbers: its weights are damaged, or it overflows"),
           events);
      return;
    }
    api::TokenLogprob logprob;
    std::vector<float> raw;
    const bool wants_logprobs = request.n_logprobs >= 0;
    if (wants_logprobs) raw.assign(logits.begin(), logits.end());
    sampler_.Penalise(logits, request.sampling, sequence.history,
                      request.ignore_end_of_text ? std::span<const int32_t>() : end_ids_);
    if (request.ignore_end_of_text) {
      for (int32_t id : end_ids_) logits[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
    }
    const int32_t token = sampler_.Sample(logits, request.sampling, static_cast<uint64_t>(sequence.n_tokens()));
    if (wants_logprobs) logprob = LogprobOf(raw, token, request.n_logprobs);
    sequence.tokens.push_back(token);
    sequence.history.AddOutput(token);

    api::Event event;
    event.tokens.push_back(token);
    if (wants_logprobs) event.logprobs.push_back(std::move(logprob));
    api::FinishReason finish = api::FinishReason::kNone;
    if (!request.ignore_end_of_text && model_.tokenizer().IsEndOfText(token)) {
      finish = api::FinishReason::kStop;
    } else {
      event.text = sequence.stops.Push(sequence.decoder.Push(token));
      if (sequence.stops.stopped()) {
        finish = api::FinishReason::kStop;
        event.stop_text = sequence.stops.stop_text();
      } else if (sequence.n_output() >= sequence.max_tokens) {
        finish = api::FinishReason::kLength;
      }
    }
    if (finish != api::FinishReason::kNone) {
      Finish(sequence, finish, std::move(event), events);
      return;
    }
    event.request = sequence.id;
    events.push_back(std::move(event));
  }

  // Ends a sequence: its last event, its KV kept or freed, the sequence gone.
  void Finish(Sequence& sequence, api::FinishReason reason, api::Event event, std::vector<api::Event>& events) {
    event.request = sequence.id;
    event.finish = reason;
    event.text += sequence.stops.Push(sequence.decoder.Finish());
    event.text += sequence.stops.Flush();
    if (sequence.stops.stopped() && reason == api::FinishReason::kLength) {
      event.finish = api::FinishReason::kStop;
      event.stop_text = sequence.stops.stop_text();
    }
    event.usage = {sequence.n_prompt, sequence.n_cached, sequence.n_output()};
    events.push_back(std::move(event));
    scheduler_.Remove(&sequence);
    if (sequence.conversation != 0) {
      sequence.tokens.resize(static_cast<size_t>(sequence.n_computed));
      sequence.pages.Truncate(sequence.n_computed);
      kept_.erase(sequence.conversation);
      kept_.emplace(sequence.conversation, KeptSequence{std::move(sequence.tokens), std::move(sequence.pages)});
    }
    sequences_.erase(sequence.id);
  }

  void FailPlanned(const Status& status, std::vector<api::Event>& events) {
    const std::vector<Sequence*> planned = scheduler_.planned();
    for (Sequence* sequence : planned) Fail(*sequence, status, events);
  }

  void Fail(Sequence& sequence, const Status& status, std::vector<api::Event>& events) {
    api::Event event;
    event.error = status;
    sequence.conversation = 0;
    Finish(sequence, api::FinishReason::kError, std::move(event), events);
  }

  // A step's time is split over its rows.
  void Count(int64_t nanos) {
    int64_t decode_rows = 0, prefill_rows = 0;
    for (size_t i = 0; i < plan_.sequences.size(); ++i) {
      (scheduler_.planned()[i]->prefilling() ? prefill_rows : decode_rows) += plan_.sequences[i].n_rows;
    }
    ++counters_.n_steps;
    counters_.prefill_rows += prefill_rows;
    counters_.decode_rows += decode_rows;
    counters_.decode_nanos += nanos * decode_rows / plan_.n_rows();
    counters_.prefill_nanos += nanos * prefill_rows / plan_.n_rows();
  }

  LocalModel& model_;
  EngineOptions options_;
  Clock& clock_;
  std::unique_ptr<kv::PagePool> pool_;  // outlives everything below that holds pages
  std::unique_ptr<StepExecutor> executor_;
  std::unordered_map<uint64_t, KeptSequence> kept_;
  std::unordered_map<api::RequestId, std::unique_ptr<Sequence>> sequences_;
  Scheduler scheduler_;
  Sampler sampler_;
  StepPlan plan_;
  std::vector<int32_t> end_ids_;
  std::vector<api::RequestId> cancelled_;
  api::RequestId next_id_ = 1;
  EngineCounters counters_;
};

}  // namespace

Status EngineOptions::Validate() const {
  if (context_tokens < 2) return Wrong("context_tokens", context_tokens, "at least 2");
  if (page_tokens <= 0 || page_tokens % kKvLaneTokens != 0) {
    return Wrong("page_tokens", page_tokens, "a positive multiple of 16");
  }
  if (kv_budget_bytes < 0) return Wrong("kv_budget_bytes", kv_budget_bytes, "0 (one full context) or positive");
  if (max_sequences < 1 || max_sequences > 4096) return Wrong("max_sequences", max_sequences, "from 1 to 4096");
  if (max_rows < max_sequences || max_rows > 65536) {
    return Wrong("max_rows", max_rows, "from max_sequences (" + std::to_string(max_sequences) + ") to 65536");
  }
  return OkStatus();
}

Result<std::unique_ptr<Engine>> Engine::Make(LocalModel& model, const EngineOptions& options, Clock& clock) {
  SURETY_RETURN_IF_ERROR(options.Validate());
  if (model.config().encoder) {
    return Error(FailedPreconditionError("'" + model.source().path() + "' is an encoder (" +
                                         model.config().architecture + "): it makes embeddings, not text"));
  }
  EngineOptions in_force = options;
  in_force.context_tokens = std::min(options.context_tokens, model.config().max_context);
  const KvLayout layout = model.config().KvLayoutFor(options.kv_type, options.page_tokens);
  SURETY_RETURN_IF_ERROR(layout.Validate());
  const int64_t pages_for_one =
      (int64_t{in_force.context_tokens} + options.page_tokens - 1) / options.page_tokens;
  int64_t n_pages = pages_for_one;
  if (options.kv_budget_bytes > 0) {
    n_pages = options.kv_budget_bytes / layout.PageStrideBytes();
    if (n_pages < pages_for_one) {
      return Error(ResourceExhaustedError(
          "a KV budget of " + std::to_string(options.kv_budget_bytes) + " bytes holds " +
          std::to_string(n_pages * options.page_tokens) + " tokens, but a context of " +
          std::to_string(in_force.context_tokens) + " needs " +
          std::to_string(pages_for_one * layout.PageStrideBytes())));
    }
  }
  if (n_pages > (int64_t{1} << 30)) return Error(ResourceExhaustedError("the KV cache would have over 2^30 pages"));
  // The pool takes physical memory as it fills: what can never be there must be refused now, not when it runs out.
  const int64_t needed = n_pages * layout.PageStrideBytes(), available = AvailableMemoryBytes();
  if (available >= 0 && needed > available) {
    return Error(ResourceExhaustedError("the KV cache of " + std::to_string(n_pages * options.page_tokens) +
                                        " tokens takes " + std::to_string(needed >> 20) + " MiB, but only " +
                                        std::to_string(available >> 20) +
                                        " MiB of memory are available; use a shorter context or a smaller KV type"));
  }
  SURETY_ASSIGN_OR_RETURN(auto pool, kv::PagePool::Make(layout, static_cast<int>(n_pages)));
  SURETY_RETURN_IF_ERROR(model.model().Reserve(options.max_rows, in_force.context_tokens));
  SURETY_ASSIGN_OR_RETURN(auto executor, MakeModelExecutor(model.model(), pool->view(), options.max_sequences,
                                                           options.max_rows));
  return std::make_unique<EngineImpl>(model, in_force, clock, std::move(pool), std::move(executor));
}

}  // namespace surety::engine
