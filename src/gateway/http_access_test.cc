// Secrets and certificates of a policy: who gets them, and that nobody else does.
#include "gateway/http_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "gateway/policy_json.h"
#include "gateway/policy_reader.h"
#include "gateway/remote_backend.h"
#include "gateway/testing/event_recorder.h"
#include "gateway/testing/policy_text.h"
#include "gateway/testing/scripted_server.h"
#include "gateway/testing/test_certificates.h"
#include "gateway/tools.h"
#include "gateway/verifier.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kVariable = "SURETY_TEST_SECRET";
constexpr const char* kSecret = "s3cret-\"quoted\"/42";

class HttpAccessTest : public ::testing::Test {
 protected:
  HttpAccessTest() { ::setenv(kVariable, kSecret, 1); }
  ~HttpAccessTest() override { ::unsetenv(kVariable); }

  ToolResult Ask(const std::string& url, const HttpAccess& access) {
    Policy policy;
    ToolSpec spec;
    spec.url = url;
    spec.access = access;
    spec.deadline_ns = 5'000'000'000;
    policy.tools = {{"core", spec}};
    auto runner = ToolRunner::Make(policy, folder_.path(), Clock::Real());
    EXPECT_TRUE(runner.has_value()) << runner.error().ToString();
    if (!runner) return {};
    return (*runner)->Gather({"core"}, {}, Clock::Real().NowNanos() + 10'000'000'000).at(0);
  }

  const TestFolder folder_;
};

ScriptedServer::Script Knowing() {
  return ScriptedServer::Answering([](const ScriptedRequest&) { return HttpOk(R"({"known":true})"); });
}

TEST_F(HttpAccessTest, SecretsComeFromVariablesAndFiles) {
  (void)folder_.Write("token", "of-a-file\r\n\n");
  EXPECT_EQ(*ReadSecret({.variable = kVariable, .file = ""}, "/nowhere"), kSecret);
  EXPECT_EQ(*ReadSecret({.variable = "", .file = "token"}, folder_.path()), "of-a-file");
  (void)folder_.Write("empty", "\n");
  (void)folder_.Write("lines", "hidden-one\nhidden-two\n");
  (void)folder_.Write("long", std::string((16 << 10) + 1, 'x'));
  struct Row {
    SecretSource source;
    const char* says;
  };
  for (const Row& row : {Row{{"SURETY_TEST_NO_SUCH", ""}, "variable SURETY_TEST_NO_SUCH is not in the environment"},
                         Row{{"", "none"}, "file 'none' cannot be read"}, Row{{"", "empty"}, "is empty"},
                         Row{{"", "lines"}, "line break"}, Row{{"", "long"}, "cannot be read"}}) {
    const auto secret = ReadSecret(row.source, folder_.path());
    ASSERT_FALSE(secret.has_value()) << row.says;
    EXPECT_EQ(secret.error().code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(secret.error().message(), HasSubstr(row.says));
    EXPECT_THAT(secret.error().message(), Not(HasSubstr("hidden")));
  }
}

TEST_F(HttpAccessTest, ToolsSendTheirHeaders) {
  ScriptedServer server(Knowing());
  (void)folder_.Write("token", "Bearer of-a-file\n");
  const ToolResult result =
      Ask(server.Url(), {.ca_file = "", .client_certificate = "", .client_key = "",
                         .headers = {{"X-Key", {kVariable, ""}}, {"Authorization", {"", "token"}}}});
  ASSERT_TRUE(result.status.ok()) << result.status.ToString();
  EXPECT_EQ(server.requests().at(0).headers.at("x-key"), kSecret);
  EXPECT_EQ(server.requests().at(0).headers.at("authorization"), "Bearer of-a-file");
}

TEST_F(HttpAccessTest, APrivateAuthorityIsTrustedWhereItIsNamed) {
  const TestCertificates ours = MakeTestCertificates("IP:127.0.0.1");
  const TestCertificates wrong = MakeTestCertificates("DNS:core.bank.example");
  const TestCertificates expired = MakeTestCertificates("IP:127.0.0.1", 1800);
  struct Row {
    const TestCertificates& served;
    std::string trusted;     // the file's content; empty: none is named
    const char* says;        // empty: it is asked
  };
  const Row rows[] = {{ours, ours.authority, ""},
                      {ours, "", "TLS"},
                      {ours, wrong.authority, "TLS"},
                      {wrong, wrong.authority, "mismatch"},
                      {expired, expired.authority, "expired"}};
  for (const Row& row : rows) {
    ScriptedServer server(Knowing(), {row.served.certificate, row.served.key, ""});
    HttpAccess access;
    access.headers = {{"X-Key", {kVariable, ""}}};
    if (!row.trusted.empty()) {
      (void)folder_.Write("ca.pem", row.trusted);
      access.ca_file = "ca.pem";
    }
    const ToolResult result = Ask(server.Url(), access);
    const bool asked = std::string_view(row.says).empty();
    EXPECT_EQ(result.status.ok(), asked) << result.status.ToString();
    EXPECT_THAT(result.status.message(), HasSubstr(row.says));
    EXPECT_EQ(server.requests().size(), asked ? 1u : 0u) << "a secret goes to nobody who is not trusted";
  }
}

TEST_F(HttpAccessTest, ClientsShowTheirCertificate) {
  const TestCertificates server_pair = MakeTestCertificates("IP:127.0.0.1"), client = MakeTestCertificates("DNS:gate");
  ScriptedServer server(Knowing(), {server_pair.certificate, server_pair.key, client.authority});
  HttpAccess access;
  (void)folder_.Write("ca.pem", server_pair.authority);
  access.ca_file = "ca.pem";
  EXPECT_FALSE(Ask(server.Url(), access).status.ok());
  EXPECT_EQ(server.requests().size(), 0u);
  (void)folder_.Write("own.pem", client.certificate);
  (void)folder_.Write("own.key", client.key);
  access.client_certificate = "own.pem";
  access.client_key = "own.key";
  const ToolResult result = Ask(server.Url(), access);
  EXPECT_TRUE(result.status.ok()) << result.status.ToString();
  (void)folder_.Write("other.key", server_pair.key);
  access.client_key = "other.key";
  const ToolResult refused = Ask(server.Url(), access);
  EXPECT_FALSE(refused.status.ok());
  EXPECT_THAT(refused.status.message(), HasSubstr("other.key"));
}

TEST_F(HttpAccessTest, JudgesAreAskedWithCredentials) {
  const TestCertificates pair = MakeTestCertificates("IP:127.0.0.1");
  ScriptedServer server(
      ScriptedServer::Answering([](const ScriptedRequest&) { return HttpOk(R"({"verdict":"pass","reason":""})"); }),
      {pair.certificate, pair.key, ""});
  (void)folder_.Write("ca.pem", pair.authority);
  VerifierSpec spec;
  spec.name = "judge";
  spec.kind = VerifierSpec::Kind::kHttp;
  spec.url = server.Url();
  spec.access.ca_file = "ca.pem";
  spec.access.headers = {{"X-Key", {kVariable, ""}}};
  const auto judge = MakeVerifier(spec, folder_.path(), Clock::Real());
  ASSERT_TRUE(judge.has_value()) << judge.error().ToString();
  const Verdict verdict = (*judge)->Check({}, {}, Clock::Real().NowNanos() + 5'000'000'000);
  EXPECT_EQ(verdict.outcome, Verdict::Outcome::kPass) << verdict.reason;
  EXPECT_EQ(server.requests().at(0).headers.at("x-key"), kSecret);
  spec.access.headers = {{"X-Key", {"SURETY_TEST_NO_SUCH", ""}}};
  EXPECT_THAT(MakeVerifier(spec, folder_.path(), Clock::Real()).error().message(), HasSubstr("SURETY_TEST_NO_SUCH"));
}

// Whatever the server says back, in whichever place, no error repeats a secret.
TEST_F(HttpAccessTest, AServerThatRepeatsASecretIsNotQuoted) {
  const std::string message = "unknown header value " + std::string(kSecret) + std::string(280, '.') + kSecret;
  const std::string error = json::serialize(json::object{{"error", {{"message", message}, {"code", "x"}}}});
  std::string status = "400 no";
  bool streams = false;
  ScriptedServer server(ScriptedServer::Answering([&](const ScriptedRequest&) {
    if (streams) return HttpChunked("data: " + error + "\n\n", 4096, "Content-Type: text/event-stream\r\n");
    return HttpOk(error, "Content-Type: application/json\r\n", status);
  }));
  ModelSpec spec;
  spec.name = "far";
  spec.engine = ModelSpec::Engine::kRemote;
  spec.api_base = server.Url("/v1");
  spec.weights = "m";
  spec.api_key = {kVariable, ""};
  spec.timeout_ns = 5'000'000'000;
  for (const char* code : {"400 no", "404 no", "429 no", "500 no", "stream"}) {
    streams = std::string_view(code) == "stream";
    if (!streams) status = code;
    auto options = RemoteOptionsOf(spec, folder_.path());
    ASSERT_TRUE(options.has_value()) << options.error().ToString();
    EXPECT_EQ(options->api_key, kSecret);
    EXPECT_EQ(options->timeout_ns, 5'000'000'000);
    const auto backend = MakeRemoteBackend(*std::move(options));
    ASSERT_TRUE(backend.has_value());
    api::GenerationRequest request;
    request.has_messages = true;
    request.messages = {json::object{{"role", "user"}, {"content", "hi"}}};
    auto recorder = std::make_shared<EventRecorder>(1);
    ASSERT_TRUE((*backend)->Submit(std::move(request), EventRecorder::SinkOf(recorder)).has_value());
    ASSERT_TRUE(recorder->Wait());
    const std::string said = recorder->last().error.ToString() + json::serialize((*backend)->DebugState());
    EXPECT_THAT(said, HasSubstr("unknown header value ***")) << code;
    EXPECT_THAT(said, Not(HasSubstr("s3cret"))) << code;
  }
}

struct AccessFault {
  const char *text, *says;
};
class HttpAccessFormTest : public ::testing::TestWithParam<AccessFault> {};

TEST_P(HttpAccessFormTest, IsRefused) {
  policy_text::MemoryFiles files = policy_text::GoodPolicyFiles();
  files.contents["p/ca.pem"] = "certificate";
  std::string text = policy_text::GoodPolicyText();
  const std::string old = "ledger: {kind: read, url: \"http://127.0.0.1:9/ledger\",";
  ASSERT_NE(text.find(old), std::string::npos);
  text.replace(text.find(old), old.size(), std::string("ledger: {kind: read, ") + GetParam().text + ",");
  const auto policy = ReadPolicyText(files, "p/policy.yaml", text);
  const bool good = std::string_view(GetParam().says).empty();
  ASSERT_EQ(policy.has_value(), good) << policy.error().message();
  if (good) return;
  EXPECT_THAT(policy.error().message(), HasSubstr(GetParam().says));
  EXPECT_THAT(policy.error().message(), Not(HasSubstr("sk-secret")));
}

INSTANTIATE_TEST_SUITE_P(
    Rows, HttpAccessFormTest,
    ::testing::Values(
        AccessFault{"url: \"https://h/x\", ca_file: ca.pem, headers: {X-A: os.environ/A, X-B: {file: b}}", ""},
        AccessFault{"url: \"https://h/x\", headers: {X-A: sk-secret}", "os.environ/NAME"},
        AccessFault{"url: \"https://h/x\", headers: {X-A: os.environ/sk-secret}", "os.environ/NAME"},
        AccessFault{"url: \"https://h/x\", headers: {X-A: {value: sk-secret}}", "unknown key 'value'"},
        AccessFault{"url: \"https://h/x\", headers: {X A: os.environ/A}", "no name of a header"},
        AccessFault{"url: \"https://h/x\", headers: {host: os.environ/A}", "surety sets itself"},
        AccessFault{"url: \"https://h/x\", headers: {Idempotency-Key: os.environ/A}", "surety sets itself"},
        AccessFault{"url: \"https://h/x\", headers: {x-a: os.environ/A, X-A: os.environ/B}", "twice"},
        AccessFault{"url: \"https://h/x\", ca_file: none.pem", "no such file"},
        AccessFault{"url: \"http://h/x\", ca_file: ca.pem", "not https"},
        AccessFault{"url: \"https://h/x\", client_key: k.pem", "belong together"},
        AccessFault{"command: [/bin/true], ca_file: ca.pem", "ca_file"}));

TEST(HttpAccessDigestTest, AuthoritiesCountAndSecretsDoNot) {
  policy_text::MemoryFiles files = policy_text::GoodPolicyFiles();
  files.contents["p/ca.pem"] = "one";
  files.contents["p/b"] = "sk-secret";
  std::string text = policy_text::GoodPolicyText();
  const std::string old = "url: \"http://127.0.0.1:9/ledger\",";
  text.replace(text.find(old), old.size(), "url: \"https://h/x\", ca_file: ca.pem, headers: {X-B: {file: b}},");
  const auto first = ReadPolicyText(files, "p/policy.yaml", text);
  ASSERT_TRUE(first.has_value()) << first.error().message();
  files.contents["p/b"] = "another";
  EXPECT_EQ(ReadPolicyText(files, "p/policy.yaml", text)->digest, first->digest);
  EXPECT_THAT(json::serialize(PolicyJson(*first)), Not(HasSubstr("sk-secret")));
  files.contents["p/ca.pem"] = "two";
  EXPECT_NE(ReadPolicyText(files, "p/policy.yaml", text)->digest, first->digest);
}

}  // namespace
}  // namespace surety::gateway
