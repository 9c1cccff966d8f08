// surety chat: a conversation. The KV of finished turns stays, so a turn computes only what is new.
#include <unistd.h>

#include <cstdlib>

#include <fmt/format.h>

#include "base/file.h"
#include "base/function_ref.h"
#include "base/memory_info.h"
#include "base/nearest_name.h"
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

constexpr std::string_view kDefaultQuestion = "What can you help me with? Answer in two short sentences.";
constexpr uint64_t kConversation = 1;
constexpr int kStdinWaitMs = 300;

constexpr std::string_view kHelp =
    "/help           this list\n"
    "/system TEXT    set the instructions (empty: none) and start afresh\n"
    "/reset          forget the conversation, keep the instructions\n"
    "/retry          answer the last question again, with the next seed\n"
    "/save FILE      write the conversation as JSON\n"
    "/stats          tokens, speed and memory so far\n"
    "/exit           leave (also Ctrl-D, or Ctrl-C twice)\n"
    "A line that ends with \\ goes on in the next one. Ctrl-C stops an answer.\n";

class ChatCommand final : public Command {
 public:
  std::string name() const override { return "chat"; }
  std::string summary() const override { return "talk with a model; without a terminal, answer one question"; }
  std::string examples() const override {
    return "  surety chat\n"
           "  surety chat -m smollm2-135m-instruct --system \"You answer in rhymes.\"\n"
           "  echo \"What is a mutex?\" | surety chat\n\nInside, /help lists the commands.";
  }

  void Declare(Flags& flags) override {
    flags.Group("Conversation");
    flags.Add("--system", system_, "instructions that stand before the conversation");
    flags.Add("--first", first_, "a first question, asked before yours");
    model_.Declare(flags);
    kv_.Declare(flags);
    speculation_.Declare(flags);
    sampling_.Declare(flags);
    flags.Group("Output");
    flags.Add("--json", json_, "without a terminal: one JSON object instead of text");
  }

  int Run() override {
    const bool interactive = IsTerminal(STDIN_FILENO);
    if (interactive && json_) return ReportUsage(InvalidArgumentError("--json is for use without a terminal"));
    std::string question;
    if (!interactive) {
      if (const Status status = ReadOneQuestion(question); !status.ok()) return ReportFailure(status);
    }
    if (const Status status = CheckFlags(); !status.ok()) return ReportUsage(status);
    auto opened = OpenEngine(model_, kv_, speculation_, /*max_rows=*/512);
    if (!opened) return ReportFailure(opened.error());
    opened_ = &*opened;
    if (opened->model.local->chat_template() == nullptr) {
      const Status& why = opened->model.local->chat_template_status();
      return ReportFailure(FailedPreconditionError(
          why.ok() ? fmt::format("{} has no chat template, so it cannot chat; use surety run --raw", model_.model)
                   : fmt::format("the chat template of {} is not usable: {}", model_.model, why.message())));
    }
    api::GenerationRequest probe;
    const Status sampling = sampling_.Apply(*opened->model.local, probe);
    if (!sampling.ok()) return ReportFlagFault(sampling);
    Restart();
    return interactive ? Converse() : AnswerOnce(question);
  }

 private:
  Status CheckFlags() const {
    SURETY_RETURN_IF_ERROR(kv_.Validate());
    SURETY_RETURN_IF_ERROR(speculation_.Validate());
    SURETY_RETURN_IF_ERROR(sampling_.Validate());
    return model_.Apply();
  }

  // Without a terminal: the first line with text from standard input, and those that it goes on in; else --first, else
  // the default. With --first the input is only waited for briefly, since it may be a pipe that nobody writes to.
  Status ReadOneQuestion(std::string& question) {
    LineOutcome outcome = LineOutcome::kLine;
    while (outcome == LineOutcome::kLine && IsBlank(question)) {
      question.clear();
      outcome = ReadWholeLine(question, first_ ? kStdinWaitMs : -1, [](std::string_view) {});
    }
    if (outcome == LineOutcome::kInterrupted) return CancelledError("interrupted");
    if (IsBlank(question)) question = first_.value_or(std::string(kDefaultQuestion));
    return OkStatus();
  }

  static bool IsBlank(const std::string& line) { return line.find_first_not_of(" \t\n") == std::string::npos; }

  int AnswerOnce(const std::string& question) {
    if (!json_) Print("> {}\n", question);
    FlushOutput();
    if (const Status status = Ask(question); !status.ok()) return ReportFailure(status);
    if (json_) {
      boost::json::object out = DescribeModel(opened_->model);
      DescribeAnswer(last_, out);
      out["question"] = question;
      out["kv_bytes"] = opened_->engine->kv_bytes();
      out["workspace_bytes"] = opened_->engine->workspace_bytes();
      out["peak_memory_bytes"] = PeakResidentBytes();
      PrintJson(out);
    }
    return last_.finish == api::FinishReason::kCancelled ? kExitInterrupted : kExitOk;
  }

  int Converse() {
    Print("{}{}, {} on {} threads, context {} tokens. /help lists the commands.{}\n", Dim(), model_.model,
               opened_->model.local->ops().name(), opened_->model.local->executor().n_workers(),
               opened_->engine->options().context_tokens, Plain());
    if (first_ && !first_->empty()) {
      Print("{}> {}{}\n", Bold(), *first_, Plain());
      FlushOutput();
      if (const Status status = Ask(*first_); !status.ok()) ReportFailure(status);
      if (Terminated()) return kExitInterrupted;
      ClearInterrupt();
    }
    int interrupts = 0;
    while (true) {
      std::string line;
      const LineOutcome outcome = ReadLine(line);
      if (Terminated()) return kExitInterrupted;
      if (outcome == LineOutcome::kInterrupted) {
        ClearInterrupt();
        if (++interrupts >= 2) break;
        Print("\n{}(Ctrl-C once more or Ctrl-D to leave){}\n", Dim(), Plain());
        continue;
      }
      if (outcome == LineOutcome::kEnd) break;
      interrupts = 0;
      if (IsBlank(line)) continue;
      if (line[0] == '/') {
        if (!DoSlash(line)) return kExitOk;
      } else if (const Status status = Ask(line); !status.ok()) {
        ReportFailure(status);
      }
      if (Terminated()) return kExitInterrupted;
      ClearInterrupt();
    }
    Print("\n");
    return kExitOk;
  }

  LineOutcome ReadLine(std::string& line) {
    return ReadWholeLine(line, /*timeout_ms=*/-1, [](std::string_view prompt) {
      Print("{}{}{}", Bold(), prompt, Plain());
      FlushOutput();
    });
  }

  // A line and, after a backslash at its end, the next one. `ask` is called before each. Input that ends after a
  // backslash ends the line, too.
  LineOutcome ReadWholeLine(std::string& line, int timeout_ms, FunctionRef<void(std::string_view)> ask) {
    std::string_view prompt = "> ";
    while (true) {
      ask(prompt);
      std::string part;
      const LineOutcome outcome = reader_.Next(part, timeout_ms);
      const bool goes_on = !line.empty();
      if (outcome != LineOutcome::kLine) return goes_on && outcome == LineOutcome::kEnd ? LineOutcome::kLine : outcome;
      line += part;
      if (!line.ends_with('\\')) return outcome;
      line.back() = '\n';
      prompt = ". ";
    }
  }

  Status Ask(const std::string& question) {
    messages_.push_back(boost::json::object{{"role", "user"}, {"content", question}});
    api::GenerationRequest request;
    SURETY_RETURN_IF_ERROR(sampling_.Apply(*opened_->model.local, request));
    request.sampling.seed += seed_offset_;
    request.messages = messages_;
    request.has_messages = true;
    auto answer = Generate(*opened_->engine, request, kConversation, [this](std::string_view text) {
      if (json_) return;
      PrintText(text);
      FlushOutput();
    });
    if (!answer) {
      messages_.pop_back();
      if (answer.error().code() != StatusCode::kOutOfRange) return answer.error();
      return {answer.error().code(), answer.error().message() + " (a longer context: --ctx N; afresh: /reset)"};
    }
    last_ = *std::move(answer);
    messages_.push_back(boost::json::object{{"role", "assistant"}, {"content", last_.text}});
    ++turns_;
    prompt_tokens_ += last_.usage.prompt_tokens;
    cached_tokens_ += last_.usage.cached_tokens;
    output_tokens_ += last_.usage.output_tokens;
    if (json_) return OkStatus();
    if (!last_.text.ends_with('\n')) Print("\n");
    FlushOutput();
    PrintError("{}[{}]{}\n", ErrDim(), TimingLine(last_), ErrPlain());
    return OkStatus();
  }

  void Restart() {
    opened_->engine->Forget(kConversation);
    messages_.clear();
    if (system_ && !system_->empty()) {
      messages_.push_back(boost::json::object{{"role", "system"}, {"content", *system_}});
    }
  }

  // False: leave.
  bool DoSlash(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string word = line.substr(0, space);
    std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (word == "/exit" || word == "/quit") return false;
    if (word == "/help") {
      Print("{}", kHelp);
    } else if (word == "/reset") {
      Restart();
      Print("The conversation starts afresh.\n");
    } else if (word == "/system") {
      system_ = rest;
      Restart();
      Print("{}\n", rest.empty() ? "No instructions." : "Instructions set; the conversation starts afresh.");
    } else if (word == "/retry") {
      Retry();
    } else if (word == "/save") {
      Save(rest);
    } else if (word == "/stats") {
      PrintStats();
    } else {
      const std::string known[] = {"/help", "/reset", "/system", "/retry", "/save", "/stats", "/exit"};
      const std::string nearest = NearestName(word, known);
      Print("Unknown command {}{}\n", word,
                 nearest.empty() ? "; /help lists them" : fmt::format("; did you mean {}?", nearest));
    }
    return true;
  }

  void Retry() {
    if (messages_.empty() || messages_.back().at("role").as_string() != "assistant") {
      Print("There is nothing to answer again.\n");
      return;
    }
    messages_.pop_back();
    const std::string question(messages_.back().at("content").as_string());
    messages_.pop_back();
    ++seed_offset_;
    if (const Status status = Ask(question); !status.ok()) ReportFailure(status);
  }

  void Save(const std::string& path) {
    if (path.empty()) {
      Print("Give a file: /save FILE\n");
      return;
    }
    const boost::json::object out = {{"model", model_.model}, {"messages", messages_}};
    const Status status = FileSystem::Real().WriteAll(path, PrettyJson(out));
    if (!status.ok()) {
      ReportFailure(status);
    } else {
      Print("Saved to {}.\n", path);
    }
  }

  void PrintStats() {
    const engine::EngineCounters& counters = opened_->engine->counters();
    const engine::SpeculationCounters& drafts = opened_->engine->speculation();
    const auto rate = [](int64_t rows, int64_t nanos) {
      return nanos > 0 ? static_cast<double>(rows) * 1e9 / static_cast<double>(nanos) : 0.0;
    };
    const kv::PagePool& pages = opened_->engine->pages();
    Print("{} turns; {} prompt tokens, {} of them from the cache; {} answer tokens\n", turns_, prompt_tokens_,
               cached_tokens_, output_tokens_);
    Print("prefill {:.1f} tok/s, decode {:.1f} tok/s over all turns\n",
               rate(counters.prefill_rows, counters.prefill_nanos),
               rate(counters.decode_rows - drafts.draft_tokens() + drafts.accepted_tokens(), counters.decode_nanos));
    if (drafts.draft_tokens() > 0) {
      Print("drafts: {} of {} tokens held\n", drafts.accepted_tokens(), drafts.draft_tokens());
    }
    Print("KV: {} of {} pages, {}; weights {}; peak memory {}\n", pages.n_used(), pages.n_pages(),
               HumanBytes(opened_->engine->kv_bytes()), HumanBytes(opened_->model.local->model().weight_bytes()),
               HumanBytes(PeakResidentBytes()));
  }

  static bool Coloured(int fd) { return IsTerminal(fd) && std::getenv("NO_COLOR") == nullptr; }
  static std::string_view Dim() { return Coloured(STDOUT_FILENO) ? "\x1b[2m" : ""; }
  static std::string_view Bold() { return Coloured(STDOUT_FILENO) ? "\x1b[1m" : ""; }
  static std::string_view Plain() { return Coloured(STDOUT_FILENO) ? "\x1b[0m" : ""; }
  static std::string_view ErrDim() { return Coloured(STDERR_FILENO) ? "\x1b[2m" : ""; }
  static std::string_view ErrPlain() { return Coloured(STDERR_FILENO) ? "\x1b[0m" : ""; }

  ModelFlags model_;
  KvFlags kv_;
  SpeculationFlags speculation_;
  SamplingFlags sampling_;
  std::optional<std::string> system_, first_;
  bool json_ = false;

  OpenedEngine* opened_ = nullptr;  // for the length of Run
  LineReader reader_;
  boost::json::array messages_;
  Answer last_;
  uint64_t seed_offset_ = 0;
  int turns_ = 0;
  int64_t prompt_tokens_ = 0, cached_tokens_ = 0, output_tokens_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeChatCommand() { return std::make_unique<ChatCommand>(); }

}  // namespace surety::cli
