#include "gateway/sql_pool.h"

#include <chrono>

namespace surety::gateway {
namespace {

constexpr std::chrono::seconds kMaxWait(10);  // a database that hangs holds up no more than that

}  // namespace

SqlPool::SqlPool(std::unique_ptr<SqlSource> source) : source_(std::move(source)) {}

Result<std::unique_ptr<SqlConnection>> SqlPool::Take() {
  std::unique_lock lock(mutex_);
  const auto there = [this] { return !idle_.empty() || n_open_ < source_->max_connections(); };
  if (!returned_.wait_for(lock, kMaxWait, there)) {
    return Error(UnavailableError(source_->name() + ": all connections are busy; try again"));
  }
  if (!idle_.empty()) {
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
  }
  ++n_open_;
  lock.unlock();
  auto connection = source_->Connect();
  if (!connection) GiveBack(nullptr);
  return connection;
}

void SqlPool::GiveBack(std::unique_ptr<SqlConnection> connection) {
  {
    const std::lock_guard lock(mutex_);
    if (connection != nullptr && connection->alive()) {
      idle_.push_back(std::move(connection));
    } else {
      --n_open_;
    }
  }
  returned_.notify_one();
}

Status SqlPool::Run(SqlConnection::Mode mode, FunctionRef<Status(SqlConnection&)> work) {
  SURETY_ASSIGN_OR_RETURN(auto connection, Take());
  Status status = connection->Begin(mode);
  if (!status.ok() && !connection->alive()) {  // the server was restarted since; all idle ones are dead then
    auto fresh = source_->Connect();
    if (fresh) {
      connection = *std::move(fresh);
      status = connection->Begin(mode);
    } else {
      status = fresh.error();
    }
  }
  if (status.ok()) {
    status = work(*connection);
    if (status.ok()) status = connection->Commit();
    if (!status.ok()) connection->Rollback();
  }
  GiveBack(std::move(connection));
  return status;
}

Status SqlPool::RunOutside(FunctionRef<Status(SqlConnection&)> work) {
  SURETY_ASSIGN_OR_RETURN(auto connection, Take());
  Status status = work(*connection);
  GiveBack(std::move(connection));
  return status;
}

}  // namespace surety::gateway
