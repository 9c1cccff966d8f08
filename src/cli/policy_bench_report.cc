#include "cli/policy_bench_report.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "cli/json_out.h"
#include "cli/load_stats.h"

namespace surety::cli {
namespace {

namespace json = boost::json;

constexpr double kNanosPerMilli = 1e6;
constexpr std::string_view kAll = "all";

struct Figures {
  double mean = 0, p50 = 0, p95 = 0, p99 = 0, max = 0;   // milliseconds
};

Figures FiguresOf(std::vector<double> values_ms) {
  if (values_ms.empty()) return {};
  std::ranges::sort(values_ms);
  const double sum = std::accumulate(values_ms.begin(), values_ms.end(), 0.0);
  return {sum / static_cast<double>(values_ms.size()), NearestRank(values_ms, 50), NearestRank(values_ms, 95),
          NearestRank(values_ms, 99), values_ms.back()};
}

Figures FiguresOf(const std::vector<int64_t>& values_ns) {
  std::vector<double> values;
  for (const int64_t value : values_ns) values.push_back(static_cast<double>(value) / kNanosPerMilli);
  return FiguresOf(std::move(values));
}

json::object FiguresJson(const Figures& f) {
  return {{"mean", Rounded(f.mean)}, {"p50", Rounded(f.p50)}, {"p95", Rounded(f.p95)}, {"p99", Rounded(f.p99)},
          {"max", Rounded(f.max)}};
}

using Samples = std::vector<const PolicySample*>;

Figures Latency(const Samples& samples) {
  std::vector<int64_t> values;
  for (const PolicySample* sample : samples) values.push_back(sample->total_ns);
  return FiguresOf(values);
}

Figures StageFigures(const Samples& samples, const PolicyStage& stage) {
  std::vector<int64_t> values;
  for (const PolicySample* sample : samples) values.push_back(stage.of(*sample));
  return FiguresOf(values);
}

// All, then each route with each outcome of its cache: a hit and a miss have little in common.
struct Group {
  std::string route, cache;
  Samples samples;
};

std::vector<Group> GroupsOf(const PolicyBenchRun& run) {
  std::map<std::pair<std::string, std::string>, Samples> by_route;
  Group all{std::string(kAll), "", {}};
  for (const PolicySample& sample : run.samples) {
    if (!sample.ended) continue;
    all.samples.push_back(&sample);
    by_route[{sample.route, sample.cache}].push_back(&sample);
  }
  std::vector<Group> groups;
  groups.push_back(std::move(all));
  for (auto& [key, samples] : by_route) groups.push_back({key.first, key.second, std::move(samples)});
  return groups;
}

json::array OutcomesJson(const Samples& samples) {
  std::map<std::string, int64_t> counts;
  for (const PolicySample* sample : samples) ++counts[sample->outcome];
  json::array out;
  for (const auto& [outcome, count] : counts) out.push_back(json::object{{"outcome", outcome}, {"count", count}});
  return out;
}

json::object DescribeGroup(const Group& group) {
  json::object stages;
  for (const PolicyStage& stage : PolicyStages()) {
    stages[stage.name] = FiguresJson(StageFigures(group.samples, stage));
  }
  json::object out{{"requests", group.samples.size()},
                   {"outcomes", OutcomesJson(group.samples)},
                   {"latency_ms", FiguresJson(Latency(group.samples))},
                   {"stages_ms", std::move(stages)}};
  if (group.route != kAll) {
    out["route"] = group.route;
    out["cache"] = group.cache;
  }
  return out;
}

double PerRequestMs(double seconds, const PolicyBenchRun& run) {
  return run.samples.empty() ? 0 : seconds * 1e3 / static_cast<double>(run.samples.size());
}

double Each(double sum, double n) { return n > 0 ? sum / n : 0; }

std::vector<int64_t> Lateness(const PolicyBenchRun& run) {
  std::vector<int64_t> late;
  for (const PolicySample& sample : run.samples) late.push_back(sample.late_ns);
  return late;
}

std::string Row(std::string_view name, size_t n, const Figures& f) {
  const std::string count = n == 0 ? "" : std::to_string(n);
  return fmt::format("{:<34} {:>8} {:>8.3f} {:>8.3f} {:>8.3f} {:>8.3f} {:>9.3f}\n", name, count, f.mean, f.p50, f.p95,
                     f.p99, f.max);
}

}  // namespace

const std::vector<PolicyStage>& PolicyStages() {
  using S = PolicySample;
  static const std::vector<PolicyStage> stages = {
      {"queue", [](const S& s) { return s.late_ns + s.times.queue_ns; }},
      {"decide", [](const S& s) { return s.times.decide_ns; }},
      {"cache", [](const S& s) { return s.times.cache_ns; }},
      {"retrieve", [](const S& s) { return s.times.retrieve_ns; }},
      {"tools", [](const S& s) { return s.times.tools_ns; }},
      {"context", [](const S& s) { return s.times.context_ns; }},
      {"model", [](const S& s) { return s.times.model_ns; }},
      {"verify", [](const S& s) { return s.times.verify_ns; }},
      {"review", [](const S& s) { return s.times.review_ns; }},
      {"audit", [](const S& s) { return s.times.audit_ns; }},
      {"release", [](const S& s) {
         const auto& t = s.times;
         return s.total_ns - (s.late_ns + t.queue_ns + t.decide_ns + t.cache_ns + t.retrieve_ns + t.tools_ns +
                              t.context_ns + t.model_ns + t.verify_ns + t.review_ns + t.audit_ns);
       }},
  };
  return stages;
}

json::object DescribePass(const PolicyBenchPass& pass) {
  const PolicyBenchRun& run = pass.run;
  const auto n = static_cast<double>(run.samples.size());
  const auto groups = GroupsOf(run);
  json::array routes;
  for (size_t i = 1; i < groups.size(); ++i) routes.push_back(DescribeGroup(groups[i]));
  json::object sync = FiguresJson(FiguresOf(run.sync_ns));
  return {{"state", pass.state},
          {"directory", pass.directory},
          {"file_system", pass.file_system},
          {"requests", run.samples.size()},
          {"unfinished", run.samples.size() - groups[0].samples.size()},
          {"interrupted", run.interrupted},
          {"wall_seconds", Rounded(run.wall_s)},
          {"achieved_rate", Rounded(Each(n, run.wall_s))},
          {"cpu_ms_per_request", Rounded(PerRequestMs(run.cpu_s, run))},
          {"sender_cpu_ms_per_request", Rounded(PerRequestMs(run.sender_cpu_s, run))},
          {"cores_used", Rounded(Each(run.cpu_s + run.sender_cpu_s, run.wall_s))},
          {"load_before", Rounded(run.load_before)},
          {"load_after", Rounded(run.load_after)},
          {"late_ms", FiguresJson(FiguresOf(Lateness(run)))},
          {"sync_alone_ms", FiguresJson(FiguresOf(pass.probe_ns))},
          {"syncs", run.sync_ns.size()},
          {"rows_per_sync", Rounded(Each(static_cast<double>(run.rows), static_cast<double>(run.sync_ns.size())))},
          {"sync_ms", std::move(sync)},
          {"all", DescribeGroup(groups[0])},
          {"routes", std::move(routes)}};
}

std::string TableOf(const PolicyBenchPass& pass) {
  const PolicyBenchRun& run = pass.run;
  const auto groups = GroupsOf(run);
  const auto n = static_cast<double>(run.samples.size());
  std::string out = fmt::format("\nstate {}: {} ({})\n", pass.state == "memory" ? "in memory" : "on the disk",
                                pass.directory, pass.file_system);
  out += fmt::format("{} requests in {:.1f} s, {:.1f} a second{}; {:.3f} ms of processor each (and {:.3f} to send it), "
                     "{:.2f} cores in all; load {:.2f} before, {:.2f} after\n",
                     run.samples.size(), run.wall_s, Each(n, run.wall_s), run.interrupted ? ", interrupted" : "",
                     PerRequestMs(run.cpu_s, run), PerRequestMs(run.sender_cpu_s, run),
                     Each(run.cpu_s + run.sender_cpu_s, run.wall_s), run.load_before, run.load_after);
  if (const size_t left = run.samples.size() - groups[0].samples.size(); left > 0) {
    out += fmt::format("{} requests had no end\n", left);
  }
  out += fmt::format("\n{:<34} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9}\n", "added latency, ms", "requests", "mean", "p50",
                     "p95", "p99", "max");
  for (const Group& group : groups) {
    const std::string name = group.route == kAll ? group.route : group.route + ", cache " + group.cache;
    out += Row(name, group.samples.size(), Latency(group.samples));
  }
  out += "\nits stages, of all requests\n";
  for (const PolicyStage& stage : PolicyStages()) {
    const Figures figures = StageFigures(groups[0].samples, stage);
    if (figures.max > 0) out += Row(stage.name, 0, figures);
  }
  out += fmt::format("\nsyncs of the log, {:.1f} rows each\n",
                     Each(static_cast<double>(run.rows), static_cast<double>(run.sync_ns.size())));
  out += Row("in the run", run.sync_ns.size(), FiguresOf(run.sync_ns));
  out += Row("alone, before it", pass.probe_ns.size(), FiguresOf(pass.probe_ns));
  return out;
}

}  // namespace surety::cli
