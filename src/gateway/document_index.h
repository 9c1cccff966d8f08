// The document store with what its makers need beyond those who only search: many documents as one change, and what the
// index is made of.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "gateway/document_store.h"

namespace surety::gateway {

struct AddDocumentsOptions {
  std::string embedding_model;   // recorded; empty: not told
  // Called now and then; an error ends the work, and nothing has changed.
  enum class Stage { kEmbedding, kWriting };
  std::function<Status(Stage stage, int64_t done, int64_t total)> progress;
};

struct DocumentIndexSummary {
  int64_t documents = 0, chunks = 0, vectors = 0;
  int dimensions = 0;            // of vectors; 0: there are none
  std::string embedding_model;   // as it was told
};

class DocumentIndex : public DocumentStore {
 public:
  static Result<std::unique_ptr<DocumentIndex>> Open(const std::string& path, bool read_only);

  // All of them or, on an error, none: one transaction, so readers see the state before or the state after. Vectors are
  // computed before it begins. The number of chunks.
  virtual Result<int> AddAll(std::span<const Document> documents, const EmbedTexts& embed,
                             const AddDocumentsOptions& options) = 0;
  virtual Result<DocumentIndexSummary> Summary() = 0;
};

}  // namespace surety::gateway
