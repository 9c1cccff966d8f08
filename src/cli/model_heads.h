// Draft heads that are taken where none is named: $SURETY_HEADS/NAME for the model NAME of the catalogue.
//
// Threads: any. Errors: HeadOf: kNotFound where $SURETY_HEADS is set and is no folder.
#pragma once

#include <string>

#include "base/status.h"

namespace surety::cli {

// The head for the model at `path`: a folder, or a .safetensors file of the model's name. Empty where $SURETY_HEADS is
// not set, has none, or where `path` is not the place of a model of the catalogue: any other file may hold other
// weights.
Result<std::string> HeadOf(const std::string& path);

bool HasHeadsFolder();  // $SURETY_HEADS is set

}  // namespace surety::cli
