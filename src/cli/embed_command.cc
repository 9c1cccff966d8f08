// surety embed: texts to vectors, with an encoder model.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory_info.h"
#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "engine/embedder.h"

namespace surety::cli {
namespace {

constexpr int64_t kMaxFileBytes = 256 << 20;
constexpr size_t kTextsAtOnce = 64;  // between two looks at Ctrl-C

double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0.0;
}

class EmbedCommand final : public Command {
 public:
  EmbedCommand() { model_.model = "all-MiniLM-L6-v2"; }
  std::string name() const override { return "embed"; }
  std::string summary() const override { return "turn texts into vectors with an encoder model"; }
  std::string examples() const override {
    return "  surety embed \"a cat sat\" \"a dog lay\" --cosine\n"
           "  surety embed -f sentences.txt --json > vectors.json";
  }

  void Declare(Flags& flags) override {
    flags.Positional("TEXT", texts_, "the texts");
    flags.Group("Input and output");
    flags.Add("-f,--file", file_, "read the texts from a file, one a line");
    flags.Add("--cosine", cosine_, "print the cosine similarity of each pair instead of the vectors");
    flags.Add("--truncate", truncate_, "cut texts that are longer than the model can read");
    flags.Add("--json", json_, "one JSON object");
    model_.Declare(flags);
  }

  int Run() override {
    lines_.assign(texts_.size(), 0);
    if (file_) {
      if (const Status status = ReadTexts(); !status.ok()) return ReportFailure(status);
    }
    if (texts_.empty() && file_) return ReportFailure(InvalidArgumentError(fmt::format("{}: no text in it", *file_)));
    if (texts_.empty()) return ReportUsage(InvalidArgumentError("give texts, or a file of them with -f"));
    if (const Status status = model_.Apply(); !status.ok()) return ReportUsage(status);
    auto opened = OpenModel(model_);
    if (!opened) return ReportFailure(opened.error());
    if (!opened->local->config().encoder) {
      return ReportFailure(FailedPreconditionError(fmt::format(
          "{} is not an encoder; embeddings need one, such as all-MiniLM-L6-v2", model_.model)));
    }
    if (const Status status = Embed(*opened->local); !status.ok()) return ReportFailure(status);
    if (const Status status = Report(*opened); !status.ok()) return ReportFailure(status);
    return kExitOk;
  }

 private:
  Status ReadTexts() {
    SURETY_ASSIGN_OR_RETURN(const std::string all, FileSystem::Real().ReadAll(*file_, kMaxFileBytes));
    int line_number = 0;
    for (size_t at = 0; at < all.size();) {
      ++line_number;
      const size_t end = std::min(all.find('\n', at), all.size());
      std::string line = all.substr(at, end - at);
      if (line.ends_with('\r')) line.pop_back();
      if (line.find_first_not_of(" \t\v\f\r") != std::string::npos) {
        texts_.push_back(std::move(line));
        lines_.push_back(line_number);
      }
      at = end + 1;
    }
    return OkStatus();
  }

  // "text 2", or where it stands in the file.
  std::string Place(size_t i) const {
    return lines_[i] > 0 ? fmt::format("{}, line {}: the text", *file_, lines_[i]) : fmt::format("text {}", i + 1);
  }

  Status Tokenize(const engine::LocalModel& local, std::vector<std::vector<int32_t>>& ids) {
    const auto limit = static_cast<size_t>(local.config().max_context);
    for (size_t i = 0; i < texts_.size(); ++i) {
      ids.push_back(local.tokenizer().Encode(texts_[i], /*trusted=*/false, {.add_special = true}));
      if (ids[i].empty()) return InvalidArgumentError(fmt::format("{} has no tokens", Place(i)));
      n_tokens_ += static_cast<int64_t>(std::min(ids[i].size(), limit));
      if (ids[i].size() <= limit) continue;
      if (!truncate_) {
        return OutOfRangeError(fmt::format("{} has {} tokens, but the model reads {} at most; --truncate cuts it",
                                           Place(i), ids[i].size(), limit));
      }
      const int32_t last = ids[i].back();  // the closing separator stays
      ids[i].resize(limit);
      ids[i].back() = last;
    }
    return OkStatus();
  }

  Status Embed(engine::LocalModel& local) {
    std::vector<std::vector<int32_t>> ids;
    SURETY_RETURN_IF_ERROR(Tokenize(local, ids));
    SURETY_ASSIGN_OR_RETURN(auto embedder, engine::Embedder::Make(local));
    ProgressLine progress("embedding", ProgressUnit::kCount, "texts");
    const int64_t start = Clock::Real().NowNanos();
    for (size_t done = 0; done < ids.size(); done += kTextsAtOnce) {
      if (Interrupted()) return CancelledError("interrupted");
      const size_t n = std::min(kTextsAtOnce, ids.size() - done);
      SURETY_ASSIGN_OR_RETURN(auto embeddings, embedder->EmbedTokens(std::span(ids).subspan(done, n)));
      for (engine::Embedding& embedding : embeddings) vectors_.push_back(std::move(embedding.values));
      progress.Update(static_cast<int64_t>(vectors_.size()), static_cast<int64_t>(ids.size()));
    }
    seconds_ = NanosToSeconds(Clock::Real().NowNanos() - start);
    return OkStatus();
  }

  // Cosines of text i with all texts.
  Status CosineRow(size_t i, std::vector<double>& row) const {
    if (Interrupted()) return CancelledError("interrupted");
    row.clear();
    for (const auto& other : vectors_) row.push_back(Cosine(vectors_[i], other));
    return OkStatus();
  }

  Status Report(const OpenedModel& opened) {
    std::vector<double> row;
    if (json_) {
      boost::json::object out = DescribeModel(opened);
      out["dimensions"] = vectors_[0].size();
      out["tokens"] = n_tokens_;
      out["tok_per_s"] = Rounded(static_cast<double>(n_tokens_) / seconds_);
      out["peak_memory_bytes"] = PeakResidentBytes();
      boost::json::array embeddings, cosine;
      for (size_t i = 0; i < vectors_.size(); ++i) {
        boost::json::object entry = {{"text", texts_[i]}};
        if (lines_[i] > 0) entry["line"] = lines_[i];
        entry["embedding"] = boost::json::array(vectors_[i].begin(), vectors_[i].end());
        embeddings.push_back(std::move(entry));
        if (!cosine_) continue;
        SURETY_RETURN_IF_ERROR(CosineRow(i, row));
        cosine.push_back(boost::json::array(row.begin(), row.end()));
      }
      out["embeddings"] = std::move(embeddings);
      if (cosine_) out["cosine"] = std::move(cosine);
      PrintJson(out);
      return OkStatus();
    }
    for (size_t i = 0; i < vectors_.size(); ++i) {
      std::string line;
      if (cosine_) {
        SURETY_RETURN_IF_ERROR(CosineRow(i, row));
        for (const double value : row) line += fmt::format("{:8.4f}", value);
        Print("{}  {}\n", line, texts_[i]);
      } else {
        for (const float value : vectors_[i]) line += fmt::format("{}{}", line.empty() ? "" : " ", value);
        Print("{}\n", line);
      }
    }
    return OkStatus();
  }

  ModelFlags model_;
  std::vector<std::string> texts_;
  std::vector<int> lines_;  // of each text in the file; 0: from the command line
  std::optional<std::string> file_;
  bool cosine_ = false, truncate_ = false, json_ = false;
  std::vector<std::vector<float>> vectors_;
  int64_t n_tokens_ = 0;
  double seconds_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeEmbedCommand() { return std::make_unique<EmbedCommand>(); }

}  // namespace surety::cli
