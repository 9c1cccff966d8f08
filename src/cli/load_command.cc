// surety load: requests to an OpenAI-compatible server at the times that a workload says, and what came of them.
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/load_capacity.h"
#include "cli/load_client.h"
#include "cli/load_html.h"
#include "cli/load_models.h"
#include "cli/load_options.h"
#include "cli/load_report.h"
#include "cli/load_run.h"
#include "cli/load_workload.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace surety::cli {
namespace {

class LoadCommand final : public Command {
 public:
  std::string name() const override { return "load"; }
  std::string summary() const override { return "send requests to a server at given times and measure its latency"; }
  std::string examples() const override {
    return "  surety load --rate 2 --duration 60 --warmup 10 --slo ttft_ms:500,itl_ms:50\n"
           "  surety load --url http://host:8000 --prompt-tokens lognormal:512:0.8 --rate 4 --report load.html\n"
           "  surety load --trace mooncake_conversation.jsonl --time-scale 10 --duration 300 --records requests.jsonl\n"
           "  surety load --system-prompts 4 --turns 5 --think-time exponential:3 --rate 0.5\n"
           "  surety load --find-capacity --slo ttft_ms:1000,tpot_ms:80 --duration 60 --warmup 10";
  }

  void Declare(Flags& flags) override { options_.Declare(flags); }

  int Run() override {
    if (const Status status = options_.Validate(); !status.ok()) return ReportUsage(status);
    const char* key = options_.api_key_env.empty() ? nullptr : std::getenv(options_.api_key_env.c_str());
    target_ = {options_.url, key == nullptr ? "" : key, options_.ca_file, options_.insecure, options_.timeout_s,
               options_.max_connections};
    auto model = Model();
    if (!model) return ReportFlagFault(model.error());
    model_ = *std::move(model);
    return options_.find_capacity ? RunCapacity() : RunOnce();
  }

 private:
  // The server's first, unless one is named.
  Result<std::string> Model() const {
    SURETY_ASSIGN_OR_RETURN(auto loop, LoadLoop::Make(target_));  // also: the address is good
    if (!options_.model.empty()) return options_.model;
    return FirstModelOf(*loop, options_.url);
  }

  Result<LoadResult> Measure(const LoadOptions& options, const Workload& workload, const std::string& label) {
    SURETY_ASSIGN_OR_RETURN(auto loop, LoadLoop::Make(target_));
    if (options.warm_connections > 0) loop->Warm(options.warm_connections);
    ProgressLine progress(label, ProgressUnit::kCount);
    LoadRun run(options, workload, model_, *loop);
    return run.Run([&](const LoadProgress& p) {
      std::string text = fmt::format("{}  {:.0f}", label, p.elapsed_s);
      if (p.total_s > 0) text += fmt::format(" of {:.0f}", p.total_s);
      text += fmt::format(" s  {} sent  {} in flight  {} done", p.sent, p.in_flight, p.completed);
      if (p.failed > 0) text += fmt::format("  {} failed", p.failed);
      text += fmt::format("  {:.0f} events/s", p.output_events_per_s);
      if (p.ttft_p50_ms > 0) text += fmt::format("  TTFT p50 {:.0f} ms", p.ttft_p50_ms);
      progress.UpdateText(text);
    });
  }

  int RunOnce() {
    auto workload = Workload::Make(options_);
    if (!workload) return ReportFlagFault(workload.error());
    auto result = Measure(options_, *workload, "load");
    if (!result) return ReportFailure(result.error());
    const LoadReport report{options_, *workload, model_, *result,
                            Summarise(result->records, result->window, options_.slos, options_.seed)};
    if (options_.json) {
      PrintJson(DescribeReport(report));
    } else {
      PrintText(ValidJsonText(TableOf(report)));
    }
    Status written = options_.records.empty() ? OkStatus() : WriteRecords(report, options_.records);
    if (written.ok() && !options_.report.empty()) {
      written = FileSystem::Real().WriteAll(options_.report, HtmlOf(report));
    }
    if (!written.ok()) return ReportFailure(written);
    if (result->interrupted) return ReportFailure(CancelledError("interrupted; the report is of what was measured"));
    for (const std::string& reason : report.summary.invalid) {
      ReportFailure(FailedPreconditionError("the run is invalid: " + reason + FirstErrorOf(report)));
    }
    return report.summary.invalid.empty() ? kExitOk : kExitFailure;
  }

  static std::string FirstErrorOf(const LoadReport& report) {
    if (report.summary.outcomes[static_cast<size_t>(LoadOutcome::kOk)] > 0) return {};
    for (const LoadRecord& record : report.result.records) {
      if (!record.error.empty()) return fmt::format(" (the first error: {})", record.error);
    }
    return {};
  }

  Result<CapacityProbe> Probe(double rate, uint64_t seed) {
    LoadOptions options = options_;
    options.rate = rate;
    options.seed = seed;
    SURETY_ASSIGN_OR_RETURN(const Workload workload, Workload::Make(options));
    SURETY_ASSIGN_OR_RETURN(const LoadResult result, Measure(options, workload, fmt::format("{:.3g}/s", rate)));
    if (result.interrupted) return Error(CancelledError("interrupted"));
    const LoadSummary summary = Summarise(result.records, result.window, options.slos, seed);
    const double attained = summary.slos[1].attainment;
    const CapacityProbe probe{rate, seed, attained, summary.invalid.empty(),
                              summary.invalid.empty() && attained >= options_.attainment};
    if (!options_.json) {
      Print("{:>10.3f} {:>8} {:>11.2f} %  {}\n", rate, seed, attained * 100,
            probe.holds ? "holds" : (probe.valid ? "missed" : "invalid: " + summary.invalid.front()));
      FlushOutput();
    }
    return probe;
  }

  int RunCapacity() {
    if (!options_.json) Print("{:>10} {:>8} {:>13}  for {}\n", "requests/s", "seed", "attainment", options_.slo[0]);
    const auto found = FindCapacity(options_.rate, options_.seed,
                                    [this](double rate, uint64_t seed) { return Probe(rate, seed); });
    if (!found) return ReportFailure(found.error());
    if (options_.json) {
      PrintJson(Describe(*found));
    } else {
      Print("\ncapacity {:.3f} requests/s: the highest rate tried that keeps {} for {:.2f} % of arrivals\n",
            found->rate, options_.slo[0], options_.attainment * 100);
    }
    if (found->rate > 0) return kExitOk;
    return ReportFailure(FailedPreconditionError("no rate that was tried keeps the limits"));
  }

  boost::json::object Describe(const CapacityResult& found) const {
    boost::json::object out;
    out["schema_version"] = kLoadSchemaVersion;
    out["version"] = SURETY_VERSION;
    out["label"] = options_.label;
    out["url"] = options_.url;
    out["model"] = model_;
    out["config"] = options_.Describe();
    out["config_hash"] = options_.ConfigHash();
    out["limits"] = options_.slo[0];
    out["attainment"] = options_.attainment;
    out["capacity_per_s"] = Rounded(found.rate);
    out["failed_per_s"] = found.failed_rate > 0 ? boost::json::value(Rounded(found.failed_rate)) : nullptr;
    boost::json::array probes;
    for (const CapacityProbe& probe : found.probes) {
      probes.push_back(boost::json::object{{"rate", Rounded(probe.rate)},
                                           {"seed", probe.seed},
                                           {"attainment", Rounded(probe.attainment)},
                                           {"valid", probe.valid},
                                           {"holds", probe.holds}});
    }
    out["probes"] = std::move(probes);
    return out;
  }

  LoadOptions options_;
  LoadTarget target_;
  std::string model_;
};

}  // namespace

std::unique_ptr<Command> MakeLoadCommand() { return std::make_unique<LoadCommand>(); }

}  // namespace surety::cli
