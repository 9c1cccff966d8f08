// surety inspect: what a model file or folder is, without loading it.

#include <fmt/format.h>

#include "base/file.h"
#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/json_out.h"
#include "cli/models_store.h"
#include "cli/output.h"
#include "model/inspect.h"
#include "model/model_source.h"

namespace surety::cli {
namespace {

class InspectCommand final : public Command {
 public:
  std::string name() const override { return "inspect"; }
  std::string summary() const override { return "show what a model is: shapes, types, memory, template, digest"; }
  std::string examples() const override {
    return "  surety inspect qwen2.5-coder-0.5b-instruct --context 8192\n"
           "  surety inspect model.gguf --tensors\n"
           "  surety inspect model.gguf --template > template.jinja";
  }

  void Declare(Flags& flags) override {
    flags.Positional("MODEL", model_, true, "a path, or a name that 'surety models' lists");
    flags.Add("--context", context_, "work out the memory for this many tokens; 0: the model's limit");
    flags.Add("--kv-type", kv_type_, "... with keys and values in f32, f16, bf16 or q8_0");
    flags.Add("--tensors", tensors_, "list every tensor");
    flags.Add("--template", template_, "print the chat template and nothing else");
    flags.Add("--digest", digest_, "compute the SHA-256 (reads everything)");
    flags.Add("--json", json_, "one JSON object");
  }

  int Run() override {
    const auto kv_type = KvTypeFromName(kv_type_);
    if (!kv_type) return ReportUsage(kv_type.error().WithContext("--kv-type"));
    if (context_ < 0) return ReportUsage(InvalidArgumentError(fmt::format("--context: {} is no count", context_)));
    if (template_ && (json_ || tensors_ || digest_)) {
      return ReportUsage(InvalidArgumentError("--template prints the template and nothing else: no --json, --tensors, "
                                              "--digest with it (--json has it, as chat_template)"));
    }
    auto path = ResolveModel(model_);
    if (!path) return ReportFailure(path.error());
    auto source = model::OpenModelSource(FileSystem::Real(), *path);
    if (!source) return ReportFailure(source.error());
    if (template_) return PrintTemplate(**source);
    if (const int limit = (*source)->config().max_context; context_ > limit) {
      return ReportUsage(InvalidArgumentError(fmt::format("--context: {} tokens, but the model's limit is {}", context_,
                                                          limit)));
    }
    model::InspectOptions options;
    options.context = context_;
    options.kv_type = *kv_type;
    options.digest = digest_;
    options.list_tensors = tensors_;
    auto report = model::Inspect(**source, options);
    if (!report) return ReportFailure(report.error());
    PrintText(json_ ? ValidJsonText(model::ReportJson(*report)) : model::ReportText(*report));
    if (!json_) PrintTensors(report->tensors);
    return kExitOk;
  }

 private:
  static int PrintTemplate(const model::ModelSource& source) {
    if (source.chat_template().empty()) {
      return ReportFailure(NotFoundError(fmt::format("{} has no chat template", source.path())));
    }
    PrintText(source.chat_template() + "\n");
    return kExitOk;
  }

  static void PrintTensors(const std::vector<model::TensorEntry>& tensors) {
    for (const model::TensorEntry& tensor : tensors) {
      std::string shape;
      for (const int64_t d : tensor.shape) shape += fmt::format("{}{}", shape.empty() ? "" : " x ", d);
      Print("{:<40} {:<7} {}\n", tensor.name, tensor.type, shape);
    }
  }

  std::string model_;
  std::string kv_type_ = "f16";
  int context_ = 0;
  bool tensors_ = false, template_ = false, digest_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeInspectCommand() { return std::make_unique<InspectCommand>(); }

}  // namespace surety::cli
