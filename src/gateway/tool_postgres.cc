// Tools over PostgreSQL. Reads run in a READ ONLY transaction, which is never committed; a write is one statement that
// commits by itself. Arguments go apart from the statement, as texts whose types the server infers. Rows are taken one
// by one, so that of a result beyond the limits no more than that is held.
#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include <boost/json.hpp>

#include "base/clock.h"
#include "gateway/tool_call.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr int kMaxPostgresRows = 1000;
constexpr int kPostgresPollMillis = 20;

struct PostgresClose {
  void operator()(PGconn* connection) const { PQfinish(connection); }
  void operator()(PGresult* result) const { PQclear(result); }
};
using Postgres = std::unique_ptr<PGconn, PostgresClose>;
using PostgresResult = std::unique_ptr<PGresult, PostgresClose>;

// What a result may have: the rows of a read that is larger are not waited for, those of a write not kept.
struct PostgresTable {
  json::array rows;
  size_t n_bytes = 0, n_rows = 0;
  Status fault;
};

std::string OneLineOf(const char* message) {
  std::string text = message == nullptr ? "" : message;
  std::ranges::replace(text, '\n', ' ');
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

Status WaitForSocket(const ToolCall& call, PGconn* connection, short events) {
  while (true) {
    if (call.Late()) return ToolLate(call);
    pollfd ready = {PQsocket(connection), events, 0};
    if (ready.fd < 0) return UnavailableError("the connection is gone");
    if (::poll(&ready, 1, kPostgresPollMillis) > 0) return OkStatus();
  }
}

bool ReadPostgresAddress(const std::string& address) {
  char* message = nullptr;
  PQconninfoOption* options = PQconninfoParse(address.c_str(), &message);
  PQfreemem(message);  // it may quote a part of the password
  PQconninfoFree(options);
  return options != nullptr;
}

Result<Postgres> ConnectPostgres(const ToolCall& call) {
  const char* const names[] = {"dbname", "application_name", "client_encoding", nullptr};
  const char* const values[] = {call.spec.database.c_str(), "surety", "UTF8", nullptr};
  Postgres connection(PQconnectStartParams(names, values, 1));
  if (connection == nullptr) return Error(UnavailableError("no memory for a connection"));
  // Messages of libpq and of the server may repeat parts of the address.
  const auto failed = [&] {
    std::string message = OneLineOf(PQerrorMessage(connection.get()));
    if (!ReadPostgresAddress(call.spec.database)) message = "the address cannot be read";
    const char* password = PQpass(connection.get());
    const std::string_view secret = password == nullptr ? "" : password;
    for (size_t at = 0; !secret.empty() && (at = message.find(secret, at)) != std::string::npos; at += 3) {
      message.replace(at, secret.size(), "***");
    }
    return Error(UnavailableError("connecting: " + message));
  };
  if (PQstatus(connection.get()) == CONNECTION_BAD) return failed();
  PostgresPollingStatusType state = PGRES_POLLING_WRITING;
  while (state != PGRES_POLLING_OK) {
    const short events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    SURETY_RETURN_IF_ERROR(WaitForSocket(call, connection.get(), events));
    state = PQconnectPoll(connection.get());
    if (state == PGRES_POLLING_FAILED) return failed();
  }
  (void)PQsetnonblocking(connection.get(), 1);
  return connection;
}

bool TooLarge(const PostgresTable& table) {
  return table.n_bytes > kMaxToolBytes || table.n_rows > kMaxPostgresRows;
}

void TakePostgresRow(const PGresult* result, PostgresTable& table);

// All results of what was sent; the last is given. Rows that come one by one go to `table`.
Result<PostgresResult> AwaitPostgres(const ToolCall& call, PGconn* connection, PostgresTable* table = nullptr) {
  while (true) {
    const int left = PQflush(connection);
    if (left < 0) return Error(UnavailableError("sending: " + OneLineOf(PQerrorMessage(connection))));
    if (left == 0) break;
    SURETY_RETURN_IF_ERROR(WaitForSocket(call, connection, POLLIN | POLLOUT));
    (void)PQconsumeInput(connection);
  }
  PostgresResult last;
  while (true) {
    while (PQisBusy(connection) != 0) {
      SURETY_RETURN_IF_ERROR(WaitForSocket(call, connection, POLLIN));
      if (PQconsumeInput(connection) != 1) {
        return Error(UnavailableError("reading: " + OneLineOf(PQerrorMessage(connection))));
      }
    }
    PostgresResult result(PQgetResult(connection));
    if (result == nullptr) break;
    last = std::move(result);
    const ExecStatusType status = PQresultStatus(last.get());
    if (status == PGRES_SINGLE_TUPLE && table != nullptr) {
      TakePostgresRow(last.get(), *table);
      // Nobody reads the rest: the server's query ends with the connection.
      if (TooLarge(*table) && call.spec.kind == ToolSpec::Kind::kRead) return last;
    }
    if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH) break;
  }
  if (last == nullptr) return Error(UnavailableError("no result came"));
  return last;
}

// A result that is an error, as a status. `answered`: the server itself says so, so the statement is undone.
Status PostgresFailure(const ToolCall& call, const PGresult* result, bool& answered) {
  const ExecStatusType status = PQresultStatus(result);
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_SINGLE_TUPLE) return OkStatus();
  const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const std::string_view code = state == nullptr ? "" : state;
  // Of these the server does not know itself what became of the statement: the connection, its shutdown or crash, and
  // a completion that is unknown.
  const bool in_doubt = code.starts_with("08") || code.starts_with("57P") || code == "40003";
  answered = code.size() == 5 && !in_doubt;
  if (code == "57014") return ToolLate(call);  // statement_timeout
  // The primary message alone: details of some errors hold the contents of rows.
  const char* primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  const std::string message = "the query: " + OneLineOf(primary == nullptr ? PQresultErrorMessage(result) : primary);
  // Classes of what the statement or its arguments are wrong in: data, constraint, read-only transaction, syntax.
  for (const std::string_view ours : {"22", "23", "25", "42", "0A"}) {
    if (code.starts_with(ours)) return InvalidArgumentError(message);
  }
  return UnavailableError(message);
}

// A numeric as JSON's number where a double is exactly it in decimal, else as text: amounts are never rounded.
json::value NumericValue(std::string_view text) {
  int64_t whole = 0;
  const char* const end = text.data() + text.size();
  const auto as_whole = std::from_chars(text.data(), end, whole);
  if (as_whole.ec == std::errc() && as_whole.ptr == end) return whole;
  const auto n_digits = std::ranges::count_if(text, [](char c) { return c >= '0' && c <= '9'; });
  double value = 0;
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec == std::errc() && read.ptr == end && std::isfinite(value) && n_digits <= 15) return value;
  return json::string(text);
}

Result<json::value> PostgresCell(const PGresult* result, int row, int column) {
  static constexpr Oid kBool = 16, kInt8 = 20, kInt2 = 21, kInt4 = 23, kJson = 114, kFloat4 = 700, kFloat8 = 701;
  static constexpr Oid kNumeric = 1700, kJsonb = 3802;
  if (PQgetisnull(result, row, column) != 0) return json::value(nullptr);
  const std::string_view text(PQgetvalue(result, row, column),
                              static_cast<size_t>(PQgetlength(result, row, column)));
  switch (PQftype(result, column)) {
    case kBool: return json::value(text == "t");
    case kInt2: case kInt4: case kInt8: case kFloat4: case kFloat8: case kNumeric: return NumericValue(text);
    case kJson: case kJsonb: {
      boost::system::error_code ec;
      json::value value = json::parse(json::string_view(text.data(), text.size()), ec);
      if (ec) return Error(InvalidArgumentError("a column is no JSON"));
      return value;
    }
    default: return json::value(json::string(text));
  }
}

void TakePostgresRow(const PGresult* result, PostgresTable& table) {
  ++table.n_rows;
  for (int i = 0; i < PQnfields(result); ++i) table.n_bytes += static_cast<size_t>(PQgetlength(result, 0, i));
  if (TooLarge(table)) table.rows.clear();
  if (TooLarge(table) || !table.fault.ok()) return;
  json::object row;
  for (int i = 0; i < PQnfields(result); ++i) {
    auto cell = PostgresCell(result, 0, i);
    if (!cell) {
      table.fault = cell.error();
      return;
    }
    row[PQfname(result, i)] = *std::move(cell);
  }
  table.rows.push_back(std::move(row));
}

// `last`: the end of the rows, or the one at which they became too many.
Result<json::value> PostgresRows(const PGresult* last, PostgresTable table) {
  if (TooLarge(table)) return Error(InvalidArgumentError("the result has more than 1000 rows or 1 MiB"));
  std::set<std::string> names;
  for (int i = 0; i < PQnfields(last); ++i) {
    if (!names.insert(PQfname(last, i)).second) {
      return Error(InvalidArgumentError(std::string("two columns have the name '") + PQfname(last, i) + "'"));
    }
  }
  if (!table.fault.ok()) return Error(table.fault);
  return RowsValue(std::move(table.rows));
}

Status BeginPostgres(const ToolCall& call, PGconn* connection) {
  const int64_t left_ms = std::max<int64_t>(1, (call.deadline_ns - Clock::Real().NowNanos()) / 1'000'000);
  const bool read = call.spec.kind == ToolSpec::Kind::kRead;
  const std::string begin = (read ? std::string("BEGIN TRANSACTION READ ONLY; SET LOCAL") : std::string("SET")) +
                            " statement_timeout = " + std::to_string(left_ms);
  if (PQsendQuery(connection, begin.c_str()) != 1) {
    return UnavailableError("sending: " + OneLineOf(PQerrorMessage(connection)));
  }
  SURETY_ASSIGN_OR_RETURN(const PostgresResult begun, AwaitPostgres(call, connection));
  bool answered = false;
  return PostgresFailure(call, begun.get(), answered);
}

}  // namespace

Status CheckPostgresAddress(const std::string& address) {
  if (ReadPostgresAddress(address)) return OkStatus();
  return InvalidArgumentError("its database's address cannot be read (it is not shown, as it may hold a password); its "
                              "form is postgresql://user:password@host:port/database");
}

ToolOutcome CallPostgresTool(const ToolCall& call) {
  ToolOutcome outcome;
  const auto failed = [&](Status status) {
    outcome.value = Error(std::move(status));
    return std::move(outcome);
  };
  const Result<SqlStatement> statement = ReadSqlStatement(call.spec.query);
  if (!statement) return failed(statement.error());
  std::vector<const char*> values;
  for (const std::string& name : statement->parameters) {
    const bool key = name == "idempotency_key" && call.spec.kind == ToolSpec::Kind::kWrite;
    const auto argument = call.arguments.find(name);
    if (!key && argument == call.arguments.end()) {
      return failed(InvalidArgumentError("it needs the argument '" + name + "'"));
    }
    const std::string& value = key ? call.idempotency_key : argument->second;
    if (value.find('\0') != std::string::npos) {
      return failed(InvalidArgumentError("argument '" + name + "' holds a zero byte"));
    }
    values.push_back(value.c_str());
  }
  const Result<Postgres> connected = ConnectPostgres(call);
  if (!connected) return failed(connected.error());
  PGconn* connection = connected->get();
  if (Status begun = BeginPostgres(call, connection); !begun.ok()) return failed(std::move(begun));
  outcome.effect = ToolEffect::kUnknown;
  if (call.on_send) call.on_send();
  if (PQsendQueryParams(connection, statement->text.c_str(), static_cast<int>(values.size()), nullptr, values.data(),
                        nullptr, nullptr, 0) != 1) {
    return failed(UnavailableError("sending: " + OneLineOf(PQerrorMessage(connection))));
  }
  (void)PQsetSingleRowMode(connection);
  PostgresTable table;
  const Result<PostgresResult> result = AwaitPostgres(call, connection, &table);
  if (!result) return failed(result.error());
  bool answered = false;
  if (Status failure = PostgresFailure(call, result->get(), answered); !failure.ok()) {
    if (answered) outcome.effect = ToolEffect::kRefused;
    return failed(std::move(failure));
  }
  outcome.effect = ToolEffect::kDone;
  if (PQresultStatus(result->get()) == PGRES_COMMAND_OK) {
    const std::string_view changed = PQcmdTuples(result->get());
    outcome.value = json::object{{"changed", changed.empty() ? json::value(0) : NumericValue(changed)}};
  } else {
    outcome.value = PostgresRows(result->get(), std::move(table));
  }
  return outcome;
}

}  // namespace surety::gateway
