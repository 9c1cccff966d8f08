#include "http/api_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/auth.h"
#include "http/identity_fields.h"
#include "http/testing/raw_client.h"
#include "http/testing/test_server.h"
#include "http/testing/tokens.h"

namespace surety::http {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kNow = 1'800'000'000;  // 2027-01-15T08:00:00Z

Identity Named(const std::string& name, Role role = Role::kUser) {
  Identity identity;
  identity.subject = name;
  identity.role = role;
  return identity;
}

NewApiKey MakeKey(const Identity& identity, const std::string& expires = "") {
  auto made = MakeApiKey(identity, expires);
  EXPECT_TRUE(made) << made.error().message();
  return *std::move(made);
}

KeyRing RingOf(const std::string& text) {
  auto ring = KeyRing::Parse(text, "keys.jsonl");
  EXPECT_TRUE(ring) << ring.error().message();
  return *std::move(ring);
}

TEST(ApiKeysTest, AMadeKeyIsVerifiedByItsEntry) {
  Identity identity = Named("batch", Role::kAdmin);
  identity.scope = {"acme", {"a", "b"}, "eu", "cards", "7", "de", "retail", "2027-01-31", ""};
  identity.priority = 5;
  const NewApiKey made = MakeKey(identity, "2027-01-15T08:00:01Z");
  EXPECT_EQ(made.key.size(), 7 + 12 + 1 + 43U);
  EXPECT_THAT(made.entry, Not(HasSubstr(made.key.substr(20)))) << "the secret is not in the file";
  const KeyRing ring = RingOf("# keys\n\n" + made.entry + MakeKey(Named("other")).entry);
  EXPECT_EQ(ring.size(), 2U);
  const auto found = ring.Verify(made.key, kNow);
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->subject, "batch");
  EXPECT_EQ(found->role, Role::kAdmin);
  EXPECT_EQ(found->priority, 5);
  EXPECT_EQ(found->scope, identity.scope);
  EXPECT_THAT(ring.Verify(made.key, kNow + 1).error().message(), HasSubstr("expired"));
  EXPECT_EQ(RingOf(MakeKey(Named("alone")).entry).size(), 1U);
}

TEST(ApiKeysTest, EveryOtherKeyIsRefused) {
  const NewApiKey a = MakeKey(Named("a")), b = MakeKey(Named("b"));
  const KeyRing ring = RingOf(a.entry + b.entry);
  std::string mixed = a.key;
  mixed.replace(7, 12, b.key.substr(7, 12));
  for (std::string wrong : {std::string(), std::string("surety-"), mixed, a.key + "x", a.key.substr(0, 62),
                            std::string("surety-000000000000-") + std::string(43, 'A')}) {
    EXPECT_FALSE(ring.Verify(wrong, kNow)) << wrong;
  }
  for (size_t i = 0; i < a.key.size(); ++i) {
    std::string changed = a.key;
    changed[i] = changed[i] == 'a' ? 'b' : 'a';
    EXPECT_FALSE(ring.Verify(changed, kNow)) << i;
  }
  EXPECT_FALSE(KeyRing().Verify(a.key, kNow));
  EXPECT_NE(MakeKey(Named("a")).key, a.key);
}

TEST(ApiKeysTest, DigestIsSaltedSha256OfTheKey) {
  // Python: hashlib.sha256(bytes(range(16)) + b"surety-0123456789ab-KEY").hexdigest()
  const std::string entry =
      R"({"id":"0123456789ab","name":"n","role":"user","tenant":"t",)"
      R"("salt":"000102030405060708090a0b0c0d0e0f","sha256":")"
      "1a3d20c0ca315dd3e92dfd55840c32024318efe9954140d8419176268125b313" R"("})";
  const KeyRing ring = RingOf(entry);
  EXPECT_TRUE(ring.Verify("surety-0123456789ab-KEY", kNow));
}

TEST(ApiKeysTest, ErrorsNameFileLineAndField) {
  const std::string good = MakeKey(Named("a")).entry;
  const auto error = [&](const std::string& line) {
    const auto ring = KeyRing::Parse(good + "\n" + line, "keys.jsonl");
    return ring ? "" : ring.error().message();
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string line = MakeKey(Named("b")).entry;
    const size_t at = line.find(from);
    EXPECT_NE(at, std::string::npos);
    return error(line.replace(at, from.size(), to));
  };
  EXPECT_THAT(error("nonsense"), HasSubstr("keys.jsonl:3: not a JSON object"));
  EXPECT_THAT(error("[]"), HasSubstr("keys.jsonl:3"));
  EXPECT_THAT(with("\"tenant\"", "\"tenent\""), HasSubstr("unknown field 'tenent'; did you mean 'tenant'?"));
  EXPECT_THAT(with("\"name\":\"b\",", ""), HasSubstr("'name' is missing"));
  EXPECT_THAT(with("\"role\":\"user\"", "\"role\":\"root\""), HasSubstr("'role' must be \"user\" or \"admin\""));
  EXPECT_THAT(with("\"tenant\":\"b\"", "\"tenant\":null"), HasSubstr("'tenant' is null"));
  EXPECT_THAT(with("\"tenant\":\"b\"", "\"tenant\":\" b\""), HasSubstr("space"));
  EXPECT_THAT(with("\"salt\":\"", "\"salt\":\"0"), HasSubstr("'salt' must be 32 hexadecimal digits"));
  EXPECT_THAT(with("\"sha256\":\"", "\"sha256\":\"Z"), HasSubstr("'sha256' must be 64"));
  EXPECT_THAT(with("\"id\":\"", "\"id\":\"x"), HasSubstr("'id' must be 12"));
  EXPECT_THAT(with("\"role\"", "\"expires\":\"2027-13-01\",\"role\""), HasSubstr("'expires': '2027-13-01' is no time"));
  EXPECT_THAT(error(good), HasSubstr("stands twice"));
  EXPECT_FALSE(MakeApiKey(Named(""), ""));
  EXPECT_FALSE(MakeApiKey(Named("a"), "tomorrow"));
}

TEST(ApiKeysTest, PlainKeysWorkAndShortOnesAreRefused) {
  KeyRing ring;
  EXPECT_FALSE(ring.AddPlain("short", Named("x")).ok());
  EXPECT_FALSE(ring.AddPlain("with a space in it", Named("x")).ok());
  ASSERT_TRUE(ring.AddPlain("a-key-of-the-operator", Named("x")).ok());
  EXPECT_EQ(ring.Verify("a-key-of-the-operator", kNow)->subject, "x");
  EXPECT_FALSE(ring.Verify("a-key-of-the-operatoR", kNow));
}

TEST(ApiKeysTest, TimesAreReadAsUtc) {
  EXPECT_EQ(*ParseUtcTime("1970-01-01"), 0);
  EXPECT_EQ(*ParseUtcTime("2000-02-29T23:59:59Z"), 951'868'799);
  EXPECT_EQ(*ParseUtcTime("2027-01-15T08:00:00Z"), kNow);
  for (const char* bad :
       {"", "2027", "2027-02-29", "2027-01-15T08:00:00", "2027-01-15 08:00:00Z", "2027-01-15T24:00:00Z"}) {
    EXPECT_FALSE(ParseUtcTime(bad)) << bad;
  }
}

class AuthTest : public ::testing::Test {
 protected:
  RawResponse Ask(TestServer& server, const std::string& path, const std::string& headers, int port = 0) {
    RawClient client(port != 0 ? port : server.port());
    EXPECT_TRUE(client.Send(MakeRequest("GET", path, headers)));
    return client.Read();
  }
  static std::string Bearer(const std::string& key) { return "Authorization: Bearer " + key + "\r\n"; }

  const NewApiKey user_ = MakeKey(Named("u")), admin_ = MakeKey(Named("root", Role::kAdmin)),
                  old_ = MakeKey(Named("old"), "2020-01-01");
  FakeClock clock_{kNow};
  Authenticator auth_{RingOf(user_.entry + admin_.entry + old_.entry), std::nullopt, clock_};
  TestServer::Options options_{{}, &auth_, nullptr};
};

TEST_F(AuthTest, RolesDecideWhoMayCallWhat) {
  TestServer server(options_);
  for (const int port : {server.port(), server.admin_port()}) {
    EXPECT_EQ(Ask(server, "/hello", Bearer(user_.key), port).status, 200);
    EXPECT_EQ(Ask(server, "/hello", "x-api-key: " + user_.key + "\r\n", port).status, 200);
    EXPECT_EQ(server.last_request().identity.subject, "u");
    EXPECT_EQ(server.last_request().identity.scope.tenant, "u");
    EXPECT_EQ(Ask(server, "/hello", "authorization: bearer   " + user_.key + "\r\n", port).status, 200);
    EXPECT_EQ(Ask(server, "/admin", Bearer(admin_.key), port).status, 200);
    EXPECT_EQ(Ask(server, "/admin", Bearer(user_.key), port).status, 403);
    const RawResponse none = Ask(server, "/hello", "", port);
    EXPECT_EQ(none.status, 401);
    EXPECT_EQ(none.headers.at("www-authenticate"), "Bearer");
    EXPECT_THAT(none.body, HasSubstr("\"code\":\"missing_api_key\""));
    EXPECT_EQ(Ask(server, "/public", "", port).status, 200);
    EXPECT_EQ(Ask(server, "/public", Bearer("wrong"), port).status, 200);
    EXPECT_EQ(server.last_request().identity.role, Role::kNone);
  }
}

TEST_F(AuthTest, WrongCredentialsAreRefusedWithTheReason) {
  TestServer server(options_);
  const RawResponse wrong = Ask(server, "/hello", Bearer("surety-wrong"));
  EXPECT_EQ(wrong.status, 401);
  EXPECT_THAT(wrong.headers.at("www-authenticate"), HasSubstr("invalid_token"));
  EXPECT_THAT(wrong.body, HasSubstr("\"type\":\"authentication_error\""));
  EXPECT_THAT(wrong.body, Not(HasSubstr("surety-wrong"))) << "no echo of what may be a key";
  EXPECT_THAT(Ask(server, "/hello", Bearer(old_.key)).body, HasSubstr("expired"));
  EXPECT_EQ(Ask(server, "/hello", "Authorization: Basic dTpw\r\n").status, 401);
  EXPECT_EQ(Ask(server, "/hello", Bearer(user_.key) + Bearer(user_.key)).status, 401);
  EXPECT_EQ(Ask(server, "/hello", Bearer(user_.key) + "x-api-key: " + admin_.key + "\r\n").status, 401);
  EXPECT_EQ(Ask(server, "/hello", Bearer(user_.key) + "x-api-key: " + user_.key + "\r\n").status, 200);
  for (const std::string& line : server.log_lines()) EXPECT_THAT(line, Not(HasSubstr(user_.key.substr(20))));
}

TEST_F(AuthTest, WithoutCredentialsNoBodyIsRead) {
  TestServer server(options_);
  RawClient client(server.port());
  ASSERT_TRUE(client.Send("POST /echo HTTP/1.1\r\nHost: any.example\r\nContent-Length: 1000000\r\n\r\n"));
  EXPECT_EQ(client.Read().status, 401);
  EXPECT_TRUE(client.AtEnd(5000));
}

TEST_F(AuthTest, GuessingIsSlowedDownForTheGuesserAlone) {
  TestServer server(options_);
  const auto start = std::chrono::steady_clock::now();
  RawClient guesser(server.port());
  ASSERT_TRUE(guesser.Send(MakeRequest("GET", "/hello", Bearer("guess"))));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Ask(server, "/hello", Bearer(user_.key)).status, 200);  // the same address
  EXPECT_EQ(guesser.Read().status, 401);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(95));
  ASSERT_TRUE(guesser.Send(MakeRequest("GET", "/hello", Bearer(user_.key))));
  EXPECT_EQ(guesser.Read().status, 200) << "no lockout, and the connection goes on";
}

TEST(FailureBrakeTest, DelaysDoubleUpToALimitAndAreForgotten) {
  FailureBrake brake;
  std::vector<int64_t> delays;
  for (int i = 0; i < 7; ++i) delays.push_back(brake.DelayMsAfterFailure("a", i));
  EXPECT_EQ(delays, (std::vector<int64_t>{100, 200, 400, 800, 1600, 1600, 1600}));
  EXPECT_EQ(brake.DelayMsAfterFailure("b", 7), 100);
  EXPECT_EQ(brake.DelayMsAfterFailure("a", 61'000'000'000), 100);
  for (int i = 0; i < 4200; ++i) (void)brake.DelayMsAfterFailure(std::to_string(i), 62'000'000'000 + i);
  EXPECT_EQ(brake.DelayMsAfterFailure("4199", 62'000'010'000), 200);
  EXPECT_EQ(brake.DelayMsAfterFailure("0", 62'000'010'001), 100) << "the oldest were dropped";
}

TEST_F(AuthTest, KeysCanBeReplacedWhileServing) {
  TestServer server(options_);
  const NewApiKey fresh = MakeKey(Named("fresh"));
  auth_.ReplaceKeys(RingOf(fresh.entry));
  EXPECT_EQ(Ask(server, "/hello", Bearer(fresh.key)).status, 200);
  EXPECT_EQ(Ask(server, "/hello", Bearer(user_.key)).status, 401);
}

TEST_F(AuthTest, TokensAndKeysWorkSideBySide) {
  JwtOptions options;
  options.issuer = "joe";
  auto set = Jwks::Parse(R"({"keys":[{"kty":"oct","k":")" + std::string(kRfcSecretText) + "\"}]}", "k");
  auto verifier = JwtVerifier::Make(*std::move(set), options, clock_);
  Authenticator auth(RingOf(user_.entry), *std::move(verifier), clock_);
  TestServer server({{}, &auth, nullptr});
  const std::string token =
      SignedToken(R"({"alg":"HS256"})", R"({"iss":"joe","exp":1800000009,"sub":"eve","tenant":"t"})", RfcSecret());
  EXPECT_EQ(Ask(server, "/hello", Bearer(token)).status, 200);
  EXPECT_EQ(server.last_request().identity.subject, "eve");
  EXPECT_EQ(Ask(server, "/hello", Bearer(user_.key)).status, 200);
  clock_.Set(kNow + 3600);
  EXPECT_THAT(Ask(server, "/hello", Bearer(token)).body, HasSubstr("expired"));
}

}  // namespace
}  // namespace surety::http
