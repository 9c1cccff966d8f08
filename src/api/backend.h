// Whatever answers requests: one engine, a cluster, a remote server. The HTTP server and the gateway see only this.
//
// Threads: every function may be called from any thread. An EventSink is called from the backend's own thread, one call
// at a time for a request; it must not block and must not call back into the backend except Cancel and TokenBytes.
// Invariants: (1) a request that Submit accepted gets exactly one event with finish != kNone for each choice, whatever
// happens, also at shutdown; after the last of them its sink is never called again. (2) Submit refuses at once, without
// waiting for a running step. (3) Events of a request come in order.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "api/request.h"

namespace surety::api {

// Why a request was not accepted.
struct Refusal {
  Status status;            // kInvalidArgument, kOutOfRange: the request; kResourceExhausted: too much load or quota;
                            // kUnavailable: starting or draining; kDeadlineExceeded: cannot be met, says why
  std::string param;        // the field at fault, by its name in GenerationRequest; empty if none
  double retry_after_s = 0; // with kResourceExhausted and kUnavailable: when a new attempt has a chance
  std::shared_ptr<const Decision> decision = nullptr;  // of a governed backend
};

struct ModelDescription {
  std::string name;             // as requests name it
  std::string digest;           // of the weights file, hex; may be empty
  std::string architecture;
  int64_t created_unix_s = 0;   // when it was loaded
  int64_t n_parameters = 0;
  int64_t size_bytes = 0;
  int context_tokens = 0;       // longest prompt + answer
  int trained_context_tokens = 0;
  int vocab_size = 0;
  int d_model = 0;              // length of an embedding
  TokenId bos = -1, eos = -1;
  std::string bos_text, eos_text;
  std::string chat_template;    // its source; empty if none
  std::string draft_model;      // the name of the smaller model that drafts for it; empty: none
  std::string draft_head;       // what drafts on its hidden states, in words; empty: none
  bool generates = false;       // text
  bool governed = false;        // a policy decides about each request; one call has one decision
  bool embeds = false;          // vectors
};

enum class Health : uint8_t { kStarting, kReady, kStalled, kDraining, kStopped };
std::string_view NameOf(Health health);

struct EmbeddingResult {
  std::vector<float> values;
  int n_tokens = 0;
};

// What of a scope is forgotten.
enum class ForgetExtent : uint8_t {
  kScope,   // exactly this scope; with an empty salt: with all salts
  kTenant,  // all scopes of its tenant; its other fields are not looked at
};

// What Forget did.
struct ForgetReceipt {
  int64_t pages = 0;
  int64_t bytes = 0;          // overwritten with zeros, over all tiers
  int64_t pages_in_use = 0;   // still read by running requests; overwritten when those end
};

using EventSink = std::function<void(Event)>;

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const ModelDescription& description() const = 0;
  virtual Health health() const = 0;   // kReady: steps make progress, or there is nothing to do

  // The request's text, if any, is tokenized on the calling thread.
  virtual std::expected<RequestId, Refusal> Submit(GenerationRequest request, EventSink sink) = 0;
  // Ends a request within one step; its choices end with kCancelled. Unknown or ended ids are ignored.
  virtual void Cancel(RequestId id) = 0;

  // Texts with special tokens where `request` has messages or the tokenizer adds them; as Submit would see it.
  virtual Result<std::vector<TokenId>> Tokenize(const GenerationRequest& request) const = 0;
  // Plain text; `special`: text of control tokens becomes control tokens, and BOS/EOS are added as the model says.
  virtual Result<std::vector<TokenId>> TokenizeText(std::string_view text, bool add_special,
                                                    bool parse_special) const = 0;
  virtual Result<std::string> RenderTemplate(const GenerationRequest& request) const = 0;
  // kOutOfRange naming the id. Invalid UTF-8 becomes U+FFFD.
  virtual Result<std::string> Detokenize(std::span<const TokenId> tokens) const = 0;
  // The bytes of one token; may be part of a character. Empty for ids out of range.
  virtual std::string TokenBytes(TokenId token) const = 0;

  // kUnimplemented if the model makes no embeddings. Blocks; not for I/O threads.
  virtual Result<std::vector<EmbeddingResult>> Embed(std::span<const std::string> texts) = 0;
  virtual Result<std::vector<EmbeddingResult>> EmbedTokens(std::span<const std::vector<TokenId>> sequences) = 0;

  // Overwrites and frees all cached KV of `scope` in every tier.
  virtual Result<ForgetReceipt> Forget(const Scope& scope, ForgetExtent extent) = 0;

  // No new requests from now on; running ones end by themselves, or are cancelled after `limit_ms`. Blocks.
  virtual void Drain(int64_t limit_ms) = 0;

  // State of queues, pages and cache, for operators: docs/http_api.md, Administration.
  virtual boost::json::object DebugState() const = 0;
  // The last `n` steps at most, oldest first: docs/http_api.md, Administration. None where there are no steps.
  virtual boost::json::array RecentSteps(int n) const = 0;
};

}  // namespace surety::api
