// What searches on one connection have read of one state of a document index, for those that follow.
//
// Each entry is a function of that state, and for what rights allow also of all of those rights. The first read of a
// transaction asks the connection whether anyone has committed since: then everything is forgotten, so that a change
// is seen at once and what was removed does not stay.
// Threads: the connection's. Owns: copies of texts and lists, some kMostBytes; when full it is emptied, and what alone
// would take a quarter of it is not kept.
// Errors: those of document_db.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "gateway/document_db.h"
#include "gateway/document_rows.h"
#include "gateway/document_store.h"

namespace surety::gateway {

// Instants [from_ns, to_ns) between which no document begins or ends to be valid.
struct QuietTime {
  int64_t from_ns = 0, to_ns = 0;
  bool ends = false;                       // false: no document begins or ends later
  std::optional<int64_t> boundary() const { return ends ? std::optional(to_ns) : std::nullopt; }
  bool Contains(int64_t t_ns) const { return from_ns <= t_ns && t_ns < to_ns; }
};

using TermPlaces = std::vector<TermPlace>;

// The documents that certain rights allow at the instants of `when`.
struct ReadableDocuments {
  QuietTime when;
  int64_t n_chunks = 0, n_terms = 0;
  std::vector<int64_t> documents, audiences;   // rows, ascending, each once
  // Of terms in these documents alone, the numbers rows of chunks.
  std::unordered_map<std::string, std::shared_ptr<const TermPlaces>> places;
};

class SearchMemo {
 public:
  static constexpr size_t kMostBytes = 8 << 20;

  // Before anything else of a transaction or statement: forgets what is of another state than `db` sees now.
  Status Follow(DocumentDb& db);
  // True where `bytes` more are kept; they are counted then.
  bool Keeps(size_t bytes);

  int64_t state() const { return state_; }   // 0: none was followed
  size_t bytes() const { return bytes_; }

  std::optional<std::string> snapshot;
  std::optional<QuietTime> quiet;
  std::unordered_map<std::string, std::shared_ptr<ReadableDocuments>> readable;   // by RightsKey
  std::unordered_map<int64_t, std::string> names;                                 // of documents: name, NUL, version
  std::unordered_map<int64_t, std::shared_ptr<const Document>> documents;
  std::unordered_map<int64_t, std::shared_ptr<const Passage>> passages;           // their seals and rights were checked

 private:
  int64_t state_ = 0;
  size_t bytes_ = 0;
};

// Equal for equal rights, but for the instant.
std::string RightsKey(const ReadRights& rights);

// Of the state's content.
Result<std::string> SnapshotOf(DocumentDb& db, SearchMemo& memo);

// The time around `t_ns`, at or after it, in which nothing begins or ends.
Result<QuietTime> QuietTimeAt(DocumentDb& db, SearchMemo& memo, int64_t t_ns);

}  // namespace surety::gateway
