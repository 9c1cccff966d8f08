// surety train-draft: a draft head for a model, trained on this machine from one's own texts.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory_info.h"
#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/file_writer.h"
#include "cli/forward_driver.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/models_store.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/train_draft_options.h"
#include "cli/train_draft_output.h"
#include "cli/train_draft_report.h"
#include "cli/train_draft_texts.h"
#include "kernels/dequantize.h"
#include "train/append_file.h"
#include "train/features.h"
#include "train/work_folder.h"

namespace surety::cli {
namespace {

constexpr int64_t kCollectLogitBytes = 64 << 20;  // of one step's logits
constexpr int64_t kMaxRunFileBytes = 1 << 20;
constexpr int kMeasurements = 20;

std::string DigestOfText(const std::string& text) {
  return HexOf(Sha256Of(std::as_bytes(std::span(text))));
}

class TrainDraftCommand final : public Command {
 public:
  std::string name() const override { return "train-draft"; }
  std::string summary() const override { return "train a draft head for a model from your own texts"; }
  std::string examples() const override {
    return "  surety train-draft -m smollm2-135m-instruct -d prompts.jsonl -o my-head\n"
           "  surety train-draft -d prompts.jsonl -d transcripts.jsonl -o my-head --epochs 5 --json\n"
           "  surety train-draft -d prompts.jsonl -o my-head --resume   (after Ctrl-C)\n"
           "A line of a file: {\"prompt\": \"...\"}, {\"messages\": [...]}, or served messages with an assistant's\n"
           "among them and \"consent\": true. The model answers what is not answered.";
  }
  void Declare(Flags& flags) override { options_.Declare(flags); }

  int Run() override {
    if (const Status status = options_.Validate(); !status.ok()) return ReportUsage(status);
    if (const Status status = options_.model.Apply(); !status.ok()) return ReportUsage(status);
    for (const auto phase : {&TrainDraftCommand::Open, &TrainDraftCommand::Answer, &TrainDraftCommand::Collect,
                             &TrainDraftCommand::Train, &TrainDraftCommand::Finish}) {
      const Status status = (this->*phase)();
      if (!status.ok() && work_) {
        ClearProgressLine();
        PrintError("{} is kept in {}; go on with --resume\n",
                   status.code() == StatusCode::kCancelled ? status.message() : "what was done", work_->path());
      }
      if (!status.ok()) return ReportFailure(status);
    }
    return kExitOk;
  }

 private:
  std::string Work(const char* file) const { return work_->Path(file); }

  Status Open() {
    FileSystem& files = FileSystem::Real();
    SURETY_ASSIGN_OR_RETURN(corpus_, train::ReadCorpus(files, options_.data, options_.strict));
    SURETY_ASSIGN_OR_RETURN(opened_, OpenModel(options_.model));
    const model::ModelConfig& config = opened_.local->config();
    if (config.encoder) return FailedPreconditionError("a draft head needs a decoder; this model is an encoder");
    if (options_.tap_layers.empty()) {
      SURETY_ASSIGN_OR_RETURN(options_.tap_layers, train::DefaultTapLayers(config.n_layers));
    }
    for (const int layer : options_.tap_layers) {
      if (layer >= 0 && layer < config.n_layers) continue;
      return InvalidArgumentError(fmt::format("--tap-layers: the model has layers 0 to {}, not {}",
                                              config.n_layers - 1, layer));
    }
    options_.context = std::min(options_.context, config.max_context);
    options_.draft_vocab = std::min(options_.draft_vocab, config.vocab_size);
    options_.n_top = std::min(options_.n_top, options_.draft_vocab);
    if (options_.d_ff == 0) options_.d_ff = config.d_ff;
    shape_ = {.d_model = config.d_model, .n_taps = static_cast<int>(options_.tap_layers.size()),
              .n_heads = config.n_heads, .n_kv_heads = config.IsMla() ? config.n_heads : config.n_kv_heads,
              .head_dim = config.IsMla() ? config.d_model / config.n_heads / 2 * 2 : config.head_dim,
              .d_ff = options_.d_ff, .draft_vocab = options_.draft_vocab, .norm_eps = config.norm_eps,
              .rope_base = config.rope.base};
    if (shape_.rope_base <= 0) shape_.rope_base = 10000;
    SURETY_RETURN_IF_ERROR(shape_.Validate());
    SURETY_RETURN_IF_ERROR(CheckTrainingMemory(shape_));
    return OpenWork();
  }

  // The work folder belongs to one corpus, model and setting; --retrain may set the training otherwise.
  Status OpenWork() {
    std::string digest = KnownDigest(opened_.path);
    if (digest.empty()) {
      SURETY_ASSIGN_OR_RETURN(digest, opened_.local->source().Digest());
    }
    boost::json::object texts = options_.TextSettings();
    texts["model_sha256"] = digest;
    texts["data_sha256"] = corpus_.digest;
    texts["isa"] = std::string(opened_.local->ops().name());
    run_ = {{"texts", texts}, {"training", options_.TrainingSettings()}};
    text_digest_ = DigestOfText(boost::json::serialize(texts));
    run_digest_ = DigestOfText(boost::json::serialize(run_));
    run_["output"] = AbsolutePath(options_.output);
    run_["output_written"] = false;
    run_["made_folder"] = false;
    const bool begins = !options_.resume && !options_.retrain;
    if (begins) SURETY_RETURN_IF_ERROR(MakeOutputFolder(options_.output, /*may_replace=*/false));
    SURETY_ASSIGN_OR_RETURN(auto work, train::WorkFolder::Open(options_.WorkFolder(), begins
                                                                   ? train::WorkFolder::Use::kBegin
                                                                   : train::WorkFolder::Use::kContinue));
    if (begins) {
      run_["made_folder"] = work.made();
      SURETY_RETURN_IF_ERROR(CheckDiskSpace(work.path(), 1 << 20));
    } else {
      SURETY_RETURN_IF_ERROR(CheckSameRun(work.Path("run.json")));
      const bool may_replace = run_.at("output_written").as_bool();
      SURETY_RETURN_IF_ERROR(MakeOutputFolder(options_.output, may_replace));
      if (options_.retrain) SURETY_RETURN_IF_ERROR(work.Remove("checkpoint.bin"));
    }
    SURETY_RETURN_IF_ERROR(train::ReplacePrivately(work.Path("run.json"), PrettyJson(run_)));
    work_.emplace(std::move(work));
    return OkStatus();
  }

  // Takes over what the unfinished run knows of its output, where that is the same.
  Status CheckSameRun(const std::string& path) {
    SURETY_ASSIGN_OR_RETURN(const std::string text, FileSystem::Real().ReadAll(path, kMaxRunFileBytes));
    boost::system::error_code error;
    const boost::json::value there = boost::json::parse(text, error);
    // Through its text, as 1.0 is written as 1.
    const boost::json::value wanted = boost::json::parse(PrettyJson(run_));
    for (const char* part : {"texts", "training"}) {
      const auto* was = error || !there.is_object() ? nullptr : there.as_object().if_contains(part);
      if (was == nullptr || !was->is_object()) return DataLossError(path + ": not of this program; remove the folder");
      if (options_.retrain && std::string_view(part) == "training") break;
      for (const auto& [key, value] : wanted.at(part).as_object()) {
        const auto* other = was->as_object().if_contains(key);
        if (other != nullptr && *other == value) continue;
        return FailedPreconditionError(fmt::format("{}: the unfinished work has {} {}, not {}; give the same flags and "
                                                   "data, or start afresh", path, std::string_view(key),
                                                   other == nullptr ? "none" : boost::json::serialize(*other),
                                                   boost::json::serialize(value)));
      }
    }
    const auto is_true = [&](const char* key) {
      const auto* value = there.as_object().if_contains(key);
      return value != nullptr && value->is_bool() && value->get_bool();
    };
    const auto* output = there.as_object().if_contains("output");
    run_["output_written"] = output != nullptr && *output == run_.at("output") && is_true("output_written");
    run_["made_folder"] = is_true("made_folder");
    return OkStatus();
  }

  Status Answer() {
    const int64_t start = Clock::Real().NowNanos();
    SURETY_ASSIGN_OR_RETURN(auto file, train::SampleFile::Open(FileSystem::Real(), Work("samples.jsonl"),
                                                                text_digest_));
    SURETY_ASSIGN_OR_RETURN(counts_, MakeSamples(*opened_.local, options_, corpus_, file));
    samples_ = std::move(file).Take();
    const size_t n_before = samples_.size();
    std::erase_if(samples_, [](const train::Sample& s) { return s.tokens.size() < 2 || s.answers.empty(); });
    n_unusable_ = static_cast<int64_t>(n_before - samples_.size());
    answer_seconds_ = NanosToSeconds(Clock::Real().NowNanos() - start);
    if (samples_.size() < 2) {
      return InvalidArgumentError(fmt::format("{} usable texts; one to learn from and one to measure are the least",
                                              samples_.size()));
    }
    for (const train::Sample& sample : samples_) {
      n_tokens_ += static_cast<int64_t>(sample.tokens.size());
      for (const int32_t token : sample.tokens) {
        if (token < opened_.local->config().vocab_size) continue;
        return DataLossError(Work("samples.jsonl") + ": a token that the model has not");
      }
    }
    split_ = train::SplitSamples(samples_.size(), options_.train.holdout_share, options_.train.seed);
    const int vocab = opened_.local->config().vocab_size;
    std::vector<int32_t> ends;
    for (int32_t id = 0; id < vocab && id < opened_.local->tokenizer().vocab_size(); ++id) {
      if (opened_.local->tokenizer().IsEndOfText(id)) ends.push_back(id);
    }
    draft_ids_ = train::ChooseDraftVocabulary(samples_, split_.learned, vocab, shape_.draft_vocab, ends);
    return OkStatus();
  }

  // Share of what is learned that the head can say.
  double Coverage() const {
    int64_t known = 0, all = 0;
    for (const train::Sample& sample : samples_) {
      for (size_t i = 1; i < sample.tokens.size(); ++i) {
        if (!sample.LearnsAfter(static_cast<int32_t>(i) - 1)) continue;
        ++all;
        known += std::binary_search(draft_ids_.begin(), draft_ids_.end(), sample.tokens[i]);
      }
    }
    return all > 0 ? static_cast<double>(known) / static_cast<double>(all) : 0;
  }

  Status Collect() {
    const int64_t start = Clock::Real().NowNanos();
    feature_shape_.tap_width = shape_.tap_width();
    feature_shape_.n_top = options_.n_top;
    feature_shape_.digest = text_digest_.substr(0, 32) + train::DigestOf(samples_).substr(0, 32);
    const int64_t state_bytes = CheckpointBytes(shape_);
    const int64_t bytes = feature_shape_.FileBytes(n_tokens_) + state_bytes;
    if (static_cast<double>(bytes) > options_.work_limit_gb * 1e9) {
      return ResourceExhaustedError(fmt::format(
          "the hidden states of {} tokens and the checkpoints take {}, more than --work-limit {} GB; raise it, or use "
          "fewer texts (--max-texts) or shorter ones (--ctx)", n_tokens_, HumanBytes(bytes), options_.work_limit_gb));
    }
    SURETY_ASSIGN_OR_RETURN(auto writer, train::FeatureWriter::Open(FileSystem::Real(), Work("features.bin"),
                                                                    feature_shape_, samples_));
    if (writer.n_samples() < samples_.size()) {
      SURETY_RETURN_IF_ERROR(CheckDiskSpace(work_->path(), bytes));
      PrintError("{} texts, {} tokens; their hidden states and the checkpoints take {} of disk meanwhile\n",
                 samples_.size(), n_tokens_, HumanBytes(bytes));
      SURETY_RETURN_IF_ERROR(RunTarget(writer));
    }
    SURETY_RETURN_IF_ERROR(writer.Finish());
    SURETY_ASSIGN_OR_RETURN(auto features, train::FeatureFile::Open(FileSystem::Real(), Work("features.bin"),
                                                                    feature_shape_, samples_));
    features_ = std::make_unique<train::FeatureFile>(std::move(features));
    collect_seconds_ = NanosToSeconds(Clock::Real().NowNanos() - start);
    return OkStatus();
  }

  Status RunTarget(train::FeatureWriter& writer) {
    engine::LocalModel& local = *opened_.local;
    std::vector<model::HiddenTap> taps;
    for (const int layer : options_.tap_layers) taps.push_back({layer});
    SURETY_RETURN_IF_ERROR(local.model().SetTaps(taps));
    const int64_t rows_by_memory = kCollectLogitBytes / (int64_t{local.config().vocab_size} * 4);
    const int rows = static_cast<int>(std::clamp<int64_t>(rows_by_memory / 16 * 16, 16, 256));
    DriverShape shape;
    shape.context = options_.context;
    shape.max_rows = shape.max_outputs = rows;
    SURETY_ASSIGN_OR_RETURN(auto driver, ForwardDriver::Make(local.model(), shape));
    std::vector<train::TopTokens> tops(static_cast<size_t>(rows));
    std::vector<int32_t> likeliest(static_cast<size_t>(rows));
    std::vector<char> finite(static_cast<size_t>(rows));
    ProgressLine progress("collecting hidden states", ProgressUnit::kCount, "tokens");
    int64_t done = 0;
    for (size_t s = 0; s < samples_.size(); ++s) {
      const train::Sample& sample = samples_[s];
      const auto n = static_cast<int>(sample.tokens.size());
      if (s < writer.n_samples()) {
        done += n;
        continue;
      }
      for (int at = 0; at < n; at += rows) {
        if (Interrupted()) return CancelledError("what was collected of hidden states");
        const int count = std::min(rows, n - at);
        const auto tokens = std::span(sample.tokens).subspan(static_cast<size_t>(at), static_cast<size_t>(count));
        const MatrixF logits = driver->Forward(tokens, at, ForwardDriver::Logits::kAll);
        const ConstMatrixF states = local.model().taps();
        ParallelFor(local.executor(), count, [&](int64_t r, int) {
          const std::span<const float> row(logits.Row(r), static_cast<size_t>(logits.cols));
          const auto i = static_cast<size_t>(r);
          finite[i] = train::AreNumbers(row) && train::AreNumbers({states.Row(r), static_cast<size_t>(states.cols)});
          if (!finite[i]) return;
          likeliest[i] = static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
          tops[i] = {};
          if (sample.LearnsAfter(at + static_cast<int32_t>(r))) {
            train::TopOf(row, draft_ids_, options_.n_top, tops[i]);
          }
        });
        for (int r = 0; r < count; ++r) {
          if (!finite[static_cast<size_t>(r)]) {
            return InternalError(fmt::format("{}: the logits or hidden states of usable text {} at token {} are not "
                                             "finite numbers; the model's file may be damaged", opened_.path, s + 1,
                                             at + r + 1));
          }
          writer.AddRow({states.Row(r), static_cast<size_t>(states.cols)}, likeliest[static_cast<size_t>(r)],
                        tops[static_cast<size_t>(r)]);
        }
        progress.Update(done += count, n_tokens_);
      }
      SURETY_RETURN_IF_ERROR(writer.EndSample());
    }
    return OkStatus();
  }

  Status MakeTrainer() {
    const model::ModelSource& source = opened_.local->source();
    const TensorView* embedding = source.Find("token_embd.weight");
    if (embedding == nullptr || embedding->rows() < 1) return NotFoundError(source.path() + ": no token_embd.weight");
    const size_t row_bytes = embedding->bytes.size() / static_cast<size_t>(embedding->rows());
    train::Trainer::Data data;
    data.samples = &samples_;
    data.features = features_.get();
    data.draft_ids = draft_ids_;
    data.vocab_size = opened_.local->config().vocab_size;
    data.embedding = [embedding, row_bytes](int32_t token, float* out) {
      kernels::DequantizeRow(embedding->dtype, embedding->bytes.data() + static_cast<size_t>(token) * row_bytes,
                             embedding->cols(), out);
    };
    data.digest = run_digest_.substr(0, 32) + train::DigestOf(samples_).substr(0, 32);
    SURETY_ASSIGN_OR_RETURN(auto weights, train::InitialWeights(shape_, source, draft_ids_, options_.train.seed));
    SURETY_ASSIGN_OR_RETURN(trainer_, train::Trainer::Make(shape_, options_.train, std::move(data), std::move(weights),
                                                           opened_.local->executor()));
    if (FileSystem::Real().Exists(Work("checkpoint.bin"))) {
      SURETY_RETURN_IF_ERROR(trainer_->Restore(FileSystem::Real(), Work("checkpoint.bin")));
    }
    return OkStatus();
  }

  void ShowMeasurement(const train::Measurement& m) const {
    ClearProgressLine();
    std::string shares;
    for (const double share : m.acceptance) shares += fmt::format(" {:.3f}", share);
    PrintError("step {}/{}: held-out loss {:.3f}, acceptance by depth{}, {:.2f} tokens a step\n", m.step,
               trainer_->n_steps(), m.loss.front(), shares, m.TokensPerStep());
  }

  Status Train() {
    SURETY_RETURN_IF_ERROR(MakeTrainer());
    Clock& clock = Clock::Real();
    const int64_t start = clock.NowNanos(), positions_before = trainer_->positions_done();
    const int n_steps = trainer_->n_steps();
    PrintError("training {} parameters over {} draft tokens ({:.1f} % of what is learned), {} steps; about {} of "
               "memory\n", train::HeadLayout(shape_).size, shape_.draft_vocab, 100 * Coverage(), n_steps,
               HumanBytes(trainer_->memory_bytes()));
    const int every = options_.eval_every > 0 ? options_.eval_every : std::max(1, n_steps / kMeasurements);
    int64_t saved = start;
    double shown_loss = 0;
    ProgressLine progress("training", ProgressUnit::kCount, "steps");
    while (trainer_->step() < n_steps) {
      if (Interrupted()) {
        SURETY_RETURN_IF_ERROR(trainer_->Save(Work("checkpoint.bin")));
        return CancelledError(fmt::format("step {} of {}", trainer_->step(), n_steps));
      }
      const int step = trainer_->step();
      const auto& measured = trainer_->measurements();
      if (step % every == 0 && (measured.empty() || measured.back().step < step)) {
        ShowMeasurement(trainer_->Measure(options_.train.eval_positions));
      }
      SURETY_RETURN_IF_ERROR(trainer_->Step());
      const int64_t now = clock.NowNanos();
      if (NanosToSeconds(now - saved) >= options_.checkpoint_seconds) {
        SURETY_RETURN_IF_ERROR(trainer_->Save(Work("checkpoint.bin")));
        saved = clock.NowNanos();
      }
      const double loss = trainer_->records().back().loss;
      shown_loss = shown_loss == 0 ? loss : 0.9 * shown_loss + 0.1 * loss;
      const double rate = static_cast<double>(trainer_->positions_done() - positions_before) /
                          std::max(1e-9, NanosToSeconds(now - start));
      const double left = static_cast<double>(trainer_->positions_total() - trainer_->positions_done()) / rate;
      progress.UpdateText(fmt::format("training: step {}/{}, loss {:.3f}, {:.0f} tokens/s, {} left",
                                      trainer_->step(), n_steps, shown_loss, rate, HumanSeconds(left)));
    }
    progress.Finish();
    train_seconds_ = NanosToSeconds(clock.NowNanos() - start);
    train_rate_ = static_cast<double>(trainer_->positions_done() - positions_before) / std::max(1e-9, train_seconds_);
    if (trainer_->measurements().empty() || trainer_->measurements().back().step < n_steps) {
      ShowMeasurement(trainer_->Measure(0));
    }
    return trainer_->Save(Work("checkpoint.bin"));
  }

  boost::json::object Figures(const std::string& weights_path) const {
    boost::json::object out = DescribeModel(opened_);
    out["output"] = options_.output;
    out["texts"] = samples_.size();
    out["refused_texts"] = corpus_.n_refused;
    out["unusable_texts"] = n_unusable_;
    out["answered_texts"] = counts_.n_answered;
    out["cut_texts"] = counts_.n_cut;
    out["lost_turns"] = counts_.n_lost_turns;
    out["learned_texts"] = split_.learned.size();
    out["held_out_texts"] = split_.held_out.size();
    out["tokens"] = n_tokens_;
    out["tap_layers"] = boost::json::array(options_.tap_layers.begin(), options_.tap_layers.end());
    out["draft_vocab"] = shape_.draft_vocab;
    out["draft_vocab_coverage"] = Rounded(Coverage());
    out["parameters"] = train::HeadLayout(shape_).size;
    out["head_bytes"] = SizeOnDisk(weights_path);
    out["steps"] = trainer_->n_steps();
    boost::json::array measurements;
    for (const train::Measurement& m : trainer_->measurements()) measurements.push_back(DescribeMeasurement(m));
    out["measurements"] = std::move(measurements);
    const boost::json::object last = DescribeMeasurement(trainer_->measurements().back());
    out["acceptance"] = last.at("acceptance");
    out["tokens_per_step"] = last.at("tokens_per_step");
    out["resumed"] = options_.resume;
    out["answer_seconds"] = Rounded(answer_seconds_);
    out["collect_seconds"] = Rounded(collect_seconds_);
    out["train_seconds"] = Rounded(train_seconds_);
    out["train_tok_per_s"] = Rounded(train_rate_);
    out["texts_settings"] = options_.TextSettings();
    out["training_settings"] = options_.TrainingSettings();
    out["peak_memory_bytes"] = PeakResidentBytes();
    return out;
  }

  Status Finish() {
    const train::HeadDescription head = {.shape = shape_, .tap_layers = options_.tap_layers, .draft_ids = draft_ids_,
                                         .vocab_size = opened_.local->config().vocab_size,
                                         .max_context = opened_.local->config().max_context,
                                         .target = ModelNameOf(opened_.path),
                                         .numbers = *train::HeadNumbersFromName(options_.numbers)};
    // Again, as hours may have passed; from here on what is there is this run's.
    SURETY_RETURN_IF_ERROR(MakeOutputFolder(options_.output, run_.at("output_written").as_bool()));
    run_["output_written"] = true;
    SURETY_RETURN_IF_ERROR(train::ReplacePrivately(Work("run.json"), PrettyJson(run_)));
    SURETY_RETURN_IF_ERROR(train::WriteHead(FileSystem::Real(), options_.output, head, trainer_->weights()));
    const boost::json::object figures = Figures(options_.output + "/model.safetensors");
    SURETY_RETURN_IF_ERROR(WriteTrainingReport(FileSystem::Real(), options_.output, *trainer_, figures));
    if (!options_.keep_work) {
      const Status removed = work_->RemoveAll(run_.at("made_folder").as_bool());
      if (!removed.ok()) PrintError("the head is done, but its work is not removed: {}\n", removed.message());
    }
    if (options_.json) {
      PrintJson(figures);
      return OkStatus();
    }
    const train::Measurement& last = trainer_->measurements().back();
    Print("texts       {} learned, {} held out, {} refused for lack of consent, {} of no use\n",
          split_.learned.size(), split_.held_out.size(), corpus_.n_refused, n_unusable_);
    Print("in this run {} answered, {} cut at the context, {} turns of transcripts not found and not learned\n",
          counts_.n_answered, counts_.n_cut, counts_.n_lost_turns);
    Print("tokens      {}; the head can say {:.1f} % of the answers'\n", n_tokens_, 100 * Coverage());
    Print("acceptance  {:.3f} by depth, {:.2f} tokens a step\n", fmt::join(last.acceptance, " "),
          last.TokensPerStep());
    Print("head        {} ({}), report.html beside it\n", options_.output,
          HumanBytes(SizeOnDisk(options_.output + "/model.safetensors")));
    return OkStatus();
  }

  TrainDraftOptions options_;
  train::Corpus corpus_;
  OpenedModel opened_;
  train::HeadShape shape_;
  std::optional<train::WorkFolder> work_;
  boost::json::object run_;  // as in run.json
  std::string text_digest_, run_digest_;
  TextCounts counts_;
  std::vector<train::Sample> samples_;
  train::Split split_;
  std::vector<int32_t> draft_ids_;
  train::FeatureShape feature_shape_;
  std::unique_ptr<train::FeatureFile> features_;
  std::unique_ptr<train::Trainer> trainer_;
  int64_t n_tokens_ = 0, n_unusable_ = 0;
  double answer_seconds_ = 0, collect_seconds_ = 0, train_seconds_ = 0, train_rate_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeTrainDraftCommand() { return std::make_unique<TrainDraftCommand>(); }

}  // namespace surety::cli
