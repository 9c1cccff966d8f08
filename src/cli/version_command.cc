// surety version: what this build is and what it would use here.
#include <thread>

#include <fmt/format.h>

#include "base/thread_pool.h"
#include "cli/bench_roofline.h"
#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/json_out.h"
#include "cli/models_store.h"
#include "cli/output.h"
#include "kernels/cpu/isa.h"

namespace surety::cli {
namespace {

class VersionCommand final : public Command {
 public:
  std::string name() const override { return "version"; }
  std::string summary() const override { return "print the version, the compiler and the instruction sets in use"; }
  void Declare(Flags& flags) override { flags.Add("--json", json_, "one JSON object"); }

  int Run() override {
    namespace cpu = kernels::cpu;
    boost::json::array supported;
    std::string names;
    for (const cpu::Isa isa : cpu::SupportedIsas()) {
      supported.push_back(boost::json::string(cpu::NameOf(isa)));
      names += (names.empty() ? "" : ", ") + std::string(cpu::NameOf(isa));
    }
    if (json_) {
      PrintJson(boost::json::object{{"version", SURETY_VERSION},
                                    {"compiler", __VERSION__},
                                    {"processor", ProcessorName()},
                                    {"threads", UsableProcessorCount()},
                                    {"isa", cpu::NameOf(cpu::CurrentIsa())},
                                    {"supported_isa", supported},
                                    {"models_directory", ModelsDirectory()}});
    } else {
      Print("surety {}\ncompiler    {}\nprocessor   {}\nthreads     {}\nisa         {} (of {})\nmodels in   {}\n",
                 SURETY_VERSION, __VERSION__, ProcessorName(), UsableProcessorCount(), cpu::NameOf(cpu::CurrentIsa()),
                 names, ModelsDirectory());
    }
    return kExitOk;
  }

 private:
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeVersionCommand() { return std::make_unique<VersionCommand>(); }

}  // namespace surety::cli
