// A subcommand, and the program that chooses among them.
//
// Threads: one. Errors: Run prints its own error and returns an exit code (exit_codes.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/flags.h"

namespace surety::cli {

class Command {
 public:
  virtual ~Command() = default;
  virtual std::string name() const = 0;      // "run"; "models pull" is a command under "models"
  virtual std::string summary() const = 0;   // one line
  virtual std::string examples() const { return {}; }  // shown at the end of its help
  virtual void Declare(Flags& flags) = 0;
  virtual int Run() = 0;
};

std::unique_ptr<Command> MakeRunCommand();
std::unique_ptr<Command> MakeChatCommand();
std::unique_ptr<Command> MakeEmbedCommand();
std::unique_ptr<Command> MakeBenchCommand();
std::unique_ptr<Command> MakeBenchPolicyCommand();  // under MakeBenchCommand
std::unique_ptr<Command> MakeLoadCommand();
std::unique_ptr<Command> MakeProbeCommand();
std::unique_ptr<Command> MakePerplexityCommand();
std::unique_ptr<Command> MakeInspectCommand();
std::unique_ptr<Command> MakeServeCommand();
std::unique_ptr<Command> MakeCheckCommand();
std::unique_ptr<Command> MakeTrainDraftCommand();
std::unique_ptr<Command> MakeTrainRouterCommand();
std::unique_ptr<Command> MakeVersionCommand();
std::vector<std::unique_ptr<Command>> MakeDocumentsCommands();  // "documents" first, then those under it
std::unique_ptr<Command> MakeSloCommand();
std::vector<std::unique_ptr<Command>> MakeAuditCommands();   // "audit" first, then those under it
std::vector<std::unique_ptr<Command>> MakeKeysCommands();    // "keys" first, then those under it
std::vector<std::unique_ptr<Command>> MakeGovernanceCommands();  // forget, replay, policy
std::vector<std::unique_ptr<Command>> MakeReviewCommands();  // "review" first, then those under it
std::vector<std::unique_ptr<Command>> MakeModelsCommands();  // "models" first, then those under it

// Parses the command line, runs the chosen command, returns the exit code.
int RunProgram(int argc, char** argv);

}  // namespace surety::cli
