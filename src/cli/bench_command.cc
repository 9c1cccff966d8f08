// surety bench: speed of prefill and decode at several depths and batch sizes, held against the machine's roofs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/memory_info.h"
#include "base/random.h"
#include "cli/bench_roofline.h"
#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/forward_driver.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/roofs.h"

namespace surety::cli {
namespace {

// One row of the table.
struct Case {
  bool prefill = true;
  int tokens = 0;     // a sequence: prompt tokens, or decoded ones
  int depth = 0;      // positions already in the cache
  int sequences = 1;
};

struct Measured {
  Case what;
  std::vector<double> seconds;  // one a repetition, ascending
  Roofs* roofs = nullptr;       // that it is held against
  double Median() const { return seconds[seconds.size() / 2]; }
  double TokPerS(double s) const { return what.sequences * what.tokens / s; }
};

class BenchCommand final : public Command {
 public:
  std::string name() const override { return "bench"; }
  std::string summary() const override {
    return "measure prefill and decode speed, with the share of the machine's roofs";
  }
  std::string examples() const override {
    return "  surety bench\n"
           "  surety bench -m smollm2-135m-instruct --prompt 512 --gen 64 --depth 0,4096 --sequences 1,4 --json\n"
           "pp N: prefill of N tokens. tg N: N decode steps. @ D: with D tokens already in the cache.";
  }

  void Declare(Flags& flags) override {
    flags.Group("What to measure");
    flags.Add("--prompt", prompts_, "prompt lengths to prefill; 0: none");
    flags.Add("--gen", gens_, "numbers of decode steps; 0: none");
    flags.Add("--depth", depths_, "tokens already in the cache");
    flags.Add("--sequences", sequences_, "sequences decoded together");
    flags.Add("-r,--repetitions", repetitions_, "runs of each; the table has median, least and most");
    flags.Add("--chunk", chunk_, "prompt tokens computed in one step");
    flags.Add("--quick-roofs", quick_roofs_, "measure the roofs roughly, with little memory");
    model_.Declare(flags);
    flags.Add("--kv-type", kv_.kv_type, "how keys and values are kept: f32, f16, bf16 or q8_0");
    flags.Add("--page-tokens", kv_.page_tokens, "tokens in a page of the KV cache, a multiple of 16");
    flags.Group("Output");
    flags.Add("--json", json_, "one JSON object");
  }

  int Run() override {
    if (const Status status = Validate(); !status.ok()) return ReportUsage(status);
    auto opened = OpenModel(model_);
    if (!opened) return ReportFailure(opened.error());
    if (opened->local->config().encoder) {
      return ReportFailure(FailedPreconditionError("bench measures decoders; this model is an encoder"));
    }
    const std::vector<Case> cases = Cases(opened->local->config().max_context);
    if (const Status status = CheckMemory(opened->local->config(), cases); !status.ok()) return ReportFailure(status);
    read_bytes_ = opened->local->model().bytes_per_decoded_token();
    roofs_ = MeasureRoofs(opened->local->executor(), read_bytes_, quick_roofs_);
    work_.emplace(opened->local->source(), opened->local->model(), *kv_.Type());
    if (!json_) PrintHead(*opened);
    for (const Case& what : cases) {
      auto measured = Measure(opened->local->model(), what);
      if (!measured) return ReportFailure(measured.error());
      measured->roofs = &RoofsOf(opened->local->executor(), what);
      RaiseRoofs(opened->local->executor(), *measured);
      if (!json_) PrintRow(*measured);
      results_.push_back(*std::move(measured));
    }
    if (json_) PrintReport(*opened);
    return kExitOk;
  }

 private:
  Status Validate() const {
    SURETY_RETURN_IF_ERROR(kv_.Validate());
    SURETY_RETURN_IF_ERROR(model_.Apply());
    if (repetitions_ < 1) return InvalidArgumentError("--repetitions: at least 1");
    if (chunk_ < 1) return InvalidArgumentError("--chunk: at least 1");
    const std::pair<const char*, const std::vector<int>*> lists[] = {
        {"--prompt", &prompts_}, {"--gen", &gens_}, {"--depth", &depths_}, {"--sequences", &sequences_}};
    for (const auto& [flag, values] : lists) {
      for (const int value : *values) {
        if (value < 0 || value > 10'000'000 || (value == 0 && values == &sequences_)) {
          return InvalidArgumentError(fmt::format("{}: {} is out of range", flag, value));
        }
      }
    }
    return OkStatus();
  }

  std::vector<Case> Cases(int max_context) const {
    std::vector<Case> cases;
    for (const int depth : depths_) {
      for (const int prompt : prompts_) {
        if (prompt > 0) cases.push_back({true, prompt, depth, 1});
      }
      for (const int gen : gens_) {
        for (const int sequences : sequences_) {
          if (gen > 0) cases.push_back({false, gen, depth, sequences});
        }
      }
    }
    std::set<std::pair<int, int>> told;  // how many sequences there are makes no difference
    std::erase_if(cases, [&](const Case& c) {
      const bool too_long = c.depth + c.tokens > max_context;
      if (too_long && told.emplace(c.tokens, c.depth).second) {
        ReportWarning(fmt::format("{} tokens at depth {} do not fit the model's context of {}: left out", c.tokens,
                                  c.depth, max_context));
      }
      return too_long;
    });
    return cases;
  }

  // Refuses, before anything is measured, what the largest case's cache and logits would not have room for.
  Status CheckMemory(const model::ModelConfig& config, const std::vector<Case>& cases) const {
    const int64_t available = AvailableMemoryBytes();
    const double page_bytes = static_cast<double>(config.KvLayoutFor(*kv_.Type(), kv_.page_tokens).PageStrideBytes());
    for (const Case& what : cases) {
      const int pages_each = (what.depth + what.tokens + kv_.page_tokens - 1) / kv_.page_tokens;
      const double kv_bytes = page_bytes * pages_each * what.sequences;
      const double bytes = kv_bytes + 4.0 * what.sequences * config.vocab_size;
      const bool too_many_pages = int64_t{pages_each} * what.sequences > std::numeric_limits<int>::max();
      if (!too_many_pages && (available < 0 || bytes <= static_cast<double>(available))) continue;
      return ResourceExhaustedError(fmt::format("{} takes {} of memory, {} for keys and values, but {} is available",
                                                Name(what), HumanBytes(static_cast<int64_t>(bytes)),
                                                HumanBytes(static_cast<int64_t>(kv_bytes)),
                                                HumanBytes(std::max<int64_t>(available, 0))));
    }
    return OkStatus();
  }

  Result<Measured> Measure(model::Model& model, const Case& what) {
    DriverShape shape;
    shape.sequences = what.sequences;
    shape.context = what.depth + what.tokens;
    shape.max_rows = what.prefill ? std::min(chunk_, what.tokens) : what.sequences;
    shape.max_outputs = what.sequences;
    shape.kv_type = *kv_.Type();
    shape.page_tokens = kv_.page_tokens;
    SURETY_ASSIGN_OR_RETURN(auto driver, ForwardDriver::Make(model, shape));
    driver->TouchCache();
    std::vector<int32_t> tokens(static_cast<size_t>(what.sequences) * static_cast<size_t>(what.tokens));
    const auto vocab = static_cast<uint64_t>(model.config().vocab_size);
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<int32_t>(RandomBits({1, i, RandomPurpose::kWorkload, 0}) % vocab);
    }
    Measured measured{what, {}};
    ProgressLine progress(Name(what), ProgressUnit::kCount, "repetitions");
    for (int r = -1; r < repetitions_; ++r) {  // the first one warms up and is not counted
      const int64_t start = Clock::Real().NowNanos();
      SURETY_RETURN_IF_ERROR(what.prefill ? Prefill(*driver, what, tokens) : Decode(*driver, what, tokens, r < 0));
      if (r >= 0) measured.seconds.push_back(NanosToSeconds(Clock::Real().NowNanos() - start));
      progress.Update(r + 1, repetitions_);
    }
    std::sort(measured.seconds.begin(), measured.seconds.end());
    return measured;
  }

  Status Prefill(ForwardDriver& driver, const Case& what, std::span<const int32_t> tokens) {
    for (int done = 0; done < what.tokens; done += chunk_) {
      if (Interrupted()) return CancelledError("interrupted");
      const int n = std::min(chunk_, what.tokens - done);
      const bool last = done + n == what.tokens;
      driver.Forward(tokens.subspan(static_cast<size_t>(done), static_cast<size_t>(n)), what.depth + done,
                     last ? ForwardDriver::Logits::kLast : ForwardDriver::Logits::kNone);
    }
    return OkStatus();
  }

  Status Decode(ForwardDriver& driver, const Case& what, std::span<const int32_t> tokens, bool warm_up) {
    const auto n = static_cast<size_t>(what.sequences);
    const int steps = warm_up ? std::min(what.tokens, 4) : what.tokens;
    for (int step = 0; step < steps; ++step) {
      if (Interrupted()) return CancelledError("interrupted");
      driver.Forward(tokens.subspan(static_cast<size_t>(step) * n, n), what.depth + step, ForwardDriver::Logits::kLast);
    }
    return OkStatus();
  }

  static std::string Name(const Case& what) {
    std::string name = fmt::format("{}{}", what.prefill ? "pp" : "tg", what.tokens);
    if (what.depth > 0) name += fmt::format(" @ {}", what.depth);
    if (what.sequences > 1) name += fmt::format(" x {}", what.sequences);
    return name;
  }

  StepWork WorkOf(const Case& what) const {
    return what.prefill ? work_->Prefill(what.tokens, what.depth, chunk_)
                        : work_->Decode(what.tokens, what.depth, what.sequences);
  }

  // What one step reads, weights with keys and values.
  int64_t StepBytes(const Case& what) const {
    const int steps = what.prefill ? (what.tokens + chunk_ - 1) / chunk_ : what.tokens;
    return static_cast<int64_t>(WorkOf(what).bytes / steps);
  }

  // The roofs that a case is held against. Where its keys and values add much to what a step reads, less of it stays in
  // the caches from one step to the next: the rate is that of reading so much.
  Roofs& RoofsOf(Executor& executor, const Case& what) {
    const int64_t bytes = StepBytes(what);
    if (bytes < read_bytes_ + read_bytes_ / 8) return roofs_;
    const auto key = static_cast<int>(8 * std::log2(static_cast<double>(bytes)));
    const auto [found, is_new] = deep_roofs_.emplace(key, roofs_);
    if (is_new) found->second.read_bytes_per_s = MeasureReadRate(executor, bytes, quick_roofs_);
    return found->second;
  }

  // A row above its roof shows that something else held the machine while the roofs were measured: they are measured
  // again, and the highest counts, also for the rows before.
  void RaiseRoofs(Executor& executor, const Measured& measured) {
    for (int i = 0; i < 3 && ShareOfRoof(WorkOf(measured.what), *measured.roofs, measured.Median()).share > 1; ++i) {
      measured.roofs->RaiseTo(MeasureRoofs(executor, std::max(read_bytes_, StepBytes(measured.what)), quick_roofs_));
      if (!json_) PrintRoofs("roofs, measured again", *measured.roofs);
    }
  }

  void PrintRoofs(std::string_view label, const Roofs& roofs) const {
    Print("{}: {:.1f} GB/s read, {:.0f} GFLOP/s fp32 ({}), {:.0f} Gop/s int8 ({}), barrier {:.2f} us\n", label,
          roofs.read_bytes_per_s / 1e9, roofs.fp32_flop_per_s / 1e9, roofs.fp32_instruction,
          roofs.int8_op_per_s / 1e9, roofs.int8_instruction, roofs.barrier_seconds * 1e6);
  }

  void PrintHead(const OpenedModel& opened) const {
    Print("{}, {} on {} threads, weights {}, KV {}\n", model_.model, opened.local->ops().name(),
               opened.local->executor().n_workers(), HumanBytes(opened.local->model().weight_bytes()), kv_.kv_type);
    PrintRoofs("roofs", roofs_);
    Print("\n{:<18} {:>10} {:>19} {:>9} {:>9} {:>7}  {}\n", "test", "tok/s", "(min - max)", "GB/s", "Gop/s", "roof",
               "bound by");
    FlushOutput();
  }

  void PrintRow(const Measured& m) const {
    const StepWork work = WorkOf(m.what);
    const RoofShare share = ShareOfRoof(work, *m.roofs, m.Median());
    const std::string range = fmt::format("({:.1f} - {:.1f})", m.TokPerS(m.seconds.back()), m.TokPerS(m.seconds[0]));
    Print("{:<18} {:>10.1f} {:>19} {:>9.2f} {:>9.1f} {:>5.0f} %  {}\n", Name(m.what), m.TokPerS(m.Median()), range,
               work.bytes / m.Median() / 1e9, work.ops() / m.Median() / 1e9, share.share * 100, share.bound_by);
    FlushOutput();
  }

  boost::json::object DescribeRow(const Measured& m) const {
    const StepWork work = WorkOf(m.what);
    const RoofShare share = ShareOfRoof(work, *m.roofs, m.Median());
    const std::string stem = m.what.prefill ? "prefill_tok_per_s" : "decode_tok_per_s";
    boost::json::object row;
    row["test"] = Name(m.what);
    row[m.what.prefill ? "prompt_tokens" : "output_tokens"] = m.what.tokens;
    row["depth"] = m.what.depth;
    row["sequences"] = m.what.sequences;
    row["repetitions"] = m.seconds.size();
    row[stem] = Rounded(m.TokPerS(m.Median()));
    row[stem + "_min"] = Rounded(m.TokPerS(m.seconds.back()));
    row[stem + "_max"] = Rounded(m.TokPerS(m.seconds[0]));
    row["gb_per_s"] = Rounded(work.bytes / m.Median() / 1e9);
    row["gop_per_s"] = Rounded(work.ops() / m.Median() / 1e9);
    row["share_of_roof"] = Rounded(share.share);
    row["bound_by"] = share.bound_by;
    row["roof_gb_per_s"] = Rounded(m.roofs->read_bytes_per_s / 1e9);
    return row;
  }

  void PrintReport(const OpenedModel& opened) const {
    boost::json::object out;
    out["version"] = SURETY_VERSION;
    out["model"] = DescribeModel(opened);
    out["machine"] = {{"processors", std::thread::hardware_concurrency()},
                      {"threads", opened.local->executor().n_workers()},
                      {"isa", std::string(opened.local->ops().name())},
                      {"processor", ProcessorName()}};
    out["roofs"] = {{"read_gb_per_s", Rounded(roofs_.read_bytes_per_s / 1e9)},
                    {"fp32_gflop_per_s", Rounded(roofs_.fp32_flop_per_s / 1e9)},
                    {"fp32_instruction", roofs_.fp32_instruction},
                    {"int8_gop_per_s", Rounded(roofs_.int8_op_per_s / 1e9)},
                    {"int8_instruction", roofs_.int8_instruction},
                    {"barrier_us", Rounded(roofs_.barrier_seconds * 1e6)}};
    out["kv_type"] = kv_.kv_type;
    out["chunk"] = chunk_;
    boost::json::array rows;
    for (const Measured& m : results_) rows.push_back(DescribeRow(m));
    out["results"] = std::move(rows);
    out["peak_memory_bytes"] = PeakResidentBytes();
    PrintJson(out);
  }

  ModelFlags model_;
  KvFlags kv_;
  std::vector<int> prompts_ = {128, 512}, gens_ = {64}, depths_ = {0, 4096}, sequences_ = {1, 4};
  int repetitions_ = 5;
  int chunk_ = 512;
  bool quick_roofs_ = false, json_ = false;
  int64_t read_bytes_ = 0;
  Roofs roofs_;
  std::map<int, Roofs> deep_roofs_;  // by eighths of the binary logarithm of what a step reads
  std::optional<WorkModel> work_;
  std::vector<Measured> results_;
};

}  // namespace

std::unique_ptr<Command> MakeBenchCommand() { return std::make_unique<BenchCommand>(); }

}  // namespace surety::cli
