// surety serve --policy: the models that a policy names, opened where no request can reach them but through it.
//
// Threads: one for Open and Drain; else as Governance. Owns: the models, their host, the governance; the metrics must
// outlive it. Errors: as the policy's reader, the models and the parts of the governance state them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <boost/json.hpp>

#include "cli/model_host.h"
#include "gateway/governance.h"
#include "http/model_registry.h"
#include "observe/metrics.h"

namespace surety::cli {

class GovernedServing {
 public:
  struct Options {
    std::string policy;
    HostOptions host;
    SpeculationFlags speculation;  // for all models
    bool kept_kv = false;
    // The encoder for classifiers and vectors, already served; null: none.
    std::shared_ptr<api::Backend> embedder;
  };
  static Result<std::unique_ptr<GovernedServing>> Open(Options options, observe::Registry& metrics);

  gateway::Governance& governance() { return *governance_; }
  const boost::json::array& loaded() const { return loaded_; }   // reports of local models
  void Drain(int64_t limit_ms);

 private:
  Result<std::shared_ptr<api::Backend>> LoadModel(const gateway::ModelSpec& spec);

  struct Loaded {
    std::string draft_model, draft_head;
    std::shared_ptr<api::Backend> backend;
  };

  std::string policy_;    // its path
  SpeculationFlags speculation_;
  std::map<std::string, Loaded> by_weights_;  // by canonical path
  std::shared_ptr<http::ModelRegistry> inner_ = std::make_shared<http::ModelRegistry>();
  std::unique_ptr<ModelHost> host_;
  boost::json::array loaded_;
  std::unique_ptr<gateway::Governance> governance_;
};

// Unit vectors of `backend`, which must embed.
gateway::EmbedTexts EmbedWith(std::shared_ptr<api::Backend> backend);

}  // namespace surety::cli
