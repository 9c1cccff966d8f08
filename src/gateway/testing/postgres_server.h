// A PostgreSQL server of a test's own: a folder under the temporary one, a Unix socket and no TCP port, one role with a
// password. As root it runs as the account `postgres`, since the server refuses to run as root.
//
// Threads: one. Owns: the server's process, which ends with this object or with the test's process, and its folder.
// Errors: kNotFound where no server is installed (Debian: the package postgresql), else kUnavailable with its log.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/status.h"

namespace surety::gateway {

class PostgresServer {
 public:
  static constexpr const char* kPassword = "open-sesame-4711";

  static Result<std::unique_ptr<PostgresServer>> Start();
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // postgresql://... with the password; `schema`: where its tables go; made if it is not there.
  std::string Address(const std::string& schema);
  Status Stop();     // as an operator does: open connections are cut
  void Crash();      // kill -9 of the whole server
  Status Restart();

 private:
  PostgresServer() = default;
  std::string bin_, folder_;
  pid_t pid_ = 0;
};

}  // namespace surety::gateway
