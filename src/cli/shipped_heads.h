// Draft heads that come with the program: heads/NAME for the model NAME of the catalogue, trained for the very file
// whose digest the catalogue has.
//
// They lie in $SURETY_HEADS, else in share/surety/heads beside the folder of the running program.
// Threads: any.
#pragma once

#include <string>

namespace surety::cli {

std::string ShippedHeadsDirectory();  // empty: the system does not say where the program is

// The folder of the head for the model at `path`; empty where that is not the place of a model of the catalogue (any
// other file may hold other weights), or where none ships with it.
std::string ShippedHeadOf(const std::string& path);

}  // namespace surety::cli
