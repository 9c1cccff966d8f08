// The command line as a whole: subcommands, help, and what to say about a mistake.
#include <cerrno>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/nearest_name.h"
#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/interrupt.h"
#include "cli/output.h"

namespace surety::cli {
namespace {

// Why a text is no value of a number's type; empty if it is one. Left to itself the library would clamp or wrap what is
// too large, and quote all values of a flag given twice as one.
template <typename T>
std::string FaultOf(const std::string& text) {
  errno = 0;
  char* end = nullptr;
  bool good = true;
  if constexpr (std::is_floating_point_v<T>) {
    good = std::abs(std::strtod(text.c_str(), &end)) != HUGE_VAL || errno != ERANGE;
  } else if constexpr (std::is_unsigned_v<T>) {
    const unsigned long long value = std::strtoull(text.c_str(), &end, 0);
    good = errno == 0 && text.find('-') == std::string::npos && std::in_range<T>(value);
  } else {
    const long long value = std::strtoll(text.c_str(), &end, 0);
    good = errno == 0 && std::in_range<T>(value);
  }
  if (good && end != text.c_str() && *end == '\0') return {};
  if constexpr (std::is_floating_point_v<T>) return fmt::format("'{}' is not a number that it can take", text);
  return fmt::format("'{}' is not a whole number from {} to {}", text, std::numeric_limits<T>::min(),
                     std::numeric_limits<T>::max());
}

class CliFlags final : public Flags {
 public:
  explicit CliFlags(CLI::App* app) : app_(app) {}

  void Group(const std::string& title) override { group_ = title; }
  void Add(const std::string& names, bool& value, const std::string& help) override {
    app_->add_flag(names, value, help)->group(group_);
  }
  void Add(const std::string& names, int& value, const std::string& help) override { Option(names, value, help); }
  void Add(const std::string& names, uint64_t& value, const std::string& help) override { Option(names, value, help); }
  void Add(const std::string& names, double& value, const std::string& help) override { Option(names, value, help); }
  void Add(const std::string& names, std::string& value, const std::string& help) override {
    Option(names, value, help);
  }
  void Add(const std::string& names, std::optional<int>& value, const std::string& help) override {
    app_->add_option(names, value, help)->take_last()->group(group_)->check(FaultOf<int>);
  }
  void Add(const std::string& names, std::optional<double>& value, const std::string& help) override {
    app_->add_option(names, value, help)->take_last()->group(group_)->check(FaultOf<double>);
  }
  void Add(const std::string& names, std::optional<std::string>& value, const std::string& help) override {
    app_->add_option(names, value, help)->take_last()->group(group_);
  }
  void Add(const std::string& names, std::vector<std::string>& value, const std::string& help) override {
    app_->add_option(names, value, help)->allow_extra_args(false)->group(group_);
  }
  void Add(const std::string& names, std::vector<int>& value, const std::string& help) override {
    app_->add_option(names, value, help)->delimiter(',')->allow_extra_args(false)->capture_default_str()->group(group_)
        ->check(FaultOf<int>);
  }
  void Positional(const std::string& name, std::string& value, bool required, const std::string& help) override {
    app_->add_option(name, value, help)->required(required);
  }
  void Positional(const std::string& name, std::vector<std::string>& value, const std::string& help) override {
    app_->add_option(name, value, help);
  }

 private:
  // Of a flag given twice the last one counts, as shells' aliases expect.
  template <typename T>
  void Option(const std::string& names, T& value, const std::string& help) {
    CLI::Option* option = app_->add_option(names, value, help)->capture_default_str()->take_last()->group(group_);
    if constexpr (std::is_arithmetic_v<T>) option->check(FaultOf<T>);
  }

  CLI::App* app_;
  std::string group_ = "Options";
};

struct Entry {
  CLI::App* app = nullptr;
  std::unique_ptr<Command> command;
};

class Program {
 public:
  Program() : root_("surety: run language models on this machine's processors.", "surety") {
    root_.set_version_flag("--version", "surety " SURETY_VERSION);
    root_.footer("Start with:\n  surety models\n  surety chat\n  surety run -p \"Why is the sky blue?\"\n\n"
                 "Exit codes: 0 done, 1 failed, 2 wrong command line, 3 and 4 answers of probe, 130 interrupted.");
  }

  void Add(std::unique_ptr<Command> command) {
    const std::string full_name = command->name();
    CLI::App* parent = &root_;
    std::string name = full_name;
    if (const size_t space = full_name.find(' '); space != std::string::npos) {
      parent = root_.get_subcommand(full_name.substr(0, space));
      name = full_name.substr(space + 1);
    }
    CLI::App* app = parent->add_subcommand(name, command->summary());
    if (const std::string examples = command->examples(); !examples.empty()) app->footer("Examples:\n" + examples);
    CliFlags flags(app);
    command->Declare(flags);
    entries_.push_back({app, std::move(command)});
  }

  int Run(int argc, char** argv) {
    if (argc <= 1) {
      PrintText(root_.help());
      return kExitUsage;
    }
    try {
      root_.parse(argc, argv);
    } catch (const CLI::Success& success) {  // --help, --version
      std::ostringstream text;
      const int code = root_.exit(success, text, text);
      PrintText(text.str());
      return code;
    } catch (const CLI::ParseError& error) {
      return Explain(argc, argv, error.what());
    }
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {  // the innermost first
      if (!entry->app->parsed()) continue;
      if (const std::string flag = FlagOfParent(*entry->app); !flag.empty()) {
        return ReportUsage(InvalidArgumentError(fmt::format("{}: flags come after the whole command, surety {} {}",
                                                            flag, entry->app->get_parent()->get_name(),
                                                            entry->app->get_name())));
      }
      return entry->command->Run();
    }
    return ReportUsage(InvalidArgumentError("no command given; see surety --help"));
  }

 private:
  // A flag given to the command above this one, where it would have no effect: models --json list.
  static std::string FlagOfParent(const CLI::App& app) {
    if (app.get_parent() == nullptr) return {};
    for (const CLI::Option* option : app.get_parent()->get_options()) {
      if (option->count() > 0 && !option->get_positional()) return option->get_name();
    }
    return {};
  }

  // The subcommand that the arguments lead to, and the index of its first own argument.
  std::pair<CLI::App*, int> Chosen(int argc, char** argv) {
    CLI::App* app = &root_;
    int i = 1;
    for (; i < argc; ++i) {
      CLI::App* next = nullptr;
      for (CLI::App* sub : app->get_subcommands([](CLI::App*) { return true; })) {
        if (sub->get_name() == argv[i]) next = sub;
      }
      if (next == nullptr) break;
      app = next;
    }
    return {app, i};
  }

  static std::vector<std::string> LongNames(CLI::App* app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    return names;
  }

  static std::string Hint(const std::string& name, const std::vector<std::string>& known) {
    const std::string nearest = NearestName(name, known);
    return nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
  }

  // "Could not convert: --seed = x" in this program's words.
  static std::string Plain(const std::string& what) {
    constexpr std::string_view kConversion = "Could not convert: ";
    const size_t equals = what.find(" = ");
    if (!what.starts_with(kConversion) || equals == std::string::npos) return what;
    return fmt::format("{}: '{}' is not a value that it can take",
                       what.substr(kConversion.size(), equals - kConversion.size()), what.substr(equals + 3));
  }

  int Explain(int argc, char** argv, const std::string& what) {
    const auto [app, first] = Chosen(argc, argv);
    std::string path = "surety";
    for (int i = 1; i < first; ++i) path += fmt::format(" {}", argv[i]);
    const std::string see = fmt::format(" (see {} --help)", path);
    const auto subcommands = app->get_subcommands([](CLI::App*) { return true; });
    if (!subcommands.empty() && first < argc && argv[first][0] != '-') {
      std::vector<std::string> known;
      for (CLI::App* sub : subcommands) known.push_back(sub->get_name());
      return ReportUsage(InvalidArgumentError(
          fmt::format("unknown command '{}'{}{}", argv[first], Hint(argv[first], known), see)));
    }
    const std::vector<std::string> known = LongNames(app);
    for (int i = first; i < argc; ++i) {
      std::string name = argv[i];
      if (!name.starts_with("--") || name == "--") continue;
      name = name.substr(0, name.find('='));
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      return ReportUsage(InvalidArgumentError(fmt::format("unknown flag '{}'{}{}", name, Hint(name, known), see)));
    }
    return ReportUsage(InvalidArgumentError(Plain(what) + see));
  }

  CLI::App root_;
  std::vector<Entry> entries_;
};

int RunCommandLine(int argc, char** argv) {
  Program program;
  program.Add(MakeRunCommand());
  program.Add(MakeChatCommand());
  program.Add(MakeServeCommand());
  for (auto& command : MakeGovernanceCommands()) program.Add(std::move(command));
  program.Add(MakeCheckCommand());
  for (auto& command : MakeKeysCommands()) program.Add(std::move(command));
  for (auto& command : MakeDocumentsCommands()) program.Add(std::move(command));
  for (auto& command : MakeAuditCommands()) program.Add(std::move(command));
  program.Add(MakeSloCommand());
  for (auto& command : MakeReviewCommands()) program.Add(std::move(command));
  program.Add(MakeEmbedCommand());
  program.Add(MakeBenchCommand());
  program.Add(MakeBenchPolicyCommand());
  program.Add(MakeLoadCommand());
  program.Add(MakeProbeCommand());
  program.Add(MakePerplexityCommand());
  program.Add(MakeTrainDraftCommand());
  program.Add(MakeTrainRouterCommand());
  program.Add(MakeInspectCommand());
  for (auto& command : MakeModelsCommands()) program.Add(std::move(command));
  program.Add(MakeVersionCommand());
  return program.Run(argc, argv);
}

}  // namespace

int RunProgram(int argc, char** argv) {
  std::setlocale(LC_CTYPE, "");
  OccupyClosedStreams();
  InstallInterruptHandlers();
  const int code = Guarded([&] { return RunCommandLine(argc, argv); });
  const Status written = CheckOutput();
  if (written.ok()) return code;
  ReportFailure(written);
  return code == kExitOk ? kExitFailure : code;
}

}  // namespace surety::cli
