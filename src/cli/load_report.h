// A run's report, as JSON, as a table, and one JSON line for each request. Names are part of the interface
// (docs/load.md): only ever added to.
#pragma once

#include <string>

#include <boost/json.hpp>

#include "base/status.h"
#include "cli/load_metrics.h"
#include "cli/load_options.h"
#include "cli/load_run.h"
#include "cli/load_workload.h"

namespace surety::cli {

inline constexpr int kLoadSchemaVersion = 1;

// Everything that a report says.
struct LoadReport {
  const LoadOptions& options;
  const Workload& workload;
  std::string model;
  const LoadResult& result;
  LoadSummary summary;
};

boost::json::object DescribeReport(const LoadReport& report);
// For a terminal.
std::string TableOf(const LoadReport& report);
// One object a line. Errors: the file's.
Status WriteRecords(const LoadReport& report, const std::string& path);

// "2026-11-29T23:16:49Z"
std::string UtcTime(int64_t unix_ns);

}  // namespace surety::cli
