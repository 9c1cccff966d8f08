// surety run: one prompt, one answer.
#include <unistd.h>

#include <fmt/format.h>

#include "base/memory_info.h"
#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/generate.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/prompt_input.h"
#include "cli/sampling_options.h"

namespace surety::cli {
namespace {

class RunCommand final : public Command {
 public:
  std::string name() const override { return "run"; }
  std::string summary() const override { return "answer one prompt, streaming the text to standard output"; }
  std::string examples() const override {
    return "  surety run -p \"Write a haiku about the sea.\"\n"
           "  surety run -m smollm2-135m-instruct -p \"Once upon a time\" --raw -n 64\n"
           "  git diff | surety run -p - --system \"Summarise this change in one line.\"\n"
           "  surety run -p \"Name a colour\" --temperature 0.8 --top-p 0.95 --seed 7 --json";
  }

  void Declare(Flags& flags) override {
    flags.Group("Prompt");
    flags.Add("-p,--prompt", prompt_, "the prompt; '-' reads it from standard input");
    flags.Add("--system", system_, "instructions that stand before the conversation");
    flags.Add("--raw", raw_, "the prompt as it is, without the model's chat template");
    model_.Declare(flags);
    kv_.Declare(flags);
    speculation_.Declare(flags);
    sampling_.Declare(flags);
    flags.Group("Output");
    flags.Add("--logprobs", logprobs_, "with --json: log-probabilities of each token and the N best others");
    flags.Add("--json", json_, "one JSON object at the end instead of streamed text");
    flags.Add("-q,--quiet", quiet_, "no timing summary on standard error");
  }

  int Run() override {
    if (!prompt_) return ReportUsage(InvalidArgumentError("give a prompt with -p TEXT, or -p - for standard input"));
    if (raw_ && system_) return ReportUsage(InvalidArgumentError("--system needs the chat template; not with --raw"));
    if (*prompt_ == "-") {
      auto read = ReadPromptFromStdin();
      if (!read) return ReportFailure(read.error());
      prompt_ = *std::move(read);
    }
    if (const Status status = CheckFlags(); !status.ok()) return ReportUsage(status);
    auto opened = OpenEngine(model_, kv_, speculation_, /*max_rows=*/512);
    if (!opened) return ReportFailure(opened.error());
    auto request = MakeRequest(*opened->model.local);
    if (!request) return ReportFlagFault(request.error());
    auto answer = Generate(*opened->engine, *request, /*keep=*/0, [this](std::string_view text) { Stream(text); });
    if (!answer) return ReportFailure(AddHint(answer.error()));
    Report(*opened, *request, *answer);
    return answer->finish == api::FinishReason::kCancelled ? kExitInterrupted : kExitOk;
  }

 private:
  Status CheckFlags() const {
    if (logprobs_ && !json_) return InvalidArgumentError("--logprobs goes into the report of --json");
    if (logprobs_ && *logprobs_ < 0) {
      return InvalidArgumentError(fmt::format("--logprobs: {} is not a number from 0 up", *logprobs_));
    }
    SURETY_RETURN_IF_ERROR(kv_.Validate());
    SURETY_RETURN_IF_ERROR(speculation_.Validate());
    SURETY_RETURN_IF_ERROR(sampling_.Validate());
    return model_.Apply();
  }

  Result<api::GenerationRequest> MakeRequest(const engine::LocalModel& model) {
    api::GenerationRequest request;
    if (!raw_ && !model.chat_template_status().ok()) {
      ReportWarning(fmt::format("the model's chat template is not usable ({}); the prompt goes in as it is",
                                model.chat_template_status().message()));
    }
    if (raw_ || model.chat_template() == nullptr) {
      if (system_) return Error(InvalidArgumentError("--system: the model has no chat template"));
      request.prompt = *prompt_;
      request.has_prompt = true;
    } else {
      if (system_) request.messages.push_back(boost::json::object{{"role", "system"}, {"content", *system_}});
      request.messages.push_back(boost::json::object{{"role", "user"}, {"content", *prompt_}});
      request.has_messages = true;
    }
    request.n_logprobs = logprobs_.value_or(-1);
    if (request.n_logprobs > model.config().vocab_size) {
      return Error(InvalidArgumentError(fmt::format("--logprobs: {} is more than the model's {} tokens", *logprobs_,
                                                    model.config().vocab_size)));
    }
    SURETY_RETURN_IF_ERROR(sampling_.Apply(model, request));
    return request;
  }

  Status AddHint(const Status& status) const {
    if (status.code() != StatusCode::kOutOfRange) return status;
    return {status.code(), status.message() + " (a longer context: --ctx N)"};
  }

  void Stream(std::string_view text) {
    if (json_) return;
    PrintText(text);
    FlushOutput();
    ends_with_newline_ = text.back() == '\n';
  }

  void Report(const OpenedEngine& opened, const api::GenerationRequest& request, const Answer& answer) {
    if (json_) {
      boost::json::object out = DescribeModel(opened.model);
      DescribeAnswer(answer, out);
      out["seed"] = request.sampling.seed;
      out["temperature"] = request.sampling.temperature;
      out["kv_bytes"] = opened.engine->kv_bytes();
      out["workspace_bytes"] = opened.engine->workspace_bytes();
      out["peak_memory_bytes"] = PeakResidentBytes();
      PrintJson(out);
      return;
    }
    if (!ends_with_newline_) PrintText("\n");
    FlushOutput();
    if (quiet_) return;
    PrintError("[{}; load {}, peak memory {}]\n", TimingLine(answer), HumanSeconds(opened.model.load_seconds),
               HumanBytes(PeakResidentBytes()));
  }

  ModelFlags model_;
  KvFlags kv_;
  SpeculationFlags speculation_;
  SamplingFlags sampling_;
  std::optional<std::string> prompt_, system_;
  std::optional<int> logprobs_;
  bool raw_ = false, json_ = false, quiet_ = false;
  bool ends_with_newline_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeRunCommand() { return std::make_unique<RunCommand>(); }

}  // namespace surety::cli
