#include "cli/model_options.h"

#include <algorithm>
#include <charconv>
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
#include "cli/model_heads.h"
#include "cli/models_catalogue.h"
#include "cli/models_store.h"
#include "cli/output.h"
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

// "2,15,27"; empty where that is no list of numbers.
std::vector<int> LayersOf(const std::string& text) {
  std::vector<int> layers;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    int layer = 0;
    const auto read = std::from_chars(text.data() + at, text.data() + end, layer);
    if (read.ec != std::errc() || read.ptr != text.data() + end || layer < 0 || end + 1 == text.size()) return {};
    layers.push_back(layer);
    at = end + 1;
  }
  return layers;
}

// What a head was taken for, and what its trial said.
void ReportHead(const engine::LocalModel& model) {
  if (model.head() == nullptr) return;
  std::string line = "draft head: " + model.head()->recipe().Describe();
  if (model.head_acceptance() >= 0) {
    line += fmt::format("; of the model's own text it knows {:.1f} %", 100 * model.head_acceptance());
  }
  PrintErrorText(line + "\n");
}

// Fills in the head that lies in the folder of heads for the model at `path`.
Status ChooseOwnHead(const std::string& path, DraftFlags& drafts) {
  if (drafts.own_head) {
    SURETY_ASSIGN_OR_RETURN(drafts.head.path, HeadOf(path));
  }
  if (!drafts.needed || !drafts.model.empty() || !drafts.head.path.empty()) return OkStatus();
  return FailedPreconditionError(fmt::format("--speculate model: no draft head for {} in $SURETY_HEADS; --draft-model "
                                             "or --draft-head says what drafts", path));
}

// What to do about a head that nobody named and that cannot be used.
Status WithWayOut(Status status, const DraftFlags& drafts) {
  if (!drafts.own_head || drafts.head.path.empty()) return status;
  if (status.message().find(drafts.head.path) == std::string::npos) return status;
  return status.WithContext("the draft head of this model in $SURETY_HEADS (--draft-head none, or draft_head: none "
                            "where a policy or a request to load names the model, goes without it)");
}

}  // namespace

ModelFlags::ModelFlags() {
  const char* chosen = std::getenv("SURETY_MODEL");
  model = chosen != nullptr && *chosen != '\0' ? chosen : DefaultModel().name;
}

void ModelFlags::Declare(Flags& flags) {
  flags.Group("Model");
  flags.Add("-m,--model", model, "a path, or a name that 'surety models' lists");
  flags.Add("-t,--threads", threads, "processors to use; 0: one for each core");
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
  flags.Add("--draft-head", draft_head,
            "a draft head of this model that drafts: a folder or .safetensors file of a Medusa or EAGLE head; default: "
            "$SURETY_HEADS/NAME of a model of the catalogue, if that is there; none: no head");
  flags.Add("--draft-head-floor", draft_head_floor,
            "a head is refused that knows less than this share, in per cent, of tokens that the model itself writes "
            "when it is loaded; 0: it is not tried");
  flags.Add("--draft-head-layers", draft_head_layers,
            "EAGLE-3: numbers of the layers whose entering hidden states the head reads, with commas, if its files are "
            "wrong; outputs: the numbers in its files are of the layers whose output is meant");
  flags.Add("--draft-head-norm", draft_head_norm,
            "EAGLE-3: true or false: the residual is the normed state (norm_before_residual), if its files are wrong");
  flags.Add("--draft-max", draft_max, "how many tokens ahead a draft goes at most, 0 to 63");
  flags.Add("--draft-branches", draft_branches, "branches of a draft tree at most, 1 to 63; 1: chains alone");
}

Status SpeculationFlags::Validate() const {
  constexpr std::string_view kChoices[] = {"auto", "lookup", "model", "always", "off"};
  if (std::find(std::begin(kChoices), std::end(kChoices), speculate) == std::end(kChoices)) {
    return InvalidArgumentError(fmt::format("--speculate: '{}' is none of {}", speculate, fmt::join(kChoices, ", ")));
  }
  if (speculate == "model" && draft_model.empty() && draft_head.empty() && !HasHeadsFolder()) {
    return InvalidArgumentError("--speculate model: --draft-model or --draft-head says which");
  }
  if (speculate == "model" && draft_model.empty() && draft_head == kNoHead) {
    return InvalidArgumentError("--speculate model and --draft-head none: nothing is left that drafts");
  }
  if (!draft_model.empty() && !draft_head.empty() && draft_head != kNoHead) {
    return InvalidArgumentError("--draft-model and --draft-head exclude each other: one of them drafts");
  }
  if (!(draft_head_floor >= 0 && draft_head_floor <= 100)) {
    return InvalidArgumentError(fmt::format("--draft-head-floor: {} is not between 0 and 100", draft_head_floor));
  }
  if (!draft_head_norm.empty() && draft_head_norm != "true" && draft_head_norm != "false") {
    return InvalidArgumentError(fmt::format("--draft-head-norm: '{}' is neither true nor false", draft_head_norm));
  }
  if (!draft_head_layers.empty() && draft_head_layers != "outputs" && LayersOf(draft_head_layers).empty()) {
    return InvalidArgumentError(fmt::format("--draft-head-layers: '{}' is neither 'outputs' nor a list of numbers of "
                                            "layers such as 2,15,27", draft_head_layers));
  }
  if (draft_max < 0 || draft_max > kMaxDraft) {
    return InvalidArgumentError(fmt::format("--draft-max: {} is not between 0 and {}", draft_max, kMaxDraft));
  }
  if (draft_branches < 1 || draft_branches > kMaxDraft) {
    return InvalidArgumentError(
        fmt::format("--draft-branches: {} is not between 1 (chains alone) and {}", draft_branches, kMaxDraft));
  }
  return OkStatus();
}

DraftFlags SpeculationFlags::Drafts() const {
  DraftFlags drafts;
  if (speculate == "lookup" || speculate == "off" || draft_max == 0) return drafts;  // nobody would ask them
  drafts.needed = speculate == "model";
  drafts.model = draft_model;
  drafts.own_head = draft_model.empty() && draft_head.empty();
  if (draft_head != kNoHead) drafts.head.path = draft_head;
  drafts.head.layer_ids_are_outputs = draft_head_layers == "outputs";
  if (!drafts.head.layer_ids_are_outputs) drafts.head.entering_layers = LayersOf(draft_head_layers);
  if (!draft_head_norm.empty()) drafts.head.norm_before_residual = draft_head_norm == "true";
  drafts.head_check.floor = draft_head_floor / 100;
  return drafts;
}

Result<DraftFlags> SpeculationFlags::DraftsOf(const std::string& model, const std::string& head) const {
  SpeculationFlags own;
  own.speculate = speculate;
  own.draft_max = draft_max;
  own.draft_head_floor = draft_head_floor;
  own.draft_model = model;
  own.draft_head = model.empty() && head.empty() && draft_head == kNoHead ? draft_head : head;  // "none" is for all
  const bool names_head = !head.empty() && head != kNoHead;
  if (!model.empty() && names_head) {
    return Error(InvalidArgumentError("draft_model and draft_head exclude each other: give one of them"));
  }
  DraftFlags drafts = own.Drafts();
  drafts.needed = false;  // --speculate says what may draft, not that each model has it
  if ((!model.empty() && drafts.model.empty()) || (names_head && drafts.head.path.empty())) {
    return Error(FailedPreconditionError(fmt::format(
        "'{}' would draft nothing: this server was started with {}", model.empty() ? head : model,
        draft_max == 0 ? "--draft-max 0" : "--speculate " + speculate)));
  }
  return drafts;
}

engine::SpeculationOptions SpeculationFlags::Options() const {
  engine::SpeculationOptions options;
  options.max_draft_tokens = speculate == "off" ? 0 : draft_max;
  options.max_branches = draft_branches;
  options.lookup = speculate != "model";
  options.whatever_it_costs = speculate == "always";
  options.max_draft_rows = std::max(options.max_draft_rows, options.max_draft_tokens);  // room for one such draft
  return options;
}

Result<OpenedModel> OpenModel(const ModelFlags& flags, DraftFlags drafts) {
  OpenedModel opened;
  SURETY_ASSIGN_OR_RETURN(opened.path, ResolveModel(flags.model));
  SURETY_RETURN_IF_ERROR(ChooseOwnHead(opened.path, drafts));
  const int64_t start = Clock::Real().NowNanos();
  {
    ProgressLine progress("loading", ProgressUnit::kBytes);
    auto on_progress = [&](const model::LoadProgress& p) {
      progress.Update(p.done_bytes, p.total_bytes);
      return !Interrupted();
    };
    engine::LocalModelOptions options;
    options.path = opened.path;
    if (!drafts.model.empty()) {
      SURETY_ASSIGN_OR_RETURN(options.draft_path, ResolveModel(drafts.model));
    }
    options.head = drafts.head;
    options.head_check = drafts.head_check;
    options.n_threads = flags.threads;
    auto local = engine::LocalModel::Open(FileSystem::Real(), options, on_progress);
    if (!local) return Error(WithWayOut(local.error(), drafts));
    opened.local = *std::move(local);
  }
  opened.load_seconds = NanosToSeconds(Clock::Real().NowNanos() - start);
  if (!opened.local->warning().empty()) ReportWarning(opened.local->warning());
  ReportHead(*opened.local);
  return opened;
}

Result<OpenedEngine> OpenEngine(const ModelFlags& flags, const KvFlags& kv, const SpeculationFlags& speculation,
                                int max_rows) {
  OpenedEngine opened;
  SURETY_ASSIGN_OR_RETURN(opened.model, OpenModel(flags, speculation.Drafts()));
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

boost::json::object DescribeModel(const OpenedModel& model) {
  boost::json::object out;
  out["model"] = ModelNameOf(model.path);
  out["path"] = model.path;
  out["architecture"] = model.local->config().architecture;
  out["isa"] = std::string(model.local->ops().name());
  out["threads"] = model.local->executor().n_workers();
  out["load_seconds"] = Rounded(model.load_seconds);
  out["weight_bytes"] = model.local->model().weight_bytes();
  if (model.local->draft() != nullptr) out["draft_model"] = ModelNameOf(model.local->draft()->source().path());
  if (const model::DraftHead* head = model.local->head(); head != nullptr) {
    out["draft_head"] = head->recipe().Describe();
    if (model.local->head_acceptance() >= 0) out["draft_head_acceptance"] = Rounded(model.local->head_acceptance());
  }
  return out;
}

}  // namespace surety::cli
