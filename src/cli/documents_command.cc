// surety documents: makes the index that retrieval reads, and looks into it.
#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/nearest_name.h"
#include "cli/command.h"
#include "cli/documents_files.h"
#include "cli/exit_codes.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "gateway/document_index.h"
#include "gateway/document_text.h"

namespace surety::cli {
namespace {

using gateway::Document;
using gateway::DocumentIndex;
using gateway::DocumentIndexSummary;

// The ends of time are null.
boost::json::value InstantJson(int64_t t_ns) {
  if (t_ns == std::numeric_limits<int64_t>::min() || t_ns == std::numeric_limits<int64_t>::max()) return nullptr;
  return boost::json::value(gateway::DocumentInstantText(t_ns));
}

boost::json::array NamesJson(const std::vector<std::string>& names) {
  return boost::json::array(names.begin(), names.end());
}

// Flags that all of them have.
class DocumentsSubcommand : public Command {
 protected:
  void DeclareIndex(Flags& flags) { flags.Add("--index", index_, "the index, a file"); }
  void DeclareModel(Flags& flags, const std::string& help) {
    flags.Group("Vectors");
    flags.Add("--embedding-model", embedding_model_, help);
    flags.Add("-t,--threads", model_.threads, "processors to use; 0: all of them");
  }
  // Null where no embedding model was asked for.
  Result<std::unique_ptr<DocumentEmbedder>> OpenEmbedder(const DocumentIndexSummary& summary) {
    if (!embedding_model_) return nullptr;
    model_.model = *embedding_model_;
    SURETY_RETURN_IF_ERROR(model_.Apply());
    SURETY_ASSIGN_OR_RETURN(auto embedder, DocumentEmbedder::Open(model_));
    if (summary.vectors > 0 && !summary.embedding_model.empty() && summary.embedding_model != embedder->name()) {
      return Error(FailedPreconditionError(fmt::format("{0} has vectors of {1}, not of {2}: give --embedding-model {1}",
                                                       index_, summary.embedding_model, embedder->name())));
    }
    return embedder;
  }
  bool NoIndex() const { return index_.empty(); }
  static int ReportNoIndex() { return ReportUsage(InvalidArgumentError("--index: name the index's file")); }

  std::string index_;
  std::optional<std::string> embedding_model_;
  ModelFlags model_;
  bool json_ = false;
};

class DocumentsAddCommand final : public DocumentsSubcommand {
 public:
  std::string name() const override { return "documents add"; }
  std::string summary() const override { return "add files with front matter, all of them or none"; }
  std::string examples() const override {
    return "  surety documents add --index policy.db policies/\n"
           "  surety documents add --index policy.db --embedding-model all-MiniLM-L6-v2 policies/ fees.md";
  }
  void Declare(Flags& flags) override {
    flags.Positional("PATH", paths_, "files, or folders of .md and .txt files");
    DeclareIndex(flags);
    DeclareModel(flags, "give each passage a vector, with this encoder model");
    flags.Group("Output");
    flags.Add("--json", json_, "one JSON object");
  }
  int Run() override {
    if (NoIndex()) return ReportNoIndex();
    if (paths_.empty()) return ReportUsage(InvalidArgumentError("give files or folders to add"));
    if (const Status status = Work(); !status.ok()) return ReportFailure(status);
    return kExitOk;
  }

 private:
  // Passages without a vector would never be found by one: an index has vectors throughout or not at all.
  Status CheckUniform(const DocumentIndexSummary& summary) const {
    if (!embedding_model_ && summary.vectors > 0) {
      return FailedPreconditionError(fmt::format(
          "{} has vectors; give --embedding-model {}", index_,
          summary.embedding_model.empty() ? "NAME, the model that they were made with" : summary.embedding_model));
    }
    if (embedding_model_ && summary.vectors < summary.chunks) {
      return FailedPreconditionError(fmt::format("{} of {} passages in {} have no vector; make a new index",
                                                 summary.chunks - summary.vectors, summary.chunks, index_));
    }
    return OkStatus();
  }

  Status Work() {
    const int64_t start = Clock::Real().NowNanos();
    SURETY_ASSIGN_OR_RETURN(const auto files, DocumentFilesOf(paths_));
    SURETY_ASSIGN_OR_RETURN(const auto documents, ReadDocuments(files));
    SURETY_ASSIGN_OR_RETURN(auto index, DocumentIndex::Open(index_, /*read_only=*/false));
    SURETY_ASSIGN_OR_RETURN(const auto before, index->Summary());
    SURETY_RETURN_IF_ERROR(CheckUniform(before));
    SURETY_ASSIGN_OR_RETURN(const auto embedder, OpenEmbedder(before));
    SURETY_ASSIGN_OR_RETURN(const int passages, Add(*index, documents, embedder.get()));
    SURETY_ASSIGN_OR_RETURN(const auto after, index->Summary());
    if (embedder != nullptr && embedder->cut_texts() > 0) {
      ReportWarning(fmt::format("{} passages are longer than {} reads: their vectors are of the beginning",
                                embedder->cut_texts(), embedder->name()));
    }
    const double seconds = NanosToSeconds(Clock::Real().NowNanos() - start);
    if (json_) {
      PrintJson(boost::json::object{
          {"index", index_}, {"documents", documents.size()}, {"passages", passages},
          {"index_documents", after.documents}, {"index_passages", after.chunks}, {"dimensions", after.dimensions},
          {"embedding_model", after.embedding_model}, {"snapshot", index->Snapshot()}, {"seconds", Rounded(seconds)}});
    } else {
      Print("added {} documents, {} passages; {} has {} documents, {} passages\n", documents.size(), passages, index_,
            after.documents, after.chunks);
    }
    return OkStatus();
  }

  static Result<int> Add(DocumentIndex& index, const std::vector<Document>& documents, DocumentEmbedder* embedder) {
    gateway::EmbedTexts embed;
    if (embedder != nullptr) {
      embed = [embedder](std::span<const std::string> texts) { return embedder->Embed(texts); };
    }
    using Stage = gateway::AddDocumentsOptions::Stage;
    ProgressLine embedding("embedding", ProgressUnit::kCount, "passages");
    ProgressLine writing("writing", ProgressUnit::kCount, "documents");
    gateway::AddDocumentsOptions options;
    if (embedder != nullptr) options.embedding_model = embedder->name();
    options.progress = [&](Stage stage, int64_t done, int64_t total) {
      if (Interrupted()) return CancelledError("interrupted; nothing was changed");
      if (stage == Stage::kWriting) embedding.Finish();
      (stage == Stage::kEmbedding ? embedding : writing).Update(done, total);
      return OkStatus();
    };
    return index.AddAll(documents, embed, options);
  }

  std::vector<std::string> paths_;
};

class DocumentsListCommand final : public DocumentsSubcommand {
 public:
  std::string name() const override { return "documents list"; }
  std::string summary() const override { return "list the documents of an index, with who may read them and when"; }
  void Declare(Flags& flags) override {
    DeclareIndex(flags);
    flags.Add("--json", json_, "one JSON object");
  }
  int Run() override {
    if (NoIndex()) return ReportNoIndex();
    if (const Status status = Work(); !status.ok()) return ReportFailure(status);
    return kExitOk;
  }

 private:
  Status Work() {
    SURETY_ASSIGN_OR_RETURN(auto index, DocumentIndex::Open(index_, /*read_only=*/true));
    SURETY_ASSIGN_OR_RETURN(const auto summary, index->Summary());
    SURETY_ASSIGN_OR_RETURN(const auto documents, index->List());
    if (!json_) {
      Print("{:<32} {:<16} {:<12} {:<24} {:<21} {:<21} {}\n", "id", "version", "tenant", "permissions", "from", "to",
            "title");
      for (const Document& d : documents) {
        Print("{:<32} {:<16} {:<12} {:<24} {:<21} {:<21} {}\n", d.id, d.version, d.tenant.empty() ? "-" : d.tenant,
              fmt::format("{}", fmt::join(d.permissions, ",")), gateway::DocumentInstantText(d.validity.from_ns),
              gateway::DocumentInstantText(d.validity.to_ns), d.title);
      }
      return OkStatus();
    }
    boost::json::array list;
    for (const Document& d : documents) {
      list.push_back(boost::json::object{
          {"id", d.id}, {"version", d.version}, {"title", d.title}, {"tenant", d.tenant},
          {"permissions", NamesJson(d.permissions)}, {"regions", NamesJson(d.regions)},
          {"products", NamesJson(d.products)}, {"languages", NamesJson(d.languages)},
          {"effective_from", InstantJson(d.validity.from_ns)}, {"effective_to", InstantJson(d.validity.to_ns)},
          {"source", d.source}});
    }
    PrintJson(boost::json::object{{"index", index_}, {"snapshot", index->Snapshot()},
                                  {"index_passages", summary.chunks}, {"dimensions", summary.dimensions},
                                  {"embedding_model", summary.embedding_model}, {"documents", std::move(list)}});
    return OkStatus();
  }
};

class DocumentsRemoveCommand final : public DocumentsSubcommand {
 public:
  std::string name() const override { return "documents remove"; }
  std::string summary() const override { return "remove a document, or one version of it, from an index"; }
  std::string examples() const override { return "  surety documents remove --index policy.db fees --version 2026.1"; }
  void Declare(Flags& flags) override {
    flags.Positional("ID", id_, true, "the document");
    DeclareIndex(flags);
    flags.Add("--version", version_, "this version alone; without it all of them");
    flags.Add("--json", json_, "one JSON object");
  }
  int Run() override {
    if (NoIndex()) return ReportNoIndex();
    if (version_ && version_->empty()) return ReportUsage(InvalidArgumentError("--version: it is empty"));
    if (const Status status = Work(); !status.ok()) return ReportFailure(status);
    return kExitOk;
  }

 private:
  Status Work() {
    // Nothing is made where there is no index.
    SURETY_ASSIGN_OR_RETURN(const auto reader, DocumentIndex::Open(index_, /*read_only=*/true));
    SURETY_ASSIGN_OR_RETURN(auto index, DocumentIndex::Open(index_, /*read_only=*/false));
    SURETY_ASSIGN_OR_RETURN(const int removed, index->Remove(id_, version_.value_or("")));
    if (removed == 0) return NotThere(*index);
    if (json_) {
      PrintJson(boost::json::object{{"index", index_}, {"id", id_}, {"removed_versions", removed},
                                    {"snapshot", index->Snapshot()}});
    } else {
      Print("removed {} version{} of {}\n", removed, removed == 1 ? "" : "s", id_);
    }
    return OkStatus();
  }

  Status NotThere(DocumentIndex& index) const {
    SURETY_ASSIGN_OR_RETURN(const auto documents, index.List());
    std::vector<std::string> ids, versions;
    for (const Document& document : documents) {
      ids.push_back(document.id);
      if (document.id == id_) versions.push_back(document.version);
    }
    if (!versions.empty()) {
      return NotFoundError(fmt::format("document '{}' has no version '{}'; it has {}", id_, version_.value_or(""),
                                       fmt::join(versions, ", ")));
    }
    const std::string nearest = NearestName(id_, ids);
    return NotFoundError(fmt::format("{} has no document '{}'{}", index_, id_,
                                     nearest.empty() ? "" : "; did you mean " + nearest + "?"));
  }

  std::string id_;
  std::optional<std::string> version_;
};

class DocumentsSearchCommand final : public DocumentsSubcommand {
 public:
  std::string name() const override { return "documents search"; }
  std::string summary() const override { return "find what a caller with these rights would find"; }
  std::string examples() const override {
    return "  surety documents search --index policy.db --tenant acme --permission cases --region US-NY \\\n"
           "      --as-of 2026-11-15T00:00:00-05:00 \"when is a fee refunded?\"";
  }
  void Declare(Flags& flags) override {
    flags.Positional("QUERY", query_, true, "words to look for");
    DeclareIndex(flags);
    flags.Add("--top-k", top_k_, "passages at most");
    flags.Group("The caller");
    flags.Add("--tenant", rights_.tenant, "without it only documents that all tenants share");
    flags.Add("--permission", rights_.permissions, "again for further ones; without it only public documents");
    flags.Add("--region", rights_.region, "without it only documents for all regions");
    flags.Add("--product", rights_.product, "without it only documents for all products");
    flags.Add("--language", rights_.language, "without it only documents for all languages");
    flags.Add("--as-of", as_of_, "the instant, 2026-11-15 or 2026-11-15T00:00:00-05:00; default: now");
    DeclareModel(flags, "search by meaning too, with the model that the index was made with");
    flags.Add("--by", by_, "text, vector or both; default: both with an embedding model, else text");
    flags.Group("Output");
    flags.Add("--json", json_, "one JSON object");
  }
  int Run() override {
    if (NoIndex()) return ReportNoIndex();
    if (query_.empty()) return ReportUsage(InvalidArgumentError("QUERY: it is empty"));
    if (top_k_ < 1 || top_k_ > 1000) return ReportUsage(InvalidArgumentError("--top-k: give 1 to 1000"));
    if (by_.empty()) by_ = embedding_model_ ? "both" : "text";
    if (by_ != "text" && by_ != "vector" && by_ != "both") {
      return ReportUsage(InvalidArgumentError("--by: '" + by_ + "' is none of text, vector, both"));
    }
    if ((by_ != "text") != embedding_model_.has_value()) {
      return ReportUsage(InvalidArgumentError(by_ == "text" ? "--by text needs no --embedding-model"
                                                            : "--by " + by_ + ": name the --embedding-model"));
    }
    rights_.as_of_ns = Clock::Real().WallNanos();
    if (as_of_) {
      const auto instant = gateway::ParseDocumentInstant(*as_of_);
      if (!instant) return ReportUsage(instant.error().WithContext("--as-of"));
      rights_.as_of_ns = *instant;
    }
    if (const Status status = Work(); !status.ok()) return ReportFailure(status);
    return kExitOk;
  }

 private:
  Status Work() {
    SURETY_ASSIGN_OR_RETURN(auto index, DocumentIndex::Open(index_, /*read_only=*/true));
    SURETY_ASSIGN_OR_RETURN(const auto summary, index->Summary());
    if (embedding_model_ && summary.vectors == 0) {
      return FailedPreconditionError(fmt::format("{} has no vectors; surety documents add --embedding-model makes an "
                                                 "index with them", index_));
    }
    SURETY_ASSIGN_OR_RETURN(const auto embedder, OpenEmbedder(summary));
    std::vector<float> vector;
    if (embedder != nullptr) {
      SURETY_ASSIGN_OR_RETURN(auto vectors, embedder->Embed(std::span(&query_, 1)));
      vector = std::move(vectors[0]);
    }
    const int64_t start = Clock::Real().NowNanos();
    SURETY_ASSIGN_OR_RETURN(const auto passages, index->Search(rights_, by_ == "vector" ? "" : query_, vector, top_k_));
    Report(*index, passages, NanosToSeconds(Clock::Real().NowNanos() - start));
    return OkStatus();
  }

  void Report(DocumentIndex& index, const std::vector<gateway::Passage>& passages, double seconds) {
    boost::json::array list;
    for (const gateway::Passage& p : passages) {
      const std::string citation = fmt::format("[{}:{}@{}]", p.document, p.chunk, p.version);
      if (!json_) {
        Print("{}  {:.4f}  {}\n{}\n", citation, p.score, p.title, p.text.ends_with('\n') ? p.text : p.text + "\n");
        continue;
      }
      list.push_back(boost::json::object{
          {"citation", citation}, {"document", p.document}, {"chunk", p.chunk}, {"version", p.version},
          {"title", p.title}, {"text", p.text}, {"effective_from", InstantJson(p.validity.from_ns)},
          {"effective_to", InstantJson(p.validity.to_ns)}, {"public", p.is_public}, {"score", p.score}});
    }
    if (json_) {
      PrintJson(boost::json::object{{"index", index_}, {"query", query_}, {"by", by_},
                                    {"as_of", gateway::DocumentInstantText(rights_.as_of_ns)},
                                    {"snapshot", index.Snapshot()}, {"search_seconds", Rounded(seconds)},
                                    {"found", std::move(list)}});
    } else if (passages.empty()) {
      PrintError("nothing found that this caller may read at {}\n", gateway::DocumentInstantText(rights_.as_of_ns));
    }
  }

  std::string query_, by_;
  gateway::ReadRights rights_;
  std::optional<std::string> as_of_;
  int top_k_ = 8;
};

class DocumentsCommand final : public Command {
 public:
  std::string name() const override { return "documents"; }
  std::string summary() const override { return "the document index that retrieval reads"; }
  void Declare(Flags&) override {}
  int Run() override {
    return ReportUsage(InvalidArgumentError("surety documents add --index FILE PATH... makes an index; list, remove "
                                            "and search work on one (see surety documents --help)"));
  }
};

}  // namespace

std::vector<std::unique_ptr<Command>> MakeDocumentsCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<DocumentsCommand>());
  commands.push_back(std::make_unique<DocumentsAddCommand>());
  commands.push_back(std::make_unique<DocumentsListCommand>());
  commands.push_back(std::make_unique<DocumentsRemoveCommand>());
  commands.push_back(std::make_unique<DocumentsSearchCommand>());
  return commands;
}

}  // namespace surety::cli
