// One OpenAI-compatible server: its addresses, what it is, and its calls that are not generations.
//
// Threads: any; every call blocks. Errors: as FailureOf (remote_error.h) and http_client.h; kUnimplemented where the
// server has no such call; kInternal for an answer that is none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/backend.h"
#include "base/clock.h"
#include "gateway/http_client.h"
#include "gateway/remote_backend.h"
#include "gateway/remote_request.h"

namespace surety::gateway {

// What /v1/models says of the model.
struct RemoteModel {
  RemoteKind kind = RemoteKind::kOpenAi;
  int context_tokens = 0;   // 0: it does not say
  int d_model = 0;
  int64_t created_unix_s = 0;
};

class RemoteServer {
 public:
  RemoteServer(const RemoteOptions& options, const Clock& clock) : options_(options), clock_(clock) {}

  // A call to a path behind the base address, or with `at_root` beside it ("/tokenize").
  HttpCall MakeCall(std::string_view path, bool at_root, std::string body) const;
  // A stop that ends it early may be null.
  Result<RemoteModel> Describe(int64_t limit_ns, const std::function<bool()>& stop) const;

  Result<std::vector<api::TokenId>> TokenizeText(RemoteKind kind, std::string_view text, bool add_special,
                                                 bool parse_special) const;
  Result<std::vector<api::TokenId>> Tokenize(RemoteKind kind, const api::GenerationRequest& request) const;
  Result<std::string> RenderTemplate(RemoteKind kind, const api::GenerationRequest& request) const;
  Result<std::string> Detokenize(RemoteKind kind, std::span<const api::TokenId> tokens) const;
  Result<std::vector<api::EmbeddingResult>> Embed(std::span<const std::string> texts) const;

 private:
  Result<boost::json::object> Post(std::string_view path, bool at_root, const boost::json::object& body) const;
  Result<std::vector<api::TokenId>> TokensOf(const boost::json::object& body) const;
  Result<boost::json::object> TemplateBody(RemoteKind kind, const api::GenerationRequest& request) const;

  const RemoteOptions& options_;
  const Clock& clock_;
};

}  // namespace surety::gateway
