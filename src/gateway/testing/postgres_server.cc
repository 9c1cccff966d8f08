#include "gateway/testing/postgres_server.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "gateway/sql_connection.h"

namespace surety::gateway {
namespace {

namespace fs = std::filesystem;

struct ServerAccount {
  bool change = false;
  uid_t user = 0;
  gid_t group = 0;
};

Result<ServerAccount> AccountForServer() {
  if (geteuid() != 0) return ServerAccount{};
  const passwd* entry = getpwnam("postgres");
  if (entry == nullptr) return Error(NotFoundError("no account 'postgres' to run a PostgreSQL server as"));
  return ServerAccount{true, entry->pw_uid, entry->pw_gid};
}

// The newest that is installed.
std::string ServerPrograms() {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/usr/lib/postgresql", error)) {
    if (fs::exists(entry.path() / "bin/initdb", error)) found.push_back((entry.path() / "bin").string());
  }
  if (const char* path = std::getenv("PATH"); found.empty() && path != nullptr) {
    std::istringstream folders(path);
    for (std::string folder; std::getline(folders, folder, ':');) {
      if (fs::exists(fs::path(folder) / "initdb", error)) return folder;
    }
  }
  std::ranges::sort(found, [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  return found.empty() ? "" : found.back();
}

pid_t StartProgram(const std::vector<std::string>& arguments, const std::string& log, const ServerAccount& account) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  const int in = open("/dev/null", O_RDONLY);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  if (account.change && (setgroups(0, nullptr) != 0 || setgid(account.group) != 0 || setuid(account.user) != 0)) {
    _exit(126);
  }
  prctl(PR_SET_PDEATHSIG, SIGQUIT);
  if (getppid() != parent || chdir("/") != 0) _exit(126);
  execv(argv[0], argv.data());
  _exit(127);
}

bool Succeeded(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string LogOf(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Result<std::unique_ptr<PostgresServer>> PostgresServer::Start() {
  const std::string bin = ServerPrograms();
  if (bin.empty()) {
    return Error(NotFoundError("no PostgreSQL server is installed (Debian: apt-get install postgresql)"));
  }
  SURETY_ASSIGN_OR_RETURN(const ServerAccount account, AccountForServer());
  std::string folder = (fs::temp_directory_path() / "surety-pg-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return Error(UnavailableError("no temporary folder for the server"));
  std::unique_ptr<PostgresServer> server(new PostgresServer());
  server->bin_ = bin;
  server->folder_ = folder;
  std::ofstream(folder + "/password") << kPassword;
  std::ofstream(folder + "/log").flush();
  if (account.change) {
    for (const char* name : {"", "/password", "/log"}) {
      if (chown((folder + name).c_str(), account.user, account.group) != 0) {
        return Error(UnavailableError("the folder cannot be given to the server's account"));
      }
    }
  }
  const pid_t init = StartProgram({bin + "/initdb", "-D", folder + "/data", "-U", "surety", "-A", "scram-sha-256",
                                   "--pwfile=" + folder + "/password", "-E", "UTF8", "--locale=C", "--no-sync"},
                                  folder + "/log", account);
  if (!Succeeded(init)) return Error(UnavailableError("initdb: " + LogOf(folder + "/log")));
  SURETY_RETURN_IF_ERROR(server->Restart());
  return server;
}

Status PostgresServer::Restart() {
  SURETY_ASSIGN_OR_RETURN(const ServerAccount account, AccountForServer());
  SURETY_ASSIGN_OR_RETURN(const auto source, MakePostgresSource(Address("")));
  for (int i = 0; i < 600; ++i) {
    int status = 0;
    if (pid_ != 0 && waitpid(pid_, &status, WNOHANG) == pid_) pid_ = 0;
    // Again where it ended: after a crash the old server's processes hold its memory for a moment.
    // No syncs: these tests kill processes, not machines.
    if (pid_ == 0) {
      pid_ = StartProgram({bin_ + "/postgres", "-D", folder_ + "/data", "-k", folder_, "-c", "listen_addresses=", "-c",
                           "fsync=off", "-c", "max_connections=40", "-c", "shared_buffers=16MB", "-c",
                           "autovacuum=off"},   // its transactions would come between at any time
                          folder_ + "/log", account);
    }
    if (source->Connect()) return OkStatus();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return UnavailableError("postgres: " + LogOf(folder_ + "/log"));
}

std::string PostgresServer::Address(const std::string& schema) {
  std::string host;
  for (const char c : folder_) host += c == '/' ? std::string("%2F") : std::string(1, c);
  std::string address = fmt::format("postgresql://surety:{}@/postgres?host={}", kPassword, host);
  if (schema.empty()) return address;
  if (const auto source = MakePostgresSource(address)) {
    if (const auto connection = (*source)->Connect()) (void)(*connection)->Run("CREATE SCHEMA IF NOT EXISTS " + schema);
  }
  return address + "&options=-csearch_path%3D" + schema;
}

Status PostgresServer::Stop() {
  if (pid_ == 0) return OkStatus();
  kill(pid_, SIGINT);
  const bool ended = Succeeded(pid_);
  pid_ = 0;
  return ended ? OkStatus() : UnavailableError("postgres: " + LogOf(folder_ + "/log"));
}

void PostgresServer::Crash() {
  kill(pid_, SIGKILL);
  (void)Succeeded(pid_);
  pid_ = 0;
}

PostgresServer::~PostgresServer() {
  if (pid_ != 0) {
    kill(pid_, SIGQUIT);
    (void)Succeeded(pid_);
  }
  std::error_code error;
  fs::remove_all(folder_, error);
}

}  // namespace surety::gateway
