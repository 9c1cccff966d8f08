// surety slo: what a running server's ledger says about its objectives, its costs and its routes.
#include <cstdlib>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "gateway/http_client.h"

namespace surety::cli {
namespace {

using boost::json::value;

// A report of another version may lack a member: then there is nothing to show in its place.
const value* At(const value& json, std::string_view pointer) {
  boost::system::error_code error;
  return json.find_pointer(pointer, error);
}

std::string TextAt(const value& json, std::string_view pointer) {
  const value* found = At(json, pointer);
  if (found == nullptr || !found->is_string()) return "-";
  std::string text(found->get_string());
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return text;
}

template <typename F>
std::string NumberAt(const value& json, std::string_view pointer, F format) {
  const value* found = At(json, pointer);
  return found != nullptr && found->is_number() ? format(found->to_number<double>()) : "-";
}

std::string CountAt(const value& json, std::string_view pointer) {
  return NumberAt(json, pointer, [](double n) { return fmt::format("{:.0f}", n); });
}
std::string ShareAt(const value& json, std::string_view pointer) {
  return NumberAt(json, pointer, [](double x) { return fmt::format("{:.1f} %", 100 * x); });
}
std::string SecondsAt(const value& json, std::string_view pointer) {
  return NumberAt(json, pointer, [](double x) {
    return x < 1 ? fmt::format("{:.0f} ms", 1e3 * x) : fmt::format("{:.2f} s", x);
  });
}
std::string MoneyAt(const value& json, std::string_view pointer) {
  return NumberAt(json, pointer, [](double x) { return fmt::format("{:.4g}", x); });
}
std::string RateAt(const value& json, std::string_view pointer) {
  return NumberAt(json, pointer, [](double x) { return fmt::format("{:.2f}", x); });
}

const boost::json::array& ListAt(const value& json, std::string_view name) {
  static const boost::json::array none;
  const value* found = json.is_object() ? json.get_object().if_contains(name) : nullptr;
  return found != nullptr && found->is_array() ? found->get_array() : none;
}

class SloCommand final : public Command {
 public:
  std::string name() const override { return "slo"; }
  std::string summary() const override { return "objectives, burn rates and costs of a governed server"; }
  std::string examples() const override {
    return "  surety slo --url http://127.0.0.1:8081\n"
           "  SURETY_ADMIN_KEY=... surety slo --url https://gateway:8081 --key-env SURETY_ADMIN_KEY --window 6h";
  }
  void Declare(Flags& flags) override {
    flags.Add("--url", url_, "the server's administration address (--admin-port of surety serve)");
    flags.Add("--key", key_, "a key of the role admin; other users of this machine may see it: better --key-env");
    flags.Add("--key-env", key_env_, "the environment variable that holds the key");
    flags.Add("--ca-file", ca_file_, "further trusted certificates, PEM");
    flags.Add("--window", window_, "of the routes' table: 5m, 1h, 6h or start");
    flags.Add("--timeout", timeout_s_, "seconds that the server has to answer");
    flags.Add("--json", json_, "the server's report as it is");
  }

  int Run() override {
    if (url_.empty()) return ReportUsage(InvalidArgumentError("--url: name the server's administration address"));
    if (window_ != "5m" && window_ != "1h" && window_ != "6h" && window_ != "start") {
      return ReportUsage(InvalidArgumentError(fmt::format("--window: '{}' is none of 5m, 1h, 6h, start", window_)));
    }
    if (!(timeout_s_ > 0 && timeout_s_ <= 3600)) {
      return ReportUsage(InvalidArgumentError("--timeout: from above 0 to 3600 seconds"));
    }
    if (!key_env_.empty()) {
      const char* key = std::getenv(key_env_.c_str());
      if (key == nullptr) return ReportUsage(InvalidArgumentError(fmt::format("--key-env: {} is not set", key_env_)));
      key_ = key;
    }
    const auto report = Fetch();
    if (!report) return ReportFlagFault(report.error());
    if (json_) {
      PrintJson(*report);
    } else {
      PrintObjectives(*report);
      PrintRoutes(*report);
      PrintRest(*report);
    }
    return kExitOk;
  }

 private:
  Result<value> Fetch() const {
    gateway::HttpCall call;
    call.url = url_;
    while (call.url.ends_with('/')) call.url.pop_back();
    call.url += "/admin/slo";
    if (!key_.empty()) call.headers.emplace_back("Authorization", "Bearer " + key_);
    call.deadline_ns = Clock::Real().NowNanos() + SecondsToNanos(timeout_s_);
    call.ca_file = ca_file_;
    call.stop = [] { return Interrupted(); };
    SURETY_ASSIGN_OR_RETURN(const gateway::HttpReply reply, gateway::CallHttp(call));
    if (reply.status == 401 || reply.status == 403) {
      return Error({StatusCode::kPermissionDenied,
                    fmt::format("{} answered {}: give a key of the role admin with --key-env", call.url, reply.status)});
    }
    if (reply.status == 404) {
      return Error(NotFoundError(fmt::format("{} answered 404: a server without a policy has no ledger, or this is not "
                                             "its administration address", call.url)));
    }
    if (reply.status != 200) return Error(UnavailableError(fmt::format("{} answered {}", call.url, reply.status)));
    boost::system::error_code error;
    value report = boost::json::parse(reply.body, error);
    if (error || !report.is_object()) return Error(DataLossError(fmt::format("{}: the answer is no report", call.url)));
    return report;
  }

  static void PrintObjectives(const value& report) {
    Print("policy {} {}, up {}\n\n", TextAt(report, "/policy/id"), TextAt(report, "/policy/version"),
          NumberAt(report, "/uptime_seconds", HumanSeconds));
    if (ListAt(report, "objectives").empty()) {
      PrintText("The policy has no objectives (slo:).\n\n");
      return;
    }
    Print("{:<20} {:<12} {:>9} {:>9}  {:>8} {:>8} {:>8}  {:>11}  {}\n", "route", "objective", "limit", "now", "burn 5m",
          "1h", "6h", "budget left", "alert");
    for (const value& objective : ListAt(report, "objectives")) {
      Print("{:<20} {:<12} {:>9} {:>9}  {:>8} {:>8} {:>8}  {:>11}  {}\n", TextAt(objective, "/route"),
            TextAt(objective, "/objective"), SecondsAt(objective, "/limit_seconds"), SecondsAt(objective, "/seconds"),
            RateAt(objective, "/burn/5m/rate"), RateAt(objective, "/burn/1h/rate"), RateAt(objective, "/burn/6h/rate"),
            ShareAt(objective, "/budget_left"), TextAt(objective, "/alert"));
    }
    PrintText("\n");
  }

  void PrintRow(const std::string& route, const value& entry) const {
    const std::string at = "/windows/" + window_;
    Print("{:<20} {:>9} {:>8} {:>9} {:>11} {:>9} {:>9} {:>9} {:>8} {:>9}\n", route, CountAt(entry, at + "/decisions"),
          ShareAt(entry, at + "/share"), ShareAt(entry, at + "/acceptance"),
          MoneyAt(entry, at + "/cost/per_accepted_task"), ShareAt(entry, at + "/response_cache/hit_rate"),
          ShareAt(entry, at + "/verifiers/pass_rate"), CountAt(entry, at + "/people/escalations"),
          CountAt(entry, at + "/failed"), SecondsAt(entry, "/latency/total/p95_seconds"));
  }

  void PrintRoutes(const value& report) const {
    Print("{:<20} {:>9} {:>8} {:>9} {:>11} {:>9} {:>9} {:>9} {:>8} {:>9}\n", "route, " + window_, "decisions", "share",
          "accepted", TextAt(report, "/currency") + "/task", "cache hit", "checks ok", "to people", "failed", "p95 (1h)");
    for (const value& route : ListAt(report, "routes")) PrintRow(TextAt(route, "/route"), route);
    if (const value* all = At(report, "/all")) PrintRow("all", *all);
  }

  static void PrintRest(const value& report) {
    if (!ListAt(report, "fallbacks").empty()) PrintText("\n");
    for (const value& fallback : ListAt(report, "fallbacks")) {
      Print("fallback {} -> {} ({}): {}\n", TextAt(fallback, "/from"), TextAt(fallback, "/to"),
            TextAt(fallback, "/cause"), CountAt(fallback, "/count"));
    }
  }

  std::string url_, key_, key_env_, ca_file_, window_ = "1h";
  double timeout_s_ = 10;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeSloCommand() { return std::make_unique<SloCommand>(); }

}  // namespace surety::cli
