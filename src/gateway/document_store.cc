#include "gateway/document_store.h"

#include <atomic>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "gateway/document_db.h"
#include "gateway/document_index.h"
#include "gateway/document_memo.h"
#include "gateway/document_rows.h"
#include "gateway/document_search.h"
#include "gateway/document_write.h"

namespace surety::gateway {
namespace {

constexpr size_t kIdleDocumentReaders = 16;
constexpr size_t kEmbeddingBatch = 256;
constexpr int kOpenAttempts = 20;
constexpr int kStepsBetweenLooks = 500;    // of SQLite's machine: some microseconds
constexpr int kScrubBusyMs = 1000;

// While it is there, statements of the connection end once the deadline has passed, and wait for locks no longer.
class SearchDeadline {
 public:
  SearchDeadline(sqlite3* db, const Clock& clock, int64_t deadline_ns)
      : db_(db), clock_(clock), deadline_ns_(deadline_ns) {
    const int64_t left_ms = (deadline_ns - clock.NowNanos()) / 1'000'000;
    sqlite3_busy_timeout(db_, static_cast<int>(std::clamp<int64_t>(left_ms, 0, kDocumentDbBusyMs)));
    sqlite3_progress_handler(db_, kStepsBetweenLooks, [](void* self) -> int {
      return static_cast<SearchDeadline*>(self)->Look() ? 1 : 0;
    }, this);
  }
  ~SearchDeadline() {
    sqlite3_progress_handler(db_, 0, nullptr, nullptr);
    sqlite3_busy_timeout(db_, kDocumentDbBusyMs);
  }
  SearchDeadline(const SearchDeadline&) = delete;
  SearchDeadline& operator=(const SearchDeadline&) = delete;
  bool Look() { return passed_ = passed_ || clock_.NowNanos() >= deadline_ns_; }

 private:
  sqlite3* db_;
  const Clock& clock_;
  const int64_t deadline_ns_;
  bool passed_ = false;
};

class SqliteDocumentIndex final : public DocumentIndex {
 public:
  SqliteDocumentIndex(std::string path, bool read_only) : path_(std::move(path)), read_only_(read_only) {}

  Status Start() {
    if (!read_only_) {
      const std::lock_guard lock(write_mutex_);
      SURETY_RETURN_IF_ERROR(OpenWriter());
    }
    auto reader = TakeReader();
    if (!reader) return reader.error();
    PutBack(*std::move(reader));
    return OkStatus();
  }

  Result<int> Add(const Document& document, const EmbedTexts& embed) override {
    return AddAll(std::span(&document, 1), embed, {});
  }
  Result<int> AddAll(std::span<const Document> documents, const EmbedTexts& embed,
                     const AddDocumentsOptions& options) override;
  Result<int> Remove(const std::string& id, const std::string& version) override;
  Result<std::vector<Document>> List() override;
  Result<std::vector<Passage>> Search(ReadRights rights, std::string_view query, std::span<const float> vector,
                                      int top_k) override {
    SURETY_ASSIGN_OR_RETURN(Retrieved found, Retrieve(std::move(rights), query, vector, top_k, {}));
    return std::move(found.passages);
  }
  Result<Retrieved> Retrieve(ReadRights rights, std::string_view query, std::span<const float> vector, int top_k,
                             SearchLimit limit) override {
    return Read([&](DocumentDb& db, SearchMemo& memo) -> Result<Retrieved> {
      std::optional<SearchDeadline> deadline;
      if (limit.clock != nullptr) deadline.emplace(db.handle(), *limit.clock, limit.deadline_ns);
      auto found = SearchDocuments(db, memo, rights, {.text = query, .vector = vector, .top_k = top_k});
      if (!found && deadline && deadline->Look()) {
        return Error(Status(StatusCode::kDeadlineExceeded,
                            fmt::format("document index '{}': the search was not done in time", path_)));
      }
      return found;
    });
  }
  bool keeps_deadlines() const override {   // but for opening the file
    const std::lock_guard lock(readers_mutex_);
    return !readers_.empty();
  }
  std::string Snapshot() override;
  std::optional<int64_t> NextBoundary(int64_t t_ns) override;
  Result<DocumentIndexSummary> Summary() override;

 private:
  struct ReadConnection {
    std::unique_ptr<DocumentDb> db;
    SearchMemo memo;
    uint64_t changes = 0;   // changes_ when the memo was last known to be in step with it
  };
  using Reader = std::unique_ptr<ReadConnection>;

  // A connection that nobody else uses, on the file that the path leads to now.
  Result<Reader> TakeReader() {
    {
      const std::lock_guard lock(readers_mutex_);
      while (!readers_.empty()) {
        Reader reader = std::move(readers_.back());
        readers_.pop_back();
        if (reader->db->IsCurrent()) return reader;
      }
    }
    SURETY_ASSIGN_OR_RETURN(auto opened, OpenCurrent(DocumentDb::Mode::kRead));
    auto reader = std::make_unique<ReadConnection>();
    reader->db = std::move(opened);
    return reader;
  }
  Result<std::unique_ptr<DocumentDb>> OpenCurrent(DocumentDb::Mode mode) const {
    for (int attempt = 1;; ++attempt) {
      auto opened = DocumentDb::Open(path_, mode);
      if (opened || opened.error().code() != StatusCode::kUnavailable || attempt == kOpenAttempts) return opened;
    }
  }
  void PutBack(Reader reader) {
    const std::lock_guard lock(readers_mutex_);
    if (std::exchange(reader->changes, changes_) != changes_) reader->memo = SearchMemo();
    if (readers_.size() < kIdleDocumentReaders) readers_.push_back(std::move(reader));
  }
  // The index is another one: what connections without work still know of the last one goes too.
  void ForgetMemos() {
    const std::lock_guard lock(readers_mutex_);
    ++changes_;
    for (const Reader& reader : readers_) {
      reader->memo = SearchMemo();
      reader->changes = changes_;
    }
  }
  // A connection on which something failed is not used again.
  template <typename Work>
  auto Read(Work work) -> decltype(work(std::declval<DocumentDb&>(), std::declval<SearchMemo&>())) {
    auto reader = TakeReader();
    if (!reader) return Error(reader.error());
    SearchMemo& memo = (*reader)->memo;
    const int64_t before = memo.state();
    auto result = work(*(*reader)->db, memo);
    if (before != 0 && memo.state() != before) ForgetMemos();
    if (result) PutBack(*std::move(reader));
    return result;
  }

  Status OpenWriter() {
    auto opened = OpenCurrent(DocumentDb::Mode::kWrite);
    if (!opened) return opened.error();
    writer_ = *std::move(opened);
    return OkStatus();
  }
  // Runs `work` in a transaction on the writer's connection, and updates the snapshot.
  template <typename Work>
  Result<int> Write(Work work) {
    if (read_only_) {
      return Error(FailedPreconditionError(fmt::format("document index '{}' is open for reading alone", path_)));
    }
    const std::lock_guard lock(write_mutex_);
    if (!writer_->IsCurrent()) SURETY_RETURN_IF_ERROR(OpenWriter());
    SURETY_ASSIGN_OR_RETURN(auto transaction, DocumentTransaction::Begin(*writer_, DocumentDb::Mode::kWrite));
    SURETY_ASSIGN_OR_RETURN(const int n, work(*writer_));
    SURETY_RETURN_IF_ERROR(UpdateSnapshot(*writer_));
    SURETY_RETURN_IF_ERROR(transaction.Commit());
    ForgetMemos();
    return n;
  }
  Status EmbedAll(std::vector<PreparedDocument>& documents, const EmbedTexts& embed,
                  const AddDocumentsOptions& options) const;
  static Status WriteAll(DocumentDb& db, std::span<const PreparedDocument> documents,
                         const AddDocumentsOptions& options, int& n_replaced);
  Status EmptyLog();

  const std::string path_;
  const bool read_only_;
  // The writer goes last: the last connection to close folds the log into the file, if it may write.
  std::mutex write_mutex_;
  std::unique_ptr<DocumentDb> writer_;
  mutable std::mutex readers_mutex_;
  std::vector<Reader> readers_;
  uint64_t changes_ = 0;   // of the index, as far as this process knows
};

Status TellProgress(const AddDocumentsOptions& options, AddDocumentsOptions::Stage stage, size_t done, size_t total) {
  if (!options.progress) return OkStatus();
  return options.progress(stage, static_cast<int64_t>(done), static_cast<int64_t>(total));
}

Result<int> SqliteDocumentIndex::AddAll(std::span<const Document> documents, const EmbedTexts& embed,
                                        const AddDocumentsOptions& options) {
  std::vector<PreparedDocument> prepared;
  int n_chunks = 0;
  for (const Document& document : documents) {
    SURETY_ASSIGN_OR_RETURN(auto one, PrepareDocument(document));
    n_chunks += static_cast<int>(one.chunks.size());
    prepared.push_back(std::move(one));
  }
  if (embed) SURETY_RETURN_IF_ERROR(EmbedAll(prepared, embed, options));
  int n_replaced = 0;
  SURETY_ASSIGN_OR_RETURN(const int written, Write([&](DocumentDb& db) -> Result<int> {
    SURETY_RETURN_IF_ERROR(WriteAll(db, prepared, options, n_replaced));
    return n_chunks;
  }));
  if (n_replaced > 0) SURETY_RETURN_IF_ERROR(EmptyLog());
  return written;
}

Status SqliteDocumentIndex::EmbedAll(std::vector<PreparedDocument>& documents, const EmbedTexts& embed,
                                     const AddDocumentsOptions& options) const {
  std::vector<std::string> texts;
  std::vector<size_t> owners;
  size_t total = 0, done = 0;
  for (const PreparedDocument& document : documents) total += document.chunks.size();
  const auto flush = [&]() -> Status {
    if (texts.empty()) return OkStatus();
    SURETY_ASSIGN_OR_RETURN(auto vectors, embed(texts));
    if (vectors.size() != texts.size()) {
      return InternalError(fmt::format("the embedding model gave {} vectors for {} texts", vectors.size(),
                                       texts.size()));
    }
    for (size_t i = 0; i < vectors.size(); ++i) documents[owners[i]].vectors.push_back(std::move(vectors[i]));
    done += texts.size();
    texts.clear();
    owners.clear();
    return TellProgress(options, AddDocumentsOptions::Stage::kEmbedding, done, total);
  };
  for (size_t i = 0; i < documents.size(); ++i) {
    for (const std::string& chunk : documents[i].chunks) {
      texts.push_back(SearchableText(documents[i].document.title, chunk));
      owners.push_back(i);
      if (texts.size() == kEmbeddingBatch) SURETY_RETURN_IF_ERROR(flush());
    }
  }
  return flush();
}

Status SqliteDocumentIndex::WriteAll(DocumentDb& db, std::span<const PreparedDocument> documents,
                                     const AddDocumentsOptions& options, int& n_replaced) {
  // What is replaced goes first, so that the order of the documents does not matter.
  for (const PreparedDocument& prepared : documents) {
    SURETY_ASSIGN_OR_RETURN(auto owner, DocumentStatement::Prepare(
        db, "SELECT 1 FROM document d JOIN audience a ON a.id = d.audience WHERE d.name = ? AND a.tenant <> ?"));
    SURETY_ASSIGN_OR_RETURN(const bool foreign, owner.Text(prepared.document.id).Text(prepared.document.tenant).Step());
    owner.Reset();
    if (foreign) return CheckVersions(db, prepared.document);
    SURETY_ASSIGN_OR_RETURN(const int replaced,
                            DeleteDocument(db, prepared.document.id, prepared.document.version));
    n_replaced += replaced;
  }
  for (size_t i = 0; i < documents.size(); ++i) {
    SURETY_RETURN_IF_ERROR(CheckVersions(db, documents[i].document));
    SURETY_RETURN_IF_ERROR(CheckVectors(db, documents[i]));
    SURETY_RETURN_IF_ERROR(InsertDocument(db, documents[i]));
    SURETY_RETURN_IF_ERROR(TellProgress(options, AddDocumentsOptions::Stage::kWriting, i + 1, documents.size()));
  }
  if (options.embedding_model.empty()) return OkStatus();
  return WriteMeta(db, "embedding_model", options.embedding_model);
}

Result<int> SqliteDocumentIndex::Remove(const std::string& id, const std::string& version) {
  SURETY_ASSIGN_OR_RETURN(const int removed,
                          Write([&](DocumentDb& db) { return DeleteDocument(db, id, version); }));
  SURETY_RETURN_IF_ERROR(EmptyLog());  // where nothing was removed too: an earlier call may have left the log
  return removed;
}

// What was removed or replaced shall not stand in the write-ahead log either. That readers hold it is a row, no error.
Status SqliteDocumentIndex::EmptyLog() {
  const std::lock_guard lock(write_mutex_);
  sqlite3_busy_timeout(writer_->handle(), kScrubBusyMs);
  const auto checkpoint = writer_->Number("PRAGMA wal_checkpoint(TRUNCATE)");
  sqlite3_busy_timeout(writer_->handle(), kDocumentDbBusyMs);
  SURETY_ASSIGN_OR_RETURN(const int64_t busy, checkpoint);
  if (busy == 0) return OkStatus();
  return UnavailableError(fmt::format("document index '{}': the change is made, but another process reads the index, "
                                      "so its write-ahead log still holds what was removed; call again", path_));
}

Result<std::vector<Document>> SqliteDocumentIndex::List() {
  return Read([](DocumentDb& db, SearchMemo&) -> Result<std::vector<Document>> {
    SURETY_ASSIGN_OR_RETURN(auto transaction, DocumentTransaction::Begin(db, DocumentDb::Mode::kRead));
    SURETY_ASSIGN_OR_RETURN(auto rows, DocumentStatement::Prepare(
        db, "SELECT id FROM document ORDER BY name, from_ns, version"));
    std::vector<Document> documents;
    for (;;) {
      SURETY_ASSIGN_OR_RETURN(const bool more, rows.Step());
      if (!more) return documents;
      SURETY_ASSIGN_OR_RETURN(auto document, LoadDocument(db, rows.IntAt(0)));
      documents.push_back(std::move(document));
    }
  });
}

std::string SqliteDocumentIndex::Snapshot() {
  auto snapshot = Read([](DocumentDb& db, SearchMemo& memo) -> Result<std::string> {
    SURETY_RETURN_IF_ERROR(memo.Follow(db));
    return SnapshotOf(db, memo);
  });
  if (snapshot) return *snapshot;
  static std::atomic<uint64_t> count = 0;
  return fmt::format("unreadable-{}-{}-{}", Clock::Real().WallNanos(), getpid(), ++count);
}

std::optional<int64_t> SqliteDocumentIndex::NextBoundary(int64_t t_ns) {
  const auto next = Read([&](DocumentDb& db, SearchMemo& memo) -> Result<std::optional<int64_t>> {
    SURETY_RETURN_IF_ERROR(memo.Follow(db));
    SURETY_ASSIGN_OR_RETURN(const QuietTime quiet, QuietTimeAt(db, memo, t_ns));
    return quiet.boundary();
  });
  if (next) return *next;
  return t_ns == std::numeric_limits<int64_t>::max() ? t_ns : t_ns + 1;
}

Result<DocumentIndexSummary> SqliteDocumentIndex::Summary() {
  return Read([](DocumentDb& db, SearchMemo&) -> Result<DocumentIndexSummary> {
    SURETY_ASSIGN_OR_RETURN(auto transaction, DocumentTransaction::Begin(db, DocumentDb::Mode::kRead));
    SURETY_ASSIGN_OR_RETURN(auto counts, DocumentStatement::Prepare(
        db, "SELECT (SELECT count(*) FROM document), (SELECT count(*) FROM chunk), (SELECT count(*) FROM vector), "
            "(SELECT length(value) FROM vector LIMIT 1)"));
    SURETY_ASSIGN_OR_RETURN(const bool row, counts.Step());
    DocumentIndexSummary summary;
    if (!row) return summary;
    summary = {.documents = counts.IntAt(0), .chunks = counts.IntAt(1), .vectors = counts.IntAt(2),
               .dimensions = static_cast<int>(counts.IntAt(3) / static_cast<int64_t>(sizeof(float))),
               .embedding_model = {}};
    if (summary.vectors > 0) {
      SURETY_ASSIGN_OR_RETURN(summary.embedding_model, ReadMeta(db, "embedding_model"));
    }
    return summary;
  });
}

}  // namespace

Result<std::unique_ptr<DocumentIndex>> DocumentIndex::Open(const std::string& path, bool read_only) {
  auto index = std::make_unique<SqliteDocumentIndex>(path, read_only);
  if (const Status status = index->Start(); !status.ok()) return Error(status);
  return index;
}

Result<std::unique_ptr<DocumentStore>> DocumentStore::Open(const std::string& path, bool read_only) {
  return DocumentIndex::Open(path, read_only);
}

}  // namespace surety::gateway
