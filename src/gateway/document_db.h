// One SQLite connection of a document index, and statements on it, with errors as Status.
//
// The file is in WAL mode: readers never wait for a writer, and each of them sees one state of the whole. What stands
// in the file is not trusted: a damaged one is an error, never a crash.
// Threads: a connection belongs to one thread at a time. Owns: the connection, and statements that were used, ready for
// the next who asks for the same; a statement must not outlive it.
// Errors: kNotFound (no such file), kDataLoss (damaged), kFailedPrecondition (a database of something else, or of
// another format), kUnavailable (another process writes for too long), kResourceExhausted (disk full), kIoError.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace surety::gateway {

inline constexpr int kDocumentDbBusyMs = 10'000;  // waiting for others' transactions

class DocumentDb {
 public:
  enum class Mode { kRead, kWrite };  // kWrite makes the file where there is none, for its owner alone

  static Result<std::unique_ptr<DocumentDb>> Open(const std::string& path, Mode mode);
  ~DocumentDb();
  DocumentDb(const DocumentDb&) = delete;
  DocumentDb& operator=(const DocumentDb&) = delete;

  // Statements without parameters and without rows.
  Status Run(const std::string& sql);
  Result<int64_t> Number(const std::string& sql);  // the first column of the first row
  Status Fault(int code, std::string_view doing) const;
  // The path still leads to the file that was opened; false once it was replaced or removed.
  bool IsCurrent() const;

  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_; }

 private:
  friend class DocumentStatement;
  explicit DocumentDb(std::string path) : path_(std::move(path)) {}
  Status Connect(Mode mode);
  Status CheckFormat();
  Status CreateSchema();

  std::string path_;
  sqlite3* handle_ = nullptr;
  std::pair<uint64_t, uint64_t> file_;  // device and inode
  std::unordered_map<std::string, sqlite3_stmt*> idle_;  // by their text, reset and without bindings
};

class DocumentStatement {
 public:
  static Result<DocumentStatement> Prepare(DocumentDb& db, const std::string& sql);
  ~DocumentStatement();
  DocumentStatement(DocumentStatement&& other) noexcept;
  DocumentStatement(const DocumentStatement&) = delete;
  DocumentStatement& operator=(const DocumentStatement&) = delete;

  // Parameters in their order; a failure shows at Step.
  DocumentStatement& Int(int64_t value);
  DocumentStatement& Real(double value);
  DocumentStatement& Text(std::string_view value);
  DocumentStatement& Blob(std::string_view value);

  // true: a row is there.
  Result<bool> Step();
  // For statements without rows: runs it and makes it ready for other parameters.
  Status Finish();
  void Reset();

  int64_t IntAt(int column) const;
  double RealAt(int column) const;
  std::string TextAt(int column) const;
  std::string_view BytesAt(int column) const;  // until the next Step

 private:
  DocumentStatement(DocumentDb& db, sqlite3_stmt* statement) : db_(&db), statement_(statement) {}
  void Note(int code);

  DocumentDb* db_;
  sqlite3_stmt* statement_;
  int next_ = 1;
  int bind_code_ = 0;
};

// Rolls back unless it was committed.
class DocumentTransaction {
 public:
  static Result<DocumentTransaction> Begin(DocumentDb& db, DocumentDb::Mode mode);
  ~DocumentTransaction();
  DocumentTransaction(DocumentTransaction&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  DocumentTransaction(const DocumentTransaction&) = delete;
  DocumentTransaction& operator=(const DocumentTransaction&) = delete;
  Status Commit();

 private:
  explicit DocumentTransaction(DocumentDb& db) : db_(&db) {}
  DocumentDb* db_;
};

}  // namespace surety::gateway
