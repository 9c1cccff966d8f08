// Another program, run with its output in a log file, watched while it works and ended on Ctrl-C.
//
// Threads: one. Errors: kNotFound when the program is not installed, kCancelled on an interrupt (the child has ended by
// then), kUnavailable with the end of its log when it fails.
#pragma once

#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"

namespace surety::cli {

struct ChildProcess {
  std::vector<std::string> arguments;    // the first one is looked up in PATH
  std::vector<std::string> environment;  // "NAME=value", added to this process's
  std::string log_path;                  // standard output and error go here
};

// Calls `watch` about ten times a second until the child has ended.
Status RunChild(const ChildProcess& child, FunctionRef<void()> watch);

}  // namespace surety::cli
