#include "gateway/document_search.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <unordered_set>

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
std::string ReadableClause(size_t n_permissions) {
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
  DocumentSearch(DocumentDb& db, const ReadRights& rights, int top_k)
      : db_(db), rights_(rights), top_k_(static_cast<size_t>(top_k)), depth_(std::max<size_t>(top_k_, kFusionDepth)),
        readable_(ReadableClause(rights.permissions.size())) {}

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
    SURETY_ASSIGN_OR_RETURN(auto statement, DocumentStatement::Prepare(db_, readable_ + rest));
    statement.Text(rights_.tenant).Text(rights_.region).Text(rights_.product).Text(rights_.language);
    statement.Int(rights_.as_of_ns);
    for (const std::string& permission : rights_.permissions) statement.Text(permission);
    return statement;
  }

  Result<std::vector<ScoredChunk>> ByText(std::string_view query, size_t limit) {
    const std::vector<std::string> terms = QueryTerms(query);
    if (terms.empty()) return std::vector<ScoredChunk>();
    SURETY_ASSIGN_OR_RETURN(auto totals, Over("SELECT sum(n_chunks), sum(n_terms) FROM readable"));
    SURETY_ASSIGN_OR_RETURN(const bool some, totals.Step());
    const auto n_chunks = static_cast<double>(some ? totals.IntAt(0) : 0);
    const double mean_length = n_chunks > 0 ? static_cast<double>(totals.IntAt(1)) / n_chunks : 0;
    if (mean_length <= 0) return std::vector<ScoredChunk>();
    SURETY_ASSIGN_OR_RETURN(const auto places, PlacesOf(terms));
    std::unordered_map<int64_t, double> scores;
    for (const auto& term : places) {
      const auto n = static_cast<double>(term.size());
      const double weight = std::log(1 + std::max(0.0, n_chunks - n + 0.5) / (n + 0.5));
      for (const TermPlace& place : term) {
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

  // For each term where it stands in readable documents; the numbers are rows of chunks.
  Result<std::vector<std::vector<TermPlace>>> PlacesOf(const std::vector<std::string>& terms) {
    std::string wanted;
    for (size_t i = 0; i < terms.size(); ++i) wanted += fmt::format("{}({}, ?)", i == 0 ? "" : ", ", i);
    SURETY_ASSIGN_OR_RETURN(auto rows, Over(
        ", wanted(place, term) AS (VALUES " + wanted + "), "
        "shelf(audience) AS MATERIALIZED (SELECT DISTINCT audience FROM readable) "
        "SELECT w.place, p.document, p.places FROM wanted w CROSS JOIN shelf s CROSS JOIN posting p "
        "ON p.audience = s.audience AND p.term = w.term "
        "WHERE +p.document IN (SELECT id FROM readable)"));   // "+": one look-up a row, not one a readable document
    for (const std::string& term : terms) rows.Text(term);
    std::vector<std::vector<TermPlace>> found(terms.size());
    for (;;) {
      SURETY_ASSIGN_OR_RETURN(const bool more, rows.Step());
      if (!more) return found;
      const auto term = static_cast<size_t>(rows.IntAt(0));
      const int64_t document = rows.IntAt(1);
      SURETY_ASSIGN_OR_RETURN(const auto places, DecodePlaces(rows.BytesAt(2)));
      for (TermPlace place : places) {
        place.number |= static_cast<int64_t>(static_cast<uint64_t>(document) << kChunkBits);
        found[term].push_back(place);
      }
    }
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
    if (!name_of_) {
      auto prepared = DocumentStatement::Prepare(db_, "SELECT name, version FROM document WHERE id = ?");
      if (!prepared) return prepared.error();
      name_of_.emplace(*std::move(prepared));
    }
    name_of_->Reset();
    SURETY_ASSIGN_OR_RETURN(const bool found, name_of_->Int(document).Step());
    if (!found) return DamagedIndex(db_, "a document is missing");
    names_[document] = name_of_->TextAt(0) + '\0' + name_of_->TextAt(1);
    return OkStatus();
  }

  Result<Passage> Load(const ScoredChunk& scored) {
    const int64_t row = scored.chunk >> kChunkBits, number = scored.chunk & kMaxChunks;
    if (!documents_.contains(row)) {
      SURETY_ASSIGN_OR_RETURN(documents_[row], LoadDocument(db_, row));
    }
    const Document& document = documents_[row];
    SURETY_ASSIGN_OR_RETURN(auto chunk, DocumentStatement::Prepare(db_, "SELECT text, seal FROM chunk WHERE id = ?"));
    SURETY_ASSIGN_OR_RETURN(const bool found, chunk.Int(scored.chunk).Step());
    if (!found) return Error(DamagedIndex(db_, "a passage is missing"));
    std::string text = chunk.TextAt(0);
    // What is returned is what was added, rights included: a file that lost a bit may not show a word to anybody.
    if (chunk.BytesAt(1) != ChunkSeal(document, number, text) || !Allows(rights_, document)) {
      return Error(DamagedIndex(db_, "a passage or its rights are damaged"));
    }
    const bool open = std::ranges::find(document.permissions, "public") != document.permissions.end() &&
                      document.tenant.empty() && document.regions.empty() && document.products.empty() &&
                      document.languages.empty();
    return Passage{.document = document.id, .chunk = std::to_string(number), .version = document.version,
                   .title = document.title, .text = std::move(text), .validity = document.validity, .is_public = open,
                   .score = scored.score};
  }

  DocumentDb& db_;
  const ReadRights& rights_;
  size_t top_k_, depth_;
  std::string readable_;
  std::unordered_map<int64_t, std::string> names_;
  std::optional<DocumentStatement> name_of_;
  std::unordered_map<int64_t, Document> documents_;
};

}  // namespace

Result<std::vector<Passage>> SearchDocuments(DocumentDb& db, const ReadRights& rights, std::string_view query,
                                             std::span<const float> vector, int top_k) {
  if (top_k < 1 || top_k > kMaxPassages) {
    return Error(InvalidArgumentError(fmt::format("top_k is {}; ask for 1 to {} passages", top_k, kMaxPassages)));
  }
  if (query.empty() && vector.empty()) return Error(InvalidArgumentError("a search needs a query, a vector or both"));
  if (rights.permissions.size() > kMaxRightsPermissions) {
    return Error(InvalidArgumentError(fmt::format("{} permissions; a search takes {} at most",
                                                  rights.permissions.size(), kMaxRightsPermissions)));
  }
  SURETY_ASSIGN_OR_RETURN(auto transaction, DocumentTransaction::Begin(db, DocumentDb::Mode::kRead));
  DocumentSearch search(db, rights, top_k);
  return search.Run(query, vector);
}

}  // namespace surety::gateway
