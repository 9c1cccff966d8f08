#include "gateway/testing/acceptance_bank.h"

#include <algorithm>
#include <filesystem>
#include <span>

#include <boost/json.hpp>

#include "base/check.h"
#include "base/file.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr std::string_view kBankPolicy = R"(policy: {id: bank, version: "1", effective_from: 2025-01-01}
identity:
  tenant: {from: token.claim, claim: tenant, required: true}
  permissions: {from: token.claim, claim: permissions, required: true}
  region: {from: token.claim, claim: region}
  eligibility: {from: token.claim, claim: eligibility}
  product: {from: request.metadata, key: product, values: [checking, savings]}
  language: {from: request.metadata, key: language, values: [en, es]}
  policy_version: {from: policy}
  effective_date: {from: clock}
models:
  fast: {engine: local, weights: fast, input_cost_per_token: 0.001, output_cost_per_token: 0.01,
         cache_read_input_token_cost: 0.0001}
retrievers:
  handbook: {index: handbook.db, top_k: 4, deadline: 20s}
tools:
  account: {kind: read, READ, arguments: [customer], deadline: 20s}
  refund: {kind: write, WRITE, arguments: [customer, amount], approval: four_eyes, deadline: 20s}
signals:
  intent:
    by: phrases
    labels: {fee: [fee], refund: [refund], hours: [hours], secret: [secret], agent: [agent]}
risk:
  base: low
  rules:
    - {when: {intent: refund}, level: high}
verifiers:
  promises: {kind: phrases, phrases: [we guarantee], fail: block, deadline: 20s}
templates:
  faq: {version: "1", texts: {default: "We are open from 9 to 5."}}
routes:
  - name: refund
    when: {intent: refund}
    answer: model
    model: fast
    system: Answer from the account.
    tools: [account, refund]
    verify: [promises]
    release: {audience: customer, mode: held, review: desk}
    context: normal
  - name: fee
    when: {intent: fee}
    queue: desk
    model: fast
    system: Answer from the passages.
    retrieve: handbook
    verify: [promises]
    cache: {mode: exact_then_semantic, intents: [fee], ttl: 100d, subject_bound: false}
    context: normal
  - {name: hours, when: {intent: hours}, answer: template, template: faq}
  - name: secret
    when: {intent: secret, permissions: sar}
    queue: desk
    model: fast
    retrieve: handbook
    verify: [promises]
    cache: {mode: exact, ttl: 1d}
    release: {audience: customer, mode: held}
    context: normal
  - name: agent
    when: {intent: agent}
    queue: desk
    model: fast
    verify: [promises]
    release: {audience: internal, mode: stream}
    context: normal
  - {name: otherwise, when: always, answer: human, queue: desk}
context:
  normal: {max_input_tokens: 40000, reserve_output_tokens: 1024, cite_tokens: 20000, history_tokens: 5000}
cache: {size: 8MB, shadow: 0%}
review:
  desk: {lease: 10m, approvals: 2, permission: desk, exclude: [author], reasons_required: true}
)";

}  // namespace

std::string Edited(std::string text, const std::vector<std::pair<std::string_view, std::string_view>>& edits) {
  for (const auto& [before, after] : edits) {
    const size_t at = text.find(before);
    SURETY_CHECK_MSG(at != std::string::npos && text.find(before, at + 1) == std::string::npos, std::string(before));
    text.replace(at, before.size(), after);
  }
  return text;
}

std::string BankPolicyText(const std::string& tools) {
  const bool command = tools.starts_with("[");
  const std::string read = command ? R"(command: [/bin/echo, '{"open": true}'])" : "url: \"" + tools + "/account\"";
  const std::string write = command ? "command: " + tools : "url: \"" + tools + "/refund\"";
  return Edited(std::string(kBankPolicy), {{"READ", read}, {"WRITE", write}});
}

AcceptanceBank::AcceptanceBank(std::string folder, Clock& clock) : folder_(std::move(folder)), clock_(clock) {
  std::filesystem::create_directories(folder_);
  script = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"An ", "answer."}}; };
}

AcceptanceBank::~AcceptanceBank() { Close(); }

void AcceptanceBank::Write(const std::string& name, std::string_view text) const {
  const Status written = FileSystem::Real().WriteAll(path(name), text);
  SURETY_CHECK_MSG(written.ok(), written.ToString());
}

void AcceptanceBank::AddDocument(const Document& document) const {
  auto store = DocumentStore::Open(path("handbook.db"), false);
  SURETY_CHECK_MSG(store.has_value(), store ? "" : store.error().ToString());
  const auto added = (*store)->Add(document, {});
  SURETY_CHECK_MSG(added.has_value(), added ? "" : added.error().ToString());
}

Status AcceptanceBank::Open() {
  metrics = observe::Registry::Make();
  model = std::make_shared<ScriptedBackend>([this](const api::GenerationRequest& request) { return script(request); });
  Governance::Options options;
  options.policy_path = path("policy.yaml");
  options.n_workers = 4;
  options.load = [this](const ModelSpec& spec) -> Result<std::shared_ptr<api::Backend>> {
    if (load) return load(spec);
    return std::shared_ptr<api::Backend>(model);
  };
  options.embed = embed;
  options.files = &FileSystem::Real();
  options.clock = &clock_;
  options.metrics = metrics.get();
  SURETY_ASSIGN_OR_RETURN(governance, Governance::Open(std::move(options)));
  return OkStatus();
}

void AcceptanceBank::Close() {
  governance.reset();
  model.reset();
}

api::Caller AcceptanceBank::Anna() {
  api::Caller caller;
  caller.subject = "anna";
  caller.claims = {{"tenant", "acme"}, {"permissions", json::array{"cases"}}, {"region", "US-NY"},
                   {"eligibility", "retail"}};
  caller.metadata = {{"product", "checking"}, {"language", "en"}, {"customer", "c1"}, {"amount", "25"}};
  return caller;
}

Reply AcceptanceBank::Ask(const std::string& question, api::Caller caller) {
  api::GenerationRequest request;
  request.messages.push_back(json::object{{"role", "user"}, {"content", question}});
  request.has_messages = true;
  request.caller = std::move(caller);
  request.sampling.temperature = 0;
  return AwaitReply(*governance->backend(), std::move(request));
}

Result<json::object> AcceptanceBank::Person(const std::string& name, const std::string& action,
                                            json::object arguments) {
  return governance->review().Handle({name, {"desk"}, "acme"}, action, arguments);
}

Result<json::object> AcceptanceBank::Approve(const std::string& decision, const std::string& name,
                                             const std::string& text) {
  SURETY_ASSIGN_OR_RETURN(const json::object list, Person(name, "list", {}));
  for (const json::value& one : list.at("data").as_array()) {
    if (one.at("decision").as_string() != decision) continue;
    const json::value id = one.at("id");
    SURETY_ASSIGN_OR_RETURN(json::object taken, Person(name, "lease", {{"id", id}, {"version", one.at("version")}}));
    if (!text.empty()) {
      SURETY_ASSIGN_OR_RETURN(taken, Person(name, "edit", {{"id", id}, {"version", taken.at("version")},
                                                           {"text", text}}));
      return Person(name, "release", {{"id", id}, {"version", taken.at("version")}});
    }
    return Person(name, "approve", {{"id", id}, {"version", taken.at("version")}, {"reason_code", "ok"}});
  }
  return Error(NotFoundError("no open ticket of " + decision));
}

json::object AcceptanceBank::State(const std::string& decision, const api::Caller& caller) {
  auto state = governance->StateOf(decision, caller);
  return state ? *std::move(state) : json::object{{"state", state.error().ToString()}};
}

std::vector<AuditRow> AcceptanceBank::Rows(std::string_view kind) const {
  std::vector<AuditRow> out;
  const Status read = ReadAuditLog(log(), [&](const AuditRow& row) {
    if (row.kind == kind) out.push_back(row);
    return true;
  });
  SURETY_CHECK_MSG(read.ok(), read.ToString());
  return out;
}

}  // namespace surety::gateway
