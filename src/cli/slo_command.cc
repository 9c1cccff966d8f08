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
const value* SloMember(const value& json, std::string_view pointer) {
  boost::system::error_code error;
  return json.find_pointer(pointer, error);
}

std::string SloText(const value& json, std::string_view pointer) {
  const value* found = SloMember(json, pointer);
  if (found == nullptr || !found->is_string()) return "-";
  std::string text(found->get_string());
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return text;
}

template <typename F>
std::string SloNumber(const value& json, std::string_view pointer, F format) {
  const value* found = SloMember(json, pointer);
  return found != nullptr && found->is_number() ? format(found->to_number<double>()) : "-";
}

std::string SloCount(const value& json, std::string_view pointer) {
  return SloNumber(json, pointer, [](double n) { return fmt::format("{:.0f}", n); });
}
std::string SloShare(const value& json, std::string_view pointer) {
  return SloNumber(json, pointer, [](double x) { return fmt::format("{:.1f} %", 100 * x); });
}
std::string SloSeconds(const value& json, std::string_view pointer) {
  return SloNumber(json, pointer, [](double x) {
    return x < 1 ? fmt::format("{:.0f} ms", 1e3 * x) : fmt::format("{:.2f} s", x);
  });
}
std::string SloMoney(const value& json, std::string_view pointer) {
  return SloNumber(json, pointer, [](double x) { return fmt::format("{:.4g}", x); });
}
std::string SloRate(const value& json, std::string_view pointer) {
  return SloNumber(json, pointer, [](double x) { return fmt::format("{:.2f}", x); });
}

const boost::json::array& SloList(const value& json, std::string_view name) {
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
    call.tls.ca_file = ca_file_;
    call.stop = [] { return Interrupted(); };
    SURETY_ASSIGN_OR_RETURN(const gateway::HttpReply reply, gateway::CallHttp(call));
    if (reply.status == 401 || reply.status == 403) {
      return Error({StatusCode::kPermissionDenied,
                    fmt::format("{} answered {}: give a key of the role admin (--key-env)", call.url, reply.status)});
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
    Print("policy {} {}, up {}\n\n", SloText(report, "/policy/id"), SloText(report, "/policy/version"),
          SloNumber(report, "/uptime_seconds", HumanSeconds));
    if (SloList(report, "objectives").empty()) {
      PrintText("The policy has no objectives (slo:).\n\n");
      return;
    }
    constexpr auto kRow = "{:<20} {:<12} {:>9} {:>9}  {:>8} {:>8} {:>8}  {:>11}  {}\n";
    Print(kRow, "route", "objective", "limit", "now", "burn 5m", "1h", "6h", "budget left", "alert");
    for (const value& objective : SloList(report, "objectives")) {
      Print(kRow, SloText(objective, "/route"), SloText(objective, "/objective"),
            SloSeconds(objective, "/limit_seconds"), SloSeconds(objective, "/seconds"),
            SloRate(objective, "/burn/5m/rate"), SloRate(objective, "/burn/1h/rate"),
            SloRate(objective, "/burn/6h/rate"), SloShare(objective, "/budget_left"), SloText(objective, "/alert"));
    }
    PrintText("\n");
  }

  void PrintRow(const std::string& route, const value& entry) const {
    const std::string at = "/windows/" + window_;
    Print("{:<20} {:>9} {:>8} {:>9} {:>11} {:>9} {:>9} {:>9} {:>8} {:>9}\n", route, SloCount(entry, at + "/decisions"),
          SloShare(entry, at + "/share"), SloShare(entry, at + "/acceptance"),
          SloMoney(entry, at + "/cost/per_accepted_task"), SloShare(entry, at + "/response_cache/hit_rate"),
          SloShare(entry, at + "/verifiers/pass_rate"), SloCount(entry, at + "/people/escalations"),
          SloCount(entry, at + "/failed"), SloSeconds(entry, "/latency/total/p95_seconds"));
  }

  void PrintRoutes(const value& report) const {
    Print("{:<20} {:>9} {:>8} {:>9} {:>11} {:>9} {:>9} {:>9} {:>8} {:>9}\n", "route, " + window_, "decisions", "share",
          "accepted", SloText(report, "/currency") + "/task", "cache hit", "checks ok", "to people", "failed",
          "p95 (1h)");
    for (const value& route : SloList(report, "routes")) PrintRow(SloText(route, "/route"), route);
    if (const value* all = SloMember(report, "/all")) PrintRow("all", *all);
  }

  static void PrintRest(const value& report) {
    if (!SloList(report, "fallbacks").empty()) PrintText("\n");
    for (const value& fallback : SloList(report, "fallbacks")) {
      Print("fallback {} -> {} ({}): {}\n", SloText(fallback, "/from"), SloText(fallback, "/to"),
            SloText(fallback, "/cause"), SloCount(fallback, "/count"));
    }
  }

  std::string url_, key_, key_env_, ca_file_, window_ = "1h";
  double timeout_s_ = 10;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeSloCommand() { return std::make_unique<SloCommand>(); }

}  // namespace surety::cli
