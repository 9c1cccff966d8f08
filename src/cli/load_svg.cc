#include "cli/load_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "model/tokenizer/unicode.h"

namespace surety::cli {
namespace {

constexpr double kWidth = 640, kHeight = 320;
constexpr double kLeft = 64, kRight = 16, kTop = 34, kBottom = 46;
constexpr size_t kMostPoints = 1500;  // of a series; the eye does not see more at this width
// Colours that people with colour-blindness tell apart (Okabe and Ito, 2008).
constexpr std::array<const char*, 5> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"};

// From low to high, in the plot's own unit: x is the logarithm already where that is the scale.
struct Axis {
  double low = 0, high = 1;
  double Share(double value) const { return (value - low) / (high - low); }
};

// 1, 2 or 5 times a power of ten, so that about `wanted` steps fill the span.
double StepOf(double span, int wanted) {
  const double rough = span / wanted;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

std::string Label(double value) { return fmt::format("{:.6g}", std::abs(value) < 1e-12 ? 0 : value); }

std::vector<std::pair<double, double>> Thinned(const std::vector<std::pair<double, double>>& points) {
  if (points.size() <= kMostPoints) return points;
  std::vector<std::pair<double, double>> out;
  for (size_t i = 0; i < kMostPoints; ++i) out.push_back(points[i * (points.size() - 1) / (kMostPoints - 1)]);
  return out;
}

class Painter {
 public:
  explicit Painter(const Plot& plot) : plot_(plot) {
    for (const PlotSeries& series : plot.series) {
      std::vector<std::pair<double, double>> kept;
      for (const auto& point : series.points) {
        if (std::isfinite(point.first) && std::isfinite(point.second)) kept.push_back(point);
      }
      points_.push_back(Thinned(kept));
    }
    if (plot.log_x) TakeLogarithms();
    FindAxes();
  }

  std::string Paint() {
    out_ = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\">\n", kWidth,
                       kHeight);
    out_ += fmt::format("<title>{}</title>\n", XmlText(plot_.title));
    Text(kWidth / 2, 18, "middle", plot_.title, "class=\"title\"");
    if (!any_) {
      Text(kWidth / 2, kHeight / 2, "middle", "nothing was measured", "");
      return out_ + "</svg>\n";
    }
    PaintAxes();
    for (size_t i = 0; i < points_.size(); ++i) PaintSeries(i);
    PaintLegend();
    return out_ + "</svg>\n";
  }

 private:
  double X(double value) const { return kLeft + x_.Share(value) * (kWidth - kLeft - kRight); }
  double Y(double value) const { return kHeight - kBottom - y_.Share(value) * (kHeight - kTop - kBottom); }

  void TakeLogarithms() {
    double least = std::numeric_limits<double>::infinity();
    for (const auto& points : points_) {
      for (const auto& [x, y] : points) {
        if (x > 0) least = std::min(least, x);
      }
    }
    if (!std::isfinite(least)) least = 1;
    for (auto& points : points_) {
      for (auto& point : points) point.first = std::log10(std::max(point.first, least));
    }
  }

  void FindAxes() {
    double x_low = std::numeric_limits<double>::infinity(), x_high = -x_low, y_high = 0;
    for (const auto& points : points_) {
      for (const auto& [x, y] : points) {
        any_ = true;
        x_low = std::min(x_low, x);
        x_high = std::max(x_high, x);
        y_high = std::max(y_high, y);
      }
    }
    if (!any_) return;
    if (!plot_.log_x) x_low = std::min(x_low, 0.0);
    if (x_high - x_low < 1e-9) x_high = x_low + 1;
    x_ = {x_low, x_high};
    y_ = {0, y_high > 0 ? y_high : 1};
  }

  void Text(double x, double y, const char* anchor, const std::string& text, const std::string& attributes) {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x, y, anchor, attributes,
                        XmlText(text));
  }

  void Line(double x1, double y1, double x2, double y2, const char* css_class) {
    out_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1, x2,
                        y2, css_class);
  }

  void PaintAxes() {
    const double bottom = kHeight - kBottom;
    const double y_step = StepOf(y_.high - y_.low, 5);
    for (double value = 0; value <= y_.high + 1e-9 * y_step; value += y_step) {
      Line(kLeft, Y(value), kWidth - kRight, Y(value), "grid");
      Text(kLeft - 6, Y(value) + 4, "end", Label(value), "");
    }
    for (const double value : XTicks()) {
      Line(X(value), kTop, X(value), bottom, "grid");
      Text(X(value), bottom + 16, "middle", Label(plot_.log_x ? std::pow(10, value) : value), "");
    }
    Line(kLeft, bottom, kWidth - kRight, bottom, "axis");
    Line(kLeft, kTop, kLeft, bottom, "axis");
    Text((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", plot_.x_label, "");
    Text(0, 0, "middle", plot_.y_label,
         fmt::format("transform=\"translate(14 {:.1f}) rotate(-90)\"", (kTop + bottom) / 2));
  }

  // Of a logarithmic axis: powers of ten, with their doubles and halves where that leaves fewer than three.
  std::vector<double> XTicks() const {
    std::vector<double> ticks;
    if (!plot_.log_x) {
      const double step = StepOf(x_.high - x_.low, 7);
      for (double v = std::ceil(x_.low / step) * step; v <= x_.high + 1e-9 * step; v += step) ticks.push_back(v);
      return ticks;
    }
    for (const bool fine : {false, true}) {
      ticks.clear();
      for (double power = std::floor(x_.low); power <= x_.high; ++power) {
        for (const double factor : {1.0, 2.0, 5.0}) {
          const double tick = power + std::log10(factor);
          if ((fine || factor == 1.0) && tick >= x_.low && tick <= x_.high) ticks.push_back(tick);
        }
      }
      if (ticks.size() >= 3) break;
    }
    return ticks;
  }

  void PaintSeries(size_t i) {
    const char* colour = kColours[i % kColours.size()];
    if (points_[i].empty()) return;
    if (plot_.series[i].style == PlotStyle::kDots) {
      out_ += fmt::format("<g fill=\"{}\" fill-opacity=\"0.6\">\n", colour);
      for (const auto& [x, y] : points_[i]) {
        out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\"/>\n", X(x), Y(y));
      }
      out_ += "</g>\n";
      return;
    }
    out_ += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" points=\"", colour);
    for (const auto& [x, y] : points_[i]) out_ += fmt::format("{:.1f},{:.1f} ", X(x), Y(y));
    out_ += "\"/>\n";
  }

  void PaintLegend() {
    double x = kLeft + 8;
    for (size_t i = 0; i < plot_.series.size() && plot_.series.size() > 1; ++i) {
      out_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" fill=\"{}\"/>\n", x, kTop - 10,
                          kColours[i % kColours.size()]);
      Text(x + 14, kTop - 1, "start", plot_.series[i].name, "");
      x += 30 + 7 * static_cast<double>(plot_.series[i].name.size());
    }
  }

  const Plot& plot_;
  std::vector<std::vector<std::pair<double, double>>> points_;
  Axis x_, y_;
  bool any_ = false;
  std::string out_;
};

}  // namespace

std::string SvgOf(const Plot& plot) { return Painter(plot).Paint(); }

std::string XmlText(std::string_view text) {
  const std::string valid = model::ReplaceInvalidUtf8(text);
  std::string out;
  for (size_t i = 0; i < valid.size(); ++i) {
    const auto c = static_cast<unsigned char>(valid[i]);
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c < ' ' && c != '\t' && c != '\n' && c != '\r') {
      out += "\xEF\xBF\xBD";
    } else if (c == 0xEF && valid.compare(i, 2, "\xEF\xBF") == 0 && static_cast<unsigned char>(valid[i + 2]) >= 0xBE) {
      out += "\xEF\xBF\xBD";  // U+FFFE and U+FFFF are no characters of XML
      i += 2;
    } else {
      out += valid[i];
    }
  }
  return out;
}

}  // namespace surety::cli
