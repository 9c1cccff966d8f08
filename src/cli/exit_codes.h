// What the process answers to its caller. Part of the interface (docs/cli.md): append, never renumber.
#pragma once

#include <string_view>

#include "base/function_ref.h"
#include "base/status.h"

namespace surety::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;      // the work could not be done; the reason is on stderr
inline constexpr int kExitUsage = 2;        // the command line itself is wrong
inline constexpr int kExitLeak = 3;         // surety probe: a leak was found
inline constexpr int kExitCannotTell = 4;   // surety probe: its measurements do not decide
inline constexpr int kExitInterrupted = 130;  // Ctrl-C or SIGTERM

// "surety: error: message" on stderr, and the code that goes with it: kExitInterrupted for kCancelled, else
// kExitFailure.
int ReportFailure(const Status& status);
// The same for a mistake on the command line: kExitUsage.
int ReportUsage(const Status& status);
// For what depends on the model too: kInvalidArgument is the flag's fault (kExitUsage), all else a failure.
int ReportFlagFault(const Status& status);
// The last guard: what `work` answers, or kExitFailure with a report of the exception that came out of it. Commands
// report their failures themselves, so that is memory that ran out, or a mistake of the program.
int Guarded(FunctionRef<int()> work);
void ReportWarning(std::string_view message);

}  // namespace surety::cli
