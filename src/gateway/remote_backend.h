// Another server as an api::Backend: anything that speaks OpenAI's API over HTTP, streamed.
//
// Which parameters a server understands beyond OpenAI's follows from what it calls itself in /v1/models (surety, vLLM,
// llama-server, llama-cpp-python), or from options; what it cannot be told is refused (remote_request.h). Nothing is
// tried twice here: retries have one owner, the pipeline. A server that asks to be left alone (Retry-After) is: until
// then Submit refuses with the time that is left. A Cancel closes the connection. llama-cpp-python's server ends what
// it generates when another request comes, so it gets one at a time: others wait for their turn until their limit.
//
// Counts of Tokenize are the server's where it has /tokenize; elsewhere they are an estimate, a token of id -1 for
// every three bytes. Ids mean something to that server alone. Usage is the server's, or estimated the same way.
// Timings: prefill is the time to the first byte of the answer, decode the rest. Forget is kUnimplemented: what a
// server caches is its own; the scope goes there as a derived salt where it knows one (cache_salt).
//
// Threads: as api::Backend; a request has a thread of the backend's pool while it runs, and Submit refuses when
// max_parallel run. Calls other than Submit, Cancel, health and description block on the network.
// Owns: connections; the destructor cancels what runs and waits for it.
// Errors: Make: kInvalidArgument naming the option. A server that does not answer is none: health is kStarting, and it
// is asked again every `probe_interval_ns` until it does. Events: as FailureOf (remote_error.h) with the model's name
// in front; kDeadlineExceeded for the backend's own limit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/backend.h"
#include "base/clock.h"
#include "gateway/http_client.h"
#include "gateway/policy.h"
#include "gateway/remote_request.h"

namespace surety::gateway {

struct RemoteOptions {
  std::string name;                     // as requests name it
  std::string base_url;                 // "https://host/v1"
  std::string model;                    // its name there
  std::string api_key;                  // sent as a bearer token; empty: none
  std::vector<std::pair<std::string, std::string>> headers;
  HttpTls tls;
  RemoteKind kind = RemoteKind::kUnknown;   // kUnknown: what /v1/models says
  int max_parallel = 256;
  int64_t timeout_ns = 60'000'000'000;      // of a request, from Submit to its end
  int64_t idle_timeout_ns = 0;              // without a byte while an answer runs; 0: timeout_ns alone
  int64_t probe_timeout_ns = 2'000'000'000;
  int64_t probe_interval_ns = 2'000'000'000;
  int context_tokens = 0;                   // 0: what the server says, or unknown
  bool generates = true, embeds = false;
  bool max_completion_tokens = false;       // send this instead of max_tokens
  bool pass_scope = true;                   // as cache_salt
  std::string salt_secret;                  // empty: drawn at the start, so that prefixes do not outlive the process

  Status Validate() const;
  std::vector<std::string> Secrets() const;
};

// `directory`: the policy's. Reads the secrets that the policy names. Errors: as ReadSecret (http_access.h).
Result<RemoteOptions> RemoteOptionsOf(const ModelSpec& spec, const std::string& directory);

// Asks the server once what it is, for at most probe_timeout_ns.
Result<std::unique_ptr<api::Backend>> MakeRemoteBackend(RemoteOptions options, const Clock& clock = Clock::Real());

}  // namespace surety::gateway
