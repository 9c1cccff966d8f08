#include "cli/model_options.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "cli/exit_codes.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/models_catalogue.h"
#include "cli/models_store.h"
#include "cli/progress.h"
#include "kernels/cpu/isa.h"

namespace surety::cli {
namespace {

namespace cpu = kernels::cpu;

constexpr int kMaxDraft = 63;  // as engine::SpeculationOptions has it

Status ForceInstructionSet(const std::string& name) {
  if (name.empty()) return OkStatus();
  std::string known;
  for (const cpu::Isa isa : cpu::SupportedIsas()) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", cpu::NameOf(isa));
  }
  const auto isa = cpu::IsaFromName(name);
  if (!isa) return InvalidArgumentError(fmt::format("--isa: '{}' is unknown; this processor has {}", name, known));
  return cpu::SetIsa(*isa).WithContext(fmt::format("--isa (this processor has {})", known));
}

}  // namespace

ModelFlags::ModelFlags() {
  const char* chosen = std::getenv("SURETY_MODEL");
  model = chosen != nullptr && *chosen != '\0' ? chosen : DefaultModel().name;
}

void ModelFlags::Declare(Flags& flags) {
  flags.Group("Model");
  flags.Add("-m,--model", model, "a path, or a name that 'surety models' lists");
  flags.Add("-t,--threads", threads, "processors to use; 0: all of them");
  flags.Add("--isa", isa, "force an instruction set (sse4, avx2, avx512, ...); default: the best one here");
}

Status ModelFlags::Apply() const {
  if (threads < 0 || threads > 4096) {
    return InvalidArgumentError(fmt::format("--threads: {} is not between 0 and 4096", threads));
  }
  return ForceInstructionSet(isa);
}

void KvFlags::Declare(Flags& flags) {
  flags.Group("Context");
  flags.Add("-c,--ctx", ctx, "longest sequence in tokens, at most the model's own limit");
  flags.Add("--kv-type", kv_type, "how keys and values are kept: f32, f16, bf16 or q8_0");
  flags.Add("--page-tokens", page_tokens, "tokens in a page of the KV cache, a multiple of 16");
}

Result<KvType> KvFlags::Type() const {
  auto type = KvTypeFromName(kv_type);
  if (!type) return Error(type.error().WithContext("--kv-type"));
  return *type;
}

Status KvFlags::Validate() const {
  if (ctx < 2) return InvalidArgumentError(fmt::format("--ctx: {} is too few; a prompt and an answer take two", ctx));
  if (page_tokens < 16 || page_tokens % 16 != 0 || page_tokens > 4096) {
    return InvalidArgumentError(fmt::format("--page-tokens: {} is not a multiple of 16 from 16 to 4096", page_tokens));
  }
  return Type() ? OkStatus() : Type().error();
}

void SpeculationFlags::Declare(Flags& flags) {
  flags.Group("Speculation");
  flags.Add("--speculate", speculate,
            "auto: verify drafts together where that saves time; lookup or model: with drafts of that kind alone; "
            "always: whatever they cost, for tests; off: one token a step");
  flags.Add("--draft-model", draft_model, "a smaller model, by name or path, that drafts");
  flags.Add("--draft-max", draft_max, "drafted tokens of a sequence in one step at most, 0 to 63");
}

Status SpeculationFlags::Validate() const {
  constexpr std::string_view kChoices[] = {"auto", "lookup", "model", "always", "off"};
  if (std::find(std::begin(kChoices), std::end(kChoices), speculate) == std::end(kChoices)) {
    return InvalidArgumentError(fmt::format("--speculate: '{}' is none of {}", speculate, fmt::join(kChoices, ", ")));
  }
  if (speculate == "model" && draft_model.empty()) {
    return InvalidArgumentError("--speculate model: --draft-model says which");
  }
  if (draft_max < 0 || draft_max > kMaxDraft) {
    return InvalidArgumentError(fmt::format("--draft-max: {} is not between 0 and {}", draft_max, kMaxDraft));
  }
  return OkStatus();
}

engine::SpeculationOptions SpeculationFlags::Options() const {
  engine::SpeculationOptions options;
  options.max_draft_tokens = speculate == "off" ? 0 : draft_max;
  options.lookup = speculate != "model";
  options.whatever_it_costs = speculate == "always";
  options.max_draft_rows = std::max(options.max_draft_rows, options.max_draft_tokens);  // room for one such draft
  return options;
}

Result<OpenedModel> OpenModel(const ModelFlags& flags, const std::string& draft_model) {
  OpenedModel opened;
  SURETY_ASSIGN_OR_RETURN(opened.path, ResolveModel(flags.model));
  const int64_t start = Clock::Real().NowNanos();
  {
    ProgressLine progress("loading", ProgressUnit::kBytes);
    auto on_progress = [&](const model::LoadProgress& p) {
      progress.Update(p.done_bytes, p.total_bytes);
      return !Interrupted();
    };
    engine::LocalModelOptions options;
    options.path = opened.path;
    if (!draft_model.empty()) {
      SURETY_ASSIGN_OR_RETURN(options.draft_path, ResolveModel(draft_model));
    }
    options.n_threads = flags.threads;
    SURETY_ASSIGN_OR_RETURN(opened.local, engine::LocalModel::Open(FileSystem::Real(), options, on_progress));
  }
  opened.load_seconds = NanosToSeconds(Clock::Real().NowNanos() - start);
  if (!opened.local->warning().empty()) ReportWarning(opened.local->warning());
  return opened;
}

Result<OpenedEngine> OpenEngine(const ModelFlags& flags, const KvFlags& kv, const SpeculationFlags& speculation,
                                int max_rows) {
  OpenedEngine opened;
  SURETY_ASSIGN_OR_RETURN(opened.model, OpenModel(flags, speculation.DraftModel()));
  if (opened.model.local->config().encoder) {
    return Error(FailedPreconditionError(
        fmt::format("{} is an encoder: it makes embeddings and writes no text; use surety embed", flags.model)));
  }
  engine::EngineOptions options;
  options.context_tokens = kv.ctx;
  options.page_tokens = kv.page_tokens;
  options.kv_type = *kv.Type();
  options.max_rows = max_rows;
  options.speculation = speculation.Options();
  const int64_t start = Clock::Real().NowNanos();
  SURETY_ASSIGN_OR_RETURN(opened.engine, engine::Engine::Make(*opened.model.local, options));
  opened.model.load_seconds += NanosToSeconds(Clock::Real().NowNanos() - start);
  return opened;
}

std::string ModelNameOf(const std::string& path) {
  std::filesystem::path lexical = std::filesystem::path(path).lexically_normal();
  if (!lexical.has_filename()) lexical = lexical.parent_path();  // "folder/"
  std::string name = lexical.filename().string();
  if (name.empty() || name == "." || name == "..") {
    std::error_code error;
    name = std::filesystem::weakly_canonical(path, error).filename().string();
  }
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  return name.empty() ? path : name;
}

boost::json::object DescribeModel(const OpenedModel& model) {
  boost::json::object out;
  out["model"] = ModelNameOf(model.path);
  out["path"] = model.path;
  out["architecture"] = model.local->config().architecture;
  out["isa"] = std::string(model.local->ops().name());
  out["threads"] = model.local->executor().n_workers();
  out["load_seconds"] = Rounded(model.load_seconds);
  out["weight_bytes"] = model.local->model().weight_bytes();
  return out;
}

}  // namespace surety::cli
