// Writes happen at most once: approvals, repeats, and a death of the process at every point between.
#include "gateway/tool_write.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/json.hpp>
#include <fstream>
#include <set>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "gateway/testing/fake_audit_log.h"
#include "gateway/testing/scripted_server.h"
#include "gateway/testing/test_certificates.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ToolWriteTest : public ::testing::Test {
 protected:
  // Each call leaves a line in a file: the effect in the world.
  ToolSpec Refund(const std::string& rest = "echo '{\"paid\":true}'") {
    ToolSpec spec;
    spec.kind = ToolSpec::Kind::kWrite;
    spec.by = ToolSpec::By::kCommand;
    spec.command = {folder_.Write("refund.sh", "#!/bin/sh\n/bin/cat >> " + effects() + "\necho >> " + effects() + "\n" +
                                                   rest, true)};
    spec.arguments = {"account", "amount"};
    spec.deadline_ns = 5'000'000'000;
    return spec;
  }
  std::unique_ptr<ToolRunner> Make(ToolSpec spec) const {
    Policy policy;
    policy.tools["refund"] = spec;
    policy.tools["other"] = spec;
    auto made = ToolRunner::Make(policy, folder_.path(), Clock::Real());
    EXPECT_TRUE(made.has_value()) << made.error().ToString();
    return *std::move(made);
  }
  std::string effects() const { return folder_.path() + "/effects"; }
  int n_effects() const {
    std::ifstream lines(effects());
    std::string line;
    int n = 0;
    while (std::getline(lines, line)) ++n;
    return n;
  }
  static ToolResult WriteOnce(ToolRunner& runner, AuditLog& audit, const std::string& case_id = "case-1",
                              const ToolArguments& arguments = {{"account", "A"}, {"amount", "10"}}) {
    return runner.Write("refund", case_id, "refund", arguments, {"ann"}, audit);
  }

  const TestFolder folder_;
};

TEST_F(ToolWriteTest, IntentBeforeOutcomeAfterAndARepeatIsTheRecordedOutcome) {
  const auto runner = Make(Refund());
  FakeAuditLog audit;
  audit.before_append = [&](std::string_view kind) {
    EXPECT_EQ(n_effects(), kind == "tool_intent" ? 0 : 1) << "the intent is there before, the outcome after";
    return OkStatus();
  };
  const ToolResult first = WriteOnce(*runner, audit);
  ASSERT_TRUE(first.status.ok()) << first.status.ToString();
  EXPECT_THAT(audit.kinds(), ElementsAre("tool_intent", "tool_outcome"));
  audit.before_append = nullptr;
  const ToolResult again = WriteOnce(*runner, audit);
  ASSERT_TRUE(again.status.ok()) << again.status.ToString();
  EXPECT_EQ(again.digest, first.digest);
  EXPECT_EQ(again.observed_at_ns, first.observed_at_ns);
  EXPECT_EQ(n_effects(), 1);
  EXPECT_EQ(audit.n_rows(), 2);
  EXPECT_TRUE(WriteOnce(*runner, audit, "case-2").status.ok()) << "another case is another write";
  EXPECT_TRUE(WriteOnce(*runner, audit, "case-1", {{"account", "A"}, {"amount", "11"}}).status.ok());
  EXPECT_EQ(n_effects(), 3);
  // What the tool said may be a customer's data: of it the log has a digest.
  const json::object outcome = audit.rows()[1].body;
  EXPECT_EQ(outcome.at("digest").as_string(), first.digest);
  EXPECT_FALSE(outcome.contains("value"));
  EXPECT_FALSE(outcome.contains("message"));
  const json::object intent = audit.rows()[0].body;
  EXPECT_EQ(intent.at("id").as_string(),
            IdempotencyKey("case-1", "refund", {{"account", "A"}, {"amount", "10"}}));
  EXPECT_EQ(intent.at("approvers").at(0), "ann");
  EXPECT_FALSE(json::serialize(intent).find("\"amount\"") != std::string::npos) << "arguments only as a digest";
  std::ifstream file(effects());
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(json::parse(line).at("idempotency_key"), intent.at("id"));
  EXPECT_EQ(json::parse(line).at("arguments").at("amount"), "10");
}

TEST_F(ToolWriteTest, ApprovalsAndArgumentsAreCheckedBeforeAnything) {
  ToolSpec four = Refund();
  four.four_eyes = true;
  const auto one = Make(Refund());
  const auto two = Make(four);
  FakeAuditLog audit;
  const ToolArguments good = {{"account", "A"}};
  const auto code = [&](ToolRunner& runner, const std::vector<std::string>& approvers, const ToolArguments& arguments) {
    return runner.Write("refund", "c", "s", arguments, approvers, audit).status.code();
  };
  EXPECT_EQ(code(*one, {}, good), StatusCode::kPermissionDenied);
  EXPECT_EQ(code(*one, {"", " "}, good), StatusCode::kPermissionDenied);
  EXPECT_EQ(code(*two, {"ann"}, good), StatusCode::kPermissionDenied);
  EXPECT_EQ(code(*two, {"ann", "ann"}, good), StatusCode::kPermissionDenied);
  EXPECT_EQ(code(*two, {"ann", "Ann "}, good), StatusCode::kPermissionDenied) << "one person in two spellings";
  EXPECT_EQ(code(*one, {"ann"}, {{"account", "A"}, {"memo", "x"}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(one->Write("refund", "", "s", good, {"ann"}, audit).status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(one->Write("refnud", "c", "s", good, {"ann"}, audit).status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(n_effects(), 0);
  EXPECT_EQ(audit.n_rows(), 0);
  EXPECT_EQ(code(*two, {"ann", "bob"}, good), StatusCode::kOk);
  EXPECT_EQ(n_effects(), 1);
}

TEST_F(ToolWriteTest, ALogThatFailsStopsTheWriteOrLeavesItUnknown) {
  const auto runner = Make(Refund());
  FakeAuditLog audit;
  audit.before_append = [](std::string_view kind) { return kind == "tool_intent" ? IoError("full") : OkStatus(); };
  EXPECT_EQ(WriteOnce(*runner, audit).status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(n_effects(), 0) << "no intent, no call";
  audit.before_append = [](std::string_view kind) { return kind == "tool_outcome" ? IoError("full") : OkStatus(); };
  EXPECT_THAT(WriteOnce(*runner, audit).status.message(), HasSubstr("reconcile"));
  EXPECT_EQ(n_effects(), 1);
  audit.before_append = nullptr;
  EXPECT_THAT(WriteOnce(*runner, audit).status.message(), HasSubstr("reconcile"));
  EXPECT_EQ(n_effects(), 1) << "and it is not called again";
}

TEST_F(ToolWriteTest, ManyAtOnceAreOneWrite) {
  const auto runner = Make(Refund("/bin/sleep 0.05\necho '{\"paid\":true}'"));
  FakeAuditLog audit;
  std::atomic<int> n_ok{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { n_ok += WriteOnce(*runner, audit).status.ok() ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_ok, 8);
  EXPECT_EQ(n_effects(), 1);
  EXPECT_EQ(audit.n_rows(), 2);
}

TEST_F(ToolWriteTest, AStepIsOfOneTool) {
  const auto runner = Make(Refund());
  FakeAuditLog audit;
  ASSERT_TRUE(WriteOnce(*runner, audit).status.ok());
  const ToolResult other = runner->Write("other", "case-1", "refund", {{"account", "A"}, {"amount", "10"}}, {"ann"},
                                         audit);
  EXPECT_EQ(other.status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(n_effects(), 1);
}

TEST_F(ToolWriteTest, LateAndFailingProgramsAreUnknownAndNeverCalledAgain) {
  for (const char* rest : {"/bin/sleep 30", "exit 1", "kill -9 $$"}) {
    std::ofstream(effects(), std::ios::trunc);
    ToolSpec spec = Refund(rest);
    spec.deadline_ns = 300'000'000;
    const auto runner = Make(spec);
    FakeAuditLog audit;
    for (int i = 0; i < 2; ++i) {
      const ToolResult result = WriteOnce(*runner, audit);
      EXPECT_EQ(result.status.code(), StatusCode::kUnavailable) << rest;
      EXPECT_THAT(result.status.message(), HasSubstr("reconcile")) << rest;
    }
    EXPECT_EQ(n_effects(), 1) << rest;
    EXPECT_EQ(audit.rows().back().body.at("state"), "unknown");
    // An operator has found out what happened.
    const json::value id = audit.rows()[0].body.at("id");
    ASSERT_TRUE(audit.Append("tool_outcome", {{"id", id}, {"state", "done"}, {"code", "OK"},
                                              {"value", R"({"paid":true})"}}).has_value());
    EXPECT_TRUE(WriteOnce(*runner, audit).status.ok());
    EXPECT_EQ(n_effects(), 1) << rest;
  }
}

// The process dies at a point of the write; then a new one tries the same write.
TEST_F(ToolWriteTest, ADeathAtEveryPointIsOneEffectOrAnExplicitUnknown) {
  struct Row {
    const char* where;
    const char* kind;
    bool before;
    int effects_then;      // when the process died
    int effects_after;     // when the new one has tried
    bool ok;               // the new one has a result
  };
  for (const Row& row : {Row{"before the intent", "tool_intent", true, 0, 1, true},
                         Row{"between intent and call", "tool_intent", false, 0, 0, false},
                         Row{"between call and outcome", "tool_outcome", true, 1, 1, false},
                         Row{"after the outcome", "tool_outcome", false, 1, 1, true}}) {
    std::ofstream(effects(), std::ios::trunc);
    const std::string log = folder_.path() + "/audit.jsonl";
    std::ofstream(log, std::ios::trunc);
    const ToolSpec spec = Refund();
    const pid_t child = ::fork();
    if (child == 0) {
      FakeAuditLog audit(log);
      const auto die = [&](std::string_view kind) {
        if (kind == row.kind) ::_exit(9);
      };
      if (row.before) {
        audit.before_append = [&](std::string_view kind) {
          die(kind);
          return OkStatus();
        };
      } else {
        audit.after_append = die;
      }
      (void)WriteOnce(*Make(spec), audit);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(WEXITSTATUS(status), 9) << row.where << ": it died there";
    EXPECT_EQ(n_effects(), row.effects_then) << row.where;
    FakeAuditLog audit(log);
    const auto runner = Make(spec);
    for (int i = 0; i < 2; ++i) {
      const ToolResult result = WriteOnce(*runner, audit);
      EXPECT_EQ(result.status.ok(), row.ok) << row.where << ": " << result.status.ToString();
      if (!row.ok) {
        EXPECT_EQ(result.status.code(), StatusCode::kUnavailable) << row.where;
        EXPECT_THAT(result.status.message(), HasSubstr("reconcile")) << row.where;
      }
    }
    EXPECT_EQ(n_effects(), row.effects_after) << row.where;
  }
}

// RFC 9110: by these the server says that it did not do it; all others may stand at something that was done.
TEST_F(ToolWriteTest, OverHttpOnlyARefusalIsRefusedAndDoneIsDone) {
  std::string status, body;
  ScriptedServer server([&](ScriptedConnection& connection) {
    ScriptedRequest request;
    while (connection.ReadRequest(request)) connection.Send(HttpOk(body, {}, status));
  });
  ToolSpec spec;
  spec.kind = ToolSpec::Kind::kWrite;
  spec.url = server.Url("/refunds");
  spec.arguments = {"account", "amount"};
  spec.deadline_ns = 3'000'000'000;
  const auto runner = Make(spec);
  FakeAuditLog audit;
  const std::set<int> refusals = {400, 401, 403, 404, 405, 410, 413, 415, 422, 429};
  for (const int code : {300, 301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412,
                         413, 415, 418, 422, 423, 424, 425, 428, 429, 431, 451, 499, 500, 502, 503, 504}) {
    status = std::to_string(code) + " Said";
    body = R"({"id":7})";
    EXPECT_FALSE(WriteOnce(*runner, audit, "case-" + std::to_string(code)).status.ok()) << code;
    EXPECT_EQ(audit.rows().back().body.at("state"), refusals.contains(code) ? "refused" : "unknown") << code;
  }
  const std::pair<const char*, const char*> done[] = {
      {"200 OK", "{\"id\":7}"}, {"200 OK", "OK"}, {"200 OK", ""}, {"201 Created", "[1]"}, {"202 Accepted", "{\"id\""},
      {"200 OK", R"({"observed_at":"yesterday"})"}};
  int n = 0;
  for (const auto& [said, text] : done) {
    status = said;
    body = text;
    const ToolResult result = WriteOnce(*runner, audit, "done-" + std::to_string(++n));
    EXPECT_TRUE(result.status.ok()) << said << " " << text << ": " << result.status.ToString();
    EXPECT_TRUE(result.value.is_object()) << text;
    EXPECT_EQ(audit.rows().back().body.at("state"), "done") << text;
  }
  const auto program = Make(Refund("echo OK"));
  EXPECT_TRUE(WriteOnce(*program, audit, "program").status.ok());
  EXPECT_EQ(audit.rows().back().body.at("state"), "done");
  const auto failing = Make(Refund("exit 3"));
  EXPECT_FALSE(WriteOnce(*failing, audit, "failing").status.ok());
  EXPECT_EQ(audit.rows().back().body.at("state"), "unknown");
}

TEST_F(ToolWriteTest, OverHttpOnlyWhatNeverLeftMayBeTriedAgain) {
  std::string status = "200 OK";
  std::atomic<bool> close{false};
  ScriptedServer server([&](ScriptedConnection& connection) {
    ScriptedRequest request;
    while (connection.ReadRequest(request)) {
      if (close) return;
      connection.Send(HttpOk(R"({"id":7})", {}, status));
    }
  });
  ToolSpec spec;
  spec.kind = ToolSpec::Kind::kWrite;
  spec.url = server.Url("/refunds/{account}");
  spec.arguments = {"account", "amount"};
  spec.deadline_ns = 3'000'000'000;
  const auto runner = Make(spec);
  FakeAuditLog audit;
  const ToolResult done = WriteOnce(*runner, audit);
  ASSERT_TRUE(done.status.ok()) << done.status.ToString();
  EXPECT_EQ(done.value.at("id"), 7);
  const ScriptedRequest request = server.requests().at(0);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/refunds/A");
  EXPECT_EQ(request.body, R"({"amount":"10"})");
  EXPECT_EQ(request.headers.at("idempotency-key"), IdempotencyKey("case-1", "refund",
                                                                  {{"account", "A"}, {"amount", "10"}}));
  int n = 1;
  const auto expect = [&](const std::string& case_id, const char* state, const char* message) {
    for (int i = 0; i < 2; ++i) {
      const ToolResult result = WriteOnce(*runner, audit, case_id);
      EXPECT_FALSE(result.status.ok());
      const bool recorded = i == 1 && std::string_view(state) == "refused";  // what was said is not in the log
      EXPECT_THAT(result.status.message(), HasSubstr(recorded ? "as recorded" : message));
      EXPECT_EQ(audit.rows().back().body.at("state"), state);
    }
    EXPECT_EQ(server.requests().size(), static_cast<size_t>(++n)) << "asked once";
  };
  status = "422 no";
  expect("refused", "refused", "422");
  status = "500 no";
  expect("broken", "unknown", "reconcile");
  close = true;
  expect("lost", "unknown", "reconcile");
  ToolSpec away = spec;
  {
    ScriptedServer gone([](ScriptedConnection&) {});
    away.url = gone.Url();
  }
  const auto nobody = Make(away);
  for (int i = 1; i <= 2; ++i) {
    EXPECT_EQ(WriteOnce(*nobody, audit, "away").status.code(), StatusCode::kUnavailable);
    EXPECT_EQ(audit.rows().back().body.at("state"), "not_sent") << "no connection: it may be tried again";
    EXPECT_EQ(std::ranges::count(audit.kinds(), "tool_intent"), 4 + i);
  }
}

TEST(IdempotencyKeyTest, DiffersWithEveryPartAndIgnoresOrder) {
  const std::string base = IdempotencyKey("c", "s", {{"a", "1"}, {"b", "2"}});
  EXPECT_EQ(base, IdempotencyKey("c", "s", {{"b", "2"}, {"a", "1"}}));
  EXPECT_EQ(base.size(), 64u);
  for (const std::string& other :
       {IdempotencyKey("d", "s", {{"a", "1"}, {"b", "2"}}), IdempotencyKey("c", "t", {{"a", "1"}, {"b", "2"}}),
        IdempotencyKey("c", "s", {{"a", "1"}}), IdempotencyKey("c", "s", {{"a", "2"}, {"b", "1"}}),
        IdempotencyKey("cs", "", {{"a", "1"}, {"b", "2"}}), IdempotencyKey("", "cs", {{"a", "1"}, {"b", "2"}})}) {
    EXPECT_NE(other, base);
  }
}

}  // namespace
}  // namespace surety::gateway
