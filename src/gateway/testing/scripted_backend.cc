#include "gateway/testing/scripted_backend.h"

#include <chrono>
#include <utility>

namespace surety::gateway {

ScriptedBackend::ScriptedBackend(Script script) : script_(std::move(script)) {
  description_.name = "scripted";
  description_.digest = "scripted-1";
  description_.context_tokens = 1 << 16;
  description_.vocab_size = 256;
  description_.generates = true;
}

ScriptedBackend::~ScriptedBackend() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::vector<api::GenerationRequest> ScriptedBackend::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

int ScriptedBackend::n_requests() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(requests_.size());
}

std::expected<api::RequestId, api::Refusal> ScriptedBackend::Submit(api::GenerationRequest request,
                                                                    api::EventSink sink) {
  ScriptedAnswer answer = script_(request);
  const std::lock_guard lock(mutex_);
  requests_.push_back(std::move(request));
  if (answer.refusal) return std::unexpected(*std::move(answer.refusal));
  const api::RequestId id = requests_.size();
  cancelled_[id] = false;
  threads_.emplace_back([this, id, answer = std::move(answer), sink = std::move(sink)]() mutable {
    Answer(id, std::move(answer), sink);
    sink = nullptr;
  });
  return id;
}

bool ScriptedBackend::WaitOrCancelled(api::RequestId id, int64_t delay_ms) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(delay_ms), [&] { return stopping_ || cancelled_[id]; });
  return stopping_ || cancelled_[id];
}

void ScriptedBackend::Answer(api::RequestId id, ScriptedAnswer answer, const api::EventSink& sink) {
  if (answer.before) answer.before();
  const bool gone = WaitOrCancelled(id, answer.delay_ms);
  for (size_t i = 0; !gone && i < answer.pieces.size(); ++i) {
    api::Event event;
    event.request = id;
    event.text = answer.pieces[i];
    sink(std::move(event));
  }
  for (size_t i = 0; !gone && i < answer.calls.size(); ++i) {
    api::Event event;
    event.request = id;
    event.tool_calls.push_back(answer.calls[i]);
    sink(std::move(event));
  }
  api::Event last;
  last.request = id;
  last.finish = gone ? api::FinishReason::kCancelled : answer.finish;
  last.error = answer.error;
  last.usage = answer.usage;
  last.stop_text = answer.stop_text;
  sink(std::move(last));
  std::this_thread::sleep_for(std::chrono::milliseconds(answer.linger_ms));
}

void ScriptedBackend::Cancel(api::RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_[id] = true;
  }
  changed_.notify_all();
}

Result<std::vector<api::TokenId>> ScriptedBackend::Tokenize(const api::GenerationRequest&) const {
  return std::vector<api::TokenId>{0};
}

Result<std::vector<api::TokenId>> ScriptedBackend::TokenizeText(std::string_view text, bool, bool) const {
  return std::vector<api::TokenId>(text.begin(), text.end());
}

Result<std::string> ScriptedBackend::RenderTemplate(const api::GenerationRequest&) const { return std::string(); }

Result<std::string> ScriptedBackend::Detokenize(std::span<const api::TokenId> tokens) const {
  std::string text;
  for (const api::TokenId token : tokens) text += static_cast<char>(token);
  return text;
}

std::string ScriptedBackend::TokenBytes(api::TokenId token) const { return std::string(1, static_cast<char>(token)); }

Result<std::vector<api::EmbeddingResult>> ScriptedBackend::Embed(std::span<const std::string>) {
  return Error(UnimplementedError("no embeddings"));
}

Result<std::vector<api::EmbeddingResult>> ScriptedBackend::EmbedTokens(std::span<const std::vector<api::TokenId>>) {
  return Error(UnimplementedError("no embeddings"));
}

}  // namespace surety::gateway
