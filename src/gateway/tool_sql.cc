// Tools over an SQLite file. Reads open it read-only and may select, and nothing else: an authorizer refuses every
// other action when the statement is compiled. A write is one statement in a transaction of its own.
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <set>

#include <boost/json.hpp>

#include "base/clock.h"
#include "gateway/tool_call.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr int kMaxRows = 1000;
constexpr int kBusyStepMicros = 5000;

// What a statement may do. `context`: the call.
int AuthorizeSql(void* context, int action, const char*, const char* detail, const char*, const char*) {
  const auto& call = *static_cast<const ToolCall*>(context);
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE: return SQLITE_OK;
    case SQLITE_FUNCTION:
      return detail != nullptr && std::string_view(detail) == "load_extension" ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
    case SQLITE_TRANSACTION: return call.spec.kind == ToolSpec::Kind::kWrite ? SQLITE_OK : SQLITE_DENY;
    default: return SQLITE_DENY;
  }
}

int SqlProgress(void* context) { return static_cast<const ToolCall*>(context)->Late() ? 1 : 0; }

int SqlBusy(void* context, int) {
  if (static_cast<const ToolCall*>(context)->Late()) return 0;
  (void)::usleep(kBusyStepMicros);
  return 1;
}

struct SqliteClose {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, SqliteClose>;
using Statement = std::unique_ptr<sqlite3_stmt, SqliteClose>;

Status SqliteFailure(const ToolCall& call, sqlite3* database, std::string_view doing) {
  const int code = sqlite3_errcode(database) & 0xff;
  if (call.Late() || code == SQLITE_INTERRUPT) return ToolLate(call);
  const std::string message = std::string(doing) + ": " + sqlite3_errmsg(database);
  const bool ours = code == SQLITE_ERROR || code == SQLITE_AUTH || code == SQLITE_READONLY || code == SQLITE_MISMATCH;
  return ours ? InvalidArgumentError(message) : UnavailableError(message);
}

Result<Database> OpenSqlite(const ToolCall& call) {
  const std::string& name = call.spec.database;
  const std::string path = name.starts_with('/') || call.directory.empty() ? name : call.directory + "/" + name;
  const bool write = call.spec.kind == ToolSpec::Kind::kWrite;
  sqlite3* opened = nullptr;
  const int flags = write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;  // neither creates; the name is no URI
  const int code = sqlite3_open_v2(path.c_str(), &opened, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(opened);
  if (code != SQLITE_OK) return Error(UnavailableError("'" + path + "': " + sqlite3_errstr(code)));
  void* context = const_cast<ToolCall*>(&call);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_progress_handler(opened, 1000, SqlProgress, context);
  sqlite3_busy_handler(opened, SqlBusy, context);
  sqlite3_set_authorizer(opened, AuthorizeSql, context);
  return database;
}

Status BindSqlite(const ToolCall& call, sqlite3* database, sqlite3_stmt* statement) {
  for (int i = 1; i <= sqlite3_bind_parameter_count(statement); ++i) {
    const char* parameter = sqlite3_bind_parameter_name(statement, i);
    if (parameter == nullptr || parameter[0] != ':') return InvalidArgumentError("a parameter that is not :name");
    const std::string name = parameter + 1;
    const std::string* value = &call.idempotency_key;
    if (name != "idempotency_key" || call.spec.kind == ToolSpec::Kind::kRead) {
      const auto argument = call.arguments.find(name);
      if (argument == call.arguments.end()) return InvalidArgumentError("it needs the argument '" + name + "'");
      value = &argument->second;
    }
    const int code = sqlite3_bind_text64(statement, i, value->data(), value->size(), SQLITE_STATIC, SQLITE_UTF8);
    if (code != SQLITE_OK) return SqliteFailure(call, database, "binding");
  }
  return OkStatus();
}

json::value SqliteCell(sqlite3_stmt* statement, int column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER: return static_cast<int64_t>(sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT: {
      const double value = sqlite3_column_double(statement, column);
      return std::isfinite(value) ? json::value(value) : json::value(nullptr);
    }
    case SQLITE_NULL: return nullptr;
    default: {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
      return json::string(text, static_cast<size_t>(sqlite3_column_bytes(statement, column)));
    }
  }
}

Result<json::array> SqliteRows(const ToolCall& call, sqlite3* database, sqlite3_stmt* statement) {
  const int n_columns = sqlite3_column_count(statement);
  std::set<std::string> names;
  for (int i = 0; i < n_columns; ++i) {
    if (!names.insert(sqlite3_column_name(statement, i)).second) {
      return Error(InvalidArgumentError(std::string("two columns have the name '") +
                                        sqlite3_column_name(statement, i) + "'"));
    }
  }
  json::array rows;
  size_t n_bytes = 0;
  while (true) {
    const int code = sqlite3_step(statement);
    if (code == SQLITE_DONE) return rows;
    if (code != SQLITE_ROW) return Error(SqliteFailure(call, database, "the query"));
    json::object row;
    for (int i = 0; i < n_columns; ++i) {
      if (sqlite3_column_type(statement, i) == SQLITE_BLOB) {
        return Error(InvalidArgumentError(std::string("column '") + sqlite3_column_name(statement, i) +
                                          "' is a blob; select its hex()"));
      }
      n_bytes += static_cast<size_t>(sqlite3_column_bytes(statement, i));
      row[sqlite3_column_name(statement, i)] = SqliteCell(statement, i);
    }
    rows.push_back(std::move(row));
    if (n_bytes > kMaxToolBytes || rows.size() > kMaxRows) {
      return Error(InvalidArgumentError("the result has more than 1000 rows or 1 MiB"));
    }
  }
}

}  // namespace

ToolOutcome CallSqliteTool(const ToolCall& call) {
  ToolOutcome outcome;
  const auto failed = [&](Status status) {
    outcome.value = Error(std::move(status));
    return std::move(outcome);
  };
  const Result<Database> opened = OpenSqlite(call);
  if (!opened) return failed(opened.error());
  sqlite3* database = opened->get();
  const bool write = call.spec.kind == ToolSpec::Kind::kWrite;
  if (write && sqlite3_exec(database, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) != SQLITE_OK) {
    return failed(SqliteFailure(call, database, "beginning"));
  }
  sqlite3_stmt* prepared = nullptr;
  const char* tail = nullptr;
  const int code = sqlite3_prepare_v2(database, call.spec.query.c_str(), -1, &prepared, &tail);
  const Statement statement(prepared);
  if (code != SQLITE_OK) return failed(SqliteFailure(call, database, "the query"));
  if (const Result<SqlStatement> rest = ReadSqlStatement(tail); rest.has_value()) {
    return failed(InvalidArgumentError("the query: more than one statement"));
  }
  if (!write && sqlite3_stmt_readonly(prepared) == 0) return failed(InvalidArgumentError("the query changes data"));
  if (Status bound = BindSqlite(call, database, prepared); !bound.ok()) return failed(std::move(bound));
  // Until COMMIT everything is undone when the connection ends; what fails then has done nothing.
  if (write) outcome.effect = ToolEffect::kRefused;
  if (write && call.on_send) call.on_send();
  Result<json::array> rows = SqliteRows(call, database, prepared);
  if (!rows) return failed(rows.error());
  json::value value = RowsValue(*std::move(rows));
  if (write) {
    if (sqlite3_column_count(prepared) == 0) value = json::object{{"changed", sqlite3_changes(database)}};
    (void)sqlite3_reset(prepared);
    if (const int done = sqlite3_exec(database, "COMMIT", nullptr, nullptr, nullptr); done != SQLITE_OK) {
      if ((done & 0xff) == SQLITE_IOERR) outcome.effect = ToolEffect::kUnknown;  // what reached the disk is not known
      return failed(SqliteFailure(call, database, "committing"));
    }
  }
  outcome.effect = ToolEffect::kDone;
  outcome.value = std::move(value);
  return outcome;
}

}  // namespace surety::gateway
