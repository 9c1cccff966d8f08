#include "cli/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/interrupt.h"

namespace surety::cli {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string EndOfLog(const std::string& path) {
  auto text = FileSystem::Real().ReadAll(path, 4 << 20);
  if (!text) return {};
  while (!text->empty() && (text->back() == '\n' || text->back() == ' ')) text->pop_back();
  constexpr size_t kShown = 1200;
  return text->size() > kShown ? "..." + text->substr(text->size() - kShown) : *text;
}

Result<pid_t> Spawn(const ChildProcess& child) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, child.log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setpgroup(&attributes, 0);  // its own group: Ctrl-C reaches us alone, and we end it
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  sigaddset(&defaults, SIGTERM);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);

  std::vector<std::string> arguments = child.arguments;
  std::vector<std::string> environment = child.environment;  // the first entry of a name is the one that counts
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, arguments[0].c_str(), &actions, &attributes, Pointers(arguments).data(),
                                 Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return pid;
  const std::string message = fmt::format("cannot start {}: {}", arguments[0], std::strerror(error));
  return Error(error == ENOENT ? NotFoundError(message) : IoError(message));
}

}  // namespace

Status RunChild(const ChildProcess& child, FunctionRef<void()> watch) {
  SURETY_ASSIGN_OR_RETURN(const pid_t pid, Spawn(child));
  int status = 0;
  bool ended_by_us = false;
  int ticks_since_end = 0;
  while (true) {
    const pid_t done = waitpid(pid, &status, WNOHANG);
    if (done == pid) break;
    if (done < 0 && errno != EINTR) return IoError(fmt::format("waiting for {}: {}", child.arguments[0],
                                                              std::strerror(errno)));
    if (Interrupted() && !ended_by_us) {
      kill(-pid, SIGTERM);
      ended_by_us = true;
    } else if (ended_by_us && ++ticks_since_end == 20) {
      kill(-pid, SIGKILL);
    }
    watch();
    Clock::Real().SleepNanos(100'000'000);
  }
  if (ended_by_us) return CancelledError("interrupted");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return OkStatus();
  const std::string how = WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                                            : fmt::format("signal {}", WTERMSIG(status));
  return UnavailableError(fmt::format("{} failed ({}):\n{}", child.arguments[0], how, EndOfLog(child.log_path)));
}

}  // namespace surety::cli
