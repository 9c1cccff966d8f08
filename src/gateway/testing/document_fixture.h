// What the tests of the document store share: a folder of their own, documents, rights, and results as bytes.
//
// Threads: one. Owns: the folder, removed at the end.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gateway/document_index.h"

namespace surety::gateway {

class DocumentFolder {
 public:
  DocumentFolder() {
    static std::atomic<int> count = 0;
    path_ = std::filesystem::temp_directory_path() / fmt::format("surety-documents-{}-{}", getpid(), ++count);
    std::filesystem::create_directories(path_);
  }
  ~DocumentFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  DocumentFolder(const DocumentFolder&) = delete;
  DocumentFolder& operator=(const DocumentFolder&) = delete;
  std::string File(const std::string& name) const { return (path_ / name).string(); }
  std::string Bytes() const {  // of all files
    std::string all;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      std::ifstream file(entry.path(), std::ios::binary);
      all += std::string(std::istreambuf_iterator<char>(file), {});
    }
    return all;
  }
  std::unique_ptr<DocumentIndex> Index(bool read_only = false, const std::string& name = "index.db") const {
    auto opened = DocumentIndex::Open(File(name), read_only);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().ToString());
    return opened ? *std::move(opened) : nullptr;
  }

 private:
  std::filesystem::path path_;
};

inline Document PublicDocument(const std::string& id, const std::string& text) {
  Document document;
  document.id = id;
  document.version = "1";
  document.text = text;
  document.permissions = {"public"};
  return document;
}

// A direction by the text alone: the same text always has the same one.
inline std::vector<float> DirectionOf(const std::string& text, int dimensions) {
  std::vector<float> values;
  uint64_t state = 0xcbf29ce484222325;
  for (const char c : text) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  for (int i = 0; i < dimensions; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    values.push_back(static_cast<float>(static_cast<int64_t>(state >> 33) - (1LL << 30)) / 1e9F);
  }
  return values;
}

inline EmbedTexts EmbedByText(int dimensions) {
  return [dimensions](std::span<const std::string> texts) -> Result<std::vector<std::vector<float>>> {
    std::vector<std::vector<float>> vectors;
    for (const std::string& text : texts) vectors.push_back(DirectionOf(text, dimensions));
    return vectors;
  };
}

// Every bit of a result.
inline std::string DocumentBytesOf(const std::vector<Passage>& passages) {
  std::string out;
  for (const Passage& p : passages) {
    out += fmt::format("[{}:{}@{}] {} {} {} {} {} ", p.document, p.chunk, p.version, p.title, p.text,
                       p.validity.from_ns, p.validity.to_ns, p.is_public);
    out.append(reinterpret_cast<const char*>(&p.score), sizeof p.score);
  }
  return out;
}

inline std::vector<Passage> FoundPassages(DocumentStore& store, const ReadRights& rights, std::string_view query,
                                  std::span<const float> vector = {}, int top_k = 10) {
  auto passages = store.Search(rights, query, vector, top_k);
  EXPECT_TRUE(passages) << (passages ? "" : passages.error().ToString());
  return passages ? *std::move(passages) : std::vector<Passage>();
}

inline void AddDocumentOk(DocumentStore& store, const Document& document, const EmbedTexts& embed = {}) {
  const auto added = store.Add(document, embed);
  ASSERT_TRUE(added) << added.error().ToString();
}

}  // namespace surety::gateway
