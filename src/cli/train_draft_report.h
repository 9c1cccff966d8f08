// What a training leaves for people: plots of loss and acceptance, a page with both, and its figures as JSON.
//
// Threads: any. Errors: the file system's.
#pragma once

#include <string>

#include <boost/json.hpp>

#include "base/file.h"
#include "base/status.h"
#include "train/trainer.h"

namespace surety::cli {

// {"step", "loss", "acceptance", "tried", "tokens_per_step"}
boost::json::object DescribeMeasurement(const train::Measurement& m);

// loss.svg, acceptance.svg, report.html and training.json in the folder. `figures`: what --json prints.
Status WriteTrainingReport(FileSystem& files, const std::string& folder, const train::Trainer& trainer,
                           const boost::json::object& figures);

}  // namespace surety::cli
