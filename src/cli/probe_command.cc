// surety probe: whether one caller of a server can tell what another one has sent, by its prefix cache.
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/json_out.h"
#include "cli/output.h"
#include "cli/probe_run.h"
#include "cli/probe_verdict.h"
#include "cli/progress.h"

namespace surety::cli {
namespace {

class ProbeCommand final : public Command {
 public:
  std::string name() const override { return "probe"; }
  std::string summary() const override { return "look whether a server's prefix cache leaks from one key to another"; }
  std::string examples() const override {
    return "  surety probe --url http://host:8000 --key KEY_OF_A --other-key KEY_OF_B\n"
           "  SURETY_PROBE_KEY=... SURETY_PROBE_OTHER_KEY=... surety probe --rounds 100 --json";
  }

  void Declare(Flags& flags) override {
    flags.Group("Server");
    flags.Add("--url", options_.target.url, "where it is: http://HOST:PORT or https://...; /v1 is added unless given");
    flags.Add("-m,--model", options_.model, "model to ask for; without it the first that the server lists");
    flags.Add("--key", options_.target.api_key, "the first caller's API key; else $SURETY_PROBE_KEY");
    flags.Add("--other-key", options_.other_key, "the other caller's; else $SURETY_PROBE_OTHER_KEY");
    flags.Add("--endpoint", options_.endpoint, "completions (/v1/completions) or chat (/v1/chat/completions)");
    flags.Add("--ca-file", options_.target.ca_file, "certificates to trust, PEM; else the system's");
    flags.Add("--insecure", options_.target.insecure, "do not check the server's certificate");
    flags.Add("--timeout", options_.target.timeout_s, "seconds after which a request has failed");
    flags.Group("What is sent");
    flags.Add("--rounds", options_.rounds, "rounds of up to eight requests each, from 12");
    flags.Add("--prompt-tokens", options_.prompt_tokens, "length of a prompt, about");
    flags.Add("--no-salt", no_salt_, "leave cache_salt out: only keys are tried");
    flags.Group("What is reported");
    flags.Add("--significance", significance_, "how often times may take a server without a leak for one with");
    flags.Add("--json", json_, "one JSON object");
  }

  int Run() override {
    FromEnvironment("SURETY_PROBE_KEY", options_.target.api_key);
    FromEnvironment("SURETY_PROBE_OTHER_KEY", options_.other_key);
    if (const Status status = Validate(); !status.ok()) return ReportUsage(status);
    options_.with_salt = !no_salt_;
    auto run = ProbeRun::Make(options_);
    if (!run) return ReportFlagFault(run.error());
    auto rounds = Measure(**run);
    if (!rounds) return ReportFailure(rounds.error());
    const ProbeReport report = JudgeProbe(*rounds, (*run)->with_salt(), significance_);
    if (json_) {
      boost::json::object out{{"version", SURETY_VERSION}, {"url", options_.target.url}, {"model", (*run)->model()}};
      out["prompt_tokens"] = rounds->front()[static_cast<size_t>(ProbeKind::kFresh)].prompt_tokens;
      for (auto& [key, value] : DescribeProbe(report)) out[key] = std::move(value);
      PrintJson(out);
    } else {
      PrintText(ValidJsonText(ProbeTable(report)));
    }
    switch (report.answer) {
      case ProbeAnswer::kNoLeak: return kExitOk;
      case ProbeAnswer::kLeak: return kExitLeak;
      case ProbeAnswer::kCannotTell: return kExitCannotTell;
    }
    return kExitFailure;
  }

 private:
  static void FromEnvironment(const char* variable, std::string& value) {
    const char* text = value.empty() ? std::getenv(variable) : nullptr;
    if (text != nullptr) value = text;
  }

  Status Validate() const {
    if (options_.target.api_key.empty() || options_.other_key.empty()) {
      return InvalidArgumentError("--key and --other-key: two callers are needed");
    }
    if (options_.target.api_key == options_.other_key) {
      return InvalidArgumentError("--other-key: is the same as --key, whose prompts it may see");
    }
    if (options_.endpoint != "completions" && options_.endpoint != "chat") {
      return InvalidArgumentError(fmt::format("--endpoint: '{}' is none of completions, chat", options_.endpoint));
    }
    if (options_.rounds < 12 || options_.rounds > 100'000) {
      return InvalidArgumentError(fmt::format("--rounds: {} is out of range, 12 to 100000", options_.rounds));
    }
    if (options_.prompt_tokens < 32 || options_.prompt_tokens > 1'000'000) {
      return InvalidArgumentError(
          fmt::format("--prompt-tokens: {} is out of range, 32 to 1000000", options_.prompt_tokens));
    }
    if (!(options_.target.timeout_s > 0 && options_.target.timeout_s <= 1e6)) {
      return InvalidArgumentError("--timeout: must be above 0 and at most 1000000");
    }
    // With 12 rounds the least p-value is 2^-11, and three comparisons share the significance.
    if (!(significance_ >= 0.002 && significance_ <= 0.5)) {
      return InvalidArgumentError("--significance: must be from 0.002 to 0.5");
    }
    return OkStatus();
  }

  Result<std::vector<ProbeRound>> Measure(ProbeRun& run) const {
    ProgressLine progress("probe", ProgressUnit::kCount, "rounds");
    return run.Run([&](int done) { progress.Update(done, options_.rounds); });
  }

  ProbeOptions options_;
  bool no_salt_ = false, json_ = false;
  double significance_ = 0.01;
};

}  // namespace

std::unique_ptr<Command> MakeProbeCommand() { return std::make_unique<ProbeCommand>(); }

}  // namespace surety::cli
