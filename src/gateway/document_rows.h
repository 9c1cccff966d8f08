// How documents lie in the index: encodings that rows and queries share.
//
// Threads: any (no state).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gateway/document_db.h"
#include "gateway/document_store.h"

namespace surety::gateway {

inline constexpr int kChunkBits = 20;                        // a chunk's row: document's row << 20 | number from 1
inline constexpr int64_t kMaxChunks = (1 << kChunkBits) - 1;
inline constexpr size_t kChunkBytes = 1200;                  // of text; about 300 tokens

enum class MemberKind : int { kPermission = 0, kRegion = 1, kProduct = 2, kLanguage = 3 };

// Who may read a document, encoded: equal lists are equal bytes. The lists must be sorted and unique.
std::string AudienceEncoding(const Document& document);
// SHA-256 over what a passage is: its document's fields (without text), its number and its text.
std::string ChunkSeal(const Document& document, int64_t number, std::string_view text);
// What a chunk is found by: its document's title and its text.
std::string SearchableText(std::string_view title, std::string_view text);

// `rights` allow reading `document`, field by field: what the filter in SQL says, said again.
bool Allows(const ReadRights& rights, const Document& document);

// All fields but the text of the document at this row.
Result<Document> LoadDocument(DocumentDb& db, int64_t row);

// Where a term stands in the chunks of one document.
struct TermPlace {
  int64_t number = 0;   // of the chunk
  int64_t count = 0;    // how often
  int64_t length = 0;   // terms of the chunk
};
std::string EncodePlaces(std::span<const TermPlace> places);      // numbers ascending
Result<std::vector<TermPlace>> DecodePlaces(std::string_view bytes);

// 8 bytes of length, then the bytes: concatenations are injective.
void PutField(std::string& out, std::string_view bytes);
void PutNumber(std::string& out, int64_t value);
std::string DocumentDigest(std::string_view bytes);               // SHA-256, 32 bytes

}  // namespace surety::gateway
