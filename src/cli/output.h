// Printing that never throws: answers and reports to standard output, everything else to standard error.
//
// A write to standard output that fails is remembered, and CheckOutput tells of it at the end of the command. A write
// to standard error that fails changes nothing: there is nowhere left to say so.
// Threads: one.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/status.h"

namespace surety::cli {

// To standard output, as it is.
void PrintText(std::string_view text);
// What was printed so far goes out now: for text that somebody waits for.
void FlushOutput();
// To standard error, at once.
void PrintErrorText(std::string_view text);

template <typename... Args>
void Print(fmt::format_string<Args...> format, Args&&... args) {
  PrintText(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void PrintError(fmt::format_string<Args...> format, Args&&... args) {
  PrintErrorText(fmt::format(format, std::forward<Args>(args)...));
}

// Once, at the start of the process. A standard stream that the caller closed gets a descriptor on which every read or
// write fails; else the first file opened would take its place.
void OccupyClosedStreams();

// Writes out what is left. kIoError (kResourceExhausted on a full disk), naming standard output, if that or any earlier
// write to it failed.
Status CheckOutput();

}  // namespace surety::cli
