// A governed backend with a scripted model and parts that a test controls, and a caller that waits for its answer.
//
// Threads: the caller may be used from many threads; the parts are set before. Owns: everything.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gateway/governed_backend.h"
#include "gateway/testing/fake_parts.h"
#include "gateway/testing/scripted_backend.h"

namespace surety::gateway {

// What reached the caller of one request.
struct Reply {
  std::vector<api::Event> events;
  std::string text;                   // of all events
  std::string arguments;              // of all tool calls
  api::Event last;
  std::optional<api::Refusal> refusal;
  const api::Decision& decision() const { return *last.decision; }
};

// Waits for the last event of a request.
Reply AwaitReply(api::Backend& backend, api::GenerationRequest request);

// A policy with routes that tests use: "faq" (template), "held", "stream" (internal readers), "reviewed", "tools",
// "cached" (shared by all subjects), "limited" (falls back to faq), and at last a person.
Policy WorldPolicy();

class GovernedWorld {
 public:
  explicit GovernedWorld(Policy policy = WorldPolicy(), std::shared_ptr<ResponseCache> own_cache = nullptr);
  ~GovernedWorld();

  // Claims of a caller who has all dimensions.
  static api::Caller Anna();
  api::GenerationRequest Ask(std::string question, api::Caller caller = Anna()) const;
  Reply Send(api::GenerationRequest request);
  Reply Send(std::string question, api::Caller caller = Anna()) { return Send(Ask(std::move(question), caller)); }
  // A runtime of `policy` with the world's parts, to swap in.
  std::shared_ptr<PolicyRuntime> MakeParts(Policy policy);

  WallClock clock;
  ScriptedBackend::Script script;     // of the model; replaced before a request
  std::map<std::string, FakeVerifiers::Check> checks;
  std::map<std::string, std::function<ToolResult(const ToolArguments&)>> tools;
  std::shared_ptr<ScriptedBackend> model;
  std::shared_ptr<FakeAudit> audit = std::make_shared<FakeAudit>();
  std::shared_ptr<FakeLedger> ledger = std::make_shared<FakeLedger>();
  std::shared_ptr<ResponseCache> cache;
  std::shared_ptr<ReviewStore> review;
  std::shared_ptr<GovernedBackend> backend;
};

}  // namespace surety::gateway
