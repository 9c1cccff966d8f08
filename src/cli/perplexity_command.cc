// surety perplexity: how well a model predicts a text, and how far its distributions are from a reference's.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory_info.h"
#include "cli/command.h"
#include "cli/divergence.h"
#include "cli/exit_codes.h"
#include "cli/forward_driver.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/logits_file.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace surety::cli {
namespace {

constexpr int64_t kMaxTextBytes = 256 << 20;
constexpr int64_t kLogitBytes = 64 << 20;  // of one step's logits

class PerplexityCommand final : public Command {
 public:
  std::string name() const override { return "perplexity"; }
  std::string summary() const override {
    return "measure how well a model predicts a text, or agrees with a reference";
  }
  std::string examples() const override {
    return "  surety perplexity -f book.txt\n"
           "  surety perplexity -f book.txt --context 512 --json\n"
           "  surety perplexity --logits reference.safetensors\n"
           "The text is cut into pieces of --context tokens; the first token of a piece is not predicted.";
  }

  void Declare(Flags& flags) override {
    flags.Group("Text and reference");
    flags.Add("-f,--file", file_, "the text");
    flags.Add("--logits", reference_path_,
              "a safetensors file with tokens I32 [T] and logits F32 or F16 [T, V]: its tokens are the text");
    flags.Add("--write-logits", write_path_, "write this model's logits as such a file");
    flags.Add("--context", context_, "tokens that are predicted from at most; 0: with --logits all, else 2048");
    flags.Add("--max-tokens", max_tokens_, "only the first tokens of the text; 0: all");
    model_.Declare(flags);
    flags.Add("--kv-type", kv_.kv_type, "how keys and values are kept: f32, f16, bf16 or q8_0");
    flags.Add("--page-tokens", kv_.page_tokens, "tokens in a page of the KV cache, a multiple of 16");
    flags.Group("Output");
    flags.Add("--json", json_, "one JSON object");
  }

  int Run() override {
    if (!file_ && !reference_path_) return ReportUsage(InvalidArgumentError("give a text with -f, or --logits FILE"));
    if (file_ && reference_path_) {
      return ReportUsage(InvalidArgumentError("the tokens of --logits are the text: no -f"));
    }
    if (context_ < 0 || context_ == 1) {
      return ReportUsage(InvalidArgumentError(fmt::format("--context: {} is not 0 and below 2", context_)));
    }
    if (max_tokens_ < 0 || max_tokens_ == 1) {
      return ReportUsage(InvalidArgumentError(fmt::format("--max-tokens: {} is not 0 and below 2", max_tokens_)));
    }
    if (const Status status = kv_.Validate(); !status.ok()) return ReportUsage(status);
    if (const Status status = model_.Apply(); !status.ok()) return ReportUsage(status);
    if (reference_path_) {
      auto reference = LogitsFile::Open(FileSystem::Real(), *reference_path_);
      if (!reference) return ReportFailure(reference.error());
      reference_ = *std::move(reference);
    }
    auto opened = OpenModel(model_);
    if (!opened) return ReportFailure(opened.error());
    if (const Status status = Measure(*opened->local); !status.ok()) return ReportFailure(status);
    Report(*opened);
    return kExitOk;
  }

 private:
  Status ReadTokens(const engine::LocalModel& local) {
    const int vocab = local.config().vocab_size;
    if (reference_) {
      tokens_.assign(reference_->tokens().begin(), reference_->tokens().end());
      if (reference_->vocab_size() != vocab) {
        return InvalidArgumentError(fmt::format("{}: logits over {} tokens, but the model has {}", *reference_path_,
                                                reference_->vocab_size(), vocab));
      }
    } else {
      SURETY_ASSIGN_OR_RETURN(const std::string text, FileSystem::Real().ReadAll(*file_, kMaxTextBytes));
      tokens_ = local.tokenizer().Encode(text, /*trusted=*/false, {.add_special = true});
    }
    if (max_tokens_ > 0 && tokens_.size() > static_cast<size_t>(max_tokens_)) {
      tokens_.resize(static_cast<size_t>(max_tokens_));
    }
    for (const int32_t token : tokens_) {
      if (token >= 0 && token < vocab) continue;
      return InvalidArgumentError(fmt::format("token {} is not in 0..{}", token, vocab - 1));
    }
    if (tokens_.size() < 2) return InvalidArgumentError("the text has fewer than two tokens");
    return OkStatus();
  }

  Status Measure(engine::LocalModel& local) {
    const model::ModelConfig& config = local.config();
    if (config.encoder) return FailedPreconditionError("perplexity needs a decoder; this model is an encoder");
    SURETY_RETURN_IF_ERROR(ReadTokens(local));
    const auto n = static_cast<int>(tokens_.size());
    if (context_ == 0) context_ = reference_ ? n : 2048;
    if (context_ > config.max_context) {
      if (reference_) {
        return OutOfRangeError(fmt::format("{} tokens of reference, but the model's context is {}; use --context",
                                           context_, config.max_context));
      }
      context_ = config.max_context;
    }
    context_ = std::min(context_, n);
    // A step's logits are kept small; products over a multiple of 16 rows are the fastest.
    const int64_t rows_by_memory = kLogitBytes / (int64_t{config.vocab_size} * 4);
    const int rows = static_cast<int>(std::clamp<int64_t>(rows_by_memory / 16 * 16, 16, 256));
    DriverShape shape;
    shape.context = context_;
    shape.max_rows = shape.max_outputs = rows;
    shape.kv_type = *kv_.Type();
    shape.page_tokens = kv_.page_tokens;
    SURETY_ASSIGN_OR_RETURN(auto driver, ForwardDriver::Make(local.model(), shape));
    if (write_path_) {
      SURETY_ASSIGN_OR_RETURN(writer_, LogitsWriter::Create(*write_path_, tokens_, config.vocab_size));
    }
    reference_row_.resize(reference_ ? static_cast<size_t>(config.vocab_size) : 0);
    ProgressLine progress("reading", ProgressUnit::kCount, "tokens");
    const int64_t start = Clock::Real().NowNanos();
    for (int done = 0; done < n;) {
      if (Interrupted()) return CancelledError("interrupted");
      const int position = done % context_;
      const int count = std::min({rows, context_ - position, n - done});
      const auto step = std::span(tokens_).subspan(static_cast<size_t>(done), static_cast<size_t>(count));
      SURETY_RETURN_IF_ERROR(Score(driver->Forward(step, position, ForwardDriver::Logits::kAll), done));
      done += count;
      progress.Update(done, n);
    }
    seconds_ = NanosToSeconds(Clock::Real().NowNanos() - start);
    return writer_ ? writer_->Commit() : OkStatus();
  }

  // Row r holds the logits after token first + r.
  Status Score(ConstMatrixF logits, int first) {
    for (int64_t r = 0; r < logits.rows; ++r) {
      const std::span<const float> row(logits.Row(r), static_cast<size_t>(logits.cols));
      const auto index = static_cast<size_t>(first + r);
      for (const float logit : row) {
        if (!std::isfinite(logit)) {
          return InternalError(fmt::format("a logit after token {} is not a finite number", index));
        }
      }
      const bool predicts = index + 1 < tokens_.size() && (index + 1) % static_cast<size_t>(context_) != 0;
      if (predicts) {
        log_probability_ += LogProbability(row, tokens_[index + 1]);
        ++n_predicted_;
      }
      if (reference_) {
        reference_->Row(static_cast<int64_t>(index), reference_row_);
        if (const std::string_view fault = FaultOfLogits(reference_row_); !fault.empty()) {
          return DataLossError(fmt::format("{}: row {} of logits has {}", *reference_path_, index, fault));
        }
        divergences_.push_back(KlDivergence(reference_row_, row));
        if (ArgMax(reference_row_) == ArgMax(row)) ++n_agree_;
        if (predicts) reference_log_probability_ += LogProbability(reference_row_, tokens_[index + 1]);
      }
      if (writer_) SURETY_RETURN_IF_ERROR(writer_->Append(row));
    }
    return OkStatus();
  }

  double Share(double numerator, size_t count) const { return numerator / static_cast<double>(count); }

  void Report(const OpenedModel& opened) {
    const double cross_entropy = -log_probability_ / static_cast<double>(n_predicted_);
    const double rate = static_cast<double>(tokens_.size()) / seconds_;
    std::sort(divergences_.begin(), divergences_.end());
    const size_t n = divergences_.size();
    double kl_mean = 0;
    for (const double kl : divergences_) kl_mean += kl;
    kl_mean = n > 0 ? Share(kl_mean, n) : 0;
    if (json_) {
      boost::json::object out = DescribeModel(opened);
      out["tokens"] = tokens_.size();
      out["predicted_tokens"] = n_predicted_;
      out["context"] = context_;
      out["cross_entropy"] = cross_entropy;
      out["perplexity"] = std::exp(cross_entropy);
      if (reference_) {
        out["kl_mean"] = kl_mean;
        out["kl_median"] = divergences_[n / 2];
        out["kl_p99"] = divergences_[std::min(n - 1, n * 99 / 100)];
        out["kl_max"] = divergences_.back();
        out["top1_agreement"] = Share(n_agree_, n);
        out["reference_cross_entropy"] = -Share(reference_log_probability_, static_cast<size_t>(n_predicted_));
      }
      out["seconds"] = Rounded(seconds_);
      out["tok_per_s"] = Rounded(rate);
      out["peak_memory_bytes"] = PeakResidentBytes();
      PrintJson(out);
      return;
    }
    Print("tokens         {} ({} predicted, context {})\n", tokens_.size(), n_predicted_, context_);
    Print("cross-entropy  {:.4f} nats a token\nperplexity     {:.3f}\n", cross_entropy, std::exp(cross_entropy));
    if (reference_) {
      Print("KL divergence  mean {:.3g}, median {:.3g}, max {:.3g} nats\n", kl_mean, divergences_[n / 2],
                 divergences_.back());
      Print("top-1          {:.2f} % the same\n", 100 * Share(n_agree_, n));
    }
    Print("speed          {:.1f} tok/s\n", rate);
  }

  ModelFlags model_;
  KvFlags kv_;
  std::optional<std::string> file_, reference_path_, write_path_;
  int context_ = 0, max_tokens_ = 0;
  bool json_ = false;

  std::unique_ptr<LogitsFile> reference_;
  std::unique_ptr<LogitsWriter> writer_;
  std::vector<int32_t> tokens_;
  std::vector<float> reference_row_;
  std::vector<double> divergences_;
  double log_probability_ = 0, reference_log_probability_ = 0, seconds_ = 0;
  int64_t n_predicted_ = 0;
  int n_agree_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakePerplexityCommand() { return std::make_unique<PerplexityCommand>(); }

}  // namespace surety::cli
