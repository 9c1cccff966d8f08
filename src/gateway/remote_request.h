// From a generation request to the body that an OpenAI-compatible server takes. Complete: what that server cannot be
// told is a refusal that names the field. Left out are only hints that cannot change an answer: priority, prediction,
// speculate and exact rules of verification.
//
// Ids of tokens belong to a vocabulary that is not known here, so prompts, stops and biases of ids, and log
// probabilities, are refused. Sampling that such a server has is always sent, also where it is off: servers have
// defaults of their own. Threads: pure functions. Errors: refusals of kInvalidArgument.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "api/backend.h"

namespace surety::gateway {

// What a server understands beyond OpenAI's parameters. kUnknown: nothing.
enum class RemoteKind : uint8_t { kUnknown, kOpenAi, kVllm, kLlamaServer, kSurety, kLlamaCppPython };
std::string_view NameOf(RemoteKind kind);

struct RemoteDialect {
  RemoteKind kind = RemoteKind::kUnknown;
  std::string model;
  bool max_completion_tokens = false;  // the newer name of max_tokens, which some models of OpenAI's insist on
  std::string salt;                    // for servers that know cache_salt; empty: none
};

struct RemoteBody {
  bool chat = true;          // /chat/completions, else /completions
  boost::json::object json;
};

std::expected<RemoteBody, api::Refusal> MapRemoteRequest(const api::GenerationRequest& request,
                                                         const RemoteDialect& dialect);

// The messages as OpenAI's API has them: arguments of calls are texts there, and values in templates.
std::expected<boost::json::array, api::Refusal> WireMessages(const boost::json::array& messages, RemoteKind kind);

// A salt that keeps the scope's prefixes apart on the server, and says nothing of what the scope is: HMAC-SHA-256 under
// `secret` over all fields, hex.
std::string DerivedSalt(const std::string& secret, const api::Scope& scope);

}  // namespace surety::gateway
