// Documents that answers may cite: text in chunks, each with the access list, region, product and validity of its
// document, so that what a caller may not read is filtered before anything is scored.
//
// SQLite with FTS5; vectors lie beside the text. A document without an access list is readable by nobody. The filter
// can not be left out: Search takes it by value and has no other form.
// Threads: any. Owns: its connection. Errors: kInvalidArgument naming document and field, kAlreadyExists for a version
// whose validity overlaps another one of the same document, kIoError.
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

class DocumentStore {
 public:
  static Result<std::unique_ptr<DocumentStore>> Open(const std::string& path, bool read_only);
  virtual ~DocumentStore() = default;

  // Replaces the same id and version. `embed` empty: without vectors.
  virtual Result<int> Add(const Document& document, const EmbedTexts& embed) = 0;   // number of chunks
  virtual Result<int> Remove(const std::string& id, const std::string& version) = 0;  // version empty: all
  virtual Result<std::vector<Document>> List() = 0;                                   // without text

  // The best passages that `rights` allow, best first. `vector` empty: by text alone; `query` empty: by vector alone;
  // both: reciprocal rank fusion.
  virtual Result<std::vector<Passage>> Search(ReadRights rights, std::string_view query, std::span<const float> vector,
                                              int top_k) = 0;
  // Changes with every change of the store: for cache keys.
  virtual std::string Snapshot() = 0;
  // The first instant after `t` at which what is valid changes; nullopt: none.
  virtual std::optional<int64_t> NextBoundary(int64_t t_ns) = 0;
};

// A text file with front matter between two lines "---": id, version, title, permissions, regions, products, languages,
// effective_from, effective_to, tenant.
Result<Document> ParseDocument(std::string_view text, const std::string& path);
// Paragraphs joined to about `max_bytes`, never cut inside a sentence unless one is longer; offsets are exact.
std::vector<std::string> ChunksOf(std::string_view text, size_t max_bytes);

}  // namespace surety::gateway
