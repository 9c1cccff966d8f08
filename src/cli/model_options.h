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

// Drafts of tokens. They change when tokens come, never which.
struct SpeculationFlags {
  std::string speculate = "auto";
  std::string draft_model;
  int draft_max = engine::SpeculationOptions().max_draft_tokens;
  int draft_branches = engine::SpeculationOptions().max_branches;

  void Declare(Flags& flags);
  // Checks the values; the messages name the flags.
  Status Validate() const;
  engine::SpeculationOptions Options() const;
  // The model that drafts, as flags name models; empty: none.
  std::string DraftModel() const { return speculate == "lookup" || speculate == "off" ? "" : draft_model; }
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

// `draft_model`: one that drafts for it; empty: none.
Result<OpenedModel> OpenModel(const ModelFlags& flags, const std::string& draft_model = "");
Result<OpenedEngine> OpenEngine(const ModelFlags& flags, const KvFlags& kv, const SpeculationFlags& speculation,
                                int max_rows);

// The last part of a path, without ".gguf": what a report calls the model.
std::string ModelNameOf(const std::string& path);

// Fields that all reports share: model, path, architecture, isa, threads, load_seconds, weight_bytes.
boost::json::object DescribeModel(const OpenedModel& model);

}  // namespace surety::cli
