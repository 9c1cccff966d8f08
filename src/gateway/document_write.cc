#include "gateway/document_write.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/hash.h"
#include "gateway/document_rows.h"
#include "gateway/document_text.h"

namespace surety::gateway {
namespace {

std::string DocumentPlace(const Document& document) {
  return document.source.empty() ? fmt::format("document '{}'", document.id.substr(0, 128))
                                 : fmt::format("document '{}' ({})", document.id.substr(0, 128), document.source);
}

Status CheckMembers(std::string_view what, std::vector<std::string>& names) {
  for (const std::string& name : names) SURETY_RETURN_IF_ERROR(CheckRightName(what, name));
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return OkStatus();
}

Status CheckDocumentFields(Document& document) {
  SURETY_RETURN_IF_ERROR(CheckCitable("id", document.id));
  SURETY_RETURN_IF_ERROR(CheckCitable("version", document.version));
  if (document.permissions.empty()) {
    return InvalidArgumentError("permissions: empty, so nobody could read it; list who may, \"public\" for everyone");
  }
  SURETY_RETURN_IF_ERROR(CheckMembers("permissions", document.permissions));
  SURETY_RETURN_IF_ERROR(CheckMembers("regions", document.regions));
  SURETY_RETURN_IF_ERROR(CheckMembers("products", document.products));
  SURETY_RETURN_IF_ERROR(CheckMembers("languages", document.languages));
  if (!document.tenant.empty()) SURETY_RETURN_IF_ERROR(CheckRightName("tenant", document.tenant));
  if (document.validity.from_ns >= document.validity.to_ns) {
    return InvalidArgumentError(fmt::format("validity: it ends ({}) before it begins ({})",
                                            DocumentInstantText(document.validity.to_ns),
                                            DocumentInstantText(document.validity.from_ns)));
  }
  if (FindNoText(document.title) != std::string::npos || document.title.size() > 1000) {
    return InvalidArgumentError("title: it must be UTF-8 of at most 1000 bytes");
  }
  if (const size_t bad = FindNoText(document.text); bad != std::string::npos) {
    return InvalidArgumentError(fmt::format("text: byte {} is {}", bad, document.text[bad] == '\0' ? "NUL"
                                                                                                   : "no UTF-8"));
  }
  return OkStatus();
}

// The terms of a document's chunks: term -> places, and how many terms there are in all.
struct DocumentPostings {
  std::map<std::string, std::vector<TermPlace>> places;
  int64_t n_terms = 0;
};

void CountTerms(DocumentPostings& postings, std::string_view title, std::string_view text, int64_t number) {
  const std::vector<std::string> terms = DocumentTerms(SearchableText(title, text));
  const auto length = static_cast<int64_t>(terms.size());
  std::map<std::string_view, int64_t> counts;
  for (const std::string& term : terms) ++counts[term];
  for (const auto& [term, count] : counts) postings.places[std::string(term)].push_back({number, count, length});
  postings.n_terms += length;
}

Result<int64_t> FindAudience(DocumentDb& db, const std::string& encoding) {
  SURETY_ASSIGN_OR_RETURN(auto find, DocumentStatement::Prepare(db, "SELECT id FROM audience WHERE encoding = ?"));
  SURETY_ASSIGN_OR_RETURN(const bool found, find.Blob(encoding).Step());
  return found ? find.IntAt(0) : 0;
}

Result<int64_t> AudienceOf(DocumentDb& db, const Document& document) {
  const std::string encoding = AudienceEncoding(document);
  SURETY_ASSIGN_OR_RETURN(const int64_t known, FindAudience(db, encoding));
  if (known != 0) return known;
  SURETY_ASSIGN_OR_RETURN(auto insert, DocumentStatement::Prepare(
      db, "INSERT INTO audience(tenant, all_regions, all_products, all_languages, encoding) VALUES(?, ?, ?, ?, ?)"));
  SURETY_RETURN_IF_ERROR(insert.Text(document.tenant).Int(document.regions.empty()).Int(document.products.empty())
                             .Int(document.languages.empty()).Blob(encoding).Finish());
  SURETY_ASSIGN_OR_RETURN(const int64_t audience, FindAudience(db, encoding));
  SURETY_ASSIGN_OR_RETURN(auto member, DocumentStatement::Prepare(
      db, "INSERT INTO audience_member(audience, kind, value) VALUES(?, ?, ?)"));
  const std::pair<MemberKind, const std::vector<std::string>*> lists[] = {
      {MemberKind::kPermission, &document.permissions}, {MemberKind::kRegion, &document.regions},
      {MemberKind::kProduct, &document.products}, {MemberKind::kLanguage, &document.languages}};
  for (const auto& [kind, list] : lists) {
    for (const std::string& value : *list) {
      SURETY_RETURN_IF_ERROR(member.Int(audience).Int(static_cast<int>(kind)).Text(value).Finish());
    }
  }
  return audience;
}

std::string_view VectorBytes(const std::vector<float>& vector) {
  return {reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float)};
}

double NormOf(const std::vector<float>& vector) {
  double sum = 0;
  for (const float value : vector) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

// The chunks and vectors of a document at `row`; returns the digest over all of them.
Result<std::string> InsertChunks(DocumentDb& db, const PreparedDocument& prepared, int64_t row) {
  SURETY_ASSIGN_OR_RETURN(auto chunk, DocumentStatement::Prepare(
      db, "INSERT INTO chunk(id, text, seal) VALUES(?, ?, ?)"));
  SURETY_ASSIGN_OR_RETURN(auto vector, DocumentStatement::Prepare(
      db, "INSERT INTO vector(id, inverse_norm, value) VALUES(?, ?, ?)"));
  std::string seals;
  for (size_t i = 0; i < prepared.chunks.size(); ++i) {
    const auto number = static_cast<int64_t>(i + 1);
    const std::string seal = ChunkSeal(prepared.document, number, prepared.chunks[i]);
    const int64_t id = (row << kChunkBits) | number;
    SURETY_RETURN_IF_ERROR(chunk.Int(id).Text(prepared.chunks[i]).Blob(seal).Finish());
    seals += seal;
    if (prepared.vectors.empty()) continue;
    const std::vector<float>& values = prepared.vectors[i];
    SURETY_RETURN_IF_ERROR(vector.Int(id).Real(1 / NormOf(values)).Blob(VectorBytes(values)).Finish());
    PutField(seals, VectorBytes(values));
  }
  return DocumentDigest(seals);
}

struct StoredVersion {
  int64_t row = 0, audience = 0;
  std::string title;
};

Status DeletePostings(DocumentDb& db, const StoredVersion& stored) {
  const int64_t first = stored.row << kChunkBits;
  SURETY_ASSIGN_OR_RETURN(auto chunks, DocumentStatement::Prepare(
      db, "SELECT text FROM chunk WHERE id BETWEEN ? AND ?"));
  chunks.Int(first).Int(first + kMaxChunks);
  std::set<std::string> terms;
  for (;;) {
    SURETY_ASSIGN_OR_RETURN(const bool more, chunks.Step());
    if (!more) break;
    terms.merge([&] {
      std::vector<std::string> found = DocumentTerms(SearchableText(stored.title, chunks.TextAt(0)));
      return std::set<std::string>(std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
    }());
  }
  SURETY_ASSIGN_OR_RETURN(auto remove, DocumentStatement::Prepare(
      db, "DELETE FROM posting WHERE audience = ? AND term = ? AND document = ?"));
  for (const std::string& term : terms) {
    SURETY_RETURN_IF_ERROR(remove.Int(stored.audience).Text(term).Int(stored.row).Finish());
  }
  return OkStatus();
}

Status DeleteVersion(DocumentDb& db, const StoredVersion& stored) {
  SURETY_RETURN_IF_ERROR(DeletePostings(db, stored));
  const int64_t first = stored.row << kChunkBits;
  for (const char* table : {"chunk", "vector"}) {
    SURETY_ASSIGN_OR_RETURN(auto rows, DocumentStatement::Prepare(
        db, fmt::format("DELETE FROM {} WHERE id BETWEEN ? AND ?", table)));
    SURETY_RETURN_IF_ERROR(rows.Int(first).Int(first + kMaxChunks).Finish());
  }
  SURETY_ASSIGN_OR_RETURN(auto document, DocumentStatement::Prepare(db, "DELETE FROM document WHERE id = ?"));
  SURETY_RETURN_IF_ERROR(document.Int(stored.row).Finish());
  SURETY_ASSIGN_OR_RETURN(auto audience, DocumentStatement::Prepare(
      db, "DELETE FROM audience WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM document WHERE audience = ?1)"));
  return audience.Int(stored.audience).Finish();
}

}  // namespace

Result<PreparedDocument> PrepareDocument(const Document& document) {
  PreparedDocument prepared;
  prepared.document = document;
  if (const Status status = CheckDocumentFields(prepared.document); !status.ok()) {
    return Error(status.WithContext(DocumentPlace(document)));
  }
  prepared.document.text.clear();
  for (std::string& chunk : ChunksOf(document.text, kChunkBytes)) {
    if (chunk.find_first_not_of(" \t\r\n\f\v") != std::string::npos) prepared.chunks.push_back(std::move(chunk));
  }
  if (prepared.chunks.empty()) {
    return Error(InvalidArgumentError(DocumentPlace(document) + ": text: there is none"));
  }
  if (static_cast<int64_t>(prepared.chunks.size()) > kMaxChunks) {
    return Error(InvalidArgumentError(fmt::format("{}: text: {} passages; a document has {} at most: split it",
                                                  DocumentPlace(document), prepared.chunks.size(), kMaxChunks)));
  }
  return prepared;
}

Status CheckVectors(DocumentDb& db, const PreparedDocument& prepared) {
  if (prepared.vectors.empty()) return OkStatus();
  const std::string place = DocumentPlace(prepared.document);
  SURETY_ASSIGN_OR_RETURN(auto stored, DocumentStatement::Prepare(db, "SELECT length(value) FROM vector LIMIT 1"));
  SURETY_ASSIGN_OR_RETURN(const bool some, stored.Step());
  const size_t dimensions = some ? static_cast<size_t>(stored.IntAt(0)) / sizeof(float) : prepared.vectors[0].size();
  for (const std::vector<float>& vector : prepared.vectors) {
    const double norm = NormOf(vector);
    if (!std::isfinite(norm) || norm == 0) {
      return InvalidArgumentError(place + ": an embedding is zero or not finite: it has no direction");
    }
    if (vector.size() != dimensions) {
      return InvalidArgumentError(fmt::format("{}: an embedding has {} dimensions, the others have {}: use one "
                                              "embedding model for an index", place, vector.size(), dimensions));
    }
  }
  return OkStatus();
}

Status CheckVersions(DocumentDb& db, const Document& document) {
  SURETY_ASSIGN_OR_RETURN(auto others, DocumentStatement::Prepare(
      db, "SELECT d.version, d.from_ns, d.to_ns, a.tenant FROM document d JOIN audience a ON a.id = d.audience "
          "WHERE d.name = ? ORDER BY d.from_ns"));
  others.Text(document.id);
  for (;;) {
    SURETY_ASSIGN_OR_RETURN(const bool more, others.Step());
    if (!more) return OkStatus();
    const Validity validity{others.IntAt(1), others.IntAt(2)};
    if (others.TextAt(3) != document.tenant) {
      return InvalidArgumentError(fmt::format("{}: tenant: the id belongs to {} already; give it another id, or remove "
                                              "that document first", DocumentPlace(document), others.TextAt(3).empty()
                                                  ? "a shared document" : "tenant '" + others.TextAt(3) + "'"));
    }
    const Validity both = validity.Intersect(document.validity);
    if (both.from_ns >= both.to_ns) continue;
    return {StatusCode::kAlreadyExists,
            fmt::format("{}: version '{}' (valid from {} to {}) and version '{}' (from {} to {}) overlap; of two "
                        "versions the earlier ends (effective_to) where the later begins", DocumentPlace(document),
                        document.version, DocumentInstantText(document.validity.from_ns),
                        DocumentInstantText(document.validity.to_ns), others.TextAt(0),
                        DocumentInstantText(validity.from_ns), DocumentInstantText(validity.to_ns))};
  }
}

Status InsertDocument(DocumentDb& db, const PreparedDocument& prepared) {
  const Document& document = prepared.document;
  DocumentPostings postings;
  for (size_t i = 0; i < prepared.chunks.size(); ++i) {
    CountTerms(postings, document.title, prepared.chunks[i], static_cast<int64_t>(i + 1));
  }
  SURETY_ASSIGN_OR_RETURN(const int64_t audience, AudienceOf(db, document));
  SURETY_ASSIGN_OR_RETURN(auto insert, DocumentStatement::Prepare(
      db, "INSERT INTO document(name, version, title, source, audience, from_ns, to_ns, n_chunks, n_terms, digest) "
          "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, x'') RETURNING id"));
  insert.Text(document.id).Text(document.version).Text(document.title).Text(document.source).Int(audience);
  insert.Int(document.validity.from_ns).Int(document.validity.to_ns);
  insert.Int(static_cast<int64_t>(prepared.chunks.size())).Int(postings.n_terms);
  SURETY_ASSIGN_OR_RETURN(const bool inserted, insert.Step());
  const int64_t row = inserted ? insert.IntAt(0) : 0;
  SURETY_ASSIGN_OR_RETURN(const bool more, insert.Step());
  if (!inserted || more) return {StatusCode::kDataLoss, "the document index takes no rows"};
  SURETY_ASSIGN_OR_RETURN(const std::string digest, InsertChunks(db, prepared, row));
  SURETY_ASSIGN_OR_RETURN(auto seal, DocumentStatement::Prepare(db, "UPDATE document SET digest = ? WHERE id = ?"));
  SURETY_RETURN_IF_ERROR(seal.Blob(digest).Int(row).Finish());
  SURETY_ASSIGN_OR_RETURN(auto posting, DocumentStatement::Prepare(
      db, "INSERT INTO posting(audience, term, document, places) VALUES(?, ?, ?, ?)"));
  for (const auto& [term, places] : postings.places) {
    SURETY_RETURN_IF_ERROR(posting.Int(audience).Text(term).Int(row).Blob(EncodePlaces(places)).Finish());
  }
  return OkStatus();
}

Result<int> DeleteDocument(DocumentDb& db, const std::string& id, const std::string& version) {
  std::vector<StoredVersion> stored;
  {
    SURETY_ASSIGN_OR_RETURN(auto find, DocumentStatement::Prepare(
        db, "SELECT id, audience, title FROM document WHERE name = ?1 AND (?2 = '' OR version = ?2)"));
    find.Text(id).Text(version);
    for (;;) {
      SURETY_ASSIGN_OR_RETURN(const bool more, find.Step());
      if (!more) break;
      stored.push_back({find.IntAt(0), find.IntAt(1), find.TextAt(2)});
    }
  }
  for (const StoredVersion& version_row : stored) SURETY_RETURN_IF_ERROR(DeleteVersion(db, version_row));
  return static_cast<int>(stored.size());
}

Status UpdateSnapshot(DocumentDb& db) {
  SURETY_ASSIGN_OR_RETURN(auto rows, DocumentStatement::Prepare(
      db, "SELECT name, version, digest FROM document ORDER BY name, version"));
  Sha256 hasher;
  for (;;) {
    SURETY_ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) break;
    std::string row;
    for (int column = 0; column < 3; ++column) PutField(row, rows.BytesAt(column));
    hasher.Update(std::as_bytes(std::span(row.data(), row.size())));
  }
  return WriteMeta(db, "snapshot", HexOf(hasher.Finish()));
}

Result<std::string> ReadMeta(DocumentDb& db, const std::string& key) {
  SURETY_ASSIGN_OR_RETURN(auto read, DocumentStatement::Prepare(db, "SELECT value FROM meta WHERE key = ?"));
  SURETY_ASSIGN_OR_RETURN(const bool found, read.Text(key).Step());
  return found ? read.TextAt(0) : std::string();
}

Status WriteMeta(DocumentDb& db, const std::string& key, const std::string& value) {
  SURETY_ASSIGN_OR_RETURN(auto write, DocumentStatement::Prepare(
      db, "INSERT INTO meta(key, value) VALUES(?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value"));
  return write.Text(key).Text(value).Finish();
}

}  // namespace surety::gateway
