// Draft heads that are taken where none is named: $SURETY_HEADS/NAME for the model NAME of the catalogue.
//
// Threads: any.
#pragma once

#include <string>

namespace surety::cli {

// The folder of the head for the model at `path`; empty where $SURETY_HEADS is not set, has none, or where `path` is
// not the place of a model of the catalogue: any other file may hold other weights.
std::string HeadOf(const std::string& path);

}  // namespace surety::cli
