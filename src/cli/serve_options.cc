#include "cli/serve_options.h"

#include <cstdlib>
#include <limits>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/models_catalogue.h"

namespace surety::cli {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

Status Wrong(std::string_view flag, const std::string& value, std::string_view rule) {
  return InvalidArgumentError(fmt::format("{}: {} is not {}", flag, value, rule));
}

// "NAME=VALUE".
Result<std::pair<std::string, std::string>> Split(std::string_view flag, const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    return Error(InvalidArgumentError(fmt::format("{}: '{}' must have the form NAME=VALUE", flag, text)));
  }
  return std::make_pair(text.substr(0, at), text.substr(at + 1));
}

}  // namespace

ServeFlags::ServeFlags() {
  const ModelFlags defaults;
  models = {defaults.model};
}

void ServeFlags::Declare(Flags& flags) {
  flags.Group("Models");
  flags.Add("-m,--model", models, "a path, or a name that 'surety models' lists; again for further models");
  flags.Add("--embedding-model", embedding_models, "an encoder for /v1/embeddings: a folder or a file");
  flags.Add("--policy", policy, "a policy file: it names the models, and every request passes it (docs/policy.md)");
  flags.Add("--alias", aliases, "ALIAS=NAME: a further name for a model");
  flags.Add("--model-memory", model_memory_mb, "MiB for weights and KV of all models together; 0: no limit");
  flags.Add("-t,--threads", threads, "processors to use; 0: all of them");
  flags.Add("--isa", isa, "force an instruction set (sse4, avx2, avx512, ...); default: the best one here");
  kv.Declare(flags);
  speculation.Declare(flags);
  flags.Group("Scheduling");
  flags.Add("--parallel", parallel, "sequences that run together; further requests wait");
  flags.Add("--queue", queue, "requests that may wait; more are refused with 429");
  flags.Add("--tenant-queue", tenant_queue, "requests of one tenant that may wait; 0: as --queue");
  flags.Add("--max-wait", max_wait_s, "seconds; a request whose predicted wait is longer is refused; 0: any");
  flags.Add("--chunk", chunk, "prompt tokens of one step at most");
  flags.Add("--itl-target", itl_target_ms,
            "milliseconds between two tokens of a stream while prompts are read; 0: 1.7 times the time without them");
  flags.Add("--tenant-weight", tenant_weights, "TENANT=WEIGHT: a tenant's share of the work; 1 unless given");
  flags.Group("Prefix cache");
  flags.Add("--kv-memory", kv_memory_mb, "MiB of KV for each model; 0: from --ctx and --parallel");
  flags.Add("--host-cache", host_cache_mb, "MiB for prefixes that the KV memory has no room for; 0: none");
  flags.Add("--disk-cache", disk_cache, "a folder for what the host cache has no room for; encrypted");
  flags.Add("--disk-cache-size", disk_cache_mb, "MiB in that folder");
  flags.Add("--cache-ttl", cache_ttl_s, "seconds that a prefix is kept at most; 0: any");
  flags.Add("--cache-floor", cache_floor_pages, "pages of a scope that others' demand does not evict");
  flags.Add("--zero-kv", zero_kv, "overwrite KV memory when it is given back");
  flags.Group("Network");
  flags.Add("--host", host, "address to listen on; others than loopback ones need keys");
  flags.Add("--port", port, "port to listen on; 0: a free one");
  flags.Add("--admin-port", admin_port, "port for /admin; 0: a free one; default: none");
  flags.Add("--api-keys", api_keys, "a file of API keys ('surety keys'); $SURETY_API_KEY: a single key");
  flags.Add("--jwks", jwks, "a JWKS file: accept JSON Web Tokens signed with its keys");
  flags.Add("--jwt-issuer", jwt_issuer, "the iss that tokens must have");
  flags.Add("--jwt-audience", jwt_audience, "the aud that tokens must have");
  flags.Add("--tls-cert", tls_cert, "PEM file: certificate and chain");
  flags.Add("--tls-key", tls_key, "PEM file: its private key");
  flags.Add("--cors-origin", cors_origins, "an origin whose pages may call the API");
  flags.Add("--max-connections", max_connections, "open connections at most");
  flags.Add("--io-threads", io_threads, "threads for the network");
  flags.Add("--drain", drain_s, "seconds that running requests have at the end");
  trace.Declare(flags);
  flags.Group("Output");
  flags.Add("--access-log", access_log, "one JSON line a request on standard error; no text of requests");
  flags.Add("--json", json, "one JSON object on standard output when the server is ready");
}

Status ServeFlags::Validate() const {
  SURETY_RETURN_IF_ERROR(kv.Validate());
  const bool names_head = !speculation.draft_head.empty() && speculation.draft_head != kNoHead;
  if (!policy.empty() && (!speculation.draft_model.empty() || names_head)) {
    return InvalidArgumentError(
        "--draft-model, --draft-head and --policy: the policy names the models, and with draft_model or draft_head of "
        "each what drafts for it");
  }
  if (!policy.empty() && (!speculation.draft_head_layers.empty() || !speculation.draft_head_norm.empty())) {
    return InvalidArgumentError("--draft-head-layers, --draft-head-norm and --policy: they are for a head that "
                                "--draft-head names; correct the config.json of a head that a policy names");
  }
  if (!policy.empty() && speculation.speculate == "model") {
    return InvalidArgumentError("--speculate model and --policy: each model of a policy drafts by what its draft_model "
                                "or draft_head says; use auto");
  }
  SURETY_RETURN_IF_ERROR(speculation.Validate());
  SURETY_RETURN_IF_ERROR(trace.Validate());
  ModelFlags model;
  model.threads = threads;
  model.isa = isa;
  SURETY_RETURN_IF_ERROR(model.Apply());
  if (!policy.empty() && models != std::vector<std::string>{ModelFlags().model}) {
    return InvalidArgumentError("-m and --policy: the policy names the models; no other way leads to them");
  }
  const auto from = [](std::string_view flag, int value, int least, int most) {
    if (value >= least && value <= most) return OkStatus();
    return Wrong(flag, std::to_string(value), fmt::format("a number from {} to {}", least, most));
  };
  constexpr int kMost = std::numeric_limits<int>::max();
  SURETY_RETURN_IF_ERROR(from("--parallel", parallel, 1, 4096));
  SURETY_RETURN_IF_ERROR(from("--queue", queue, 1, 1'000'000));
  SURETY_RETURN_IF_ERROR(from("--tenant-queue", tenant_queue, 0, 1'000'000));
  SURETY_RETURN_IF_ERROR(from("--chunk", chunk, parallel, 65536));
  SURETY_RETURN_IF_ERROR(from("--itl-target", itl_target_ms, 0, 3'600'000));
  SURETY_RETURN_IF_ERROR(from("--kv-memory", kv_memory_mb, 0, kMost));
  SURETY_RETURN_IF_ERROR(from("--model-memory", model_memory_mb, 0, kMost));
  SURETY_RETURN_IF_ERROR(from("--host-cache", host_cache_mb, 0, kMost));
  SURETY_RETURN_IF_ERROR(from("--disk-cache-size", disk_cache_mb, 0, kMost));
  SURETY_RETURN_IF_ERROR(from("--cache-floor", cache_floor_pages, 0, kMost));
  SURETY_RETURN_IF_ERROR(from("--port", port, 0, 65535));
  SURETY_RETURN_IF_ERROR(from("--admin-port", admin_port.value_or(0), 0, 65535));
  SURETY_RETURN_IF_ERROR(from("--io-threads", io_threads, 1, 64));
  SURETY_RETURN_IF_ERROR(from("--max-connections", max_connections, 1, 1'000'000));
  const auto seconds = [](std::string_view flag, double value) {
    if (value >= 0 && value <= 31'536'000) return OkStatus();
    return Wrong(flag, fmt::format("{}", value), "a number of seconds from 0 to 31536000");
  };
  SURETY_RETURN_IF_ERROR(seconds("--max-wait", max_wait_s));
  SURETY_RETURN_IF_ERROR(seconds("--cache-ttl", cache_ttl_s));
  SURETY_RETURN_IF_ERROR(seconds("--drain", drain_s));
  if (!disk_cache.empty() && (host_cache_mb == 0 || disk_cache_mb == 0)) {
    return InvalidArgumentError("--disk-cache: needs --disk-cache-size, and --host-cache, whose overflow it takes");
  }
  if (disk_cache.empty() && disk_cache_mb > 0) return InvalidArgumentError("--disk-cache-size: needs --disk-cache");
  if (tls_cert.empty() != tls_key.empty()) return InvalidArgumentError("--tls-cert and --tls-key go together");
  if (jwks.empty() && !(jwt_issuer.empty() && jwt_audience.empty())) {
    return InvalidArgumentError("--jwt-issuer and --jwt-audience: need --jwks");
  }
  if (!jwks.empty() && jwt_issuer.empty()) return InvalidArgumentError("--jwks: needs --jwt-issuer");
  return OkStatus();
}

Result<HostOptions> ServeFlags::MakeHostOptions() const {
  HostOptions options;
  options.threads = threads;
  options.kv_memory_bytes = kv_memory_mb * kMiB;
  options.model_budget_bytes = model_memory_mb * kMiB;
  options.unload_limit_ms = static_cast<int64_t>(drain_s * 1000);
  engine::BackendOptions& backend = options.backend;
  backend.max_waiting = queue;
  backend.max_waiting_per_tenant = tenant_queue;
  backend.max_queue_wait_ms = static_cast<int64_t>(max_wait_s * 1000);
  for (const std::string& text : tenant_weights) {
    SURETY_ASSIGN_OR_RETURN(const auto pair, Split("--tenant-weight", text));
    char* end = nullptr;
    const double weight = std::strtod(pair.second.c_str(), &end);
    if (*end != '\0' || !(weight > 0 && weight <= 1e6)) {
      return Error(Wrong("--tenant-weight", "'" + pair.second + "'", "a number above 0 and at most 1000000"));
    }
    backend.tenant_weights[pair.first] = weight;
  }
  engine::EngineOptions& e = backend.engine;
  e.context_tokens = kv.ctx;
  e.page_tokens = kv.page_tokens;
  SURETY_ASSIGN_OR_RETURN(e.kv_type, kv.Type());
  e.max_sequences = parallel;
  e.max_rows = chunk;
  e.itl_target_ms = itl_target_ms;
  e.speculation = speculation.Options();
  e.host_cache_bytes = host_cache_mb * kMiB;
  e.disk_cache_folder = disk_cache;
  e.disk_cache_bytes = disk_cache_mb * kMiB;
  e.cache_policy.ttl_ns = SecondsToNanos(cache_ttl_s);
  e.cache_policy.zero_on_release = zero_kv;
  e.cache_policy.floor_pages = cache_floor_pages;
  return options;
}

Result<http::ServerOptions> ServeFlags::MakeServerOptions() const {
  http::ServerOptions options;
  options.io_threads = io_threads;
  options.limits.max_connections = max_connections;
  if (!tls_cert.empty()) options.tls = http::TlsOptions{tls_cert, tls_key};
  options.cors_origins = cors_origins;
  SURETY_RETURN_IF_ERROR(options.Validate());
  return options;
}

Result<std::unique_ptr<http::Authenticator>> ServeFlags::MakeAuthenticator() const {
  http::KeyRing keys;
  if (!api_keys.empty()) {
    SURETY_ASSIGN_OR_RETURN(keys, http::KeyRing::Load(FileSystem::Real(), api_keys));
  }
  if (const char* plain = std::getenv("SURETY_API_KEY"); plain != nullptr && *plain != '\0') {
    http::Identity identity;
    identity.role = http::Role::kUser;
    identity.subject = "SURETY_API_KEY";
    identity.scope.tenant = "local";
    if (const Status status = keys.AddPlain(plain, identity); !status.ok()) {
      return Error(status.WithContext("$SURETY_API_KEY"));
    }
  }
  std::optional<http::JwtVerifier> tokens;
  if (!jwks.empty()) {
    SURETY_ASSIGN_OR_RETURN(const std::string text, FileSystem::Real().ReadAll(jwks, 1 << 20));
    SURETY_ASSIGN_OR_RETURN(auto set, http::Jwks::Parse(text, jwks));
    http::JwtOptions options;
    options.issuer = jwt_issuer;
    options.audience = jwt_audience;
    SURETY_ASSIGN_OR_RETURN(tokens, http::JwtVerifier::Make(std::move(set), options, Clock::Real()));
  }
  if (keys.empty() && !tokens) return nullptr;
  return std::make_unique<http::Authenticator>(std::move(keys), std::move(tokens), Clock::Real());
}

}  // namespace surety::cli
