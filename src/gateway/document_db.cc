#include "gateway/document_db.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include <fmt/format.h>
#include <sqlite3.h>

#include "base/check.h"

namespace surety::gateway {
namespace {

constexpr int kDocumentDbApplication = 0x53444f43;  // "SDOC"
constexpr int kDocumentDbFormat = 1;
constexpr size_t kIdleStatements = 48, kIdleStatementBytes = 8192;  // longer ones are made anew

// Who may read stands in an audience of its own, which documents and postings refer to: what a caller may not read is
// in parts of the index that a search for the caller never visits. all_*: set where there is no list, so that a list
// that was lost makes a document unreadable and not the other way round. Ids of documents are never used again.
constexpr const char* kDocumentDbSchema = R"sql(
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE audience(id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, all_regions INTEGER NOT NULL,
  all_products INTEGER NOT NULL, all_languages INTEGER NOT NULL, encoding BLOB NOT NULL UNIQUE) STRICT;
CREATE TABLE audience_member(audience INTEGER NOT NULL REFERENCES audience(id) ON DELETE CASCADE,
  kind INTEGER NOT NULL, value TEXT NOT NULL, PRIMARY KEY(audience, kind, value)) STRICT, WITHOUT ROWID;
CREATE INDEX audience_member_value ON audience_member(kind, value);
CREATE TABLE document(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, version TEXT NOT NULL,
  title TEXT NOT NULL, source TEXT NOT NULL, audience INTEGER NOT NULL REFERENCES audience(id),
  from_ns INTEGER NOT NULL, to_ns INTEGER NOT NULL, n_chunks INTEGER NOT NULL, n_terms INTEGER NOT NULL,
  digest BLOB NOT NULL, UNIQUE(name, version)) STRICT;
CREATE INDEX document_audience ON document(audience, from_ns, to_ns, n_chunks, n_terms);
CREATE INDEX document_from ON document(from_ns);
CREATE INDEX document_to ON document(to_ns);
CREATE TABLE chunk(id INTEGER PRIMARY KEY, text TEXT NOT NULL, seal BLOB NOT NULL) STRICT;
CREATE TABLE vector(id INTEGER PRIMARY KEY, inverse_norm REAL NOT NULL, value BLOB NOT NULL) STRICT;
CREATE TABLE posting(audience INTEGER NOT NULL, term TEXT NOT NULL, document INTEGER NOT NULL, places BLOB NOT NULL,
  PRIMARY KEY(audience, term, document)) STRICT, WITHOUT ROWID;
)sql";

std::optional<std::pair<uint64_t, uint64_t>> DocumentFileOf(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return std::pair<uint64_t, uint64_t>(info.st_dev, info.st_ino);
}

StatusCode DocumentDbCode(int code) {
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_MISMATCH:
    case SQLITE_CONSTRAINT: return StatusCode::kDataLoss;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return StatusCode::kUnavailable;
    case SQLITE_FULL:
    case SQLITE_NOMEM: return StatusCode::kResourceExhausted;
    case SQLITE_TOOBIG: return StatusCode::kInvalidArgument;
    case SQLITE_READONLY: return StatusCode::kFailedPrecondition;
    case SQLITE_ERROR: return StatusCode::kDataLoss;  // our statements are right, so a table or column is missing
    default: return StatusCode::kIoError;
  }
}

}  // namespace

Result<std::unique_ptr<DocumentDb>> DocumentDb::Open(const std::string& path, Mode mode) {
  if (path.empty() || path == ":memory:" || path.find('\0') != std::string::npos) {
    return Error(InvalidArgumentError(fmt::format("'{}': a document index is a file; give its path", path)));
  }
  if (mode == Mode::kWrite) {
    // One that is there is not opened: closing it would drop all locks that this process has on it.
    const int made = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (made < 0 && errno != EEXIST) {
      return Error(IoError(fmt::format("document index '{}': {}", path, std::strerror(errno))));
    }
    if (made >= 0) close(made);
  }
  const auto file = DocumentFileOf(path);
  if (!file) {
    return Error(NotFoundError(fmt::format("document index '{}': {}; surety documents add makes one", path,
                                           std::strerror(errno))));
  }
  std::unique_ptr<DocumentDb> db(new DocumentDb(path));
  db->file_ = *file;
  SURETY_RETURN_IF_ERROR(db->Connect(mode));
  // Where the file was replaced meanwhile, what was opened may be either: the caller tries again.
  if (!db->IsCurrent()) return Error(UnavailableError(fmt::format("document index '{}' is being replaced", path)));
  return db;
}

Status DocumentDb::Connect(Mode mode) {
  const int flags = (mode == Mode::kWrite ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_NOMUTEX;
  // Never "file:..." as an address, whatever the library was built for: the path is one.
  const std::string exact = path_.starts_with('/') ? path_ : "./" + path_;
  const int code = sqlite3_open_v2(exact.c_str(), &handle_, flags, nullptr);
  if (code != SQLITE_OK) return Fault(code, "opening");
  sqlite3_extended_result_codes(handle_, 1);
  sqlite3_busy_timeout(handle_, kDocumentDbBusyMs);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  SURETY_RETURN_IF_ERROR(Run("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA foreign_keys=ON;"
                             "PRAGMA temp_store=MEMORY; PRAGMA cache_size=-32768"));
  if (mode == Mode::kRead) return CheckFormat();
  // The log stays after the last writer, so that one who may only read can still open the file.
  int keep = 1;
  sqlite3_file_control(handle_, "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
  SURETY_ASSIGN_OR_RETURN(const int64_t application, Number("PRAGMA application_id"));
  SURETY_ASSIGN_OR_RETURN(const int64_t tables, Number("SELECT count(*) FROM sqlite_schema"));
  if (application == 0 && tables == 0) SURETY_RETURN_IF_ERROR(CreateSchema());
  SURETY_RETURN_IF_ERROR(CheckFormat());
  return Run("PRAGMA synchronous=FULL; PRAGMA secure_delete=ON; PRAGMA journal_size_limit=16777216");
}

Status DocumentDb::CheckFormat() {
  SURETY_ASSIGN_OR_RETURN(const int64_t application, Number("PRAGMA application_id"));
  SURETY_ASSIGN_OR_RETURN(const int64_t format, Number("PRAGMA user_version"));
  if (application != kDocumentDbApplication) {
    return FailedPreconditionError(fmt::format("'{}' is a database, but no document index", path_));
  }
  if (format != kDocumentDbFormat) {
    return FailedPreconditionError(fmt::format("document index '{}' has format {}; this version reads {}: make it anew "
                                               "with surety documents add", path_, format, kDocumentDbFormat));
  }
  return OkStatus();
}

Status DocumentDb::CreateSchema() {
  SURETY_RETURN_IF_ERROR(Run("PRAGMA page_size=16384"));
  auto mode = DocumentStatement::Prepare(*this, "PRAGMA journal_mode=WAL");
  if (!mode) return mode.error();
  SURETY_ASSIGN_OR_RETURN(const bool row, mode->Step());
  if (!row || mode->TextAt(0) != "wal") {
    return FailedPreconditionError(fmt::format("document index '{}': its file system has no shared memory for a "
                                               "write-ahead log; put it on a local disk", path_));
  }
  mode->Reset();
  SURETY_ASSIGN_OR_RETURN(auto transaction, DocumentTransaction::Begin(*this, Mode::kWrite));
  SURETY_ASSIGN_OR_RETURN(const int64_t tables, Number("SELECT count(*) FROM sqlite_schema"));
  if (tables > 0) return OkStatus();  // another process was faster
  SURETY_RETURN_IF_ERROR(Run(kDocumentDbSchema));
  SURETY_RETURN_IF_ERROR(Run(fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", kDocumentDbApplication,
                                         kDocumentDbFormat)));
  return transaction.Commit();
}

Result<int64_t> DocumentDb::Number(const std::string& sql) {
  SURETY_ASSIGN_OR_RETURN(auto statement, DocumentStatement::Prepare(*this, sql));
  SURETY_ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? statement.IntAt(0) : 0;
}

DocumentDb::~DocumentDb() {
  for (const auto& [sql, statement] : idle_) sqlite3_finalize(statement);
  sqlite3_close_v2(handle_);
}

Status DocumentDb::Run(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? OkStatus() : Fault(code, "reading or writing");
}

Status DocumentDb::Fault(int code, std::string_view doing) const {
  const char* what = handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
  std::string message = fmt::format("document index '{}': {} failed: {} (SQLite code {})", path_, doing, what, code);
  if ((code & 0xff) == SQLITE_NOTADB || (code & 0xff) == SQLITE_CORRUPT) {
    message += "; make it anew from its documents, or restore it";
  } else if ((code & 0xff) == SQLITE_CANTOPEN || code == SQLITE_READONLY_DIRECTORY ||
             code == SQLITE_READONLY_CANTINIT) {
    message += "; reading needs the files ending in -wal and -shm beside it, or the right to make them";
  }
  return {DocumentDbCode(code), std::move(message)};
}

bool DocumentDb::IsCurrent() const { return DocumentFileOf(path_) == file_; }

Result<DocumentStatement> DocumentStatement::Prepare(DocumentDb& db, const std::string& sql) {
  if (const auto idle = db.idle_.find(sql); idle != db.idle_.end()) {
    DocumentStatement ready(db, idle->second);
    db.idle_.erase(idle);
    return ready;
  }
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(db.handle(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK) return Error(db.Fault(code, "reading"));
  return DocumentStatement(db, statement);
}

DocumentStatement::DocumentStatement(DocumentStatement&& other) noexcept
    : db_(other.db_), statement_(std::exchange(other.statement_, nullptr)), next_(other.next_),
      bind_code_(other.bind_code_) {}

// One that failed is not kept: what is wrong with it shall show anew.
DocumentStatement::~DocumentStatement() {
  if (statement_ == nullptr) return;
  const std::string_view sql = sqlite3_sql(statement_);
  const bool kept = sqlite3_reset(statement_) == SQLITE_OK && sql.size() <= kIdleStatementBytes &&
                    db_->idle_.size() < kIdleStatements;
  if (kept) {
    sqlite3_clear_bindings(statement_);
    if (db_->idle_.emplace(sql, statement_).second) return;
  }
  sqlite3_finalize(statement_);
}

void DocumentStatement::Note(int code) {
  if (bind_code_ == SQLITE_OK) bind_code_ = code;
}

DocumentStatement& DocumentStatement::Int(int64_t value) {
  Note(sqlite3_bind_int64(statement_, next_++, value));
  return *this;
}

DocumentStatement& DocumentStatement::Real(double value) {
  Note(sqlite3_bind_double(statement_, next_++, value));
  return *this;
}

// An empty view may have a null address, which the library would take for NULL.
DocumentStatement& DocumentStatement::Text(std::string_view value) {
  Note(sqlite3_bind_text64(statement_, next_++, value.empty() ? "" : value.data(), value.size(), SQLITE_TRANSIENT,
                           SQLITE_UTF8));
  return *this;
}

DocumentStatement& DocumentStatement::Blob(std::string_view value) {
  Note(sqlite3_bind_blob64(statement_, next_++, value.empty() ? "" : value.data(), value.size(), SQLITE_TRANSIENT));
  return *this;
}

Result<bool> DocumentStatement::Step() {
  if (bind_code_ != SQLITE_OK) return Error(db_->Fault(bind_code_, "reading"));
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return Error(db_->Fault(code, sqlite3_stmt_readonly(statement_) ? "reading" : "writing"));
}

Status DocumentStatement::Finish() {
  const auto row = Step();
  Reset();
  if (!row) return row.error();
  SURETY_CHECK(!*row);
  return OkStatus();
}

void DocumentStatement::Reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  next_ = 1;
  bind_code_ = SQLITE_OK;
}

int64_t DocumentStatement::IntAt(int column) const { return sqlite3_column_int64(statement_, column); }
double DocumentStatement::RealAt(int column) const { return sqlite3_column_double(statement_, column); }
std::string DocumentStatement::TextAt(int column) const { return std::string(BytesAt(column)); }

std::string_view DocumentStatement::BytesAt(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr || size <= 0 ? std::string_view() : std::string_view(static_cast<const char*>(bytes), size);
}

Result<DocumentTransaction> DocumentTransaction::Begin(DocumentDb& db, DocumentDb::Mode mode) {
  const char* const sql = mode == DocumentDb::Mode::kWrite ? "BEGIN IMMEDIATE" : "BEGIN";
  SURETY_ASSIGN_OR_RETURN(auto begin, DocumentStatement::Prepare(db, sql));
  SURETY_RETURN_IF_ERROR(begin.Finish());
  return DocumentTransaction(db);
}

DocumentTransaction::~DocumentTransaction() {
  if (db_ == nullptr || sqlite3_get_autocommit(db_->handle()) != 0) return;
  auto rollback = DocumentStatement::Prepare(*db_, "ROLLBACK");
  if (rollback) (void)rollback->Finish();
}

Status DocumentTransaction::Commit() {
  SURETY_RETURN_IF_ERROR(db_->Run("COMMIT"));
  db_ = nullptr;
  return OkStatus();
}

}  // namespace surety::gateway
