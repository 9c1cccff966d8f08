#include "cli/documents_files.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "cli/interrupt.h"
#include "cli/progress.h"

namespace surety::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxDocumentBytes = 64 << 20;
constexpr size_t kEmbeddedAtOnce = 16;  // between two looks at Ctrl-C

bool IsHidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool IsDocumentFile(const fs::directory_entry& entry) {
  std::string extension = entry.path().extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::error_code error;
  return (extension == ".md" || extension == ".txt") && entry.is_regular_file(error);
}

Status FilesOfFolder(const std::string& folder, std::vector<std::string>& files) {
  std::error_code error;
  const size_t before = files.size();
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (Interrupted()) return CancelledError("interrupted");
    if (IsHidden(at->path())) {
      at.disable_recursion_pending();
    } else if (IsDocumentFile(*at)) {
      files.push_back(at->path().string());
    }
  }
  if (error) return IoError(fmt::format("{}: {}", folder, error.message()));
  if (files.size() == before) return InvalidArgumentError(fmt::format("{}: no .md or .txt file in it", folder));
  std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  return OkStatus();
}

}  // namespace

Result<std::vector<std::string>> DocumentFilesOf(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (FileSystem::Real().IsDirectory(path)) {
      SURETY_RETURN_IF_ERROR(FilesOfFolder(path, files));
    } else if (FileSystem::Real().Exists(path)) {
      files.push_back(path);
    } else {
      return Error(NotFoundError(fmt::format("{}: no such file or folder", path)));
    }
  }
  return files;
}

Result<std::vector<gateway::Document>> ReadDocuments(const std::vector<std::string>& files) {
  std::vector<gateway::Document> documents;
  std::map<std::pair<std::string, std::string>, std::string> known;
  ProgressLine progress("reading", ProgressUnit::kCount, "files");
  for (const std::string& file : files) {
    if (Interrupted()) return Error(CancelledError("interrupted; nothing was changed"));
    SURETY_ASSIGN_OR_RETURN(const std::string text, FileSystem::Real().ReadAll(file, kMaxDocumentBytes));
    SURETY_ASSIGN_OR_RETURN(auto document, gateway::ParseDocument(text, file));
    const auto [other, is_new] = known.try_emplace({document.id, document.version}, file);
    if (!is_new) {
      return Error(InvalidArgumentError(fmt::format("{} and {} both are version '{}' of document '{}'", other->second,
                                                    file, document.version, document.id)));
    }
    documents.push_back(std::move(document));
    progress.Update(static_cast<int64_t>(documents.size()), static_cast<int64_t>(files.size()));
  }
  return documents;
}

Result<std::unique_ptr<DocumentEmbedder>> DocumentEmbedder::Open(const ModelFlags& flags) {
  std::unique_ptr<DocumentEmbedder> made(new DocumentEmbedder);
  SURETY_ASSIGN_OR_RETURN(made->model_, OpenModel(flags));
  if (!made->model_.local->config().encoder) {
    return Error(FailedPreconditionError(fmt::format(
        "--embedding-model: {} is not an encoder; all-MiniLM-L6-v2 is one", flags.model)));
  }
  made->name_ = ModelNameOf(made->model_.path);
  SURETY_ASSIGN_OR_RETURN(made->embedder_, engine::Embedder::Make(*made->model_.local));
  return made;
}

Result<std::vector<std::vector<float>>> DocumentEmbedder::Embed(std::span<const std::string> texts) {
  const auto& tokenizer = model_.local->tokenizer();
  const auto limit = static_cast<size_t>(model_.local->config().max_context);
  std::vector<std::vector<float>> vectors;
  for (size_t done = 0; done < texts.size(); done += kEmbeddedAtOnce) {
    if (Interrupted()) return Error(CancelledError("interrupted; nothing was changed"));
    std::vector<std::vector<int32_t>> ids;
    for (const std::string& text : texts.subspan(done, std::min(kEmbeddedAtOnce, texts.size() - done))) {
      ids.push_back(tokenizer.Encode(text, /*trusted=*/false, {.add_special = true}));
      if (ids.back().size() <= limit) continue;
      const int32_t last = ids.back().back();  // the closing separator stays
      ids.back().resize(limit);
      ids.back().back() = last;
      ++cut_texts_;
    }
    SURETY_ASSIGN_OR_RETURN(auto embeddings, embedder_->EmbedTokens(ids));
    for (engine::Embedding& embedding : embeddings) vectors.push_back(std::move(embedding.values));
  }
  return vectors;
}

}  // namespace surety::cli
