// Tools that are programs of this machine: an absolute path, no shell, no environment, no open files but the standard
// ones, arguments as one JSON object on standard input, the result as one on standard output. The program has a process
// group of its own, which is killed at the deadline, when it writes too much, and when the program itself has ended. A
// child that leaves the group (setsid) is not reached: a program that starts such ones must end them itself.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <boost/json.hpp>

#include "gateway/tool_call.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr int kCommandPollMillis = 10;

class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  ~OwnedFd() { Close(); }
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  int get() const { return fd_; }
  void Reset(int fd) {
    Close();
    fd_ = fd;
  }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// A file in memory, read from its beginning: nothing has to be written while the program runs, and a program that does
// not read disturbs nobody.
Status FillInput(OwnedFd& input, const std::string& text) {
  input.Reset(::memfd_create("surety-tool", MFD_CLOEXEC));
  size_t done = 0;
  while (input.get() >= 0 && done < text.size()) {
    const ssize_t n = ::write(input.get(), text.data() + done, text.size() - done);
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  if (input.get() < 0 || done < text.size() || ::lseek(input.get(), 0, SEEK_SET) != 0) {
    return UnavailableError(std::string("its input: ") + std::strerror(errno));
  }
  return OkStatus();
}

Result<pid_t> SpawnTool(const std::vector<std::string>& command, int input, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawn_file_actions_addchdir_np(&actions, "/");
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  std::vector<std::string> owned = command;
  std::vector<char*> arguments;
  for (std::string& argument : owned) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  std::array<char*, 1> environment = {nullptr};
  pid_t pid = 0;
  const int error = posix_spawn(&pid, command[0].c_str(), &actions, &attributes, arguments.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Error(UnavailableError("'" + command[0] + "' cannot be started: " + std::strerror(error)));
  return pid;
}

// The leader is not reaped before its group is killed, so the group's number cannot be another's by then.
int KillAndReap(pid_t pid) {
  (void)::kill(-pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  return status;
}

bool HasExited(pid_t pid) {
  siginfo_t info = {};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

// What is there now. False: the pipe has ended, or there is too much.
bool DrainPipe(int fd, std::string& output) {
  std::array<char, 16384> bytes;
  while (output.size() <= kMaxToolBytes) {
    const ssize_t n = ::read(fd, bytes.data(), bytes.size());
    if (n > 0) {
      output.append(bytes.data(), static_cast<size_t>(n));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    return n < 0 && errno == EAGAIN;
  }
  return false;
}

}  // namespace

Status CheckCommandTool(const ToolSpec& spec) {
  if (spec.command.empty()) return InvalidArgumentError("a command is missing");
  const std::string& program = spec.command[0];
  if (!program.starts_with('/') || program.find("/../") != std::string::npos || program.ends_with("/..")) {
    return InvalidArgumentError("'" + program + "': a program is named by its absolute path, without ..");
  }
  for (const std::string& part : spec.command) {
    if (part.find('\0') != std::string::npos) return InvalidArgumentError("a zero byte in the command");
  }
  struct stat state = {};
  if (::stat(program.c_str(), &state) != 0) return InvalidArgumentError("'" + program + "': " + std::strerror(errno));
  if (!S_ISREG(state.st_mode) || ::access(program.c_str(), X_OK) != 0) {
    return InvalidArgumentError("'" + program + "' is no program that this process may run");
  }
  if ((state.st_mode & S_IWOTH) != 0) {
    return InvalidArgumentError("'" + program + "' can be changed by every user of the machine");
  }
  return OkStatus();
}

ToolOutcome CallCommandTool(const ToolCall& call) {
  ToolOutcome outcome;
  const auto failed = [&](Status status) {
    outcome.value = Error(std::move(status));
    return std::move(outcome);
  };
  json::object arguments;
  for (const auto& [name, value] : call.arguments) arguments[name] = value;
  json::value text = arguments;
  if (call.spec.kind == ToolSpec::Kind::kWrite) {
    text = json::object{{"idempotency_key", call.idempotency_key}, {"arguments", std::move(arguments)}};
  }
  OwnedFd input;
  if (Status filled = FillInput(input, CanonicalJson(text)); !filled.ok()) return failed(std::move(filled));
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failed(UnavailableError(std::strerror(errno)));
  const OwnedFd read_end(ends[0]);
  OwnedFd write_end(ends[1]);
  (void)::fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
  if (call.Late()) return failed(ToolLate(call));
  if (call.on_send) call.on_send();
  const Result<pid_t> pid = SpawnTool(call.spec.command, input.get(), write_end.get());
  if (!pid) return failed(pid.error());
  write_end.Close();
  outcome.effect = ToolEffect::kUnknown;
  std::string output;
  bool open = true, exited = false, late = false;
  while (!exited && !late && output.size() <= kMaxToolBytes) {
    pollfd ready = {open ? read_end.get() : -1, POLLIN, 0};
    (void)::poll(&ready, 1, kCommandPollMillis);
    if (open && ready.revents != 0) open = DrainPipe(read_end.get(), output);
    exited = HasExited(*pid);
    late = call.Late();
  }
  const int status = KillAndReap(*pid);
  if (exited && open) (void)DrainPipe(read_end.get(), output);  // what it wrote before it ended
  if (output.size() > kMaxToolBytes) return failed(InvalidArgumentError("its output is longer than 1 MiB"));
  if (!exited) return failed(ToolLate(call));
  if (!WIFEXITED(status)) return failed(UnavailableError("it ended by signal " + std::to_string(WTERMSIG(status))));
  if (WEXITSTATUS(status) != 0) {
    return failed(UnavailableError("it ended with exit code " + std::to_string(WEXITSTATUS(status))));
  }
  outcome.effect = ToolEffect::kDone;
  outcome.value = ParseToolObject(output);
  return outcome;
}

}  // namespace surety::gateway
