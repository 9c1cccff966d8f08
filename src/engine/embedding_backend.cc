#include "engine/embedding_backend.h"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/embedder.h"
#include "engine/model_description.h"
#include "engine/text_front.h"

namespace surety::engine {
namespace {

class EmbeddingBackend final : public api::Backend {
 public:
  EmbeddingBackend(std::unique_ptr<LocalModel> model, std::unique_ptr<Embedder> embedder,
                   api::ModelDescription description)
      : model_(std::move(model)), embedder_(std::move(embedder)), description_(std::move(description)) {}

  const api::ModelDescription& description() const override { return description_; }
  api::Health health() const override { return draining_.load() ? api::Health::kDraining : api::Health::kReady; }

  std::expected<api::RequestId, api::Refusal> Submit(api::GenerationRequest, api::EventSink) override {
    return std::unexpected(api::Refusal{NoText(), "", 0});
  }
  void Cancel(api::RequestId) override {}

  Result<std::vector<api::TokenId>> Tokenize(const api::GenerationRequest& request) const override {
    return TokenizeRequest(*model_, request, 0);
  }
  Result<std::vector<api::TokenId>> TokenizeText(std::string_view text, bool add_special,
                                                 bool parse_special) const override {
    SURETY_RETURN_IF_ERROR(CheckUtf8(text, "the text"));
    return model_->tokenizer().Encode(text, parse_special, {.add_special = add_special});
  }
  Result<std::string> RenderTemplate(const api::GenerationRequest&) const override { return Error(NoText()); }
  Result<std::string> Detokenize(std::span<const api::TokenId> tokens) const override {
    return DetokenizeAll(model_->tokenizer(), tokens);
  }
  std::string TokenBytes(api::TokenId token) const override {
    if (token < 0 || token >= model_->tokenizer().vocab_size()) return "";
    return std::string(model_->tokenizer().TokenBytes(token));
  }

  Result<std::vector<api::EmbeddingResult>> Embed(std::span<const std::string> texts) override {
    for (size_t i = 0; i < texts.size(); ++i) {
      SURETY_RETURN_IF_ERROR(CheckUtf8(texts[i], "text " + std::to_string(i)));
    }
    return Run([&] { return embedder_->Embed(texts); });
  }
  Result<std::vector<api::EmbeddingResult>> EmbedTokens(std::span<const std::vector<api::TokenId>> sequences) override {
    for (size_t i = 0; i < sequences.size(); ++i) {
      for (const api::TokenId id : sequences[i]) {
        if (id >= 0 && id < description_.vocab_size) continue;
        return Error(InvalidArgumentError("sequence " + std::to_string(i) + " has the token id " + std::to_string(id) +
                                          ", but the vocabulary has ids 0 to " +
                                          std::to_string(description_.vocab_size - 1)));
      }
    }
    return Run([&] { return embedder_->EmbedTokens(sequences); });
  }

  // It keeps nothing.
  Result<api::ForgetReceipt> Forget(const api::Scope&, api::ForgetExtent) override { return api::ForgetReceipt(); }
  void Drain(int64_t) override {
    draining_.store(true);
    const std::lock_guard lock(mutex_);  // the one that runs ends first
  }
  boost::json::array RecentSteps(int) const override { return {}; }
  boost::json::object DebugState() const override {
    return {{"model", description_.name}, {"health", api::NameOf(health())}, {"texts_embedded", n_texts_.load()}};
  }

 private:
  Status NoText() const {
    return UnimplementedError("'" + description_.name + "' is an encoder: it makes embeddings and writes no text");
  }
  template <typename Fn>
  Result<std::vector<api::EmbeddingResult>> Run(Fn&& fn) {
    if (draining_.load()) return Error(UnavailableError("the server is shutting down"));
    const std::lock_guard lock(mutex_);
    SURETY_ASSIGN_OR_RETURN(std::vector<Embedding> made, fn());
    std::vector<api::EmbeddingResult> results;
    for (Embedding& e : made) results.push_back({std::move(e.values), e.n_tokens});
    n_texts_.fetch_add(static_cast<int64_t>(results.size()));
    return results;
  }

  std::unique_ptr<LocalModel> model_;
  std::unique_ptr<Embedder> embedder_;
  api::ModelDescription description_;
  std::mutex mutex_;   // one pass at a time
  std::atomic<bool> draining_{false};
  std::atomic<int64_t> n_texts_{0};
};

}  // namespace

Result<std::unique_ptr<api::Backend>> MakeEmbeddingBackend(std::unique_ptr<LocalModel> model, const std::string& name,
                                                           const std::string& digest, Clock& clock) {
  SURETY_ASSIGN_OR_RETURN(auto embedder, Embedder::Make(*model));
  api::ModelDescription description = DescribeLocalModel(*model, name, digest, clock);
  description.context_tokens = model->config().max_context;
  description.embeds = true;
  return std::make_unique<EmbeddingBackend>(std::move(model), std::move(embedder), std::move(description));
}

}  // namespace surety::engine
