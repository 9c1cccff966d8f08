// Documents that answers may cite: text in chunks, each with the access list, region, product and validity of its
// document, so that what a caller may not read is filtered before anything is scored.
//
// A SQLite file; vectors lie beside the text. A document without an access list is readable by nobody. The filter can
// not be left out: Search takes it by value and has no other form.
// Threads: any; searches run at the same time, and while this or another process writes. Owns: its connections.
// Errors: kInvalidArgument naming document and field, kAlreadyExists for a version whose validity overlaps another one
// of the same document (both are named), kDataLoss (a damaged file), and those of document_db.h.
// Invariants: (1) What a document that `rights` do not allow holds, or whether it is there, changes no bit of a result:
// the statistics of BM25 are of the readable passages alone, which is why the index of terms is our own and not FTS5,
// whose statistics are of the whole corpus. (2) A passage's text, rights and validity are those that were added: a
// digest over them is compared before it is returned. (3) Nothing found is an answer: no filter is ever relaxed.
// (4) A search sees one state of the store.
// Source: S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009; G. Cormack,
// C. Clarke, S. Buettcher, "Reciprocal Rank Fusion ...", SIGIR 2009.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "gateway/evidence.h"

namespace surety::gateway {

struct Document {
  std::string id, version, title, text;
  std::vector<std::string> permissions;     // any of them lets a caller read it; "public": everyone. Never empty
  std::vector<std::string> regions, products, languages;  // empty: all
  Validity validity;
  std::string tenant;                       // empty: shared by all tenants
  std::string source;                       // where it came from
};

// What the caller is; every field is applied.
struct ReadRights {
  std::string tenant;
  std::vector<std::string> permissions;
  std::string region, product, language;    // empty: only documents that are for all
  int64_t as_of_ns = 0;
};

// Unit vectors, one a text.
using EmbedTexts = std::function<Result<std::vector<std::vector<float>>>(std::span<const std::string>)>;

// What a search found, and of which state of the store: all of one.
struct Retrieved {
  std::vector<Passage> passages;            // as Search gives them
  std::string snapshot;                     // as Snapshot does
  std::optional<int64_t> boundary;          // as NextBoundary does, of as_of
};

// How long a search may take; without a clock, as long as it does.
struct SearchLimit {
  const Clock* clock = nullptr;
  int64_t deadline_ns = 0;
};

class DocumentStore {
 public:
  static Result<std::unique_ptr<DocumentStore>> Open(const std::string& path, bool read_only);
  virtual ~DocumentStore() = default;

  // Replaces the same id and version. `embed` empty: without vectors. Ids are unique across tenants, since a citation
  // must name one document: one of another tenant is never replaced. Ids and versions: of A-Z a-z 0-9 . _ - alone.
  virtual Result<int> Add(const Document& document, const EmbedTexts& embed) = 0;   // number of chunks
  virtual Result<int> Remove(const std::string& id, const std::string& version) = 0;  // version empty: all; how many
  virtual Result<std::vector<Document>> List() = 0;                                   // without text

  // The best passages that `rights` allow, best first. `vector` empty: by text alone; `query` empty: by vector alone;
  // both: reciprocal rank fusion. The query is plain text, never syntax; its first 256 different terms count. Equal
  // scores: by id, version and place. top_k: 1 to 1000.
  virtual Result<std::vector<Passage>> Search(ReadRights rights, std::string_view query, std::span<const float> vector,
                                              int top_k) = 0;
  // The same with what a cache of answers must know of it, until `limit`: kDeadlineExceeded. Where the store keeps to
  // that by itself, a search by text may be made on a thread that must not be held up.
  virtual Result<Retrieved> Retrieve(ReadRights rights, std::string_view query, std::span<const float> vector,
                                     int top_k, SearchLimit limit = {}) = 0;
  virtual bool keeps_deadlines() const { return false; }   // now
  // Changes with every change of the store: for cache keys. A digest of the content, so equal states have equal ones,
  // also after a restart or a restored backup. If it can not be read: a text that never comes again.
  virtual std::string Snapshot() = 0;
  // The first instant after `t` at which what is valid changes; nullopt: none. If it can not be read: the next one.
  virtual std::optional<int64_t> NextBoundary(int64_t t_ns) = 0;
};

// A text file with front matter between two lines "---": id, version, title, permissions, regions, products, languages,
// effective_from, effective_to, tenant. kInvalidArgument naming the file, the line and what would be right.
Result<Document> ParseDocument(std::string_view text, const std::string& path);
// Paragraphs joined up to `max_bytes` (at least 4), never cut inside a sentence unless one is longer, never inside a
// character. Joined again they are the text, byte by byte.
std::vector<std::string> ChunksOf(std::string_view text, size_t max_bytes);

}  // namespace surety::gateway
