#include "cli/review_session.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/file.h"
#include "cli/review_client.h"

namespace surety::cli {
namespace {

namespace json = boost::json;

constexpr int kReviewListed = 1000;
constexpr int64_t kMaxEdited = int64_t{1} << 20;

// Of a server's refusal: another ticket may go well.
bool ConcernsOneTicket(const Status& status) {
  return status.code() == StatusCode::kFailedPrecondition || status.code() == StatusCode::kPermissionDenied ||
         status.code() == StatusCode::kNotFound || status.code() == StatusCode::kInvalidArgument;
}

}  // namespace

// The oldest free one that was not skipped and that the server gives this person.
Result<std::optional<json::object>> ReviewSession::TakeNext() {
  gateway::ReviewCall list{"free", {{"limit", kReviewListed}}};
  if (!queue_.empty()) list.arguments["queue"] = queue_;
  SURETY_ASSIGN_OR_RETURN(const json::object answer, desk_.call(list));
  const json::value* data = answer.if_contains("data");
  if (data == nullptr || !data->is_array()) return Error(UnavailableError("the server's list has no 'data'"));
  for (const json::value& entry : data->as_array()) {
    if (!entry.is_object()) continue;
    const json::object& ticket = entry.as_object();
    const std::string id = TextOf(ticket, "id");
    if (skipped_.contains(id)) continue;
    auto leased = desk_.call({"lease", {{"id", id}, {"version", WholeOf(ticket, "version")}}});
    if (leased) return *std::move(leased);
    if (!ConcernsOneTicket(leased.error())) return Error(leased.error());
    // His own request, or somebody was faster.
    if (leased.error().code() == StatusCode::kPermissionDenied) skipped_.insert(id);
  }
  return std::optional<json::object>();
}

Status ReviewSession::Run() {
  while (true) {
    SURETY_ASSIGN_OR_RETURN(std::optional<json::object> taken, TakeNext());
    if (!taken) {
      desk_.print(skipped_.empty() ? "No ticket waits for you.\n" : "No other ticket waits for you.\n");
      return OkStatus();
    }
    json::object ticket = *std::move(taken);
    desk_.print("\n" + TicketDocument(ticket));
    After after = After::kSame;
    while (after == After::kSame) {
      const auto next = OneKey(ticket);
      if (!next) {
        Release(ticket);
        return next.error();
      }
      after = *next;
    }
    if (after == After::kQuit) return OkStatus();
  }
}

Result<ReviewSession::After> ReviewSession::OneKey(json::object& ticket) {
  const auto line = desk_.ask("\n[a]pprove [e]dit [r]eject [s]kip [q]uit: ");
  const std::string key = line ? *line : "q";
  if (key == "a") return Vote(ticket, "approve");
  if (key == "r") return Vote(ticket, "reject");
  if (key == "e") {
    SURETY_RETURN_IF_ERROR(Edit(ticket));
    return After::kSame;
  }
  if (key == "s" || key == "q") {
    skipped_.insert(TextOf(ticket, "id"));
    Release(ticket);
    return key == "s" ? After::kNext : After::kQuit;
  }
  desk_.print("a, e, r, s or q, then Enter\n");
  return After::kSame;
}

Result<ReviewSession::After> ReviewSession::Vote(json::object& ticket, const std::string& action) {
  const auto code = desk_.ask("reason code: ");
  if (!code) return After::kSame;
  const auto reason = desk_.ask("in words (Enter: none): ");
  if (!reason) return After::kSame;
  json::object arguments;
  if (!code->empty()) arguments["reason_code"] = *code;
  if (!reason->empty()) arguments["reason"] = *reason;
  SURETY_ASSIGN_OR_RETURN(const bool done, Change(ticket, action, std::move(arguments)));
  if (!done) return After::kSame;
  const std::string state = TextOf(ticket, "state");
  if (state == "open") {
    desk_.print("Your approval is recorded; another person must approve, too.\n");
    skipped_.insert(TextOf(ticket, "id"));
  } else {
    ++n_decided_;
    desk_.print(fmt::format("{} is {}.\n", TextOf(ticket, "id"), state));
  }
  return After::kNext;
}

Status ReviewSession::Edit(json::object& ticket) {
  const auto edited = desk_.edit(TextOf(ticket, "text"));
  if (!edited) {
    desk_.print(fmt::format("not edited: {}\n", edited.error().message()));
    return OkStatus();
  }
  if (*edited == TextOf(ticket, "text")) {
    desk_.print("The text is as it was.\n");
    return OkStatus();
  }
  // An editor may have been open for longer than the lease; the version still tells whether somebody came between.
  SURETY_ASSIGN_OR_RETURN(const bool renewed, Change(ticket, "lease", {}));
  if (!renewed) return OkStatus();
  SURETY_ASSIGN_OR_RETURN(const bool done, Change(ticket, "edit", {{"text", *edited}}));
  if (done) desk_.print("\n" + TicketDocument(ticket));
  return OkStatus();
}

Result<bool> ReviewSession::Change(json::object& ticket, const std::string& action, json::object arguments) {
  arguments["id"] = TextOf(ticket, "id");
  arguments["version"] = WholeOf(ticket, "version");
  auto answer = desk_.call({action, std::move(arguments)});
  if (answer) {
    ticket = *std::move(answer);
    return true;
  }
  if (!ConcernsOneTicket(answer.error())) return Error(answer.error());
  desk_.print(fmt::format("refused: {}\n", answer.error().message()));
  return false;
}

void ReviewSession::Release(json::object& ticket) {
  // If it fails the lease runs out by itself.
  (void)desk_.call({"release", {{"id", TextOf(ticket, "id")}, {"version", WholeOf(ticket, "version")}}});
}

Result<std::string> EditInEditor(const std::string& text) {
  std::string folder = "/tmp/surety-review-XXXXXX";
  if (const char* temporary = std::getenv("TMPDIR"); temporary != nullptr && *temporary != '\0') {
    folder = std::string(temporary) + "/surety-review-XXXXXX";
  }
  if (mkdtemp(folder.data()) == nullptr) return Error(IoError(fmt::format("'{}': {}", folder, std::strerror(errno))));
  const std::string path = folder + "/text.txt";
  FileSystem& files = FileSystem::Real();
  const auto work = [&]() -> Result<std::string> {
    SURETY_RETURN_IF_ERROR(files.WriteAll(path, text));
    // The user's own setting may hold arguments, so a shell reads it.
    struct sigaction ignore {}, interrupt {}, quit {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGINT, &ignore, &interrupt);  // Ctrl-C is for the editor
    sigaction(SIGQUIT, &ignore, &quit);
    const pid_t child = fork();
    if (child == 0) {
      signal(SIGINT, SIG_DFL);
      signal(SIGQUIT, SIG_DFL);
      execl("/bin/sh", "sh", "-c", "eval \"${VISUAL:-${EDITOR:-vi}} \\\"\\$1\\\"\"", "surety", path.c_str(),
            static_cast<char*>(nullptr));
      _exit(127);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    sigaction(SIGINT, &interrupt, nullptr);
    sigaction(SIGQUIT, &quit, nullptr);
    if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      return Error(IoError("the editor failed (set EDITOR to one that is installed)"));
    }
    SURETY_ASSIGN_OR_RETURN(std::string edited, files.ReadAll(path, kMaxEdited));
    if (!text.ends_with('\n') && edited.ends_with('\n')) edited.pop_back();  // editors end a file with one
    return edited;
  };
  auto edited = work();
  std::error_code ignored;  // whole: editors leave backups and swap files
  std::filesystem::remove_all(folder, ignored);
  return edited;
}

}  // namespace surety::cli
