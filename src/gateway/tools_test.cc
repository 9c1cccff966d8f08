// Tools side by side: time, arguments as data, programs that misbehave.
#include "gateway/tools.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/testing/scripted_server.h"
#include "gateway/testing/test_certificates.h"
#include "gateway/tool_time.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

constexpr int64_t kToolMs = 1'000'000;

int64_t ToolDeadline(int64_t ms) { return Clock::Real().NowNanos() + ms * kToolMs; }

// What an attacker would like to be more than data.
const char* const kHostileTexts[] = {
    "'; DROP TABLE cases; --", "\" OR \"\"=\"", "$(touch /tmp/owned)", "`id`", "; reboot", "a\r\nX-Evil: 1", "a\nb",
    "../../etc/passwd", "%2e%2e%2f", "{case}", "\"}, {\"admin\": true", "\\", "?x=y#z&w", "\xe2\x80\xae" "evil",
    "' UNION SELECT secret FROM keys --", ":case", "$1", "<script>", "\x7f\x01"};

class ToolsTest : public ::testing::Test {
 protected:
  ToolSpec Script(const std::string& name, const std::string& text, int64_t deadline_ms = 5000) {
    ToolSpec spec;
    spec.by = ToolSpec::By::kCommand;
    spec.command = {folder_.Write(name + ".sh", "#!/bin/sh\n" + text, true)};
    spec.deadline_ns = deadline_ms * kToolMs;
    return spec;
  }
  static ToolSpec Http(const std::string& url, std::vector<std::string> arguments = {}, int64_t deadline_ms = 5000) {
    ToolSpec spec;
    spec.url = url;
    spec.arguments = std::move(arguments);
    spec.deadline_ns = deadline_ms * kToolMs;
    return spec;
  }
  void Make(std::map<std::string, ToolSpec> tools) {
    policy_.tools = std::move(tools);
    auto made = ToolRunner::Make(policy_, folder_.path(), Clock::Real());
    ASSERT_TRUE(made.has_value()) << made.error().ToString();
    runner_ = *std::move(made);
  }
  ToolResult One(const std::string& name, const ToolArguments& arguments = {}, int64_t ms = 10'000) {
    return runner_->Gather({name}, arguments, ToolDeadline(ms)).at(0);
  }

  const TestFolder folder_;
  Policy policy_;
  std::unique_ptr<ToolRunner> runner_;
};

ScriptedServer::Script AnswerAfter(int ms, std::string body) {
  return [ms, body](ScriptedConnection& connection) {
    ScriptedRequest request;
    while (connection.ReadRequest(request)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
      if (!connection.Send(HttpOk(body))) return;
    }
  };
}

TEST_F(ToolsTest, ThreeToolsTakeAsLongAsTheSlowest) {
  ScriptedServer fast(AnswerAfter(300, R"({"a":1})")), slow(AnswerAfter(900, R"({"c":3})"));
  Make({{"fast", Http(fast.Url())}, {"slow", Http(slow.Url())},
        {"middle", Script("middle", "/bin/sleep 0.4\necho '{\"b\":2}'")}});
  const int64_t begun = Clock::Real().NowNanos();
  const auto results = runner_->Gather({"slow", "middle", "fast"}, {}, ToolDeadline(5000));
  const int64_t took = Clock::Real().NowNanos() - begun;
  ASSERT_EQ(results.size(), 3u);
  for (const ToolResult& result : results) EXPECT_TRUE(result.status.ok()) << result.status.ToString();
  EXPECT_EQ(results[0].value.at("c"), 3) << "in the order of the names";
  EXPECT_EQ(results[1].value.at("b"), 2);
  EXPECT_EQ(results[2].value.at("a"), 1);
  EXPECT_GE(took, 900 * kToolMs);
  EXPECT_LT(took, 1300 * kToolMs) << "one after the other they would take 1.6 s";
  EXPECT_GE(results[2].latency_ns, 300 * kToolMs);
  EXPECT_EQ(results[0].digest, ToolDigest(json::parse(R"({"c":3})")));
}

TEST_F(ToolsTest, EachDeadlineCountsAndLateOnesAreNotWaitedFor) {
  ScriptedServer slow(AnswerAfter(3000, "{}")), fast(AnswerAfter(0, "{}"));
  Make({{"slow", Http(slow.Url(), {}, 100)}, {"fast", Http(fast.Url())}, {"long", Http(slow.Url())}});
  int64_t begun = Clock::Real().NowNanos();
  auto results = runner_->Gather({"slow", "fast"}, {}, ToolDeadline(5000));
  EXPECT_LT(Clock::Real().NowNanos() - begun, 1500 * kToolMs);
  EXPECT_EQ(results[0].status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(results[1].status.ok());
  begun = Clock::Real().NowNanos();
  results = runner_->Gather({"long"}, {}, ToolDeadline(100));
  EXPECT_EQ(results[0].status.code(), StatusCode::kDeadlineExceeded) << "the deadline of all together";
  runner_.reset();
  EXPECT_LT(Clock::Real().NowNanos() - begun, 1500 * kToolMs) << "nor does the end wait";
}

TEST_F(ToolsTest, OnlyListedToolsAndArgumentsAreCalled) {
  ScriptedServer server(AnswerAfter(0, "{}"));
  ToolSpec write = Http(server.Url());
  write.kind = ToolSpec::Kind::kWrite;
  Make({{"rail_status", Http(server.Url("/r"), {"case"})}, {"core", Http(server.Url("/c"), {"account"})},
        {"refund", write}});
  EXPECT_EQ(One("rail_status", {{"case", "1"}, {"amount", "9"}}).status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(One("rail_status", {{"Case", "1"}}).status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(One("rail_statsu").status.message(), HasSubstr("did you mean 'rail_status'?"));
  EXPECT_EQ(One("refund").status.code(), StatusCode::kPermissionDenied) << "a write is no read";
  EXPECT_EQ(server.requests().size(), 0u);
  const auto both = runner_->Gather({"rail_status", "core"}, {{"case", "1"}, {"account", "2"}}, ToolDeadline(5000));
  EXPECT_TRUE(both[0].status.ok() && both[1].status.ok());
  for (const ScriptedRequest& request : server.requests()) {
    EXPECT_EQ(request.body, request.target == "/r" ? R"({"case":"1"})" : R"({"account":"2"})") << "each its own";
  }
}

TEST_F(ToolsTest, ArgumentsStayDataInAddressesAndBodies) {
  ScriptedServer server(AnswerAfter(0, R"({"ok":true})"));
  Make({{"path", Http(server.Url("/case/{case}/state?q={text}"), {"case", "text"})},
        {"body", Http(server.Url("/body"), {"case", "text"})}});
  for (const char* hostile : kHostileTexts) {
    const size_t before = server.requests().size();
    // Behind the ? everything can stand; in the path /, \ and % are refused, for servers decode them into steps.
    const bool steps = std::string_view(hostile).find_first_of("/\\%") != std::string_view::npos;
    if (steps) {
      const ToolResult result = One("path", {{"case", hostile}, {"text", "x"}});
      EXPECT_EQ(result.status.code(), StatusCode::kInvalidArgument) << hostile;
      EXPECT_EQ(server.requests().size(), before) << hostile;
    }
    ASSERT_TRUE(One("path", {{"case", steps ? "1" : hostile}, {"text", hostile}}).status.ok()) << hostile;
    ASSERT_TRUE(One("body", {{"case", "1"}, {"text", hostile}}).status.ok()) << hostile;
    const auto requests = server.requests();
    ASSERT_EQ(requests.size(), before + 2) << hostile;
    const std::string target = requests[before].target;
    EXPECT_EQ(requests[before].method, "GET");
    EXPECT_EQ(std::ranges::count(target, '/'), 3) << target;
    EXPECT_EQ(std::ranges::count(target, '?'), 1) << target;
    EXPECT_EQ(target.find_first_of("\r\n '\"{}<>#&;$`\\"), std::string::npos) << target;
    EXPECT_FALSE(requests[before].headers.contains("x-evil"));
    EXPECT_EQ(requests[before + 1].method, "POST");
    EXPECT_EQ(json::parse(requests[before + 1].body).at("text"), hostile);
    EXPECT_EQ(json::parse(requests[before + 1].body).as_object().size(), 2u);
  }
  for (const char* dots : {"", ".", ".."}) {
    EXPECT_EQ(One("path", {{"case", dots}, {"text", "x"}}).status.code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(One("path", {{"case", "1"}}).status.code(), StatusCode::kInvalidArgument) << "text is missing";
}

TEST_F(ToolsTest, WhatIsNoObjectIsNoResult) {
  std::string body;
  std::string status = "200 OK";
  ScriptedServer server(ScriptedServer::Answering([&](const ScriptedRequest&) { return HttpOk(body, {}, status); }));
  Make({{"t", Http(server.Url())}});
  for (const char* bad : {"", "[]", "1", "null", "{", "{}{}", "text", R"({"a":1,"a":2})"}) {
    body = bad;
    EXPECT_EQ(One("t").status.code(), StatusCode::kInvalidArgument) << bad;
  }
  body = "{}";
  EXPECT_TRUE(One("t").status.ok());
  status = "503 no";
  EXPECT_EQ(One("t").status.code(), StatusCode::kUnavailable);
  status = "302 Found";
  EXPECT_EQ(One("t").status.code(), StatusCode::kUnavailable) << "redirects are not followed";
  status = "200 OK";
  body = "{\"x\":\"" + std::string(2 << 20, 'x') + "\"}";
  EXPECT_EQ(One("t").status.code(), StatusCode::kInvalidArgument);
}

TEST_F(ToolsTest, ProgramsGetArgumentsOnInputAndNothingElse) {
  ::setenv("SURETY_TOOL_SECRET", "leak", 1);
  const int leaked = ::open("/dev/null", O_RDONLY);   // without close-on-exec
  ASSERT_EQ(::dup2(leaked, 137), 137);
  ToolSpec echo = Script("echo", "/bin/cat");
  echo.arguments = {"case", "text"};
  Make({{"echo", echo},
        {"around", Script("around", "o=no\n[ -e /proc/self/fd/137 ] && o=yes\n"
                                    "echo \"{\\\"env\\\":\\\"${SURETY_TOOL_SECRET:-none}\\\",\\\"open\\\":\\\"$o\\\","
                                    "\\\"cwd\\\":\\\"$(pwd)\\\"}\"")}});
  for (const char* hostile : kHostileTexts) {
    const ToolResult result = One("echo", {{"case", "1"}, {"text", hostile}});
    ASSERT_TRUE(result.status.ok()) << result.status.ToString();
    EXPECT_EQ(result.value.at("text"), hostile);
  }
  EXPECT_FALSE(std::ifstream("/tmp/owned").good());
  const ToolResult around = One("around");
  ASSERT_TRUE(around.status.ok()) << around.status.ToString();
  EXPECT_EQ(around.value.at("env"), "none");
  EXPECT_EQ(around.value.at("open"), "no");
  EXPECT_EQ(around.value.at("cwd"), "/");
  ::close(137);
  ::close(leaked);
  ::unsetenv("SURETY_TOOL_SECRET");
}

// Gone, or dead and not yet collected by whoever inherited it.
bool ProcessIsGone(const std::string& pid) {
  std::ifstream stat("/proc/" + pid + "/stat");
  std::string line;
  if (!std::getline(stat, line)) return true;
  const size_t end = line.rfind(')');
  return end + 2 < line.size() && line[end + 2] == 'Z';
}

void ExpectGone(const std::string& pid_file) {
  std::ifstream file(pid_file);
  std::string pid;
  ASSERT_TRUE(std::getline(file, pid)) << pid_file;
  for (int i = 0; i < 200 && !ProcessIsGone(pid); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(ProcessIsGone(pid));
}

TEST_F(ToolsTest, ProgramsThatMisbehaveAreEndedWithAllTheirChildren) {
  const std::string pids = folder_.path() + "/pid";
  Make({{"deaf", Script("deaf", "trap '' TERM INT HUP\necho $$ > " + pids + "1\nwhile :; do /bin/sleep 1; done", 200)},
        {"forks", Script("forks", "/bin/sleep 300 &\necho $! > " + pids + "2\necho '{\"x\":1}'")},
        {"stuck", Script("stuck", "/bin/sleep 300 &\necho $! > " + pids + "3\nwait", 200)},
        {"flood", Script("flood", "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done")},
        {"fails", Script("fails", "echo '{}'\nexit 3")},
        {"killed", Script("killed", "kill -9 $$")},
        {"prose", Script("prose", "echo hello")}});
  const int64_t begun = Clock::Real().NowNanos();
  EXPECT_EQ(One("deaf").status.code(), StatusCode::kDeadlineExceeded);
  ExpectGone(pids + "1");
  const ToolResult forks = One("forks");
  ASSERT_TRUE(forks.status.ok()) << forks.status.ToString();
  EXPECT_EQ(forks.value.at("x"), 1) << "a grandchild that keeps the output open delays nothing";
  ExpectGone(pids + "2");
  EXPECT_EQ(One("stuck").status.code(), StatusCode::kDeadlineExceeded);
  ExpectGone(pids + "3");
  const ToolResult flood = One("flood");
  EXPECT_EQ(flood.status.code(), StatusCode::kInvalidArgument) << flood.status.ToString();
  EXPECT_THAT(flood.status.message(), HasSubstr("longer than 1 MiB"));
  EXPECT_THAT(One("fails").status.message(), HasSubstr("exit code 3"));
  EXPECT_THAT(One("killed").status.message(), HasSubstr("signal 9"));
  EXPECT_EQ(One("prose").status.code(), StatusCode::kInvalidArgument);
  EXPECT_LT(Clock::Real().NowNanos() - begun, 20'000 * kToolMs);
}

TEST_F(ToolsTest, SpecsAreCheckedWhenTheRunnerIsMade) {
  const auto code = [&](ToolSpec spec) {
    Policy policy;
    policy.tools["t"] = std::move(spec);
    const auto made = ToolRunner::Make(policy, folder_.path(), Clock::Real());
    return made ? StatusCode::kOk : made.error().code();
  };
  const auto command = [](std::vector<std::string> words) {
    ToolSpec spec;
    spec.by = ToolSpec::By::kCommand;
    spec.command = std::move(words);
    return spec;
  };
  EXPECT_EQ(code(command({"/bin/cat", "-"})), StatusCode::kOk);
  EXPECT_EQ(code(Http("http://h/{a}", {"a"})), StatusCode::kOk);
  for (const ToolSpec& bad : {command({}), command({"cat"}), command({"bin/cat"}), command({"/bin/../bin/cat"}),
                              command({"/no/such/program"}), command({"/tmp"}),
                              command({folder_.Write("plain.txt", "x")}), Http("ftp://h/"), Http("http://h/{a}"),
                              Http("http://{a}/", {"a"}), Http("http://h{a}/", {"a"}), Http("http://h/{a", {"a"}),
                              Http("http://h/a}", {"a"}), Http("http://h/{{a}}", {"a"}), Http("{a}", {"a"}),
                              Http("http://h/", {}, 0)}) {
    EXPECT_EQ(code(bad), StatusCode::kInvalidArgument) << bad.url;
  }
}

TEST_F(ToolsTest, WhenAResultWasObserved) {
  std::string body;
  ScriptedServer server(ScriptedServer::Answering([&](const ScriptedRequest&) { return HttpOk(body); }));
  Make({{"t", Http(server.Url())}});
  body = R"({"observed_at":"2026-11-30T10:00:00Z"})";
  EXPECT_EQ(One("t").observed_at_ns, 1'796'032'800'000'000'000);
  body = R"({"observed_at":1796032800})";
  EXPECT_EQ(One("t").observed_at_ns, 1'796'032'800'000'000'000);
  body = "{}";
  EXPECT_NEAR(static_cast<double>(One("t").observed_at_ns), static_cast<double>(Clock::Real().WallNanos()), 5e9);
  body = R"({"observed_at":"yesterday"})";
  EXPECT_EQ(One("t").status.code(), StatusCode::kInvalidArgument);
}

TEST(StaleResultTest, OldFutureAndFarApart) {
  constexpr int64_t kSecondNs = 1'000'000'000, kNow = 1'000'000 * kSecondNs;
  Policy policy;
  policy.tools["a"].fresh_ns = 60 * kSecondNs;
  policy.tools["b"].fresh_ns = 20 * kSecondNs;
  policy.tools["any"].fresh_ns = 0;
  const auto result = [&](std::string tool, int64_t age_s) {
    ToolResult made;
    made.tool = std::move(tool);
    made.value = json::object();
    made.observed_at_ns = kNow - age_s * kSecondNs;
    return made;
  };
  EXPECT_EQ(StaleResult(policy, {}, kNow), "");
  EXPECT_EQ(StaleResult(policy, {result("a", 60), result("any", 9999)}, kNow), "");
  EXPECT_THAT(StaleResult(policy, {result("a", 61)}, kNow), HasSubstr("61 s ago"));
  EXPECT_THAT(StaleResult(policy, {result("a", -60)}, kNow), HasSubstr("future"));
  EXPECT_EQ(StaleResult(policy, {result("a", -1)}, kNow), "") << "clocks differ a little";
  EXPECT_EQ(StaleResult(policy, {result("a", 20), result("b", 0)}, kNow), "");
  EXPECT_THAT(StaleResult(policy, {result("a", 21), result("b", 0)}, kNow), HasSubstr("21 s apart"));
  ToolResult failed = result("a", 9999);
  failed.status = UnavailableError("x");
  EXPECT_EQ(StaleResult(policy, {failed}, kNow), "") << "a failure is told by its status";
}

}  // namespace
}  // namespace surety::gateway
