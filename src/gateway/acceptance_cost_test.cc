// governance.md, acceptance test 11: what the log, the ledger, the series and the callers say was spent is what a meter
// at the models counted, whatever happened to the answers; and buckets of tokens add up to their totals.
#include <algorithm>
#include <mutex>
#include <sstream>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gateway/remote_backend.h"
#include "gateway/testing/acceptance_bank.h"
#include "gateway/testing/audit_folder.h"
#include "gateway/testing/scripted_server.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

// What the models were really used for, by who made the answers.
struct CostMeter {
  int64_t fresh = 0, cached = 0, output = 0, drafted = 0, accepted = 0;
  double Money() const {
    return static_cast<double>(fresh) * 0.001 + static_cast<double>(cached) * 0.0001 +
           static_cast<double>(output) * 0.01;
  }
};

double SumOfSeries(const std::string& exposed, const std::string& name) {
  double sum = 0;
  std::istringstream lines(exposed);
  for (std::string line; std::getline(lines, line);) {
    const bool named = line.starts_with(name + "{") || line.starts_with(name + " ");
    if (named) sum += std::stod(line.substr(line.rfind(' ') + 1));
  }
  return sum;
}

class AcceptanceCostTest : public ::testing::Test {
 protected:
  AcceptanceCostTest() : bank_(folder_.path("bank"), clock_) {
    bank_.AddDocument({"fees", "1", "Fees", "The fee is 10 dollars.", {"public"}, {}, {}, {}, {}, "", ""});
  }
  AuditFolder folder_;
  WallClock clock_;
  AcceptanceBank bank_;
};

// A model that answers, promises, breaks, is late or refuses, in turn; `meter` counts what was really computed.
ScriptedBackend::Script MeteredScript(CostMeter& meter, std::mutex& mutex, int& n) {
  return [&](const api::GenerationRequest&) {
    const std::lock_guard lock(mutex);
    const int i = n++;
    ScriptedAnswer answer{.pieces = {i % 5 == 1 ? "We guarantee it." : "It is 10."}};
    const int cached = i % 3 * 16, fresh = 20 + i % 7;
    answer.usage = {cached + fresh, cached, 5 + i % 4, i % 2 == 0 ? 6 : 0, i % 2 == 0 ? 4 : 0};
    if (i % 11 == 3) answer.finish = api::FinishReason::kError, answer.error = InternalError("it broke");
    if (i % 11 == 7) answer.finish = api::FinishReason::kTimeout;
    if (i % 13 == 5) {   // nothing was computed
      answer.refusal = api::Refusal{ResourceExhaustedError("full"), "", 1, nullptr};
      return answer;
    }
    meter.fresh += fresh;
    meter.cached += cached;
    meter.output += answer.usage.output_tokens;
    meter.drafted += answer.usage.draft_tokens;
    meter.accepted += answer.usage.accepted_tokens;
    return answer;
  };
}

struct LoggedCost {
  CostMeter tokens;
  double total = 0, parts = 0, avoided = 0;
};

// Sums of the rows. The buckets of one row are disjoint, and a hit costs nothing.
LoggedCost LoggedIn(const std::vector<AuditRow>& rows) {
  LoggedCost sum;
  for (const AuditRow& row : rows) {
    const auto tokens = [&](const char* name) { return row.body.at("usage").at(name).to_number<int64_t>(); };
    const auto money = [&](const char* name) { return row.body.at("cost").at(name).to_number<double>(); };
    EXPECT_LE(tokens("cached_tokens"), tokens("prompt_tokens"));
    EXPECT_LE(tokens("accepted_tokens"), tokens("draft_tokens"));
    EXPECT_LE(tokens("accepted_tokens"), tokens("output_tokens"));
    sum.tokens.fresh += tokens("prompt_tokens") - tokens("cached_tokens");
    sum.tokens.cached += tokens("cached_tokens");
    sum.tokens.output += tokens("output_tokens");
    sum.tokens.drafted += tokens("draft_tokens");
    sum.tokens.accepted += tokens("accepted_tokens");
    sum.total += money("total");
    for (const char* part : {"prefill", "cached_prefill", "decode", "tools", "verify", "review"}) {
      sum.parts += money(part);
    }
    sum.avoided += row.body.at("avoided_cost").to_number<double>();
    EXPECT_TRUE(row.body.at("cache") != "hit" || money("total") == 0);
  }
  return sum;
}

TEST_F(AcceptanceCostTest, WhatIsSaidToBeSpentIsWhatTheMeterCounted) {
  CostMeter meter;
  std::mutex mutex;
  int n = 0;
  bank_.script = MeteredScript(meter, mutex, n);
  bank_.WritePolicy(
      Edited(BankPolicyText(),
             {{"promises: {kind: phrases, phrases: [we guarantee], fail: block",
               "promises: {kind: phrases, phrases: [we guarantee], fail: repair"},
              {"    cache: {mode: exact_then_semantic, intents: [fee], ttl: 100d, subject_bound: false}\n",
               "    cache: {mode: exact, ttl: 100d, subject_bound: false}\n    max_attempts: 2\n"
               "    fallback: [{to: agent, on: [timeout, overload, error]}]\n"},
              {"release: {audience: internal, mode: stream}", "release: {audience: internal, mode: held}"}}));
  const Status opened = bank_.Open();
  ASSERT_TRUE(opened.ok()) << opened.ToString();
  double told = 0;
  int64_t told_tokens = 0;
  int n_hits = 0, n_asked = 0;
  for (int i = 0; i < 120; ++i) {
    const char* kinds[] = {"What is the fee number {}?", "Tell the agent {}", "What are the hours {}?",
                           "I want a refund {}", "What is the fee number {}?"};
    const Reply reply = bank_.Ask(fmt::format(fmt::runtime(kinds[i % 5]), i % 5 == 4 ? 0 : i));
    ++n_asked;
    ASSERT_NE(reply.last.decision, nullptr);
    told += reply.decision().cost;
    told_tokens += reply.last.usage.prompt_tokens + reply.last.usage.output_tokens;
    n_hits += reply.decision().cache == "hit" ? 1 : 0;
  }
  EXPECT_GT(n_hits, 5);
  EXPECT_GT(n, 50);
  const std::vector<AuditRow> rows = bank_.Rows("decision");
  EXPECT_EQ(std::ssize(rows), n_asked);
  const LoggedCost logged = LoggedIn(rows);
  const CostMeter& l = logged.tokens;
  EXPECT_EQ(std::tie(l.fresh, l.cached, l.output, l.drafted, l.accepted),
            std::tie(meter.fresh, meter.cached, meter.output, meter.drafted, meter.accepted));
  const int64_t tokens = meter.fresh + meter.cached + meter.output;
  EXPECT_EQ(told_tokens, tokens);
  EXPECT_GT(logged.avoided, 0);
  const double metered = meter.Money();
  const json::object report = bank_.governance->Slo();
  const auto& identity = report.at("cost_identity").as_object();
  // The cost of an accepted task is all that was spent by those that were accepted.
  const json::object& all = report.at("all").at("windows").at("start").as_object();
  const double by_task =
      all.at("cost").at("per_accepted_task").to_number<double>() * all.at("accepted").to_number<double>();
  for (const double said : {logged.total, logged.parts, told, identity.at("total").to_number<double>(),
                            identity.at("sum_of_parts").to_number<double>(), by_task}) {
    EXPECT_NEAR(said, metered, 1e-9 * metered);
  }
  const std::string exposed = bank_.metrics->Expose();
  EXPECT_NEAR(SumOfSeries(exposed, "surety_task_cost_total"), metered, 1e-6 * metered);
  EXPECT_NEAR(SumOfSeries(exposed, "gen_ai_client_token_usage_sum"), static_cast<double>(tokens), 1e-6);
}

// A server counts reasoning inside its output: it is paid for once. The control is a server that does not reason.
TEST_F(AcceptanceCostTest, ReasoningTokensOfARemoteServerAreCountedOnce) {
  std::string details;
  ScriptedServer server([&](ScriptedConnection& connection) {
    ScriptedRequest request;
    while (connection.ReadRequest(request)) {
      if (request.target == "/v1/models") {
        const char* models = R"({"object":"list","data":[{"id":"far","owned_by":"vllm","max_model_len":4096}]})";
        if (!connection.Send(HttpOk(models))) return;
        continue;
      }
      const std::string events =
          "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"It is 10.\"},\"finish_reason\":\"stop\"}]}\n\n"
          "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":50,\"total_tokens\":150,"
          "\"prompt_tokens_details\":{\"cached_tokens\":64}" + details + "}}\n\ndata: [DONE]\n\n";
      if (!connection.Send(HttpChunked(events, 4096, "Content-Type: text/event-stream\r\n"))) return;
    }
  });
  const std::string remote = "engine: remote, model: far, api_base: \"" + server.Url("/v1") + "\"";
  bank_.WritePolicy(Edited(BankPolicyText(), {{"engine: local, weights: fast", remote}}));
  bank_.load = [](const ModelSpec& spec) -> Result<std::shared_ptr<api::Backend>> {
    SURETY_ASSIGN_OR_RETURN(RemoteOptions options, RemoteOptionsOf(spec, "."));
    SURETY_ASSIGN_OR_RETURN(auto made, MakeRemoteBackend(std::move(options)));
    return std::shared_ptr<api::Backend>(std::move(made));
  };
  const Status opened = bank_.Open();
  ASSERT_TRUE(opened.ok()) << opened.ToString();
  const double expected = 36 * 0.001 + 64 * 0.0001 + 50 * 0.01;
  EXPECT_NEAR(bank_.Ask("Tell the agent").decision().cost, expected, 1e-12);
  details = R"(,"completion_tokens_details":{"reasoning_tokens":40})";
  const Reply reply = bank_.Ask("Tell the agent");
  EXPECT_EQ(reply.last.usage.output_tokens, 50);
  EXPECT_NEAR(reply.decision().cost, expected, 1e-12);
}

}  // namespace
}  // namespace surety::gateway
