// Flags that every command with a model shares, and opening the model with progress.
//
// Errors: as LocalModel::Open and Engine::Make state them; kInvalidArgument for a flag's value, naming the flag.
#pragma once

#include <memory>
#include <string>

#include <boost/json.hpp>

#include "base/status.h"
#include "cli/flags.h"
#include "engine/engine.h"
#include "engine/local_model.h"
#include "engine/model_description.h"

namespace surety::cli {

struct ModelFlags {
  ModelFlags();  // $SURETY_MODEL, else the catalogue's default
  std::string model;
  int threads = 0;
  std::string isa;

  void Declare(Flags& flags);
  // Checks the values and puts --isa into force; the messages name the flags.
  Status Apply() const;
};

struct KvFlags {
  int ctx = 4096;
  std::string kv_type = "f16";
  int page_tokens = 16;

  void Declare(Flags& flags);
  Result<KvType> Type() const;
  // Checks the values; the messages name the flags.
  Status Validate() const;
};

// Who drafts beside texts and grammars: a model, as flags name models, or a head; one of them or none.
struct DraftFlags {
  std::string model;
  model::HeadOptions head;
  bool own_head = false;  // with neither named: the head in the folder of heads, if one is there (model_heads.h)
  bool needed = false;    // it is an error if there is none of them
  engine::HeadCheckOptions head_check;
};

inline constexpr std::string_view kNoHead = "none";

// Drafts of tokens. They change when tokens come, never which.
struct SpeculationFlags {
  std::string speculate = "auto";
  std::string draft_model;
  std::string draft_head;             // a path; "": the one in the folder of heads; kNoHead: none
  double draft_head_floor = 35;       // per cent
  std::string draft_head_layers;      // "", "outputs", or numbers
  std::string draft_head_norm;        // "", "true", "false"
  int draft_max = engine::SpeculationOptions().max_draft_tokens;
  int draft_branches = engine::SpeculationOptions().max_branches;

  void Declare(Flags& flags);
  // Checks the values; the messages name the flags.
  Status Validate() const;
  engine::SpeculationOptions Options() const;
  // What drafts for the model that the flags name. Precondition: Validate has said yes.
  DraftFlags Drafts() const;
  // The same for another model of the process, with its own draft model or head. kInvalidArgument where both are named;
  // kFailedPrecondition where --speculate or --draft-max leaves them nothing to do.
  Result<DraftFlags> DraftsOf(const std::string& draft_model, const std::string& draft_head) const;
};

struct OpenedModel {
  std::unique_ptr<engine::LocalModel> local;
  std::string path;
  double load_seconds = 0;
};

// A model and an engine on it. The engine goes first when both are destroyed.
struct OpenedEngine {
  OpenedModel model;
  std::unique_ptr<engine::Engine> engine;
};

Result<OpenedModel> OpenModel(const ModelFlags& flags, DraftFlags drafts = {});
Result<OpenedEngine> OpenEngine(const ModelFlags& flags, const KvFlags& kv, const SpeculationFlags& speculation,
                                int max_rows);

using engine::ModelNameOf;

// Fields that all reports share: model, path, architecture, isa, threads, load_seconds, weight_bytes; with a draft
// model draft_model: its name; with a draft head draft_head: its recipe in words, draft_head_acceptance: in its trial,
// where it had one.
boost::json::object DescribeModel(const OpenedModel& model);

}  // namespace surety::cli
