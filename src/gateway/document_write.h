// Changing one connection of a document index. All functions work inside a transaction of the caller.
//
// Threads: the connection's. Errors: kInvalidArgument naming document and field, kAlreadyExists for overlapping
// versions, those of document_db.h.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "gateway/document_db.h"
#include "gateway/document_store.h"

namespace surety::gateway {

// A document as it is written: lists sorted and unique, text in chunks.
struct PreparedDocument {
  Document document;                         // without text
  std::vector<std::string> chunks;           // number 1 first
  std::vector<std::vector<float>> vectors;   // none, or one a chunk
};

// kInvalidArgument naming the document, the field and what would be right.
Result<PreparedDocument> PrepareDocument(const Document& document);

// The dimensions of `vectors` and of those in the index must be the same.
Status CheckVectors(DocumentDb& db, const PreparedDocument& prepared);
// Tenant and validity against the other versions of the document.
Status CheckVersions(DocumentDb& db, const Document& document);
Status InsertDocument(DocumentDb& db, const PreparedDocument& prepared);
// `version` empty: all; the number of versions that went.
Result<int> DeleteDocument(DocumentDb& db, const std::string& id, const std::string& version);
// After a change: the digest of all that the index holds.
Status UpdateSnapshot(DocumentDb& db);

Result<std::string> ReadMeta(DocumentDb& db, const std::string& key);   // "" where there is none
Status WriteMeta(DocumentDb& db, const std::string& key, const std::string& value);

}  // namespace surety::gateway
