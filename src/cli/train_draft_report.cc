#include "cli/train_draft_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/json_out.h"
#include "cli/load_svg.h"

namespace surety::cli {
namespace {

constexpr const char* kTrainingPlotStyle =
    "svg text{font:11px system-ui,sans-serif;fill:#333}svg text.title{font-size:14px;font-weight:600}"
    ".grid{stroke:#e3e6e8}.axis{stroke:#555}";
constexpr const char* kTrainingPageStyle =
    "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1000px;padding:0 1em;color:#1b1b1b;"
    "background:#fff}h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}svg{width:100%;height:auto}"
    "table{border-collapse:collapse}td,th{padding:.25em .8em;text-align:right;border-bottom:1px solid #dde1e4}"
    "td:first-child,th:first-child{text-align:left}pre{background:#f3f5f7;padding:1em;overflow-x:auto}";
constexpr size_t kPlottedDepths = 5;

Plot LossPlot(const train::Trainer& trainer) {
  Plot plot = {.title = "Loss", .x_label = "step", .y_label = "nats a token", .series = {}};
  PlotSeries batches = {.name = "batches", .style = PlotStyle::kDots, .points = {}};
  for (size_t i = 0; i < trainer.records().size(); ++i) {
    batches.points.emplace_back(static_cast<double>(i + 1), trainer.records()[i].loss);
  }
  PlotSeries held_out = {.name = "held out, depth 1", .points = {}};
  for (const train::Measurement& m : trainer.measurements()) {
    if (!m.loss.empty()) held_out.points.emplace_back(m.step, m.loss.front());
  }
  plot.series = {std::move(batches), std::move(held_out)};
  return plot;
}

Plot AcceptancePlot(const train::Trainer& trainer) {
  Plot plot = {.title = "Acceptance on held-out texts", .x_label = "step", .y_label = "share of drafts that hold",
               .series = {}};
  const auto& measurements = trainer.measurements();
  const size_t n_depths = measurements.empty() ? 0 : std::min(kPlottedDepths, measurements[0].acceptance.size());
  for (size_t k = 0; k < n_depths; ++k) {
    PlotSeries series = {.name = fmt::format("depth {}", k + 1), .points = {}};
    for (const train::Measurement& m : measurements) series.points.emplace_back(m.step, m.acceptance[k]);
    plot.series.push_back(std::move(series));
  }
  return plot;
}

// An SVG file of its own brings its style along.
std::string Standalone(std::string svg) {
  return svg.insert(svg.find('\n') + 1, fmt::format("<style>{}</style>\n", kTrainingPlotStyle));
}

std::string DepthTable(const train::Trainer& trainer) {
  if (trainer.measurements().empty()) return {};
  const train::Measurement& last = trainer.measurements().back();
  std::string out = "<table>\n<tr><th>depth</th><th>drafts tried</th><th>hold</th><th>loss</th></tr>\n";
  for (size_t k = 0; k < last.acceptance.size(); ++k) {
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{:.1f} %</td><td>{:.3f}</td></tr>\n", k + 1, last.n_tried[k],
                       100 * last.acceptance[k], last.loss[k]);
  }
  return out + fmt::format("</table>\n<p>{:.2f} tokens a step of the model, if each step drafts {} in a row.</p>\n",
                           last.TokensPerStep(), last.acceptance.size());
}

}  // namespace

boost::json::object DescribeMeasurement(const train::Measurement& m) {
  boost::json::array loss, acceptance;
  for (const double x : m.loss) loss.push_back(Rounded(x));
  for (const double x : m.acceptance) acceptance.push_back(Rounded(x));
  return {{"step", m.step},
          {"loss", std::move(loss)},
          {"acceptance", std::move(acceptance)},
          {"tried", boost::json::array(m.n_tried.begin(), m.n_tried.end())},
          {"tokens_per_step", Rounded(m.TokensPerStep())}};
}

Status WriteTrainingReport(FileSystem& files, const std::string& folder, const train::Trainer& trainer,
                           const boost::json::object& figures) {
  const std::string loss = SvgOf(LossPlot(trainer)), acceptance = SvgOf(AcceptancePlot(trainer));
  const std::string json = PrettyJson(figures);
  const std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<title>surety train-draft</title>\n<style>{}{}</style>\n</head>\n<body>\n<h1>A draft head, trained</h1>\n"
      "<p>Measured on texts that were not learned from, greedily and one draft after the other.</p>\n{}"
      "<h2>While it was trained</h2>\n{}{}<h2>Figures</h2>\n<pre>{}</pre>\n</body>\n</html>\n",
      kTrainingPageStyle, kTrainingPlotStyle, DepthTable(trainer), loss, acceptance, XmlText(json));
  SURETY_RETURN_IF_ERROR(files.WriteAll(folder + "/loss.svg", Standalone(loss)));
  SURETY_RETURN_IF_ERROR(files.WriteAll(folder + "/acceptance.svg", Standalone(acceptance)));
  SURETY_RETURN_IF_ERROR(files.WriteAll(folder + "/report.html", page));
  return files.WriteAll(folder + "/training.json", json);
}

}  // namespace surety::cli
