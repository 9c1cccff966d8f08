// surety forget, surety replay, surety policy: what an operator asks of a governed server, over its administrative
// listener.
#include <cstdlib>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "gateway/http_client.h"

namespace surety::cli {
namespace {

namespace json = boost::json;

// Where the server is and who asks.
struct AdminFlags {
  std::string url, key;
  bool json = false;

  void Declare(Flags& flags) {
    flags.Group("Server");
    flags.Add("--url", url, "its administrative listener, e.g. http://127.0.0.1:8081 (serve --admin-port)");
    flags.Add("--key", key, "an administrator's key; default: $SURETY_API_KEY");
    flags.Group("Output");
    flags.Add("--json", json, "the server's answer as it is");
  }

  Result<json::object> Call(const std::string& method, const std::string& path, const json::object& body) const {
    if (url.empty()) return Error(InvalidArgumentError("--url: name the server's administrative listener"));
    gateway::HttpCall call;
    call.method = method;
    call.url = url + path;
    call.headers.emplace_back("Content-Type", "application/json");
    const char* from_environment = std::getenv("SURETY_API_KEY");
    const std::string used = !key.empty() ? key : from_environment == nullptr ? "" : from_environment;
    if (!used.empty()) call.headers.emplace_back("Authorization", "Bearer " + used);
    if (method == "POST") call.body = json::serialize(body);
    call.deadline_ns = Clock::Real().NowNanos() + 600'000'000'000;
    call.stop = [] { return Interrupted(); };
    SURETY_ASSIGN_OR_RETURN(const gateway::HttpReply reply, gateway::CallHttp(call));
    boost::system::error_code failed;
    json::value parsed = json::parse(reply.body, failed);
    if (failed || !parsed.is_object()) {
      return Error(UnavailableError(fmt::format("{} answered {} without a JSON object; is this the administrative "
                                                "listener?", url, reply.status)));
    }
    if (reply.status == 200) return std::move(parsed.get_object());
    const json::value* error = parsed.get_object().if_contains("error");
    const json::value* message = error != nullptr && error->is_object() ? error->get_object().if_contains("message")
                                                                        : nullptr;
    return Error(UnavailableError(fmt::format("{} answered {}: {}", url, reply.status,
                                              message != nullptr && message->is_string()
                                                  ? std::string(message->get_string()) : reply.body)));
  }
};

// Members that are no objects, a line each.
void PrintMembers(const json::object& object) {
  for (const auto& member : object) {
    if (member.key() == "object" || member.value().is_structured()) continue;
    const std::string value = member.value().is_string() ? std::string(member.value().get_string())
                                                         : json::serialize(member.value());
    Print("{:<18} {}\n", std::string(member.key()), value);
  }
}

int Report(const AdminFlags& flags, const Result<json::object>& answer) {
  if (!answer) {
    return answer.error().code() == StatusCode::kInvalidArgument ? ReportUsage(answer.error())
                                                                 : ReportFailure(answer.error());
  }
  if (flags.json) {
    PrintText(json::serialize(*answer) + "\n");
  } else {
    PrintMembers(*answer);
  }
  return kExitOk;
}

class ForgetCommand final : public Command {
 public:
  std::string name() const override { return "forget"; }
  std::string summary() const override { return "erase a subject from a governed server, with a receipt"; }
  std::string examples() const override {
    return "  surety forget --tenant acme --subject anna --url http://127.0.0.1:8081\n"
           "  surety forget --decision dec_01jdv... --url http://127.0.0.1:8081   # a wrong answer, from the cache";
  }
  void Declare(Flags& flags) override {
    flags.Group("What");
    flags.Add("--tenant", tenant_, "of the subject");
    flags.Add("--subject", subject_, "whose answers, vectors, KV, drafts, review tickets and texts in the log go");
    flags.Add("--decision", decision_, "instead: the cached answer of this decision, which is never cached again");
    server_.Declare(flags);
  }
  int Run() override {
    if (!decision_.empty() && (!tenant_.empty() || !subject_.empty())) {
      return ReportUsage(InvalidArgumentError("--decision goes without --tenant and --subject"));
    }
    if (!decision_.empty()) return Report(server_, server_.Call("POST", "/admin/cache/forget", {{"decision", decision_}}));
    if (tenant_.empty() || subject_.empty()) {
      return ReportUsage(InvalidArgumentError("--tenant and --subject: say whose data goes, or give --decision"));
    }
    return Report(server_, server_.Call("POST", "/admin/forget-subject", {{"tenant", tenant_}, {"subject", subject_}}));
  }

 private:
  std::string tenant_, subject_, decision_;
  AdminFlags server_;
};

class ReplayCommand final : public Command {
 public:
  std::string name() const override { return "replay"; }
  std::string summary() const override { return "compute a decision's answer again from its audit row, and compare"; }
  std::string examples() const override { return "  surety replay dec_01jdv... --url http://127.0.0.1:8081"; }
  void Declare(Flags& flags) override {
    flags.Positional("DECISION", decision_, true, "its id, from x-surety-decision-id");
    server_.Declare(flags);
  }
  int Run() override {
    const auto answer = server_.Call("POST", "/admin/replay", {{"decision", decision_}});
    const int code = Report(server_, answer);
    if (code != kExitOk) return code;
    const json::value* same = answer->if_contains("same");
    if (same != nullptr && same->is_bool() && same->get_bool()) return kExitOk;
    return ReportFailure(DataLossError("the answer computed now differs from the one recorded"));
  }

 private:
  std::string decision_;
  AdminFlags server_;
};

class PolicyCommand final : public Command {
 public:
  std::string name() const override { return "policy"; }
  std::string summary() const override { return "show the policy that a server has in force, or reload it"; }
  std::string examples() const override {
    return "  surety policy --url http://127.0.0.1:8081\n"
           "  surety policy --reload --url http://127.0.0.1:8081";
  }
  void Declare(Flags& flags) override {
    flags.Group("What");
    flags.Add("--reload", reload_, "read the file again; with a fault in it the one in force stays");
    server_.Declare(flags);
  }
  int Run() override {
    if (reload_) return Report(server_, server_.Call("POST", "/admin/policy/reload", {}));
    return Report(server_, server_.Call("GET", "/admin/policy", {}));
  }

 private:
  bool reload_ = false;
  AdminFlags server_;
};

}  // namespace

std::vector<std::unique_ptr<Command>> MakeGovernanceCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<ForgetCommand>());
  commands.push_back(std::make_unique<ReplayCommand>());
  commands.push_back(std::make_unique<PolicyCommand>());
  return commands;
}

}  // namespace surety::cli
