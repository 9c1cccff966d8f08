#include "cli/load_html.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "cli/json_out.h"
#include "cli/load_svg.h"

namespace surety::cli {
namespace {

constexpr int kBins = 120;  // of a plot over time

constexpr const char* kStyle =
    "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1340px;padding:0 1em;color:#1b1b1b;"
    "background:#fff}"
    "h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}"
    ".bad{background:#fdecea;border-left:4px solid #c0392b;padding:.5em 1em}"
    ".note{background:#f3f5f7;border-left:4px solid #7f8c8d;padding:.5em 1em}"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(480px,1fr));gap:1em}"
    "svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#333}"
    "svg text.title{font-size:14px;font-weight:600}.grid{stroke:#e3e6e8}.axis{stroke:#555}"
    "table{border-collapse:collapse}td,th{padding:.25em .8em;text-align:right;border-bottom:1px solid #dde1e4}"
    "td:first-child,th:first-child{text-align:left}pre{background:#f3f5f7;padding:1em;overflow-x:auto}";

// Share of values not above x, as a step line.
PlotSeries Cdf(const char* name, std::vector<double> values) {
  PlotSeries series{name, PlotStyle::kLine, {}};
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  for (size_t i = 0; i < values.size(); ++i) series.points.emplace_back(values[i], static_cast<double>(i + 1) / n);
  return series;
}

class Page {
 public:
  explicit Page(const LoadReport& report) : report_(report), s_(report.summary) {
    for (const LoadRecord& record : report.result.records) {
      last_s_ = std::max({last_s_, NanosToSeconds(record.intended_ns), NanosToSeconds(record.end_ns)});
      if (!s_.window.Holds(record.intended_ns)) continue;
      const RequestLatency latency = LatencyOf(record);
      if (latency.ttft_ms) {
        ttft_.push_back(*latency.ttft_ms);
        ttft_at_.emplace_back(NanosToSeconds(record.intended_ns), *latency.ttft_ms);
      }
      if (latency.service_ttft_ms) service_ttft_.push_back(*latency.service_ttft_ms);
      if (latency.tpot_ms) tpot_.push_back(*latency.tpot_ms);
      if (latency.e2e_ms) e2e_.push_back(*latency.e2e_ms);
      icl_.insert(icl_.end(), latency.icl_ms.begin(), latency.icl_ms.end());
    }
  }

  std::string Write() {
    out_ = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
        "<meta charset=\"utf-8\"/>\n"
        "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n", XmlText(Title()), kStyle);
    WriteHead();
    WriteLatencies();
    WriteFigures();
    out_ += "<h2>Plots</h2>\n<div class=\"plots\">\n";
    for (const Plot& plot : Plots()) out_ += "<div>" + SvgOf(plot) + "</div>\n";
    out_ += "</div>\n";
    boost::json::object config = report_.options.Describe();
    out_ += fmt::format("<h2>Configuration</h2>\n<p>Seed {}, SHA-256 of the configuration {}</p>\n<pre>{}</pre>\n",
                        report_.options.seed, report_.options.ConfigHash(), XmlText(PrettyJson(config)));
    out_ += fmt::format("<pre>{}</pre>\n", XmlText(PrettyJson(report_.workload.DescribeTransform())));
    return out_ + "</body>\n</html>\n";
  }

 private:
  std::string Title() const {
    const std::string& label = report_.options.label;
    return fmt::format("surety load: {}{}", label.empty() ? "" : label + ", ", report_.model);
  }

  void WriteHead() {
    out_ += fmt::format("<h1>{}</h1>\n", XmlText(Title()));
    out_ += fmt::format(
        "<p>{}, started {}, {} loop, {} arrivals measured in {:.1f} s after {:.1f} s of warm-up with {} more.</p>\n",
        XmlText(report_.options.url), UtcTime(report_.result.started_unix_ns),
        report_.options.closed_loop() ? "closed" : "open", s_.arrivals, s_.window.seconds(),
        NanosToSeconds(s_.window.start_ns), s_.warmup_arrivals);
    for (const std::string& reason : s_.invalid) {
      out_ += fmt::format("<p class=\"bad\"><b>This run is invalid:</b> {}.</p>\n", XmlText(reason));
    }
    if (report_.result.interrupted) {
      out_ += "<p class=\"bad\"><b>This run was interrupted:</b> it shows what was measured until then.</p>\n";
    }
    if (report_.options.closed_loop()) {
      out_ += "<p class=\"note\">A closed loop waits for the server before it sends: queueing does not show.</p>\n";
    }
    if (!s_.steady) {
      out_ += fmt::format("<p class=\"note\">Not steady: from the first half of the window to the second, output "
                          "tokens changed by {:+.1f} % and the median TTFT by {:+.1f} %.</p>\n",
                          s_.output_change.value_or(0) * 100, s_.ttft_change.value_or(0) * 100);
    }
  }

  void WriteLatencies() {
    out_ += "<h2>Latency in ms</h2>\n<table>\n<tr><th></th><th>count</th><th>mean</th>";
    for (const char* head : {"p50", "p95", "p99"}) out_ += fmt::format("<th>{}</th><th>95 % interval</th>", head);
    out_ += "<th>max</th></tr>\n";
    const std::pair<const char*, const LatencySummary*> rows[] = {
        {"TTFT from the intended arrival", &s_.ttft_ms}, {"service TTFT", &s_.service_ttft_ms}, {"TPOT", &s_.tpot_ms},
        {"ITL", &s_.itl_ms}, {"ICL", &s_.icl_ms}, {"E2E", &s_.e2e_ms}, {"send lag", &s_.lag_ms},
        {"refused after", &s_.refusal_ms}};
    for (const auto& [name, latency] : rows) {
      if (latency->count == 0) continue;
      out_ += fmt::format("<tr><td>{}</td><td>{}</td><td>{:.1f}</td>", name, latency->count, latency->mean);
      for (const Percentile& p : latency->percentiles) {
        out_ += fmt::format("<td>{:.1f}</td><td>{:.1f} to {:.1f}</td>", p.value, p.interval.low, p.interval.high);
      }
      out_ += fmt::format("<td>{:.1f}</td></tr>\n", latency->most);
    }
    out_ += "</table>\n";
  }

  double CpuShare() const { return report_.result.cpu_s / report_.result.wall_s; }

  void WriteFigures() {
    out_ += "<h2>Service levels</h2>\n<table>\n<tr><th>limits</th><th>met</th><th>attainment</th><th>95 % interval</th>"
            "<th>goodput, requests/s</th></tr>\n";
    for (const SloSummary& slo : s_.slos) {
      out_ += fmt::format("<tr><td>{}</td><td>{} of {}</td><td>{:.2f} %</td><td>{:.2f} to {:.2f} %</td><td>{:.2f}</td>"
                          "</tr>\n", XmlText(slo.text), slo.met, s_.arrivals, slo.attainment * 100,
                          slo.interval.low * 100, slo.interval.high * 100, slo.goodput);
    }
    out_ += "</table>\n<h2>Throughput</h2>\n<table>\n";
    const std::pair<const char*, double> rates[] = {{"complete answers a second", s_.requests_per_s},
                                                    {"output tokens a second", s_.output_tok_per_s},
                                                    {"prompt tokens a second", s_.prompt_tok_per_s},
                                                    {"requests in flight, mean", s_.in_flight_mean},
                                                    {"processors that the client took", CpuShare()}};
    for (const auto& [name, value] : rates) out_ += fmt::format("<tr><td>{}</td><td>{:.2f}</td></tr>\n", name, value);
    out_ += "</table>\n<h2>How requests ended</h2>\n<table>\n";
    for (int i = 0; i < kLoadOutcomes; ++i) {
      const int64_t n = s_.outcomes[static_cast<size_t>(i)];
      if (n == 0) continue;
      out_ += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", LoadOutcomeName(static_cast<LoadOutcome>(i)), n);
    }
    out_ += "</table>\n";
  }

  std::vector<Plot> Plots() const {
    std::vector<Plot> plots;
    plots.push_back({"Share of requests not slower", "ms", "share", true,
                     {Cdf("TTFT", ttft_), Cdf("service TTFT", service_ttft_), Cdf("E2E", e2e_)}});
    plots.push_back({"Share of gaps and answers not slower", "ms", "share", true,
                     {Cdf("ICL", icl_), Cdf("TPOT", tpot_)}});
    plots.push_back({"TTFT by arrival", "s", "ms", false, {{"TTFT", PlotStyle::kDots, ttft_at_}}});
    plots.push_back(Throughput());
    plots.push_back(Cumulative());
    return plots;
  }

  Plot Throughput() const {
    const double bin_s = std::max(last_s_, 1e-3) / kBins;
    std::vector<double> tokens(kBins + 1, 0.0);
    for (const LoadRecord& record : report_.result.records) {
      for (const TokenEvent& event : record.events) {
        const double bin = std::clamp(NanosToSeconds(event.time_ns) / bin_s, 0.0, double{kBins});
        tokens[static_cast<size_t>(bin)] += event.tokens;
      }
    }
    PlotSeries series{"output", PlotStyle::kLine, {}};
    for (int i = 0; i < kBins; ++i) {
      series.points.emplace_back((i + 0.5) * bin_s, tokens[static_cast<size_t>(i)] / bin_s);
    }
    return {"Output tokens a second", "s", "tok/s", false, {std::move(series)}};
  }

  Plot Cumulative() const {
    std::vector<double> arrivals, complete, failed;
    for (const LoadRecord& record : report_.result.records) {
      arrivals.push_back(NanosToSeconds(record.intended_ns));
      auto& ends = record.outcome == LoadOutcome::kOk ? complete : failed;
      if (record.end_ns >= 0) ends.push_back(NanosToSeconds(record.end_ns));
    }
    const auto counted = [](const char* name, std::vector<double> times) {
      std::sort(times.begin(), times.end());
      PlotSeries series{name, PlotStyle::kLine, {}};
      for (size_t i = 0; i < times.size(); ++i) series.points.emplace_back(times[i], static_cast<double>(i + 1));
      return series;
    };
    return {"Arrivals and ends", "s", "requests", false,
            {counted("arrived", arrivals), counted("complete", complete), counted("failed", failed)}};
  }

  const LoadReport& report_;
  const LoadSummary& s_;
  double last_s_ = 0;
  std::vector<double> ttft_, service_ttft_, tpot_, e2e_, icl_;
  std::vector<std::pair<double, double>> ttft_at_;
  std::string out_;
};

}  // namespace

std::string HtmlOf(const LoadReport& report) { return Page(report).Write(); }

}  // namespace surety::cli
