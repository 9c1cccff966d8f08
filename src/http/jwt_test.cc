#include "http/jwt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/base64url.h"
#include "http/testing/tokens.h"

namespace surety::http {
namespace {

using ::testing::HasSubstr;

// Keys and tokens of RFC 7515, appendices A.1 (HS256; RFC 7519, 3.1 has the same one), A.2 (RS256) and A.3 (ES256).
const std::string kRfcPayload =
    "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}";
const std::string kRfcClaims =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
const std::string kRfcHs256 =
    "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." + kRfcClaims + ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const std::string kRfcRs256 =
    "eyJhbGciOiJSUzI1NiJ9." + kRfcClaims +
    ".cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUA"
    "r7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--"
    "xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_Io"
    "ypGlUPQGe77Rw";
const std::string kRfcEs256 =
    "eyJhbGciOiJFUzI1NiJ9." + kRfcClaims +
    ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
const std::string kRsaN =
    "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-"
    "pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2Ca"
    "pHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb5"
    "4h4FRWyuXpoQ";

std::string Oct(const std::string& more = "") {
  return R"({"kty":"oct","k":")" + std::string(kRfcSecretText) + "\"" + more + "}";
}
std::string Rsa(const std::string& more = "") { return R"({"kty":"RSA","e":"AQAB","n":")" + kRsaN + "\"" + more + "}"; }
std::string Ec(const std::string& more = "") {
  return R"({"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",)"
         R"("y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0")" + more + "}";
}
Result<Jwks> Set(const std::string& keys) { return Jwks::Parse(R"({"keys":[)" + keys + "]}", "keys.json"); }
Jwks GoodSet(const std::string& keys) {
  auto set = Set(keys);
  EXPECT_TRUE(set) << set.error().message();
  return *std::move(set);
}
std::string ErrorOf(const Result<std::string>& result) { return result ? "" : result.error().message(); }

TEST(JwksTest, TheTokensOfRfc7515Hold) {
  const Jwks all = GoodSet(Oct() + "," + Rsa() + "," + Ec());
  EXPECT_EQ(all.size(), 3U);
  for (const std::string& token : {kRfcHs256, kRfcRs256, kRfcEs256}) {
    const auto payload = all.Verify(token);
    ASSERT_TRUE(payload) << payload.error().message();
    EXPECT_EQ(*payload, kRfcPayload);
  }
}

TEST(JwksTest, AnyChangedCharacterOfATokenIsRefused) {
  const Jwks all = GoodSet(Oct() + "," + Rsa() + "," + Ec());
  for (const std::string& token : {kRfcHs256, kRfcRs256, kRfcEs256}) {
    for (size_t i = 0; i < token.size(); ++i) {
      std::string changed = token;
      changed[i] = changed[i] == 'A' ? 'B' : 'A';
      EXPECT_FALSE(all.Verify(changed)) << i;
      EXPECT_FALSE(all.Verify(token.substr(0, i))) << i;
    }
    EXPECT_FALSE(all.Verify(token + "."));
    EXPECT_FALSE(all.Verify(token + "="));
    EXPECT_FALSE(all.Verify(token + "A"));
  }
}

TEST(JwksTest, TheKeyDecidesTheAlgorithm) {
  const Jwks rsa = GoodSet(Rsa());
  // A public key taken for a shared secret is the classic confusion; here it is n, as bytes and as written.
  for (const std::string& secret : {*Base64UrlDecode(kRsaN), kRsaN, Rsa()}) {
    EXPECT_THAT(ErrorOf(rsa.Verify(SignedToken(R"({"alg":"HS256"})", kRfcPayload, secret))), HasSubstr("HS256"));
  }
  const Jwks all = GoodSet(Oct() + "," + Rsa() + "," + Ec());
  for (const std::string header : {R"({"alg":"none"})", R"({"alg":"None"})", R"({"alg":""})", R"({"alg":null})", "{}",
                                   R"({"alg":"HS384"})", R"({"alg":"hs256"})", R"({"alg":["HS256"]})"}) {
    EXPECT_FALSE(all.Verify(SignedToken(header, kRfcPayload, RfcSecret()))) << header;
    const std::string token = SignedToken(header, kRfcPayload, RfcSecret());
    EXPECT_FALSE(all.Verify(token.substr(0, token.rfind('.') + 1))) << "without a signature: " << header;
  }
  EXPECT_FALSE(GoodSet(Oct(R"(,"alg":"HS256")") + "," + Rsa()).Verify(kRfcEs256));
  // An ES256 signature of zeros (a known hole elsewhere) and one in DER are no signatures.
  const std::string es256_signed = kRfcEs256.substr(0, kRfcEs256.rfind('.') + 1);
  EXPECT_FALSE(all.Verify(es256_signed + Base64UrlEncode(std::vector<uint8_t>(64, 0))));
  EXPECT_FALSE(all.Verify(es256_signed));
}

TEST(JwksTest, KidSelectsTheKey) {
  const std::string other = R"({"kty":"oct","kid":"other","k":")" + std::string(43, 'A') + "\"}";
  const Jwks set = GoodSet(Oct(R"(,"kid":"first")") + "," + other);
  const auto token = [](const std::string& header) { return SignedToken(header, kRfcPayload, RfcSecret()); };
  EXPECT_TRUE(set.Verify(token(R"({"alg":"HS256","kid":"first"})")));
  EXPECT_THAT(ErrorOf(set.Verify(token(R"({"alg":"HS256","kid":"other"})"))), HasSubstr("signature"));
  EXPECT_THAT(ErrorOf(set.Verify(token(R"({"alg":"HS256","kid":"third"})"))), HasSubstr("'third'"));
  EXPECT_THAT(ErrorOf(set.Verify(token(R"({"alg":"HS256"})"))), HasSubstr("several"));
  EXPECT_FALSE(set.Verify(token(R"({"alg":"HS256","kid":7})")));
  EXPECT_FALSE(GoodSet(Oct()).Verify(token(R"({"alg":"HS256","kid":"first"})"))) << "a key without kid is not that key";
}

TEST(JwksTest, HeadersThatMustBeUnderstoodAreNot) {
  const Jwks set = GoodSet(Oct());
  EXPECT_THAT(ErrorOf(set.Verify(SignedToken(R"({"alg":"HS256","crit":["exp"],"exp":1})", "{}", RfcSecret()))),
              HasSubstr("crit"));
  EXPECT_FALSE(set.Verify(SignedToken(R"({"alg":"HS256","b64":false})", "{}", RfcSecret())));
  EXPECT_FALSE(set.Verify(SignedToken("[]", "{}", RfcSecret())));
  EXPECT_FALSE(set.Verify(SignedToken(std::string(5000, '['), "{}", RfcSecret()))) << "nested too deep";
  EXPECT_FALSE(set.Verify(SignedToken(R"({"alg":"HS256"})", std::string(20'000, ' '), RfcSecret()))) << "too long";
}

TEST(JwksTest, FilesAreCheckedWhenTheyAreRead) {
  const auto error = [](const std::string& keys) {
    const auto set = Set(keys);
    return set ? "" : set.error().message();
  };
  EXPECT_THAT(Jwks::Parse("{", "f.json").error().message(), HasSubstr("'f.json' is no key set"));
  EXPECT_THAT(error(""), HasSubstr("holds no key"));
  EXPECT_THAT(error("1"), HasSubstr("key 1 is no JSON object"));
  EXPECT_THAT(error(R"({"kty":"oct","k":"c2hvcnQ"})"), HasSubstr("a secret of 5 bytes"));
  EXPECT_THAT(error(R"({"kty":"oct","k":"a+b"})"), HasSubstr("'k' is not base64url"));
  EXPECT_THAT(error(R"({"kty":"RSA","e":"AQAB","n":")" + kRsaN.substr(0, 172) + "\"}"), HasSubstr("at least 2048"));
  EXPECT_THAT(error(Oct() + R"(,{"kty":"EC","crv":"P-256","x":"AA","y":"AA"})"), HasSubstr("key 2: 'x' and 'y'"));
  const std::string zeros(43, 'A');
  EXPECT_THAT(error(R"({"kty":"EC","crv":"P-256","x":")" + zeros + R"(","y":")" + zeros + "\"}"),
              HasSubstr("no point of P-256"));
  EXPECT_THAT(error(Oct(R"(,"kid":"a")") + "," + Oct(R"(,"kid":"a")")), HasSubstr("stands twice"));
  // Keys for other purposes are passed over; alone they are no set.
  EXPECT_THAT(error(Rsa(R"(,"use":"enc")") + "," + Rsa(R"(,"alg":"RS512")") + R"(,{"kty":"OKP"})" + "," +
                    Ec(R"(,"key_ops":["deriveKey"])")),
              HasSubstr("holds no key"));
  EXPECT_EQ(GoodSet(Rsa(R"(,"use":"enc")") + "," + Ec(R"(,"key_ops":["verify"])")).size(), 1U);
}

class JwtTest : public ::testing::Test {
 protected:
  static constexpr int64_t kNow = 1'800'000'000;

  JwtVerifier Make(const std::function<void(JwtOptions&)>& change = [](JwtOptions&) {}) {
    JwtOptions options;
    options.issuer = "https://id.example";
    options.audience = "surety";
    change(options);
    auto made = JwtVerifier::Make(GoodSet(Oct()), options, clock_);
    EXPECT_TRUE(made) << made.error().message();
    return *std::move(made);
  }
  static std::string Token(const std::string& claims) {
    return SignedToken(R"({"alg":"HS256","typ":"JWT"})", "{" + claims + "}", RfcSecret());
  }
  std::string Refusal(const JwtVerifier& verifier, const std::string& claims) {
    const auto identity = verifier.Verify(Token(claims));
    if (identity) return "";
    EXPECT_EQ(identity.error().code(), StatusCode::kUnauthenticated);
    return identity.error().message();
  }

  FakeClock clock_{kNow};
  const std::string who_ = R"("iss":"https://id.example","aud":"surety","sub":"alice","tenant":"acme")";
  const std::string good_ = who_ + R"(,"exp":1800000100)";
};

TEST_F(JwtTest, ClaimsBecomeTheIdentity) {
  const auto identity = Make().Verify(Token(
      good_ + R"(,"permissions":["b","a","b"],"region":"eu","product":"cards","policy_version":"7","language":"de",)"
              R"("eligibility":"retail","effective_date":"2027-01-31","role":"admin","priority":-3,"other":{"x":1})"));
  ASSERT_TRUE(identity) << identity.error().message();
  EXPECT_EQ(identity->subject, "alice");
  EXPECT_EQ(identity->role, Role::kAdmin);
  EXPECT_EQ(identity->priority, -3);
  const api::Scope expected{"acme", {"a", "b"}, "eu", "cards", "7", "de", "retail", "2027-01-31", ""};
  EXPECT_EQ(identity->scope, expected);
  EXPECT_EQ(Make().Verify(Token(good_))->role, Role::kUser);
  EXPECT_EQ(Make().Verify(Token(good_ + R"(,"salt":"mine")"))->scope.salt, "");
}

TEST_F(JwtTest, ClaimsMayHaveOtherNames) {
  const auto verifier = Make([](JwtOptions& options) {
    options.claims = {{"permissions", "scope"}, {"tenant", "org"}};
  });
  const auto identity = verifier.Verify(Token(good_ + R"(,"org":"other","scope":"read write")"));
  ASSERT_TRUE(identity) << identity.error().message();
  EXPECT_EQ(identity->scope.tenant, "other");
  EXPECT_EQ(identity->scope.permissions, (std::vector<std::string>{"read", "write"}));
}

TEST_F(JwtTest, TimesAreCheckedByTheInjectedClock) {
  const auto verifier = Make();
  EXPECT_EQ(Refusal(verifier, good_), "");
  EXPECT_THAT(Refusal(verifier, who_), HasSubstr("no 'exp'"));
  clock_.Set(1'800'000'129);  // within the leeway of 30 s
  EXPECT_EQ(Refusal(verifier, good_), "");
  clock_.Set(1'800'000'130);
  EXPECT_THAT(Refusal(verifier, good_), HasSubstr("expired"));
  clock_.Set(kNow);
  EXPECT_EQ(Refusal(verifier, good_ + R"(,"nbf":1800000030.0)"), "");
  EXPECT_THAT(Refusal(verifier, good_ + R"(,"nbf":1800000031)"), HasSubstr("nbf"));
  EXPECT_THAT(Refusal(verifier, good_ + R"(,"iat":1800000031)"), HasSubstr("iat"));
  for (const std::string bad : {R"("1800000100")", "null", "true", "{}"}) {
    EXPECT_THAT(Refusal(verifier, who_ + ",\"exp\":" + bad), HasSubstr("'exp'"));
  }
  EXPECT_THAT(Refusal(verifier, who_ + ",\"exp\":-1e300"), HasSubstr("expired"));
  EXPECT_EQ(Refusal(Make([](JwtOptions& o) { o.require_expiry = false; }), who_), "");
}

TEST_F(JwtTest, IssuerAndAudienceMustBeTheConfiguredOnes) {
  const auto verifier = Make();
  const std::string rest = R"("sub":"a","tenant":"t","exp":1800000100)";
  EXPECT_THAT(Refusal(verifier, rest + R"(,"aud":"surety")"), HasSubstr("iss"));
  EXPECT_THAT(Refusal(verifier, rest + R"(,"aud":"surety","iss":"https://id.example/")"), HasSubstr("iss"));
  const std::string issued = rest + R"(,"iss":"https://id.example")";
  EXPECT_THAT(Refusal(verifier, issued), HasSubstr("aud"));
  EXPECT_THAT(Refusal(verifier, issued + R"(,"aud":"other")"), HasSubstr("aud"));
  EXPECT_THAT(Refusal(verifier, issued + R"(,"aud":[])"), HasSubstr("aud"));
  EXPECT_EQ(Refusal(verifier, issued + R"(,"aud":["other","surety"])"), "");
  const auto without = Make([](JwtOptions& options) { options.audience.clear(); });
  EXPECT_EQ(Refusal(without, issued), "");
  EXPECT_THAT(Refusal(without, issued + R"(,"aud":"")"), HasSubstr("aud")) << "meant for somebody else";
}

TEST_F(JwtTest, MissingAndMalformedClaimsRefuseTheToken) {
  const auto verifier = Make();
  const std::string base = R"("iss":"https://id.example","aud":"surety","exp":1800000100)";
  EXPECT_THAT(Refusal(verifier, base + R"(,"sub":"a")"), HasSubstr("'tenant'"));
  EXPECT_THAT(Refusal(verifier, base + R"(,"tenant":"a")"), HasSubstr("'sub'"));
  for (const std::string bad : {"null", "1", "\"\"", "\" a\"", "\"a \"", "\"a\\u0000\"", "\"a\\n\"", "[\"a\"]"}) {
    EXPECT_THAT(Refusal(verifier, base + R"(,"sub":"a","tenant":)" + bad), HasSubstr("'tenant'")) << bad;
  }
  EXPECT_THAT(Refusal(verifier, good_ + R"(,"role":"root")"), HasSubstr("'role'"));
  EXPECT_THAT(Refusal(verifier, good_ + R"(,"priority":1e3)"), HasSubstr("'priority'"));
  EXPECT_THAT(Refusal(verifier, good_ + R"(,"permissions":[1])"), HasSubstr("'permissions'"));
  EXPECT_THAT(Refusal(verifier, good_ + R"(,"effective_date":"2027-02-30")"), HasSubstr("'effective_date'"));
}

TEST_F(JwtTest, OptionsAreValidated) {
  JwtOptions options;
  EXPECT_THAT(options.Validate().message(), HasSubstr("issuer"));
  options.issuer = "x";
  EXPECT_TRUE(options.Validate().ok());
  options.claims = {{"tennant", "t"}};
  EXPECT_THAT(options.Validate().message(), HasSubstr("did you mean 'tenant'"));
}

}  // namespace
}  // namespace surety::http
