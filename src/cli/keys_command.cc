// surety keys: makes API keys for surety serve.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/output.h"
#include "http/api_keys.h"

namespace surety::cli {
namespace {

// Appends in one write, so that a server that reads the file meanwhile never sees half a line; a new file is its
// owner's alone.
Status Append(const std::string& path, const std::string& line) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return IoError(fmt::format("'{}': {}", path, std::strerror(errno)));
  const ssize_t written = write(file, line.data(), line.size());
  const int error = errno;
  const bool closed = close(file) == 0;
  if (written == static_cast<ssize_t>(line.size()) && closed) return OkStatus();
  return IoError(fmt::format("'{}': {}", path, written < 0 ? std::strerror(error) : "not all of it was written"));
}

class KeysAddCommand final : public Command {
 public:
  std::string name() const override { return "keys add"; }
  std::string summary() const override { return "make a key, print it once, and add its digest to a file"; }
  std::string examples() const override {
    return "  surety keys add --file keys.jsonl --name batch --tenant acme --permission cases\n"
           "  surety keys add --file keys.jsonl --name operator --role admin --expires 2027-01-31";
  }
  void Declare(Flags& flags) override {
    flags.Group("Key");
    flags.Add("--file", file_, "the file that 'surety serve --api-keys' reads; made if it is not there");
    flags.Add("--name", identity_.subject, "what logs call the caller");
    flags.Add("--role", role_, "user or admin");
    flags.Add("--expires", expires_, "the last day, YYYY-MM-DD; empty: never");
    flags.Add("--priority", identity_.priority, "the most urgent that its requests may be; lower runs earlier");
    flags.Group("Scope (what may share KV and answers)");
    api::Scope& scope = identity_.scope;
    flags.Add("--tenant", scope.tenant, "default: the name");
    flags.Add("--permission", scope.permissions, "again for further ones");
    flags.Add("--region", scope.region, "");
    flags.Add("--product", scope.product, "");
    flags.Add("--policy-version", scope.policy_version, "");
    flags.Add("--language", scope.language, "");
    flags.Add("--eligibility", scope.eligibility, "");
    flags.Add("--effective-date", scope.effective_date, "YYYY-MM-DD");
    flags.Group("Output");
    flags.Add("--json", json_, "one JSON object: key, name, role, tenant, file");
  }
  int Run() override {
    if (file_.empty()) return ReportUsage(InvalidArgumentError("--file: name the file for the key's digest"));
    if (identity_.subject.empty()) return ReportUsage(InvalidArgumentError("--name: give the key a name"));
    if (role_ != "user" && role_ != "admin") {
      return ReportUsage(InvalidArgumentError("--role: '" + role_ + "' is neither user nor admin"));
    }
    identity_.role = role_ == "admin" ? http::Role::kAdmin : http::Role::kUser;
    if (identity_.scope.tenant.empty()) identity_.scope.tenant = identity_.subject;
    const auto made = http::MakeApiKey(identity_, expires_);
    if (!made) return ReportUsage(made.error());
    if (const Status status = Append(file_, made->entry); !status.ok()) return ReportFailure(status);
    if (json_) {
      boost::json::object out;
      out["key"] = made->key;
      out["name"] = identity_.subject;
      out["role"] = role_;
      out["tenant"] = identity_.scope.tenant;
      out["file"] = file_;
      PrintText(boost::json::serialize(out) + "\n");
    } else {
      PrintText(made->key + "\n");
      PrintError("This key is shown once; {} holds only its digest.\n", file_);
    }
    return kExitOk;
  }

 private:
  std::string file_, role_ = "user", expires_;
  http::Identity identity_;
  bool json_ = false;
};

class KeysCommand final : public Command {
 public:
  std::string name() const override { return "keys"; }
  std::string summary() const override { return "API keys for surety serve"; }
  void Declare(Flags&) override {}
  int Run() override {
    return ReportUsage(InvalidArgumentError("surety keys add --file FILE --name NAME makes a key; entries are lines of "
                                            "the file: delete a line to withdraw its key"));
  }
};

}  // namespace

std::vector<std::unique_ptr<Command>> MakeKeysCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<KeysCommand>());
  commands.push_back(std::make_unique<KeysAddCommand>());
  return commands;
}

}  // namespace surety::cli
