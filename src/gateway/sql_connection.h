// A connection to a SQL database, SQLite's or PostgreSQL's, with what the two share: statements with parameters $1, $2,
// ..., typed rows, transactions. What differs (locks, a type's name, how erased bytes go for good) stands behind it.
//
// Threads: a connection belongs to one thread at a time; a source may be asked by any. Errors: kUnavailable (no answer
// in time, connection lost, locked by another; retry may help), kIoError (the database refused, with its word for why:
// never a row's contents), kDataLoss (a damaged file), kInvalidArgument (an address that cannot be read).
// Invariants: no message holds a password.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/status.h"

namespace surety::gateway {

// Any bytes, NUL among them; a plain string is text: UTF-8 without NUL.
struct SqlBytes {
  std::string bytes;
  bool operator==(const SqlBytes&) const = default;
};
using SqlValue = std::variant<std::monostate, int64_t, double, std::string, SqlBytes>;

class SqlRow {
 public:
  explicit SqlRow(std::vector<SqlValue> values) : values_(std::move(values)) {}
  // Asking for another type than the column has is a bug.
  int64_t Int(size_t column) const { return At<int64_t>(column); }
  double Real(size_t column) const { return At<double>(column); }
  const std::string& Text(size_t column) const { return At<std::string>(column); }
  const std::string& Bytes(size_t column) const { return At<SqlBytes>(column).bytes; }
  bool IsNull(size_t column) const { return std::holds_alternative<std::monostate>(values_.at(column)); }

 private:
  template <typename T>
  const T& At(size_t column) const {
    SURETY_CHECK(column < values_.size() && std::holds_alternative<T>(values_[column]));
    return std::get<T>(values_[column]);
  }
  std::vector<SqlValue> values_;
};

class SqlConnection {
 public:
  virtual ~SqlConnection() = default;

  // One statement. Rows: those that it returns; changed: how many it inserted, updated or deleted.
  struct Answer {
    std::vector<SqlRow> rows;
    int64_t changed = 0;
  };
  virtual Result<Answer> Run(const std::string& sql, const std::vector<SqlValue>& parameters) = 0;
  Result<Answer> Run(const std::string& sql) { return Run(sql, {}); }

  // kRead: all statements see one state. kWrite: SQLite holds its one write lock; PostgreSQL sees what is committed
  // before each statement, and rows are locked by LockRows().
  enum class Mode : uint8_t { kRead, kWrite };
  virtual Status Begin(Mode mode) = 0;
  // kUnavailable with outcome_unknown(): the connection was lost while the database may have committed.
  virtual Status Commit() = 0;
  virtual void Rollback() = 0;
  virtual bool alive() const = 0;            // false: of no use any more
  virtual bool outcome_unknown() const = 0;

  // Clauses at the end of a SELECT of `t` in a kWrite transaction; empty where the whole database is locked anyway.
  virtual std::string LockRows() const = 0;
  virtual std::string LockRowsSkippingLocked() const = 0;
  virtual std::string BytesType() const = 0;
  // Inside a kWrite transaction: nobody else makes tables until it ends.
  virtual Status LockSchema() = 0;
  // Outside a transaction, after one that overwrote contents: what is left of the old bytes goes too, as far as the
  // database can promise it.
  virtual Status ScrubOldBytes() = 0;
};

class SqlSource {
 public:
  virtual ~SqlSource() = default;
  virtual Result<std::unique_ptr<SqlConnection>> Connect() const = 0;
  virtual int max_connections() const = 0;
  virtual const std::string& name() const = 0;  // for messages, without a password
};

struct PostgresTimeouts {
  int64_t connect_ns = 5'000'000'000;
  int64_t lock_ns = 5'000'000'000;
  int64_t statement_ns = 10'000'000'000;
  int64_t grace_ns = 2'000'000'000;      // beyond a statement's time, for a server that does not keep to it
  int64_t scrub_ns = 300'000'000'000;
};

// `path`: a file, made with mode 0600 where it is not there; ":memory:" lives as long as its one connection.
std::unique_ptr<SqlSource> MakeSqliteSource(std::string path);
// "postgresql://user:password@host:port/database?..." as libpq reads it.
Result<std::unique_ptr<SqlSource>> MakePostgresSource(const std::string& address, PostgresTimeouts timeouts = {});

}  // namespace surety::gateway
