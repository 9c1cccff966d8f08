// A plot as an inline SVG image: lines, steps or dots over one pair of axes.
//
// The text is well-formed XML and needs nothing from outside. Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace surety::cli {

enum class PlotStyle { kLine, kDots };

struct PlotSeries {
  std::string name;
  PlotStyle style = PlotStyle::kLine;
  std::vector<std::pair<double, double>> points;  // ascending x for a line; what is not finite is left out
};

struct Plot {
  std::string title, x_label, y_label;
  bool log_x = false;  // points with x <= 0 are put at the smallest x above 0
  std::vector<PlotSeries> series;
};

// A plot without points says so.
std::string SvgOf(const Plot& plot);

// Text for the inside of an element or an attribute; what XML cannot hold becomes U+FFFD.
std::string XmlText(std::string_view text);

}  // namespace surety::cli
