// Vectors and what the cross-validation said of them, for other programs (tools/peers/sklearn_router.py).
//
// vectors.npy: float32, rows x dimension. rows.csv: row, label (a number), fold, c of that fold, predicted, confidence.
// Threads: one. Errors: kIoError, kResourceExhausted, with the path.
#pragma once

#include <string>

#include "base/status.h"
#include "gateway/intent_training.h"

namespace surety::cli {

Status DumpVectors(const std::string& folder, const gateway::LabelledVectors& data,
                   const gateway::CrossValidation& outer);

}  // namespace surety::cli
