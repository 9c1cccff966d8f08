// A run's report as one HTML page: figures, plots, configuration. It asks for nothing over the network and runs no
// script; it is well-formed XML as well.
#pragma once

#include <string>

#include "cli/load_report.h"

namespace surety::cli {

std::string HtmlOf(const LoadReport& report);

}  // namespace surety::cli
