// surety train-router: a classifier of questions by intent, for a policy's signals.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory_info.h"
#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/file_writer.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/labelled_texts.h"
#include "cli/model_options.h"
#include "cli/models_store.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/train_router_dump.h"
#include "cli/train_router_report.h"
#include "engine/embedder.h"
#include "gateway/intent_training.h"
#include "gateway/text_folding.h"

namespace surety::cli {
namespace {

constexpr size_t kRouterTextsAtOnce = 64;   // between two looks at Ctrl-C
constexpr int kTimedQuestions = 200;
constexpr const char* kRouterProbe = "What is this question about, and who may answer it?";

// Equal for texts that read the same but for spaces and marks.
std::string FoldedKey(const std::string& text) {
  std::string key;
  for (const char c : gateway::FoldText(text, gateway::Folding::kPhrase).text) {
    if (std::string_view(".,;:!?\"'() ").find(c) == std::string_view::npos) key += c;
  }
  return key;
}

class TrainRouterCommand final : public Command {
 public:
  TrainRouterCommand() { model_.model = "all-MiniLM-L6-v2"; }
  std::string name() const override { return "train-router"; }
  std::string summary() const override { return "train a classifier of questions by intent, for a policy's routes"; }
  std::string examples() const override {
    return "  surety train-router -d questions.csv -o intents.json\n"
           "  surety train-router -d log.jsonl --label-column intent -o intents.json --target-accuracy 0.97\n"
           "The CSV has a header with the columns text and category, or those that the flags name.";
  }

  void Declare(Flags& flags) override {
    flags.Group("Texts");
    flags.Add("-d,--data", data_, "texts with a label each: CSV with a header, or JSONL (by the file's name)");
    flags.Add("--text-column", columns_.text, "column or key of the text");
    flags.Add("--label-column", columns_.label, "column or key of the label");
    flags.Group("Embedding model");
    flags.Add("-m,--embedding-model", model_.model, "an encoder: a path, or a name that 'surety models' lists");
    flags.Add("-t,--threads", model_.threads, "processors to use; 0: all of them");
    flags.Add("--isa", model_.isa, "force an instruction set (sse4, avx2, avx512, ...); default: the best one here");
    flags.Group("Training");
    flags.Add("--folds", options_.folds, "parts of the cross-validation that measures the classifier");
    flags.Add("--target-accuracy", target_, "accuracy of what is answered, for which a threshold is looked for");
    flags.Add("--seed", options_.seed, "decides the folds");
    flags.Group("Output");
    flags.Add("-o,--output", output_, "the classifier's file");
    flags.Add("--dump-vectors", dump_, "a folder for vectors.npy and rows.csv (label, fold, prediction)");
    flags.Add("--json", json_, "one JSON object");
  }

  int Run() override {
    if (const Status status = Validate(); !status.ok()) return ReportUsage(status);
    for (const auto phase : {&TrainRouterCommand::ReadTexts, &TrainRouterCommand::Embed, &TrainRouterCommand::Train,
                             &TrainRouterCommand::Time, &TrainRouterCommand::Write}) {
      if (const Status status = (this->*phase)(); !status.ok()) return ReportFailure(status);
    }
    return kExitOk;
  }

 private:
  Status Validate() const {
    if (data_.empty()) return InvalidArgumentError("give texts with -d FILE.csv");
    if (output_.empty()) return InvalidArgumentError("give a file for the classifier with -o");
    if (options_.folds < 2 || options_.folds > 100) {
      return InvalidArgumentError(fmt::format("--folds: {} is not from 2 to 100", options_.folds));
    }
    if (!(target_ > 0 && target_ <= 1)) {
      return InvalidArgumentError(fmt::format("--target-accuracy: {} is not above 0 and at most 1", target_));
    }
    return model_.Apply();
  }

  // Texts, labels in order, and the groups of texts that read the same.
  Status ReadTexts() {
    FileSystem& files = FileSystem::Real();
    if (files.IsDirectory(output_)) return InvalidArgumentError(output_ + ": a folder; give a file with -o");
    SURETY_ASSIGN_OR_RETURN(texts_, ReadLabelledTexts(files, data_, columns_));
    std::set<std::string> names;
    for (const LabelledText& row : texts_) names.insert(row.label);
    vectors_.names.assign(names.begin(), names.end());
    std::map<std::string, int> groups;
    std::map<int, std::set<int>> labels_of_group;
    for (const LabelledText& row : texts_) {
      const int group = groups.try_emplace(FoldedKey(row.text), static_cast<int>(groups.size())).first->second;
      const auto label = std::ranges::lower_bound(vectors_.names, row.label) - vectors_.names.begin();
      vectors_.groups.push_back(group);
      vectors_.labels.push_back(static_cast<int>(label));
      labels_of_group[group].insert(static_cast<int>(label));
    }
    figures_.rows = static_cast<int>(texts_.size());
    figures_.duplicate_texts = static_cast<int>(texts_.size() - groups.size());
    for (const auto& [group, labels] : labels_of_group) figures_.conflicting_texts += labels.size() > 1;
    // A mistake in the texts is told before the model is opened, not after.
    return gateway::CheckLabelCounts(vectors_, options_.folds).WithContext(data_);
  }

  Status Embed() {
    SURETY_ASSIGN_OR_RETURN(opened_, OpenModel(model_));
    if (!opened_.local->config().encoder) {
      return FailedPreconditionError(fmt::format("{} is not an encoder; a classifier needs one, such as "
                                                 "all-MiniLM-L6-v2", model_.model));
    }
    SURETY_ASSIGN_OR_RETURN(embedder_, engine::Embedder::Make(*opened_.local));
    ProgressLine progress("embedding", ProgressUnit::kCount, "texts");
    const int64_t start = Clock::Real().NowNanos();
    for (size_t done = 0; done < texts_.size();) {
      if (Interrupted()) return CancelledError("interrupted");
      const size_t n = std::min(kRouterTextsAtOnce, texts_.size() - done);
      std::vector<std::string> batch;
      for (size_t i = done; i < done + n; ++i) batch.push_back(texts_[i].text);
      auto embeddings = embedder_->Embed(batch);
      if (!embeddings) {
        return embeddings.error().WithContext(fmt::format("{}, lines {} to {}", data_, texts_[done].line,
                                                          texts_[done + n - 1].line));
      }
      for (const engine::Embedding& embedding : *embeddings) {
        vectors_.dimension = static_cast<int>(embedding.values.size());
        vectors_.vectors.insert(vectors_.vectors.end(), embedding.values.begin(), embedding.values.end());
      }
      done += n;
      progress.Update(static_cast<int64_t>(done), static_cast<int64_t>(texts_.size()));
    }
    figures_.embed_seconds = NanosToSeconds(Clock::Real().NowNanos() - start);
    return OkStatus();
  }

  Status Train() {
    ProgressLine progress("training", ProgressUnit::kCount, "fits");
    const auto go_on = [&](const gateway::TrainingProgress& state) {
      progress.Update(state.fits_done, state.fits);
      return !Interrupted();
    };
    const int64_t start = Clock::Real().NowNanos();
    SURETY_ASSIGN_OR_RETURN(result_, gateway::TrainIntents(vectors_, options_, opened_.local->executor(), go_on));
    figures_.train_seconds = NanosToSeconds(Clock::Real().NowNanos() - start);
    classifier_ = gateway::ClassifierOf(vectors_, result_.layer);
    figures_.labels = vectors_.names;
    figures_.predictions = result_.outer.predictions;
    figures_.c_by_fold = result_.outer.c;
    figures_.c = result_.layer.c;
    figures_.temperature = result_.layer.temperature;
    figures_.converged = result_.layer.minimum.converged;
    figures_.target_accuracy = target_;
    figures_.folds = options_.folds;
    figures_.seed = options_.seed;
    return OkStatus();
  }

  // Single questions from text to label, one after the other, spread over the file.
  Status Time() {
    const size_t step = std::max<size_t>(texts_.size() / kTimedQuestions, 1);
    for (size_t i = 0; i < texts_.size(); i += step) {
      if (Interrupted()) return CancelledError("interrupted");
      const int64_t start = Clock::Real().NowNanos();
      SURETY_ASSIGN_OR_RETURN(const auto embeddings, embedder_->Embed(std::span(&texts_[i].text, 1)));
      SURETY_ASSIGN_OR_RETURN(const gateway::Intent intent, classifier_.Classify(embeddings[0].values));
      figures_.classify_ms.push_back(static_cast<double>(Clock::Real().NowNanos() - start) * 1e-6);
      SURETY_RETURN_IF_ERROR(intent.confidence > 0 ? OkStatus() : InternalError("a question without a probability"));
    }
    return OkStatus();
  }

  Status Write() {
    classifier_.embedding_model = ModelNameOf(opened_.path);
    classifier_.embedding_digest = KnownDigest(opened_.path);
    if (classifier_.embedding_digest.empty()) {
      SURETY_ASSIGN_OR_RETURN(classifier_.embedding_digest, opened_.local->source().Digest());
    }
    classifier_.probe_text = kRouterProbe;
    SURETY_ASSIGN_OR_RETURN(auto probe, embedder_->Embed(std::span(&classifier_.probe_text, 1)));
    classifier_.probe_vector = std::move(probe[0].values);
    classifier_.training_digest = DigestOfTexts(texts_);
    classifier_.seed = options_.seed;
    classifier_.evaluation = RouterEvaluationJson(figures_);
    SURETY_RETURN_IF_ERROR(classifier_.Validate());
    if (dump_) SURETY_RETURN_IF_ERROR(DumpVectors(*dump_, vectors_, result_.outer));
    SURETY_ASSIGN_OR_RETURN(auto file, FileWriter::Create(output_));
    const std::string text = PrettyJson(ToJson(classifier_));
    SURETY_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(text))));
    SURETY_RETURN_IF_ERROR(file->Commit());
    Report();
    return OkStatus();
  }

  void Report() {
    if (!figures_.converged) {
      ReportWarning(fmt::format("the fit ended before its minimum (largest gradient entry {:.2g})",
                                result_.layer.minimum.gradient_norm));
    }
    if (!json_) {
      PrintText(RouterReportText(figures_));
      Print("\nWrote {}\n", output_);
      return;
    }
    boost::json::object out = DescribeModel(opened_);
    out["output"] = output_;
    out["rows"] = figures_.rows;
    out["labels"] = boost::json::array(figures_.labels.begin(), figures_.labels.end());
    out["duplicate_texts"] = figures_.duplicate_texts;
    out["conflicting_texts"] = figures_.conflicting_texts;
    out["dimensions"] = vectors_.dimension;
    out["seed"] = options_.seed;
    out["c"] = figures_.c;
    out["l2"] = result_.layer.l2;
    out["temperature"] = figures_.temperature;
    out["converged"] = figures_.converged;
    out["gradient_norm"] = result_.layer.minimum.gradient_norm;
    out["embed_seconds"] = Rounded(figures_.embed_seconds);
    out["train_seconds"] = Rounded(figures_.train_seconds);
    out["classify_ms_p50"] = Rounded(QuantileOf(figures_.classify_ms, 0.5));
    out["classify_ms_p95"] = Rounded(QuantileOf(figures_.classify_ms, 0.95));
    out["peak_memory_bytes"] = PeakResidentBytes();
    out["evaluation"] = classifier_.evaluation;
    PrintJson(out);
  }

  std::string data_, output_;
  LabelledColumns columns_;
  ModelFlags model_;
  gateway::TrainingOptions options_;
  double target_ = 0.95;
  std::optional<std::string> dump_;
  bool json_ = false;
  std::vector<LabelledText> texts_;
  gateway::LabelledVectors vectors_;
  OpenedModel opened_;
  std::unique_ptr<engine::Embedder> embedder_;   // goes before the model
  gateway::TrainingResult result_;
  gateway::IntentClassifier classifier_;
  RouterFigures figures_;
};

}  // namespace

std::unique_ptr<Command> MakeTrainRouterCommand() { return std::make_unique<TrainRouterCommand>(); }

}  // namespace surety::cli
