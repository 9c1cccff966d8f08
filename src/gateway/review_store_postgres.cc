// PostgreSQL behind sql_connection.h, by libpq: every wait has a deadline on this side too, so that a server that hangs
// holds nobody up; rows are locked one by one, so reviewers do not wait for each other.
#include <poll.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>
#include <libpq-fe.h>

#include "base/clock.h"
#include "gateway/sql_connection.h"

namespace surety::gateway {
namespace {

// Numbers of types in the server's catalogue; fixed by its protocol's users.
constexpr Oid kPgBytea = 17, kPgInt8 = 20, kPgInt4 = 23, kPgText = 25, kPgFloat8 = 701;
constexpr int kPgMaxConnections = 8;
constexpr int kPgHolderWaits = 20;
constexpr int64_t kPgHolderWaitNs = 100'000'000;
constexpr int64_t kPgSchemaLock = 0x7375'7265'7479;  // any number, the same in every process

using PgResult = std::unique_ptr<PGresult, decltype(&PQclear)>;

// What may be shown of an address, and what must not.
struct PgAddress {
  std::string conninfo, shown, password;
};

std::string WithoutSecret(std::string text, const std::string& secret) {
  for (size_t at = 0; !secret.empty() && (at = text.find(secret, at)) != std::string::npos;) {
    text.replace(at, secret.size(), "***");
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

SqlValue PgColumn(const PGresult* result, int row, int column) {
  if (PQgetisnull(result, row, column)) return std::monostate();
  const char* text = PQgetvalue(result, row, column);
  const auto size = static_cast<size_t>(PQgetlength(result, row, column));
  switch (PQftype(result, column)) {
    case kPgInt4: case kPgInt8: {
      int64_t value = 0;
      std::from_chars(text, text + size, value);
      return value;
    }
    case kPgFloat8: return std::strtod(text, nullptr);
    case kPgBytea: {
      size_t length = 0;
      unsigned char* bytes = PQunescapeBytea(reinterpret_cast<const unsigned char*>(text), &length);
      SqlBytes value{bytes == nullptr ? std::string() : std::string(reinterpret_cast<char*>(bytes), length)};
      PQfreemem(bytes);
      return value;
    }
    default: return std::string(text, size);
  }
}

// Parameters as libpq takes them: bytes in binary form, all else as text.
struct PgParameters {
  explicit PgParameters(const std::vector<SqlValue>& values) : texts(values.size()) {
    for (size_t i = 0; i < values.size(); ++i) {
      Oid type = kPgText;
      const std::string* content = &texts[i];
      if (const auto* whole = std::get_if<int64_t>(&values[i])) {
        type = kPgInt8;
        texts[i] = fmt::format("{}", *whole);
      } else if (const auto* real = std::get_if<double>(&values[i])) {
        type = kPgFloat8;
        texts[i] = fmt::format("{}", *real);
      } else if (const auto* text = std::get_if<std::string>(&values[i])) {
        content = text;
      } else if (const auto* blob = std::get_if<SqlBytes>(&values[i])) {
        type = kPgBytea;
        content = &blob->bytes;
      }
      const bool null = std::holds_alternative<std::monostate>(values[i]);
      types.push_back(type);
      pointers.push_back(null ? nullptr : content->c_str());
      lengths.push_back(static_cast<int>(content->size()));
      formats.push_back(type == kPgBytea ? 1 : 0);
    }
  }
  std::vector<std::string> texts;
  std::vector<Oid> types;
  std::vector<const char*> pointers;
  std::vector<int> lengths, formats;
};

class PgConnection final : public SqlConnection {
 public:
  PgConnection(PGconn* connection, PgAddress address, PostgresTimeouts timeouts)
      : connection_(connection), address_(std::move(address)), timeouts_(timeouts) {}
  ~PgConnection() override { PQfinish(connection_); }

  Result<Answer> Run(const std::string& sql, const std::vector<SqlValue>& parameters) override {
    return RunWithin(sql, parameters, timeouts_.statement_ns + timeouts_.grace_ns);
  }

  Status Begin(Mode mode) override {
    unknown_ = false;
    return Do(mode == Mode::kWrite ? "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
                                   : "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  }
  Status Commit() override {
    const Status status = Do("COMMIT");
    unknown_ = !status.ok() && !alive_;
    if (unknown_) {
      return status.WithContext("the connection was lost at the end of a change, which may have taken effect; read it");
    }
    // The server answers COMMIT of a failed transaction with ROLLBACK.
    if (status.ok() && tag_ != "COMMIT") return UnavailableError(Where("the transaction was rolled back"));
    return status;
  }
  void Rollback() override {
    if (alive_ && PQtransactionStatus(connection_) != PQTRANS_IDLE) (void)Do("ROLLBACK");
  }
  bool alive() const override { return alive_; }
  bool outcome_unknown() const override { return unknown_; }
  std::string LockRows() const override { return " FOR UPDATE OF t"; }
  std::string LockRowsSkippingLocked() const override { return " FOR UPDATE OF t SKIP LOCKED"; }
  std::string BytesType() const override { return "BYTEA"; }
  Status LockSchema() override {
    const auto locked = Run("SELECT 1 FROM (SELECT pg_advisory_xact_lock($1)) l", {kPgSchemaLock});
    return locked ? OkStatus() : locked.error();
  }

  // Old row versions go; the server's own log and its backups are its operator's (docs/review.md).
  Status ScrubOldBytes() override {
    // Younger than the change that overwrote: whoever may see what is older keeps VACUUM from removing it. Sessions of
    // other roles are seen where this role has pg_read_all_stats (docs/review.md).
    SURETY_ASSIGN_OR_RETURN(const Answer now, SqlConnection::Run("SELECT pg_current_xact_id()::xid::text"));
    const std::string mine = now.rows.at(0).Text(0);
    const std::string holders =
        "SELECT count(*) FROM (SELECT age(backend_xmin) AS n FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
        "backend_type <> 'autovacuum worker' UNION ALL SELECT age(backend_xid) FROM pg_stat_activity WHERE pid <> "
        "pg_backend_pid() UNION ALL SELECT age(transaction) FROM pg_prepared_xacts UNION ALL SELECT age(xmin) FROM "
        "pg_replication_slots UNION ALL SELECT age(backend_xmin) FROM pg_stat_replication) h "
        "WHERE n >= age($1::text::xid)";
    bool held = true;
    for (int i = 0; i < kPgHolderWaits && held; ++i) {  // most are gone at once
      if (i > 0) Clock::Real().SleepNanos(kPgHolderWaitNs);
      SURETY_ASSIGN_OR_RETURN(const Answer answer, Run(holders, {mine}));
      held = answer.rows.at(0).Int(0) > 0;
    }
    SURETY_RETURN_IF_ERROR(Vacuum());
    if (!held) return OkStatus();
    return UnavailableError(Where("the contents are overwritten, but a transaction that began before keeps the old row "
                                  "versions; call again when it has ended"));
  }

  Status Vacuum() {
    SURETY_RETURN_IF_ERROR(Do(fmt::format("SET statement_timeout = {}", timeouts_.scrub_ns / 1'000'000)));
    const auto vacuumed = RunWithin("VACUUM review_tickets", {}, timeouts_.scrub_ns + timeouts_.grace_ns);
    const Status reset = Do(fmt::format("SET statement_timeout = {}", timeouts_.statement_ns / 1'000'000));
    return vacuumed ? reset : vacuumed.error();
  }

  // Once, after connecting. What a server or a role has as its default must not weaken a commit.
  Status Prepare() {
    for (const std::string& statement :
         {std::string("SET synchronous_commit = on"), std::string("SET client_encoding = 'UTF8'"),
          std::string("SET bytea_output = 'hex'"),
          fmt::format("SET statement_timeout = {}", timeouts_.statement_ns / 1'000'000),
          fmt::format("SET lock_timeout = {}", timeouts_.lock_ns / 1'000'000),
          fmt::format("SET idle_in_transaction_session_timeout = {}",
                      (timeouts_.statement_ns + timeouts_.grace_ns) / 1'000'000)}) {
      SURETY_RETURN_IF_ERROR(Do(statement));
    }
    return OkStatus();
  }

 private:
  std::string Where(std::string_view message) const {
    return WithoutSecret(fmt::format("{}: {}", address_.shown, message), address_.password);
  }
  Status Do(const std::string& sql) {
    const auto answer = SqlConnection::Run(sql);
    return answer ? OkStatus() : answer.error();
  }
  Status Lost(std::string_view what) {
    alive_ = false;
    return UnavailableError(Where(what));
  }

  Result<Answer> RunWithin(const std::string& sql, const std::vector<SqlValue>& values, int64_t limit_ns) {
    if (!alive_) return Error(UnavailableError(Where("the connection was lost")));
    const PgParameters parameters(values);
    const int64_t deadline = Clock::Real().NowNanos() + limit_ns;
    if (PQsendQueryParams(connection_, sql.c_str(), static_cast<int>(values.size()), parameters.types.data(),
                          parameters.pointers.data(), parameters.lengths.data(), parameters.formats.data(), 0) != 1) {
      return Error(Lost(PQerrorMessage(connection_)));
    }
    Answer answer;
    Status failure;
    while (true) {
      SURETY_RETURN_IF_ERROR(AwaitResult(deadline));
      const PgResult result(PQgetResult(connection_), &PQclear);
      if (result == nullptr) break;
      if (const Status status = Take(result.get(), answer); !status.ok()) failure = status;
    }
    if (!failure.ok()) return Error(std::move(failure));
    return answer;
  }

  Status AwaitResult(int64_t deadline) {
    while (true) {
      const int unsent = PQflush(connection_);
      if (unsent < 0) return Lost(PQerrorMessage(connection_));
      if (unsent == 0 && PQisBusy(connection_) == 0) return OkStatus();
      const int64_t left_ms = (deadline - Clock::Real().NowNanos()) / 1'000'000;
      if (left_ms <= 0) return Lost("the server does not answer in time");
      pollfd waited{PQsocket(connection_), static_cast<int16_t>(POLLIN | (unsent > 0 ? POLLOUT : 0)), 0};
      const int n = poll(&waited, 1, static_cast<int>(left_ms));
      if (n < 0 && errno != EINTR) return Lost("waiting for the server failed");
      if (n > 0 && (waited.revents & ~POLLOUT) != 0 && PQconsumeInput(connection_) != 1) {
        return Lost(PQerrorMessage(connection_));
      }
    }
  }

  Status Take(const PGresult* result, Answer& answer) {
    const ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
      tag_ = PQcmdStatus(const_cast<PGresult*>(result));
      const std::string_view changed = PQcmdTuples(const_cast<PGresult*>(result));
      if (status == PGRES_COMMAND_OK) std::from_chars(changed.data(), changed.data() + changed.size(), answer.changed);
      for (int row = 0; row < PQntuples(result); ++row) {
        std::vector<SqlValue> values;
        for (int column = 0; column < PQnfields(result); ++column) values.push_back(PgColumn(result, row, column));
        answer.rows.emplace_back(std::move(values));
      }
      return OkStatus();
    }
    const char* code_text = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const std::string code = code_text == nullptr ? "" : code_text;
    // The primary message alone: the details of some errors hold the contents of rows.
    const char* message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const std::string said = message == nullptr ? PQerrorMessage(connection_) : message;
    if (PQstatus(connection_) != CONNECTION_OK || code.starts_with("08") || code.starts_with("57P")) return Lost(said);
    // Timeouts of a statement and of a lock, no resources, two transactions in each other's way.
    const bool passing = code == "57014" || code == "55P03" || code.starts_with("53") || code.starts_with("40");
    const std::string where = Where(code.empty() ? said : fmt::format("{} (SQLSTATE {})", said, code));
    return passing ? UnavailableError(where) : IoError(where);
  }

  PGconn* connection_;
  PgAddress address_;
  PostgresTimeouts timeouts_;
  std::string tag_;
  bool alive_ = true, unknown_ = false;
};

class PgSource final : public SqlSource {
 public:
  PgSource(PgAddress address, PostgresTimeouts timeouts) : address_(std::move(address)), timeouts_(timeouts) {}

  Result<std::unique_ptr<SqlConnection>> Connect() const override {
    const std::string seconds = fmt::format("{}", std::max<int64_t>(2, timeouts_.connect_ns / 1'000'000'000));
    // What stands before "dbname" is a default that the address may override.
    const char* names[] = {"connect_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count",
                           "tcp_user_timeout", "target_session_attrs", "application_name", "dbname", nullptr};
    const char* values[] = {seconds.c_str(), "10", "5", "3", "15000", "read-write", "surety",
                            address_.conninfo.c_str(), nullptr};
    PGconn* raw = PQconnectdbParams(names, values, /*expand_dbname=*/1);
    if (raw == nullptr) return Error(UnavailableError("no memory for a connection"));
    PQsetNoticeProcessor(raw, [](void*, const char*) {}, nullptr);
    auto connection = std::make_unique<PgConnection>(raw, address_, timeouts_);
    if (PQstatus(raw) != CONNECTION_OK) {
      return Error(UnavailableError(
          WithoutSecret(fmt::format("{}: {}", address_.shown, PQerrorMessage(raw)), address_.password)));
    }
    if (PQsetnonblocking(raw, 1) != 0) return Error(UnavailableError(address_.shown + ": no non-blocking connection"));
    SURETY_RETURN_IF_ERROR(connection->Prepare());
    return connection;
  }
  int max_connections() const override { return kPgMaxConnections; }
  const std::string& name() const override { return address_.shown; }

 private:
  PgAddress address_;
  PostgresTimeouts timeouts_;
};

}  // namespace

Result<std::unique_ptr<SqlSource>> MakePostgresSource(const std::string& address, PostgresTimeouts timeouts) {
  char* message = nullptr;
  PQconninfoOption* options = PQconninfoParse(address.c_str(), &message);
  PQfreemem(message);  // it may quote a part of the password
  if (options == nullptr) {
    return Error(InvalidArgumentError("the PostgreSQL address cannot be read (it is not shown, as it may hold a "
                                      "password); its form is postgresql://user:password@host:port/database"));
  }
  PgAddress parsed{address, "postgresql://", ""};
  std::string user, host, port, database;
  for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
    const std::string_view name = option->keyword;
    const std::string value = option->val == nullptr ? "" : option->val;
    if (name == "user") user = value;
    if (name == "host") host = value;
    if (name == "port") port = value;
    if (name == "dbname") database = value;
    if (name == "password") parsed.password = value;
  }
  PQconninfoFree(options);
  parsed.shown += fmt::format("{}{}{}{}{}/{}", user, user.empty() ? "" : "@", host, port.empty() ? "" : ":", port,
                              database);
  return std::make_unique<PgSource>(std::move(parsed), timeouts);
}

}  // namespace surety::gateway
