// surety serve: the OpenAI-compatible server.
#include <poll.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/worker_pool.h"
#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/governed_serving.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/serve_options.h"
#include "http/admin_routes.h"
#include "http/governance_routes.h"
#include "http/openai_api.h"
#include "http/ops_routes.h"
#include "http/server.h"

namespace surety::cli {
namespace {

constexpr int64_t kTraceFlushMs = 2000;  // for spans that wait when the server ends

// The worst of the models': a server is ready when all are.
api::Health WorstHealth(const http::ModelRegistry& models) {
  api::Health worst = api::Health::kReady;
  for (const auto& model : models.List()) worst = std::max(worst, model.backend->health());
  return worst;
}

class ServeCommand final : public Command {
 public:
  std::string name() const override { return "serve"; }
  std::string summary() const override { return "serve models over an OpenAI-compatible API"; }
  std::string examples() const override {
    return "  surety serve\n"
           "  surety serve -m smollm2-135m-instruct --port 0 --json\n"
           "  surety serve -m qwen2.5-coder-0.5b-instruct --embedding-model all-MiniLM-L6-v2 --parallel 32\n"
           "  surety serve --host 0.0.0.0 --api-keys keys.jsonl --tls-cert cert.pem --tls-key key.pem";
  }
  void Declare(Flags& flags) override { flags_.Declare(flags); }

  int Run() override {
    if (const Status status = flags_.Validate(); !status.ok()) return ReportUsage(status);
    auto host_options = flags_.MakeHostOptions();
    if (!host_options) return ReportUsage(host_options.error());
    auto authenticator = flags_.MakeAuthenticator();
    if (!authenticator) return ReportFailure(authenticator.error());
    auto server_options = flags_.MakeServerOptions();
    if (!server_options) return ReportUsage(server_options.error());

    metrics_ = observe::Registry::Make();
    auto tracing = flags_.trace.MakeTracing(*metrics_, [this](const std::string& problem) {
      const std::lock_guard lock(log_mutex_);
      PrintError("traces: {}\n", problem);
    });
    if (!tracing) return ReportUsage(tracing.error());
    tracing_ = *std::move(tracing);
    models_ = std::make_shared<http::ModelRegistry>();
    host_ = std::make_unique<ModelHost>(*host_options, models_, *metrics_);
    if (const Status status = LoadModels(*host_options); !status.ok()) return ReportFailure(status);
    workers_ = std::make_unique<WorkerPool>(2, 4096);
    slow_workers_ = std::make_unique<WorkerPool>(2, 256);
    admin_workers_ = std::make_unique<WorkerPool>(1, 256);

    http::Server::Dependencies dependencies;
    dependencies.metrics = metrics_.get();
    dependencies.clock = &Clock::Real();
    dependencies.authenticator = authenticator->get();
    if (flags_.access_log) {
      dependencies.access_log = [this](std::string_view line) {
        const std::lock_guard lock(log_mutex_);
        PrintErrorText(std::string(line) + "\n");
      };
    }
    auto server = http::Server::Start(*std::move(server_options), Listeners(), dependencies);
    if (!server) return ReportFailure(server.error());
    InstallReloadHandler();
    Announce(**server, authenticator->get() != nullptr);
    WaitForInterrupt();
    return ShutDown(**server);
  }

 private:
  Status LoadModels(const HostOptions& host_options) {
    DraftFlags drafts = flags_.speculation.Drafts();  // for the first model, which is the default
    for (const std::string& model : flags_.policy.empty() ? flags_.models : std::vector<std::string>()) {
      SURETY_ASSIGN_OR_RETURN(auto report, host_->Load(model, "", drafts));
      SURETY_ASSIGN_OR_RETURN(drafts, flags_.speculation.DraftsOf("", ""));
      loaded_.push_back(std::move(report));
    }
    for (const std::string& model : flags_.embedding_models) {
      SURETY_ASSIGN_OR_RETURN(auto report, host_->Load(model, ""));
      const auto found = models_->Find(std::string(report["model"].as_string()));
      if (found && !found->backend->description().embeds) {
        return InvalidArgumentError("--embedding-model: '" + model + "' is no encoder; give it with -m");
      }
      loaded_.push_back(std::move(report));
    }
    if (!flags_.policy.empty()) SURETY_RETURN_IF_ERROR(OpenGovernance(host_options));
    for (const std::string& text : flags_.aliases) {
      const size_t at = text.find('=');
      if (at == std::string::npos) {
        return InvalidArgumentError("--alias: '" + text + "' must have the form ALIAS=NAME");
      }
      const Status status = models_->AddAlias(text.substr(0, at), text.substr(at + 1));
      if (!status.ok()) return status.WithContext("--alias");
    }
    return OkStatus();
  }

  // The policy's models are in a registry of their own; requests see the governed one, and encoders.
  Status OpenGovernance(const HostOptions& host_options) {
    GovernedServing::Options options;
    options.policy = flags_.policy;
    options.host = host_options;
    options.speculation = flags_.speculation;
    options.kept_kv = !flags_.disk_cache.empty();
    for (const auto& model : models_->List()) {
      if (options.embedder == nullptr && model.backend->description().embeds) options.embedder = model.backend;
    }
    SURETY_ASSIGN_OR_RETURN(governed_, GovernedServing::Open(std::move(options), *metrics_));
    for (const auto& report : governed_->loaded()) loaded_.push_back(report);
    const auto backend = governed_->governance().backend();
    return models_->Add(backend->description().name, backend);
  }

  std::vector<http::ListenerOptions> Listeners() {
    http::OpsRoutesOptions ops;
    ops.health = [models = models_] { return WorstHealth(*models); };
    if (governed_ != nullptr) {
      ops.alarms = [backend = std::weak_ptr(governed_->governance().backend())]() -> std::vector<std::string> {
        const auto governed = backend.lock();
        std::vector<std::string> alarms;
        if (governed != nullptr && governed->cross_partition_hits() > 0) alarms.push_back("cross_partition_hits");
        if (governed != nullptr && governed->decisions_without_row() > 0) alarms.push_back("decisions_without_row");
        return alarms;
      };
    }
    ops.metrics = metrics_.get();
    ops.version = SURETY_VERSION;
    http::OpenAiOptions openai;
    openai.models = models_;
    openai.post = workers_->AsPostTask();
    openai.post_slow = slow_workers_->AsPostTask();
    openai.tracer = tracing_.tracer.get();
    http::ListenerOptions api;
    api.host = flags_.host;
    api.port = flags_.port;
    api.routes = http::OpsRoutes(ops);
    for (http::Route& route : http::OpenAiRoutes(std::move(openai))) api.routes.push_back(std::move(route));
    if (governed_ != nullptr) {
      auto routes = http::GovernanceRoutes(governed_->governance(), slow_workers_->AsPostTask());
      for (http::Route& route : routes) api.routes.push_back(std::move(route));
    }
    std::vector<http::ListenerOptions> listeners = {std::move(api)};
    if (flags_.admin_port) {
      http::ListenerOptions admin;
      admin.name = "admin";
      admin.host = flags_.host;
      admin.port = *flags_.admin_port;
      admin.open_role = http::Role::kAdmin;
      admin.routes = http::OpsRoutes(ops);
      http::AdminOptions actions;
      actions.models = models_;
      actions.post = admin_workers_->AsPostTask();
      if (governed_ == nullptr) {  // else a model that the policy does not name would be served beside it
        actions.load = [this](const http::LoadRequest& wanted) -> Result<boost::json::object> {
          SURETY_ASSIGN_OR_RETURN(const DraftFlags drafts,
                                  flags_.speculation.DraftsOf(wanted.draft_model, wanted.draft_head));
          return host_->Load(wanted.model, wanted.name, drafts);
        };
        actions.unload = [this](const std::string& name) { return host_->Unload(name); };
      }
      for (http::Route& route : http::AdminRoutes(std::move(actions))) admin.routes.push_back(std::move(route));
      if (governed_ != nullptr) {
        auto routes = http::GovernanceAdminRoutes(governed_->governance(), admin_workers_->AsPostTask());
        for (http::Route& route : routes) admin.routes.push_back(std::move(route));
      }
      listeners.push_back(std::move(admin));
    }
    return listeners;
  }

  void Announce(const http::Server& server, bool has_keys) {
    const std::string url = server.url("api");
    if (flags_.json) {
      boost::json::object out;
      out["url"] = url;
      out["port"] = server.port("api");
      if (flags_.admin_port) out["admin_url"] = server.url("admin");
      out["models"] = loaded_;
      out["authentication"] = has_keys;
      PrintText(boost::json::serialize(out) + "\n");
      FlushOutput();
    }
    for (const auto& value : loaded_) {
      const boost::json::object& model = value.as_object();
      PrintError("{}: {} with KV, context {} tokens, loaded in {}\n", std::string(model.at("model").as_string()),
                 HumanBytes(model.at("memory_bytes").to_number<int64_t>()),
                 model.at("context_tokens").to_number<int64_t>(),
                 HumanSeconds(model.at("load_seconds").to_number<double>()));
    }
    PrintError("listening on {}  (OpenAI API under {}/v1{})\n", url, url,
               has_keys ? ", with keys" : "; no keys: this machine only");
    if (flags_.admin_port) PrintError("administration on {}/admin\n", server.url("admin"));
    PrintError("Ctrl-C ends it: running answers have {} to finish, a second Ctrl-C cuts them off.\n",
               HumanSeconds(flags_.drain_s));
  }

  void WaitForInterrupt() {
    while (!Interrupted()) {
      if (TakeReload()) Reload();
      pollfd wait = {InterruptDescriptor(), POLLIN, 0};
      poll(&wait, 1, 1000);
      ForgetWakeUps();
    }
  }

  // SIGHUP: as POST /admin/policy/reload.
  void Reload() {
    if (governed_ == nullptr) return Log("SIGHUP: there is no policy to read again; nothing has changed\n");
    const auto now = governed_->governance().Reload();
    if (!now) {
      return Log(fmt::format("SIGHUP: the policy was not reloaded, the one before stays in force: {}\n",
                             now.error().message()));
    }
    Log(fmt::format("SIGHUP: policy {} {} is in force, digest {}, {}\n", std::string(now->at("policy").as_string()),
                    std::string(now->at("version").as_string()), std::string(now->at("digest").as_string()),
                    now->at("changed").as_bool() ? "changed" : "the same as before"));
  }

  void Log(const std::string& line) {
    const std::lock_guard lock(log_mutex_);
    PrintErrorText(line);
  }

  void DrainModels(int64_t limit_ms) {
    if (governed_ != nullptr) governed_->Drain(limit_ms);
    host_->Drain(limit_ms);
  }

  int ShutDown(http::Server& server) {
    ClearInterrupt();
    PrintError("ending: no new requests\n");
    std::atomic<bool> done{false};
    std::thread drain([&] {
      DrainModels(static_cast<int64_t>(flags_.drain_s * 1000));
      server.Stop(2000);
      done = true;
    });
    while (!done) {
      if (Interrupted()) {
        ClearInterrupt();
        DrainModels(0);
      }
      pollfd wait = {InterruptDescriptor(), POLLIN, 0};
      poll(&wait, 1, 20);
    }
    drain.join();
    workers_.reset();  // no handler runs any more; what they hold ends, and is traced
    slow_workers_.reset();
    admin_workers_.reset();
    if (tracing_.exporter) tracing_.exporter->Shutdown(kTraceFlushMs);
    return kExitOk;
  }

  ServeFlags flags_;
  std::mutex log_mutex_;
  boost::json::array loaded_;
  std::unique_ptr<observe::Registry> metrics_;   // outlives all that counts
  Tracing tracing_;                              // outlives all that is traced
  std::shared_ptr<http::ModelRegistry> models_;
  std::unique_ptr<ModelHost> host_;
  std::unique_ptr<GovernedServing> governed_;    // null: requests are not governed
  std::unique_ptr<WorkerPool> workers_, slow_workers_, admin_workers_;
};

}  // namespace

std::unique_ptr<Command> MakeServeCommand() { return std::make_unique<ServeCommand>(); }

}  // namespace surety::cli
