// What surety documents reads: files with front matter, and vectors for their passages.
//
// Threads: one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/model_options.h"
#include "engine/embedder.h"
#include "gateway/document_store.h"

namespace surety::cli {

// The files of `paths`: files as they are, of folders all that end in .md or .txt, at any depth, sorted; hidden ones
// are passed over. kNotFound for a path that is not there, kInvalidArgument for a folder without such files.
Result<std::vector<std::string>> DocumentFilesOf(const std::vector<std::string>& paths);

// Reads and parses them, with progress; kCancelled on Ctrl-C. An id and version that stand in two files are refused
// with both named.
Result<std::vector<gateway::Document>> ReadDocuments(const std::vector<std::string>& files);

// An encoder model that turns texts into vectors, with progress. Texts that are too long for it are cut and counted.
class DocumentEmbedder {
 public:
  static Result<std::unique_ptr<DocumentEmbedder>> Open(const ModelFlags& flags);

  // kCancelled on Ctrl-C.
  Result<std::vector<std::vector<float>>> Embed(std::span<const std::string> texts);
  const std::string& name() const { return name_; }
  int64_t cut_texts() const { return cut_texts_; }

 private:
  DocumentEmbedder() = default;
  OpenedModel model_;
  std::unique_ptr<engine::Embedder> embedder_;
  std::string name_;
  int64_t cut_texts_ = 0;
};

}  // namespace surety::cli
