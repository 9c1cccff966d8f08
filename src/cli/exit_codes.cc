#include "cli/exit_codes.h"

#include <exception>
#include <new>

#include <fmt/core.h>

#include "cli/output.h"
#include "cli/progress.h"

namespace surety::cli {
namespace {

// Messages of file formats may quote bytes of the file: keep control characters off the terminal.
std::string Printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == '\n' || byte == '\t' || (byte >= 0x20 && byte != 0x7F)) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  return out;
}

}  // namespace

int ReportFailure(const Status& status) {
  ClearProgressLine();
  if (status.code() == StatusCode::kCancelled) {
    PrintError("surety: interrupted\n");
    return kExitInterrupted;
  }
  PrintError("surety: error: {}\n", Printable(status.message()));
  return kExitFailure;
}

int ReportUsage(const Status& status) {
  ClearProgressLine();
  PrintError("surety: error: {}\n", Printable(status.message()));
  return kExitUsage;
}

int ReportFlagFault(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument ? ReportUsage(status) : ReportFailure(status);
}

int Guarded(FunctionRef<int()> work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return ReportFailure(ResourceExhaustedError("out of memory"));
  } catch (const std::exception& error) {
    return ReportFailure(InternalError(fmt::format("internal error: {}", error.what())));
  }
}

void ReportWarning(std::string_view message) {
  ClearProgressLine();
  PrintError("surety: warning: {}\n", Printable(message));
}

}  // namespace surety::cli
