// The whole gateway as the server has it, opened from a policy file in a folder of its own: real audit log, vault,
// review queue, documents, caches, tools and verifiers; a model, a clock and an embedder that a test controls.
//
// Threads: Ask and Person from many; the rest one. Owns: what it opened; the folder is the test's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/document_store.h"
#include "gateway/governance.h"
#include "gateway/testing/governed_world.h"

namespace surety::gateway {

// Routes by phrases of the question: "fee" (passages, cached, exact and by meaning), "refund" (reads `account`, writes
// `refund` when two people have approved), "hours" (template), "secret" (permission class sar), "agent" (a stream to
// internal readers), else a person. `tools`: the address of both tools, "http://127.0.0.1:PORT", or the command of the
// write as a JSON list.
std::string BankPolicyText(const std::string& tools = "http://127.0.0.1:9");
// Each text that is replaced must stand there exactly once.
std::string Edited(std::string text, const std::vector<std::pair<std::string_view, std::string_view>>& edits);

class AcceptanceBank {
 public:
  using Load = std::function<Result<std::shared_ptr<api::Backend>>(const ModelSpec&)>;

  AcceptanceBank(std::string folder, Clock& clock);
  ~AcceptanceBank();

  void Write(const std::string& name, std::string_view text) const;
  void WritePolicy(std::string_view text) const { Write("policy.yaml", text); }
  void AddDocument(const Document& document) const;
  Status Open();      // the policy and documents stand there
  void Close();
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string log() const { return path("state/audit.log"); }

  static api::Caller Anna();     // has all eight dimensions; the customer of her metadata is "c1"
  Reply Ask(const std::string& question, api::Caller caller = Anna());
  // An action of the review queue.
  Result<boost::json::object> Person(const std::string& name, const std::string& action, boost::json::object arguments);
  // Takes the ticket of a decision, writes `text` over it where that is not empty, and approves.
  Result<boost::json::object> Approve(const std::string& decision, const std::string& name,
                                      const std::string& text = "");
  boost::json::object State(const std::string& decision, const api::Caller& caller = Anna());
  std::vector<AuditRow> Rows(std::string_view kind) const;   // from the file, which must verify

  ScriptedBackend::Script script;    // of the model; replaced before a request
  EmbedTexts embed;
  Load load;                         // empty: `model` for every model of the policy
  std::shared_ptr<ScriptedBackend> model;
  std::unique_ptr<observe::Registry> metrics;
  std::unique_ptr<Governance> governance;

 private:
  std::string folder_;
  Clock& clock_;
};

}  // namespace surety::gateway
