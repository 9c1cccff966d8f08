#include "gateway/document_search.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "gateway/document_rows.h"
#include "gateway/document_text.h"

namespace surety::gateway {
namespace {

constexpr size_t kMaxRightsPermissions = 20'000;

struct ScoredChunk {
  int64_t chunk = 0;   // row
  double score = 0;
};

Status DamagedIndex(const DocumentDb& db, std::string_view what) {
  return {StatusCode::kDataLoss, fmt::format("document index '{}': {}; make it anew from its documents, or restore it",
                                             db.path(), what)};
}

// The readable documents, as the head of a statement. The permissions come last, as plain "?": the library looks
// numbered ones up one by one, which is quadratic in their count.
std::string ReadableDocumentsClause(size_t n_permissions) {
  const auto in_list = [](std::string_view all, MemberKind kind, int parameter) {
    return fmt::format("(a.{0} = 1 OR (?{1} <> '' AND EXISTS (SELECT 1 FROM audience_member m WHERE m.audience = a.id "
                       "AND m.kind = {2} AND m.value = ?{1}))) AND ", all, parameter, static_cast<int>(kind));
  };
  std::string clause =
      "WITH readable(id, audience, n_chunks, n_terms) AS MATERIALIZED ("
      "SELECT d.id, d.audience, d.n_chunks, d.n_terms FROM audience a CROSS JOIN document d ON d.audience = a.id "
      "WHERE d.from_ns <= ?5 AND ?5 < d.to_ns AND (a.tenant = '' OR a.tenant = ?1) AND " +
      in_list("all_regions", MemberKind::kRegion, 2) + in_list("all_products", MemberKind::kProduct, 3) +
      in_list("all_languages", MemberKind::kLanguage, 4) +
      "a.id IN (SELECT m.audience FROM audience_member m WHERE m.kind = 0 AND m.value IN ('public'";
  for (size_t i = 0; i < n_permissions; ++i) clause += ", ?";
  return clause + ")))";
}

class DocumentSearch {
 public:
  DocumentSearch(DocumentDb& db, SearchMemo& memo, const ReadRights& rights, int top_k)
      : db_(db), memo_(memo), rights_(rights), top_k_(static_cast<size_t>(top_k)),
        depth_(std::max<size_t>(top_k_, kFusionDepth)) {}

  Result<std::vector<Passage>> Run(std::string_view query, std::span<const float> vector) {
    std::vector<ScoredChunk> best;
    if (vector.empty()) {
      SURETY_ASSIGN_OR_RETURN(best, ByText(query, top_k_));
    } else if (query.empty()) {
      SURETY_ASSIGN_OR_RETURN(best, ByVector(vector, top_k_));
    } else {
      SURETY_ASSIGN_OR_RETURN(const auto text, ByText(query, depth_));
      SURETY_ASSIGN_OR_RETURN(const auto near, ByVector(vector, depth_));
      SURETY_ASSIGN_OR_RETURN(best, Fused(text, near));
    }
    std::vector<Passage> passages;
    for (const ScoredChunk& chunk : best) {
      SURETY_ASSIGN_OR_RETURN(auto passage, Load(chunk));
      passages.push_back(std::move(passage));
    }
    return passages;
  }

 private:
  // A statement over the readable documents, its first parameters bound.
  Result<DocumentStatement> Over(const std::string& rest) {
    SURETY_ASSIGN_OR_RETURN(auto statement, DocumentStatement::Prepare(
        db_, ReadableDocumentsClause(rights_.permissions.size()) + rest));
    statement.Text(rights_.tenant).Text(rights_.region).Text(rights_.product).Text(rights_.language);
    statement.Int(rights_.as_of_ns);
    for (const std::string& permission : rights_.permissions) statement.Text(permission);
    return statement;
  }

  Result<std::vector<ScoredChunk>> ByText(std::string_view query, size_t limit) {
    const std::vector<std::string> terms = QueryTerms(query);
    if (terms.empty()) return std::vector<ScoredChunk>();
    SURETY_ASSIGN_OR_RETURN(const auto readable, Readable());
    const auto n_chunks = static_cast<double>(readable->n_chunks);
    const double mean_length = n_chunks > 0 ? static_cast<double>(readable->n_terms) / n_chunks : 0;
    if (mean_length <= 0) return std::vector<ScoredChunk>();
    std::unordered_map<int64_t, double> scores;
    for (const std::string& term : terms) {
      SURETY_ASSIGN_OR_RETURN(const auto places, PlacesOf(*readable, term));
      const auto n = static_cast<double>(places->size());
      const double weight = std::log(1 + std::max(0.0, n_chunks - n + 0.5) / (n + 0.5));
      for (const TermPlace& place : *places) {
        const auto count = static_cast<double>(place.count);
        const double length = kBm25K1 * (1 - kBm25B + kBm25B * static_cast<double>(place.length) / mean_length);
        scores[place.number] += weight * count * (kBm25K1 + 1) / (count + length);
      }
    }
    std::vector<ScoredChunk> all;
    all.reserve(scores.size());
    for (const auto& [chunk, score] : scores) all.push_back({chunk, score});
    return Best(std::move(all), limit);
  }

  static std::vector<std::string> QueryTerms(std::string_view query) {
    std::vector<std::string> terms;
    std::unordered_set<std::string> seen;
    for (std::string& term : DocumentTerms(query.substr(0, kMaxQueryBytes))) {
      if (terms.size() == kMaxQueryTerms) break;
      if (seen.insert(term).second) terms.push_back(std::move(term));
    }
    return terms;
  }

  // The documents that the rights allow now.
  Result<std::shared_ptr<ReadableDocuments>> Readable() {
    std::string key = RightsKey(rights_);
    const auto known = memo_.readable.find(key);
    if (known != memo_.readable.end() && known->second->when.Contains(rights_.as_of_ns)) return known->second;
    auto all = std::make_shared<ReadableDocuments>();
    SURETY_ASSIGN_OR_RETURN(all->when, QuietTimeAt(db_, memo_, rights_.as_of_ns));
    SURETY_ASSIGN_OR_RETURN(auto rows, Over("SELECT id, audience, n_chunks, n_terms FROM readable"));
    for (;;) {
      SURETY_ASSIGN_OR_RETURN(const bool more, rows.Step());
      if (!more) break;
      all->documents.push_back(rows.IntAt(0));
      if (all->audiences.empty() || all->audiences.back() != rows.IntAt(1)) all->audiences.push_back(rows.IntAt(1));
      if (__builtin_add_overflow(all->n_chunks, rows.IntAt(2), &all->n_chunks) ||
          __builtin_add_overflow(all->n_terms, rows.IntAt(3), &all->n_terms)) {
        return Error(DamagedIndex(db_, "the sizes of its documents are damaged"));
      }
    }
    for (std::vector<int64_t>* list : {&all->documents, &all->audiences}) {
      std::ranges::sort(*list);
      list->erase(std::ranges::unique(*list).begin(), list->end());
      list->shrink_to_fit();
    }
    const size_t bytes = key.size() + (all->documents.size() + all->audiences.size()) * sizeof(int64_t);
    if (memo_.Keeps(bytes + kEntryBytes)) memo_.readable[std::move(key)] = all;
    return all;
  }

  // Where a term stands in readable documents; the numbers are rows of chunks.
  Result<std::shared_ptr<const TermPlaces>> PlacesOf(ReadableDocuments& readable, const std::string& term) {
    if (const auto known = readable.places.find(term); known != readable.places.end()) return known->second;
    auto found = std::make_shared<TermPlaces>();
    SURETY_ASSIGN_OR_RETURN(auto rows, DocumentStatement::Prepare(
        db_, "SELECT document, places FROM posting WHERE audience = ? AND term = ?"));
    for (const int64_t audience : readable.audiences) {
      rows.Int(audience).Text(term);
      for (;;) {
        SURETY_ASSIGN_OR_RETURN(const bool more, rows.Step());
        if (!more) break;
        const int64_t document = rows.IntAt(0);
        if (!std::ranges::binary_search(readable.documents, document)) continue;   // not valid now
        SURETY_ASSIGN_OR_RETURN(const auto places, DecodePlaces(rows.BytesAt(1)));
        for (TermPlace place : places) {
          place.number |= static_cast<int64_t>(static_cast<uint64_t>(document) << kChunkBits);
          found->push_back(place);
        }
      }
      rows.Reset();
    }
    found->shrink_to_fit();
    if (memo_.Keeps(term.size() + found->size() * sizeof(TermPlace) + kEntryBytes)) readable.places[term] = found;
    return found;
  }

  Result<std::vector<ScoredChunk>> ByVector(std::span<const float> vector, size_t limit) {
    std::vector<double> query(vector.begin(), vector.end());
    double norm = 0;
    for (const double value : query) norm += value * value;
    norm = std::sqrt(norm);
    if (!std::isfinite(norm) || norm == 0) {
      return Error(InvalidArgumentError("the query's vector is zero or not finite: it has no direction"));
    }
    SURETY_ASSIGN_OR_RETURN(auto rows, Over(fmt::format(
        "SELECT v.id, v.inverse_norm, v.value FROM readable r CROSS JOIN vector v ON v.id BETWEEN r.id << {0} AND "
        "(r.id << {0}) + {1}", kChunkBits, kMaxChunks)));
    std::vector<ScoredChunk> all;
    std::vector<float> values(vector.size());
    for (;;) {
      SURETY_ASSIGN_OR_RETURN(const bool more, rows.Step());
      if (!more) return Best(std::move(all), limit);
      const std::string_view bytes = rows.BytesAt(2);
      if (bytes.size() != vector.size() * sizeof(float)) {
        return Error(InvalidArgumentError(fmt::format(
            "the query's vector has {} dimensions, those of document index '{}' have {}: use the embedding model that "
            "it was made with", vector.size(), db_.path(), bytes.size() / sizeof(float))));
      }
      std::memcpy(values.data(), bytes.data(), bytes.size());
      const double score = Dot(query, values) * rows.RealAt(1) / norm;
      if (!std::isfinite(score)) return Error(DamagedIndex(db_, "a vector is damaged"));
      all.push_back({rows.IntAt(0), score});
    }
  }

  static double Dot(const std::vector<double>& a, const std::vector<float>& b) {
    double sums[4] = {};
    size_t i = 0;
    for (; i + 4 <= b.size(); i += 4) {
      for (size_t lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * static_cast<double>(b[i + lane]);
    }
    for (; i < b.size(); ++i) sums[0] += a[i] * static_cast<double>(b[i]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  Result<std::vector<ScoredChunk>> Fused(const std::vector<ScoredChunk>& text, const std::vector<ScoredChunk>& near) {
    std::unordered_map<int64_t, double> scores;
    for (const auto* list : {&text, &near}) {
      for (size_t i = 0; i < list->size(); ++i) {
        scores[(*list)[i].chunk] += 1 / (kFusionConstant + static_cast<double>(i + 1));
      }
    }
    std::vector<ScoredChunk> all;
    for (const auto& [chunk, score] : scores) all.push_back({chunk, score});
    return Best(std::move(all), top_k_);
  }

  // The best `limit`, best first. Rows say when something was added, which must not show: equal scores are ordered by
  // what the passages are called.
  Result<std::vector<ScoredChunk>> Best(std::vector<ScoredChunk> all, size_t limit) {
    const auto higher = [](const ScoredChunk& a, const ScoredChunk& b) { return a.score > b.score; };
    if (all.size() > limit) {
      std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(limit - 1), higher);
      const double least = all[limit - 1].score;
      std::erase_if(all, [&](const ScoredChunk& chunk) { return chunk.score < least; });
    }
    for (const ScoredChunk& chunk : all) SURETY_RETURN_IF_ERROR(LearnName(chunk.chunk >> kChunkBits));
    std::ranges::sort(all, [&](const ScoredChunk& a, const ScoredChunk& b) {
      if (a.score != b.score) return a.score > b.score;
      const int order = names_.at(a.chunk >> kChunkBits).compare(names_.at(b.chunk >> kChunkBits));
      return order != 0 ? order < 0 : (a.chunk & kMaxChunks) < (b.chunk & kMaxChunks);
    });
    all.resize(std::min(all.size(), limit));
    return all;
  }

  Status LearnName(int64_t document) {
    if (names_.contains(document)) return OkStatus();
    if (const auto known = memo_.names.find(document); known != memo_.names.end()) {
      names_[document] = known->second;
      return OkStatus();
    }
    if (!name_of_) {
      auto prepared = DocumentStatement::Prepare(db_, "SELECT name, version FROM document WHERE id = ?");
      if (!prepared) return prepared.error();
      name_of_.emplace(*std::move(prepared));
    }
    name_of_->Reset();
    SURETY_ASSIGN_OR_RETURN(const bool found, name_of_->Int(document).Step());
    if (!found) return DamagedIndex(db_, "a document is missing");
    const std::string& name = names_[document] = name_of_->TextAt(0) + '\0' + name_of_->TextAt(1);
    if (memo_.Keeps(name.size() + kEntryBytes)) memo_.names[document] = name;
    return OkStatus();
  }

  Result<std::shared_ptr<const Document>> DocumentAt(int64_t row) {
    auto& known = documents_[row];
    if (known != nullptr) return known;
    if (const auto kept = memo_.documents.find(row); kept != memo_.documents.end()) return known = kept->second;
    SURETY_ASSIGN_OR_RETURN(Document document, LoadDocument(db_, row));
    size_t bytes = document.id.size() + document.version.size() + document.title.size() + document.source.size();
    for (const auto* list : {&document.permissions, &document.regions, &document.products, &document.languages}) {
      for (const std::string& member : *list) bytes += member.size() + sizeof(std::string);
    }
    known = std::make_shared<const Document>(std::move(document));
    if (memo_.Keeps(bytes + sizeof(Document) + kEntryBytes)) memo_.documents[row] = known;
    return known;
  }

  Result<Passage> Load(const ScoredChunk& scored) {
    SURETY_ASSIGN_OR_RETURN(const auto document, DocumentAt(scored.chunk >> kChunkBits));
    if (!Allows(rights_, *document)) return Error(DamagedIndex(db_, "the rights of a passage are damaged"));
    SURETY_ASSIGN_OR_RETURN(const auto kept, PassageAt(*document, scored.chunk));
    Passage passage = *kept;
    passage.score = scored.score;
    return passage;
  }

  // Without a score.
  Result<std::shared_ptr<const Passage>> PassageAt(const Document& document, int64_t row) {
    if (const auto kept = memo_.passages.find(row); kept != memo_.passages.end()) return kept->second;
    const int64_t number = row & kMaxChunks;
    SURETY_ASSIGN_OR_RETURN(auto chunk, DocumentStatement::Prepare(db_, "SELECT text, seal FROM chunk WHERE id = ?"));
    SURETY_ASSIGN_OR_RETURN(const bool found, chunk.Int(row).Step());
    if (!found) return Error(DamagedIndex(db_, "a passage is missing"));
    std::string text = chunk.TextAt(0);
    // What is returned is what was added, rights included: a file that lost a bit may not show a word to anybody.
    if (chunk.BytesAt(1) != ChunkSeal(document, number, text)) {
      return Error(DamagedIndex(db_, "a passage or its rights are damaged"));
    }
    const bool open = std::ranges::find(document.permissions, "public") != document.permissions.end() &&
                      document.tenant.empty() && document.regions.empty() && document.products.empty() &&
                      document.languages.empty();
    auto passage = std::make_shared<const Passage>(
        Passage{.document = document.id, .chunk = std::to_string(number), .version = document.version,
                .title = document.title, .text = std::move(text), .validity = document.validity, .is_public = open});
    const size_t bytes = passage->document.size() + passage->version.size() + passage->title.size() +
                         passage->text.size();
    if (memo_.Keeps(bytes + sizeof(Passage) + kEntryBytes)) memo_.passages[row] = passage;
    return passage;
  }

  static constexpr size_t kEntryBytes = 96;   // what an entry takes beside its bytes

  DocumentDb& db_;
  SearchMemo& memo_;
  const ReadRights& rights_;
  size_t top_k_, depth_;
  std::unordered_map<int64_t, std::string> names_;
  std::optional<DocumentStatement> name_of_;
  std::unordered_map<int64_t, std::shared_ptr<const Document>> documents_;
};

}  // namespace

Result<Retrieved> SearchDocuments(DocumentDb& db, SearchMemo& memo, const ReadRights& rights,
                                  const DocumentQuery& wanted) {
  const auto& [query, vector, top_k] = wanted;
  if (top_k < 1 || top_k > kMaxPassages) {
    return Error(InvalidArgumentError(fmt::format("top_k is {}; ask for 1 to {} passages", top_k, kMaxPassages)));
  }
  if (query.empty() && vector.empty()) return Error(InvalidArgumentError("a search needs a query, a vector or both"));
  if (rights.permissions.size() > kMaxRightsPermissions) {
    return Error(InvalidArgumentError(fmt::format("{} permissions; a search takes {} at most",
                                                  rights.permissions.size(), kMaxRightsPermissions)));
  }
  SURETY_ASSIGN_OR_RETURN(auto transaction, DocumentTransaction::Begin(db, DocumentDb::Mode::kRead));
  SURETY_RETURN_IF_ERROR(memo.Follow(db));
  DocumentSearch search(db, memo, rights, top_k);
  Retrieved found;
  SURETY_ASSIGN_OR_RETURN(found.passages, search.Run(query, vector));
  SURETY_ASSIGN_OR_RETURN(found.snapshot, SnapshotOf(db, memo));
  SURETY_ASSIGN_OR_RETURN(const QuietTime quiet, QuietTimeAt(db, memo, rights.as_of_ns));
  found.boundary = quiet.boundary();
  return found;
}

}  // namespace surety::gateway
