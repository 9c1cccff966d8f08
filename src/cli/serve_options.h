// The flags of surety serve.
//
// Errors: Validate and the Make functions: kInvalidArgument naming the flag; files as their readers state them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags.h"
#include "cli/model_host.h"
#include "cli/model_options.h"
#include "cli/trace_options.h"
#include "http/auth.h"
#include "http/server_options.h"

namespace surety::cli {

struct ServeFlags {
  ServeFlags();
  std::vector<std::string> models;            // the first is the default
  std::vector<std::string> embedding_models;
  std::vector<std::string> aliases;           // ALIAS=NAME
  std::string policy;                         // a policy file; empty: requests are not governed
  int threads = 0;
  std::string isa;
  KvFlags kv;
  SpeculationFlags speculation;

  int parallel = 16, queue = 256, tenant_queue = 0, chunk = 512, itl_target_ms = 0;
  double max_wait_s = 60;
  int kv_memory_mb = 0, model_memory_mb = 0, host_cache_mb = 0, disk_cache_mb = 0;
  std::string disk_cache;
  double cache_ttl_s = 0;
  int cache_floor_pages = 0;
  bool zero_kv = false;
  std::vector<std::string> tenant_weights;    // TENANT=WEIGHT

  std::string host = "127.0.0.1";
  int port = 8080;
  std::optional<int> admin_port;
  std::string api_keys, jwks, jwt_issuer, jwt_audience, tls_cert, tls_key;
  std::vector<std::string> cors_origins;
  int io_threads = 1, max_connections = 4096;
  double drain_s = 30;
  TraceFlags trace;
  bool access_log = false, json = false;

  void Declare(Flags& flags);
  Status Validate() const;

  Result<HostOptions> MakeHostOptions() const;
  Result<http::ServerOptions> MakeServerOptions() const;
  // Null where no keys and no tokens are configured. $SURETY_API_KEY is a user's key.
  Result<std::unique_ptr<http::Authenticator>> MakeAuthenticator() const;
};

}  // namespace surety::cli
