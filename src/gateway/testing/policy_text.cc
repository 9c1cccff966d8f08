#include "gateway/testing/policy_text.h"

#include "base/check.h"

namespace surety::gateway::policy_text {

Result<std::unique_ptr<MappedFile>> MemoryFiles::Map(const std::string& path) {
  SURETY_ASSIGN_OR_RETURN(const std::string all, ReadAll(path, INT64_MAX));
  return MakeMemoryFile(path, std::as_bytes(std::span(all)));
}

Result<std::string> MemoryFiles::ReadAll(const std::string& path, int64_t max_size_bytes) {
  const auto found = contents.find(path);
  if (found == contents.end()) return Error(NotFoundError("'" + path + "': no such file"));
  if (static_cast<int64_t>(found->second.size()) > max_size_bytes) {
    return Error(InvalidArgumentError("'" + path + "': too large"));
  }
  return found->second;
}

Status MemoryFiles::WriteAll(const std::string& path, std::string_view text) {
  contents[path] = std::string(text);
  return OkStatus();
}

Result<std::vector<std::string>> MemoryFiles::List(const std::string&) { return std::vector<std::string>{}; }

std::string GoodPolicyText() {
  return R"(policy: {id: good, version: 2026.1, effective_from: 2026-01-01T00:00:00Z, effective_to: 2027-01-01,
         max_attempts: 4}
identity:
  tenant: {from: token.claim, claim: tid, required: true}
  permissions: {from: token.claim, claim: perms, required: true}
  region: {from: token.claim, claim: rgn, values: [US-NY, US-CA]}
  product: {from: request.metadata, values: [checking, savings]}
  language: {from: request.metadata, key: lang, values: [en, es]}
  eligibility: {from: tool.profile, field: class}
  effective_date: {from: clock, granularity: day}
models:
  fast: {engine: local, weights: small, residency: [US], output_cost_per_token: 0.001, input_cost_per_token: 0.0001}
  strong: {engine: local, weights: big, residency: [US], output_cost_per_token: 0.001, input_cost_per_token: 0.0001}
retrievers:
  handbook: {index: handbook.db, top_k: 4, deadline: 500ms}
tools:
  profile: {kind: read, url: "http://127.0.0.1:9/profile", arguments: [subject, tenant], deadline: 300ms}
  ledger: {kind: read, url: "http://127.0.0.1:9/ledger", deadline: 300ms}
invariants:
  - {name: agree, when: profile.state == closed, require: ledger.closed}
signals:
  intent:
    by: phrases
    labels: {hours: [opening hours], card: [where is my card], loan: [loan question]}
    groups: {faq: [hours, card]}
  rights: {by: phrases, phrases: rights.txt}
  amount: {by: pattern, pattern: 'usd (\d+)', number: true}
  channel: {by: metadata, values: [app, branch]}
risk:
  base: low
  rules:
    - {when: {intent: [loan, abstained]}, level: medium}
    - {when: {rights: true}, level: high}
    - {when: {amount: {above: 10000}}, level: high}
    - {when: {amount: abstained}, level: high}
complexity:
  rules:
    - {when: {channel: branch}, level: medium}
verifiers:
  citations: {kind: citations, fail: block, deadline: 1s}
  promises: {kind: phrases, phrases: [we guarantee], fail: review, deadline: 1s}
  codes: {kind: table, table: codes.json, fail: review, deadline: 1s}
templates:
  faq:
    version: 7
    effective_from: 2025-01-01
    texts: {hours: We open at nine., card: "It is on its way, {product}."}
routes:
  - name: controlled
    when: {risk: high}
    model: strong
    system: Answer from the passages.
    retrieve: handbook
    tools: [profile, ledger]
    invariants: [agree]
    verify: [citations, promises, codes]
    release: {audience: customer, mode: held, review: desk}
    context: normal
    max_attempts: 2
    max_output_tokens: 500
    deadline: 10s
    fallback: [{to: otherwise, on: [any]}]
  - name: ready
    when: {risk: low, intent.group: faq}
    answer: template
    template: faq
    cache: {mode: exact, ttl: 6h, subject_bound: false}
    release: {audience: customer}
  - name: advice
    when: {risk: {at_least: medium}, complexity: low, permissions: staff}
    model: fast
    system: Answer briefly.
    retrieve: handbook
    verify: [citations, promises]
    cache: {mode: exact, ttl: 1h}
    release: {audience: internal, mode: stream}
    context: normal
    max_output_tokens: 500
    deadline: 10s
    fallback: [{to: careful, on: [timeout, error]}]
  - name: careful
    when: {risk: medium}
    model: strong
    verify: [citations, promises]
    cache: {mode: exact_then_semantic, intents: [loan], similarity: 0.97}
    release: {audience: internal, mode: held}
    queue: desk
    context: normal
    max_output_tokens: 500
    deadline: 10s
  - {name: otherwise, when: always, answer: human, queue: desk}
context:
  normal: {max_input_tokens: 4000, reserve_output_tokens: 500, cite_tokens: 2000, history_tokens: 1000,
           forbidden: [ssn]}
budgets:
  - {scope: tenant, max_budget: 100, budget_duration: 1d}
  - {scope: model, only: fast, rpm_limit: 100, tpm_limit: 100000}
cache: {size: 8MB}
slo:
  advice: {ttfu_p95: 1500ms, total_p99: 20s, error_budget: 0.5%}
review:
  desk: {lease: 5m, exclude: [author], approvals: 2}
)";
}

MemoryFiles GoodPolicyFiles() {
  MemoryFiles files;
  files.contents["p/rights.txt"] = "# rights\ndispute\r\n  not my transaction \n\n";
  files.contents["p/codes.json"] = R"({"name": "codes", "version": "1", "source": "the network's list",
    "checked_on": "2026-01-01", "pattern": "R\\d\\d", "codes": [
      {"code": "R01", "titles": ["old"], "effective_from": "2020-01-01", "effective_to": "2026-07-01"},
      {"code": "R01", "titles": ["new"], "effective_from": "2026-07-01"},
      {"code": "R02", "titles": ["closed"], "effective_from": "2019-01-01"}]})";
  return files;
}

std::string EditedPolicyText(const Edits& edits) {
  std::string text = GoodPolicyText();
  for (const auto& [before, after] : edits) {
    const size_t at = text.find(before);
    SURETY_CHECK_MSG(at != std::string::npos && text.find(before, at + 1) == std::string::npos, std::string(before));
    text.replace(at, before.size(), after);
  }
  return text;
}

Result<Policy> ReadEdited(const Edits& edits) {
  MemoryFiles files = GoodPolicyFiles();
  return ReadPolicyText(files, "p/policy.yaml", EditedPolicyText(edits));
}

}  // namespace surety::gateway::policy_text
