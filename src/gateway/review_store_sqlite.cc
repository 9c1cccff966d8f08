// SQLite behind sql_connection.h: write-ahead log, every commit synced, erased bytes overwritten.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <unordered_map>

#include <fmt/format.h>
#include <sqlite3.h>

#include "gateway/sql_connection.h"

namespace surety::gateway {
namespace {

constexpr int kSqliteBusyMs = 5000, kSqliteScrubMs = 1000;
constexpr size_t kSqliteIdleStatements = 48;

class SqliteStatement {
 public:
  SqliteStatement() = default;
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;
  ~SqliteStatement() { sqlite3_finalize(statement_); }
  sqlite3_stmt*& get() { return statement_; }

 private:
  sqlite3_stmt* statement_ = nullptr;
};

// By name: numbers in SQLite's own order are those of first appearance.
int BindSqlite(sqlite3_stmt* statement, size_t number, const SqlValue& value) {
  const int index = sqlite3_bind_parameter_index(statement, fmt::format("${}", number).c_str());
  if (index == 0) return SQLITE_OK;
  if (const auto* whole = std::get_if<int64_t>(&value)) return sqlite3_bind_int64(statement, index, *whole);
  if (const auto* real = std::get_if<double>(&value)) return sqlite3_bind_double(statement, index, *real);
  if (const auto* text = std::get_if<std::string>(&value)) {
    return sqlite3_bind_text64(statement, index, text->data(), text->size(), SQLITE_STATIC, SQLITE_UTF8);
  }
  if (const auto* blob = std::get_if<SqlBytes>(&value)) {
    return sqlite3_bind_blob64(statement, index, blob->bytes.data(), blob->bytes.size(), SQLITE_STATIC);
  }
  return sqlite3_bind_null(statement, index);
}

SqlValue SqliteColumn(sqlite3_stmt* statement, int column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER: return int64_t{sqlite3_column_int64(statement, column)};
    case SQLITE_FLOAT: return sqlite3_column_double(statement, column);
    case SQLITE_NULL: return std::monostate();
    default: break;
  }
  const bool is_text = sqlite3_column_type(statement, column) == SQLITE_TEXT;
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement, column));
  const auto size = static_cast<size_t>(sqlite3_column_bytes(statement, column));
  std::string bytes = data == nullptr ? std::string() : std::string(data, size);
  if (is_text) return bytes;
  return SqlBytes{std::move(bytes)};
}

class SqliteConnection final : public SqlConnection {
 public:
  SqliteConnection(sqlite3* db, std::string name) : db_(db), name_(std::move(name)) {}
  ~SqliteConnection() override {
    for (const auto& [sql, statement] : idle_) sqlite3_finalize(statement);
    sqlite3_close(db_);
  }

  Result<Answer> Run(const std::string& sql, const std::vector<SqlValue>& parameters) override {
    SqliteStatement statement;
    if (const auto idle = idle_.find(sql); idle != idle_.end()) {
      statement.get() = idle->second;
      idle_.erase(idle);
    } else if (sqlite3_prepare_v2(db_, sql.c_str(), static_cast<int>(sql.size()), &statement.get(), nullptr) !=
               SQLITE_OK) {
      return Error(Failure());
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (BindSqlite(statement.get(), i + 1, parameters[i]) != SQLITE_OK) return Error(Failure());
    }
    const int64_t before = sqlite3_total_changes64(db_);
    Answer answer;
    int code = SQLITE_OK;
    while ((code = sqlite3_step(statement.get())) == SQLITE_ROW) {
      std::vector<SqlValue> values;
      for (int column = 0; column < sqlite3_column_count(statement.get()); ++column) {
        values.push_back(SqliteColumn(statement.get(), column));
      }
      answer.rows.emplace_back(std::move(values));
    }
    if (code != SQLITE_DONE) return Error(Failure());
    answer.changed = sqlite3_total_changes64(db_) - before;
    if (idle_.size() < kSqliteIdleStatements && sqlite3_reset(statement.get()) == SQLITE_OK) {
      sqlite3_clear_bindings(statement.get());
      if (idle_.emplace(sql, statement.get()).second) statement.get() = nullptr;
    }
    return answer;
  }

  Status Begin(Mode mode) override { return Do(mode == Mode::kWrite ? "BEGIN IMMEDIATE" : "BEGIN"); }
  Status Commit() override { return Do("COMMIT"); }
  void Rollback() override {
    if (sqlite3_get_autocommit(db_) == 0) (void)Do("ROLLBACK");
  }
  bool alive() const override { return true; }
  bool outcome_unknown() const override { return false; }
  std::string LockRows() const override { return {}; }
  std::string LockRowsSkippingLocked() const override { return {}; }
  std::string BytesType() const override { return "BLOB"; }
  Status LockSchema() override { return OkStatus(); }

  // secure_delete has put zeros over the old bytes in the pages; older copies of those are in the write-ahead log.
  Status ScrubOldBytes() override {
    sqlite3_busy_timeout(db_, kSqliteScrubMs);
    const auto checkpoint = SqlConnection::Run("PRAGMA wal_checkpoint(TRUNCATE)");
    sqlite3_busy_timeout(db_, kSqliteBusyMs);
    SURETY_ASSIGN_OR_RETURN(const Answer answer, checkpoint);
    if (!answer.rows.empty() && answer.rows[0].Int(0) != 0) {
      return UnavailableError(fmt::format("'{}': the contents are overwritten, but another process reads the database, "
                                          "so its write-ahead log still holds the old bytes; call again", name_));
    }
    return OkStatus();
  }

  Status Prepare() {
    sqlite3_busy_timeout(db_, kSqliteBusyMs);
    SURETY_ASSIGN_OR_RETURN(const Answer journal, SqlConnection::Run("PRAGMA journal_mode=WAL"));
    const std::string mode = journal.rows.empty() ? "" : journal.rows[0].Text(0);
    if (mode != "wal" && mode != "memory") {
      return IoError(fmt::format("'{}': the file system takes no write-ahead log (journal mode {}); put the database "
                                 "on a local disk", name_, mode));
    }
    for (const char* pragma : {"PRAGMA synchronous=FULL", "PRAGMA secure_delete=ON", "PRAGMA temp_store=MEMORY",
                               "PRAGMA foreign_keys=ON", "PRAGMA trusted_schema=OFF"}) {
      SURETY_RETURN_IF_ERROR(Do(pragma));
    }
    return OkStatus();
  }

 private:
  Status Do(const std::string& sql) {
    const auto answer = SqlConnection::Run(sql);
    return answer ? OkStatus() : answer.error();
  }

  Status Failure() const {
    const int code = sqlite3_errcode(db_);
    const std::string message = fmt::format("'{}': {}", name_, sqlite3_errmsg(db_));
    switch (code) {
      case SQLITE_BUSY: case SQLITE_LOCKED: return UnavailableError(message);
      case SQLITE_CORRUPT: case SQLITE_NOTADB: return DataLossError(message);
      default: return IoError(message);
    }
  }

  sqlite3* db_;
  std::string name_;
  std::unordered_map<std::string, sqlite3_stmt*> idle_;  // of statements that worked; their text is the program's own
};

class SqliteSource final : public SqlSource {
 public:
  explicit SqliteSource(std::string path) : path_(std::move(path)) {}

  Result<std::unique_ptr<SqlConnection>> Connect() const override {
    if (path_ != ":memory:") {  // the library would make it readable by everybody
      // One that is there is not opened: closing it would drop all locks that this process has on it.
      const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
      if (file < 0 && errno != EEXIST) return Error(IoError(fmt::format("'{}': {}", path_, std::strerror(errno))));
      if (file >= 0) close(file);
    }
    sqlite3* db = nullptr;
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (const int code = sqlite3_open_v2(path_.c_str(), &db, flags, nullptr); code != SQLITE_OK) {
      Status status = IoError(fmt::format("'{}': {}", path_, sqlite3_errstr(code)));
      sqlite3_close(db);
      return Error(std::move(status));
    }
    auto connection = std::make_unique<SqliteConnection>(db, path_);
    SURETY_RETURN_IF_ERROR(connection->Prepare());
    return connection;
  }
  int max_connections() const override { return 1; }
  const std::string& name() const override { return path_; }

 private:
  std::string path_;
};

}  // namespace

std::unique_ptr<SqlSource> MakeSqliteSource(std::string path) {
  return std::make_unique<SqliteSource>(std::move(path));
}

}  // namespace surety::gateway
