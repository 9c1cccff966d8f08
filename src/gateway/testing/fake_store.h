// A document store that finds the same passages whatever is asked. Threads: any. Owns: its passages.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gateway/document_store.h"

namespace surety::gateway {

class FakeStore final : public DocumentStore {
 public:
  // `before`: called first by each search, on its thread.
  explicit FakeStore(std::vector<Passage> passages, std::function<void()> before = {})
      : passages_(std::move(passages)), before_(std::move(before)) {}

  Result<int> Add(const Document&, const EmbedTexts&) override { return 0; }
  Result<int> Remove(const std::string&, const std::string&) override { return 0; }
  Result<std::vector<Document>> List() override { return std::vector<Document>(); }
  Result<std::vector<Passage>> Search(ReadRights, std::string_view, std::span<const float>, int) override {
    if (before_) before_();
    return passages_;
  }
  Result<Retrieved> Retrieve(ReadRights rights, std::string_view query, std::span<const float> vector,
                             int top_k, SearchLimit) override {
    SURETY_ASSIGN_OR_RETURN(auto passages, Search(std::move(rights), query, vector, top_k));
    return Retrieved{.passages = std::move(passages), .snapshot = Snapshot(), .boundary = std::nullopt};
  }
  std::string Snapshot() override { return "one"; }
  std::optional<int64_t> NextBoundary(int64_t) override { return std::nullopt; }

 private:
  const std::vector<Passage> passages_;
  const std::function<void()> before_;
};

inline Passage FakePassage(std::string text) {
  Passage passage;
  passage.document = "handbook";
  passage.chunk = "1";
  passage.version = "1";
  passage.text = std::move(text);
  return passage;
}

}  // namespace surety::gateway
