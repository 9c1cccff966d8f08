// Searching one connection of a document index under a caller's rights.
//
// Everything is found by way of one list, the documents that the rights allow: statements are joined to it, or ask for
// its rows alone. The list and what was found by it are kept in the connection's memo under all of the rights.
// Threads: the connection's. Errors: kInvalidArgument for rights, vectors or top_k that can not be; kDataLoss.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gateway/document_db.h"
#include "gateway/document_memo.h"
#include "gateway/document_store.h"

namespace surety::gateway {

inline constexpr int kMaxPassages = 1000;
inline constexpr int kFusionDepth = 100;       // ranks that count, at least; more where more passages are wanted
inline constexpr double kFusionConstant = 60;
inline constexpr double kBm25K1 = 1.2, kBm25B = 0.75;
inline constexpr size_t kMaxQueryTerms = 256, kMaxQueryBytes = 65536;

struct DocumentQuery {
  std::string_view text;
  std::span<const float> vector;
  int top_k = 0;
};

Result<Retrieved> SearchDocuments(DocumentDb& db, SearchMemo& memo, const ReadRights& rights,
                                  const DocumentQuery& wanted);

}  // namespace surety::gateway
