// surety review: answers that wait for a person, on the terminal, by the endpoints of a server.
#include <unistd.h>

#include <cstdlib>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/prompt_input.h"
#include "cli/review_client.h"
#include "cli/review_session.h"

namespace surety::cli {
namespace {

namespace json = boost::json;

class ReviewBase : public Command {
 public:
  void Declare(Flags& flags) final {
    flags.Group("Server");
    flags.Add("--url", url_, "the address of surety serve");
    flags.Add("--key", key_, "the reviewer's API key; else $SURETY_API_KEY, which other users cannot see");
    flags.Group("Review");
    DeclareOwn(flags);
    flags.Group("Output");
    flags.Add("--json", json_, "what the server answers, as JSON");
  }

 protected:
  virtual void DeclareOwn(Flags& flags) = 0;

  ReviewClient Client() const {
    const char* key = std::getenv("SURETY_API_KEY");
    return {url_, !key_.empty() || key == nullptr ? key_ : key};
  }
  Result<json::object> Call(const std::string& action, json::object arguments = {}) const {
    return Client().Call({action, std::move(arguments)});
  }
  // Leases the ticket as it was at `version`, or as it is now.
  Result<json::object> Leased(const std::string& id, int version) const {
    int64_t seen = version;
    if (seen == 0) {
      SURETY_ASSIGN_OR_RETURN(const json::object ticket, Call("get", {{"id", id}}));
      seen = WholeOf(ticket, "version");
    }
    return Call("lease", {{"id", id}, {"version", seen}});
  }
  int Show(const Result<json::object>& answer, std::string (*form)(const json::object&)) const {
    if (!answer) return ReportFailure(answer.error());
    if (json_) {
      PrintJson(*answer);
    } else {
      PrintText(form(*answer));
    }
    return kExitOk;
  }

  std::string url_ = "http://127.0.0.1:8080", key_;
  bool json_ = false;
};

std::string ReviewList(const json::object& answer) {
  std::string out;
  const json::value* data = answer.if_contains("data");
  if (data != nullptr && data->is_array()) {
    for (const json::value& ticket : data->as_array()) {
      if (ticket.is_object()) out += TicketLine(ticket.as_object());
    }
  }
  return out.empty() ? "no tickets\n" : out;
}

std::string ReviewOutcome(const json::object& ticket) {
  return fmt::format("{} is {}, version {}\n", TextOf(ticket, "id"), TextOf(ticket, "state"),
                     WholeOf(ticket, "version"));
}

class ReviewCommand final : public ReviewBase {
 public:
  std::string name() const override { return "review"; }
  std::string summary() const override { return "answers that wait for a person; on a terminal, one after the other"; }
  std::string examples() const override {
    return "  surety review --queue supervisor\n"
           "  surety review list --state open --json\n"
           "  surety review approve rev_... --version 3 --reason-code correct";
  }
  int Run() override {
    if (!IsTerminal(STDIN_FILENO) || json_) {
      return ReportUsage(InvalidArgumentError("without a terminal, name what to do: surety review list, next, show, "
                                              "edit, approve, reject, release or stats"));
    }
    LineReader lines;
    bool interrupted = false;
    ReviewDesk desk;
    const ReviewClient client = Client();
    desk.call = [&](const gateway::ReviewCall& call) { return client.Call(call); };
    desk.print = [](std::string_view text) {
      PrintText(text);
      FlushOutput();
    };
    desk.ask = [&](std::string_view prompt) -> std::optional<std::string> {
      desk.print(prompt);
      std::string line;
      const LineOutcome outcome = lines.Next(line);
      const bool got = outcome == LineOutcome::kLine;
      interrupted = outcome == LineOutcome::kInterrupted;  // of the last question: one before goes back to its ticket
      if (Interrupted() && !Terminated()) ClearInterrupt();  // so that the ticket can still be released
      return got ? std::optional(line) : std::nullopt;
    };
    desk.edit = EditInEditor;
    ReviewSession session(desk, queue_);
    const Status status = session.Run();
    if (session.n_decided() > 0) Print("{} decided.\n", session.n_decided());
    if (!status.ok()) return ReportFailure(status);
    return interrupted ? kExitInterrupted : kExitOk;
  }

 private:
  void DeclareOwn(Flags& flags) override { flags.Add("--queue", queue_, "of this queue alone"); }
  std::string queue_;
};

class ReviewListCommand final : public ReviewBase {
 public:
  std::string name() const override { return "review list"; }
  std::string summary() const override { return "tickets, the oldest first"; }
  int Run() override {
    json::object arguments{{"state", state_}, {"limit", limit_}};
    if (!queue_.empty()) arguments["queue"] = queue_;
    return Show(Call("list", std::move(arguments)), ReviewList);
  }

 private:
  void DeclareOwn(Flags& flags) override {
    flags.Add("--queue", queue_, "of this queue alone");
    flags.Add("--state", state_, "open, approved, rejected or erased");
    flags.Add("--limit", limit_, "at most, 1 to 1000");
  }
  std::string queue_, state_ = "open";
  int limit_ = 50;
};

class ReviewNextCommand final : public ReviewBase {
 public:
  std::string name() const override { return "review next"; }
  std::string summary() const override { return "lease the oldest ticket of a queue, and show it"; }
  int Run() override {
    if (queue_.empty()) return ReportUsage(InvalidArgumentError("--queue: name the queue"));
    return Show(Call("lease", {{"queue", queue_}}), TicketDocument);
  }

 private:
  void DeclareOwn(Flags& flags) override { flags.Add("--queue", queue_, "the queue"); }
  std::string queue_;
};

class ReviewStatsCommand final : public ReviewBase {
 public:
  std::string name() const override { return "review stats"; }
  std::string summary() const override { return "counts and medians by queue"; }
  int Run() override { return Show(Call("stats"), ReviewStatsTable); }

 private:
  void DeclareOwn(Flags&) override {}
};

// Of one ticket: show, edit, approve, reject, release.
class ReviewTicketCommand final : public ReviewBase {
 public:
  ReviewTicketCommand(std::string action, std::string summary)
      : action_(std::move(action)), summary_(std::move(summary)) {}
  std::string name() const override { return "review " + action_; }
  std::string summary() const override { return summary_; }
  int Run() override {
    if (version_ < 0) return ReportUsage(InvalidArgumentError("--version: it is a number from 1"));
    if (action_ == "show") return Show(Call("get", {{"id", id_}}), TicketDocument);
    if (action_ == "approve" && version_ == 0) {
      return ReportUsage(InvalidArgumentError("--version: name the version that you have read (surety review show "
                                              "prints it), so that nothing else is approved"));
    }
    if (!file_.empty() && file_ != "-") return ReportUsage(InvalidArgumentError("--from: it takes - alone"));
    auto leased = Leased(id_, version_);
    if (!leased) return ReportFailure(leased.error());
    json::object arguments{{"id", id_}};
    if (action_ == "edit") {
      auto text = file_.empty() ? EditInEditor(TextOf(*leased, "text")) : ReadPromptFromStdin();
      if (!text) return Refused(*leased, text.error());
      arguments["text"] = *std::move(text);
      // It may have taken longer than the lease; the version tells whether somebody came between.
      auto renewed = Call("lease", {{"id", id_}, {"version", WholeOf(*leased, "version")}});
      if (!renewed) return Refused(*leased, renewed.error());
      leased = std::move(renewed);
    } else if (action_ != "release") {
      if (!reason_code_.empty()) arguments["reason_code"] = reason_code_;
      if (!reason_.empty()) arguments["reason"] = reason_;
    }
    arguments["version"] = WholeOf(*leased, "version");
    const auto answer = Call(action_, std::move(arguments));
    if (!answer) return Refused(*leased, answer.error());
    return Show(action_ == "edit" ? Freed(*answer) : answer, ReviewOutcome);
  }

 private:
  void DeclareOwn(Flags& flags) override {
    flags.Positional("ID", id_, /*required=*/true, "the ticket, rev_...");
    if (action_ != "show") flags.Add("--version", version_, "as it was read; 0: as it is now");
    if (action_ == "edit") flags.Add("--from", file_, "-: the text comes from standard input, not from $EDITOR");
    if (action_ == "approve" || action_ == "reject") {
      flags.Add("--reason-code", reason_code_, "why, as a word");
      flags.Add("--reason", reason_, "why, in words");
    }
  }
  // The lease was for this command alone.
  Result<json::object> Freed(const json::object& ticket) const {
    return Call("release", {{"id", id_}, {"version", WholeOf(ticket, "version")}});
  }
  int Refused(const json::object& leased, const Status& why) const {
    (void)Freed(leased);
    return ReportFailure(why);
  }

  std::string action_, summary_, id_, reason_code_, reason_, file_;
  int version_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Command>> MakeReviewCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<ReviewCommand>());
  commands.push_back(std::make_unique<ReviewListCommand>());
  commands.push_back(std::make_unique<ReviewNextCommand>());
  for (const auto& [action, summary] :
       {std::pair{"show", "one ticket: question, evidence, draft"}, std::pair{"edit", "change its text in $EDITOR"},
        std::pair{"approve", "approve the text as it was read"}, std::pair{"reject", "reject it"},
        std::pair{"release", "give a lease back"}}) {
    commands.push_back(std::make_unique<ReviewTicketCommand>(action, summary));
  }
  commands.push_back(std::make_unique<ReviewStatsCommand>());
  return commands;
}

}  // namespace surety::cli
