// Searching one connection of a document index under a caller's rights.
//
// Every statement here begins with the same list of readable documents and reads nothing but what is joined to it.
// Threads: the connection's. Errors: kInvalidArgument for rights, vectors or top_k that can not be; kDataLoss.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gateway/document_db.h"
#include "gateway/document_store.h"

namespace surety::gateway {

inline constexpr int kMaxPassages = 1000;
inline constexpr int kFusionDepth = 100;       // ranks that count, at least; more where more passages are wanted
inline constexpr double kFusionConstant = 60;
inline constexpr double kBm25K1 = 1.2, kBm25B = 0.75;
inline constexpr size_t kMaxQueryTerms = 256, kMaxQueryBytes = 65536;

Result<std::vector<Passage>> SearchDocuments(DocumentDb& db, const ReadRights& rights, std::string_view query,
                                             std::span<const float> vector, int top_k);

}  // namespace surety::gateway
