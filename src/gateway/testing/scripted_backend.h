// A backend that answers what a test tells it to, on a thread of its own: pieces, endings, delays, refusals.
//
// Threads: as api::Backend. Owns: its threads; the destructor ends what runs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "api/backend.h"

namespace surety::gateway {

struct ScriptedAnswer {
  std::vector<std::string> pieces = {};
  std::vector<api::ToolCallDelta> calls = {};      // after the pieces, one an event
  api::FinishReason finish = api::FinishReason::kStop;
  Status error = {};
  api::Usage usage = {};
  std::string stop_text = {};
  int64_t delay_ms = 0;                            // before the first piece
  int64_t linger_ms = 0;                           // the sink is kept for so long after the last event
  std::optional<api::Refusal> refusal = {};
  std::function<void()> before = {};               // the first piece, on the answer's thread
};

class ScriptedBackend final : public api::Backend {
 public:
  using Script = std::function<ScriptedAnswer(const api::GenerationRequest&)>;
  explicit ScriptedBackend(Script script);
  ~ScriptedBackend() override;

  // What was asked, in order.
  std::vector<api::GenerationRequest> requests() const;
  int n_requests() const;

  std::function<Result<api::ForgetReceipt>(const api::Scope&, api::ForgetExtent)> forget;  // set before it is called

  const api::ModelDescription& description() const override { return description_; }
  api::Health health() const override { return api::Health::kReady; }
  std::expected<api::RequestId, api::Refusal> Submit(api::GenerationRequest request, api::EventSink sink) override;
  void Cancel(api::RequestId id) override;
  Result<std::vector<api::TokenId>> Tokenize(const api::GenerationRequest& request) const override;
  // A token a byte.
  Result<std::vector<api::TokenId>> TokenizeText(std::string_view text, bool, bool) const override;
  Result<std::string> RenderTemplate(const api::GenerationRequest& request) const override;
  Result<std::string> Detokenize(std::span<const api::TokenId> tokens) const override;
  std::string TokenBytes(api::TokenId token) const override;
  Result<std::vector<api::EmbeddingResult>> Embed(std::span<const std::string> texts) override;
  Result<std::vector<api::EmbeddingResult>> EmbedTokens(std::span<const std::vector<api::TokenId>> sequences) override;
  Result<api::ForgetReceipt> Forget(const api::Scope& scope, api::ForgetExtent extent) override {
    return forget ? forget(scope, extent) : Result<api::ForgetReceipt>(api::ForgetReceipt{});
  }
  void Drain(int64_t) override {}
  boost::json::object DebugState() const override { return {}; }
  boost::json::array RecentSteps(int) const override { return {}; }

 private:
  void Answer(api::RequestId id, ScriptedAnswer answer, const api::EventSink& sink);
  bool WaitOrCancelled(api::RequestId id, int64_t delay_ms);

  Script script_;
  api::ModelDescription description_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<api::GenerationRequest> requests_;
  std::map<api::RequestId, bool> cancelled_;
  std::vector<std::thread> threads_;
  bool stopping_ = false;
};

}  // namespace surety::gateway
