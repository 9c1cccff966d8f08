// Connections to one database, taken for a transaction and given back; a lost one is replaced.
//
// Threads: any; Run waits while all connections are in use, 10 s at most (then kUnavailable). Owns: the connections.
// Errors: those of the work and of the connection. A connection found dead at a transaction's beginning is made again,
// once; one lost later is kUnavailable: nothing was committed, unless the message says that this is unknown.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"
#include "gateway/sql_connection.h"

namespace surety::gateway {

class SqlPool {
 public:
  explicit SqlPool(std::unique_ptr<SqlSource> source);

  // Commits what `work` did if it returns ok, else rolls it back.
  Status Run(SqlConnection::Mode mode, FunctionRef<Status(SqlConnection&)> work);
  // Without a transaction.
  Status RunOutside(FunctionRef<Status(SqlConnection&)> work);
  const std::string& name() const { return source_->name(); }

 private:
  Result<std::unique_ptr<SqlConnection>> Take();
  void GiveBack(std::unique_ptr<SqlConnection> connection);  // null: it could not be made

  std::unique_ptr<SqlSource> source_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<SqlConnection>> idle_;
  int n_open_ = 0;
};

}  // namespace surety::gateway
