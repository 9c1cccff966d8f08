#include "kv/scope.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>

#include <functional>
#include <map>
#include <set>
#include <unordered_set>

#include <gtest/gtest.h>

#include "base/random.h"
#include "kv/testing/cache_fixture.h"
#include "kv/token_hash.h"

namespace surety::kv {
namespace {

using testing::TestSecret;
using testing::TestSecretBytes;
using testing::TinyLayout;

using Fields = std::multimap<int, std::string>;

// Reads an encoding back, by its description alone.
std::optional<Fields> Decode(std::string_view text, std::string_view head) {
  if (!text.starts_with(head)) return std::nullopt;
  text.remove_prefix(head.size());
  Fields fields;
  while (!text.empty()) {
    if (text.size() < 9) return std::nullopt;
    uint64_t length = 0;
    for (int i = 0; i < 8; ++i) length |= static_cast<uint64_t>(static_cast<uint8_t>(text[1 + i])) << (8 * i);
    if (text.size() - 9 < length) return std::nullopt;
    fields.emplace(static_cast<uint8_t>(text[0]), std::string(text.substr(9, length)));
    text.remove_prefix(9 + length);
  }
  return fields;
}

ScopeKeyBuilder Base() {
  ScopeKeyBuilder builder(TestSecret());
  builder.Tenant("t").Model(Sha256Digest{}, TinyLayout());
  return builder;
}

TEST(ScopeKeyBuilderTest, EncodingCanBeReadBack) {
  using Setter = ScopeKeyBuilder& (ScopeKeyBuilder::*)(std::string_view);
  const std::vector<std::pair<ScopeField, Setter>> setters = {
      {ScopeField::kTenant, &ScopeKeyBuilder::Tenant}, {ScopeField::kRegion, &ScopeKeyBuilder::Region},
      {ScopeField::kProduct, &ScopeKeyBuilder::Product}, {ScopeField::kPolicyVersion, &ScopeKeyBuilder::PolicyVersion},
      {ScopeField::kLanguage, &ScopeKeyBuilder::Language}, {ScopeField::kEligibility, &ScopeKeyBuilder::Eligibility},
      {ScopeField::kEffectiveDate, &ScopeKeyBuilder::EffectiveDate}, {ScopeField::kSalt, &ScopeKeyBuilder::Salt}};
  uint64_t n_draws = 0;
  const auto draw = [&](uint64_t n) { return RandomBits({1, ++n_draws, RandomPurpose::kTest}) % n; };
  // Bytes that tags and lengths are made of are the likely ones.
  const auto random_text = [&] {
    std::string text(draw(20), '\0');
    for (char& c : text) c = static_cast<char>(draw(2) == 0 ? draw(16) : draw(256));
    return text;
  };
  for (int round = 0; round < 20'000; ++round) {
    ScopeKeyBuilder builder(TestSecret());
    Fields expected;
    for (const auto& [field, setter] : setters) {
      if (draw(2) == 0) continue;
      const std::string value = random_text();
      (builder.*setter)(value);
      expected.emplace(static_cast<int>(field), value);
    }
    std::set<std::string> permissions;
    for (uint64_t n = draw(4); n > 0; --n) permissions.insert(random_text());
    for (const std::string& value : permissions) {
      builder.Permission(value).Permission(value);
      expected.emplace(static_cast<int>(ScopeField::kPermission), value);
    }
    ASSERT_EQ(Decode(builder.Encoding(ScopeKeyBuilder::Extent::kScope), "surety kv scope 1\n"), expected);
    expected.erase(static_cast<int>(ScopeField::kSalt));
    ASSERT_EQ(Decode(builder.Encoding(ScopeKeyBuilder::Extent::kFamily), "surety kv family 1\n"), expected);
    std::erase_if(expected, [](const auto& field) { return field.first != static_cast<int>(ScopeField::kTenant); });
    ASSERT_EQ(Decode(builder.Encoding(ScopeKeyBuilder::Extent::kTenant), "surety kv tenant 1\n"), expected);
  }
}

TEST(ScopeKeyBuilderTest, FieldsWhoseConcatenationsAreEqualDiffer) {
  std::vector<ScopeKey> keys;
  const auto add = [&](const std::function<void(ScopeKeyBuilder&)>& set) {
    ScopeKeyBuilder builder = Base();
    set(builder);
    keys.push_back(*builder.Build());
  };
  add([](auto& b) { b.Region("ab").Product("c"); });
  add([](auto& b) { b.Region("a").Product("bc"); });
  add([](auto& b) { b.Region("abc").Product(""); });
  add([](auto& b) { b.Region("abc"); });
  add([](auto& b) { b.Product("abc"); });
  add([](auto& b) { b.Permission("abc"); });
  add([](auto& b) { b.Permission("ab").Permission("c"); });
  add([](auto& b) { b.Permission("a").Permission("bc"); });
  add([](auto& b) { b.Permission("a").Permission("b").Permission("c"); });
  add([](auto& b) { b.Permission("abc").Permission(""); });
  add([](auto& b) { b.Salt("abc"); });
  add([](auto& b) { b.Salt(""); });
  add([](auto&) {});
  // A value that looks like the end of one field and the beginning of the next.
  add([](auto& b) { b.Region(std::string_view("a\x05\x01\0\0\0\0\0\0\0c", 11)); });
  add([](auto& b) { b.Region("a").Product("c"); });
  for (size_t i = 0; i < keys.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(keys[i] == keys[j]) << i << " and " << j;
  }
}

TEST(ScopeKeyBuilderTest, PermissionsAreASet) {
  const ScopeKey key = *Base().Permission("a").Permission("b").Build();
  EXPECT_EQ(key, *Base().Permission("b").Permission("a").Permission("b").Build());
  EXPECT_FALSE(key == *Base().Permission("a").Build());
}

TEST(ScopeKeyBuilderTest, SaltSplitsAScopeAndStaysInItsFamily) {
  const ScopeKey plain = *Base().Build(), one = *Base().Salt("1").Build(), two = *Base().Salt("2").Build();
  EXPECT_FALSE(plain == one);
  EXPECT_FALSE(one == two);
  EXPECT_EQ(plain.family(), one.family());
  EXPECT_EQ(one.family(), two.family());
  EXPECT_FALSE(Base().Region("r").Build()->family() == plain.family());
  EXPECT_TRUE(ScopeSet(plain.family()).Covers(one));
  EXPECT_TRUE(ScopeSet(one).Covers(one));
  EXPECT_FALSE(ScopeSet(plain).Covers(one));
  EXPECT_NE(plain.Fingerprint(), plain.family().Fingerprint());
}

TEST(ScopeKeyBuilderTest, ATenantHasAllItsScopesAndNoOthers) {
  const auto of = [](std::string_view tenant) {
    return ScopeKeyBuilder(TestSecret()).Tenant(tenant).Model(Sha256Digest{}, TinyLayout());
  };
  const ScopeKey plain = *of("t").Build();
  for (const ScopeKey& own : {*of("t").Region("r").Build(), *of("t").Permission("p").Salt("s").Build(),
                              *of("t").EffectiveDate("2026-01-01").Build()}) {
    EXPECT_EQ(own.tenant(), plain.tenant());
    EXPECT_TRUE(ScopeSet(plain.tenant()).Covers(own));
    EXPECT_FALSE(ScopeSet(plain.family()).Covers(own));
  }
  for (const std::string_view other : {"T", "t ", "tt", ""}) {
    EXPECT_FALSE(ScopeSet(plain.tenant()).Covers(*of(other).Build())) << other;
  }
}

TEST(ScopeKeyBuilderTest, ModelAndLayoutAreInTheKey) {
  Sha256Digest other_digest{};
  other_digest[31] = 1;
  std::vector<std::pair<Sha256Digest, KvLayout>> models = {{{}, TinyLayout()}, {other_digest, TinyLayout()}};
  const auto vary = [&](const std::function<void(KvLayout&)>& change) {
    models.emplace_back(Sha256Digest{}, TinyLayout());
    change(models.back().second);
  };
  vary([](auto& l) { l.type = KvType::kBF16; });
  vary([](auto& l) { l.page_tokens = 32; });
  vary([](auto& l) { l.n_layers = 2; });
  vary([](auto& l) { l.n_kv_heads = 2; });
  vary([](auto& l) { l.k_dim = 2; });
  vary([](auto& l) { l.v_dim = 2; });
  vary([](auto& l) { l.latent = true; });
  std::unordered_set<ScopeKey, KeyHash> keys;
  for (const auto& [digest, layout] : models) {
    keys.insert(*ScopeKeyBuilder(TestSecret()).Tenant("t").Model(digest, layout).Build());
  }
  EXPECT_EQ(keys.size(), models.size());
}

TEST(ScopeKeyBuilderTest, SecretDecidesTheKey) {
  const auto with = [](const ScopeSecret& secret) {
    return *ScopeKeyBuilder(secret).Tenant("t").Model(Sha256Digest{}, TinyLayout()).Build();
  };
  EXPECT_EQ(with(TestSecret()), with(TestSecret()));
  EXPECT_FALSE(with(*ScopeSecret::Random()) == with(*ScopeSecret::Random()));
}

TEST(ScopeKeyBuilderTest, FingerprintIsTheEndOfAnHmac) {
  const ScopeKeyBuilder builder = Base();
  const std::string text = builder.Encoding(ScopeKeyBuilder::Extent::kScope);
  const auto secret = TestSecretBytes();
  uint8_t mac[32];
  unsigned int size = 0;
  HMAC(EVP_sha256(), secret.data(), 32, reinterpret_cast<const uint8_t*>(text.data()), text.size(), mac, &size);
  EXPECT_EQ(builder.Build()->Fingerprint(), HexOf({mac + 24, 8}));
}

TEST(ScopeKeyBuilderTest, RefusesWhatBelongsToNobody) {
  EXPECT_EQ(ScopeKeyBuilder(TestSecret()).Model(Sha256Digest{}, TinyLayout()).Build().error().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(ScopeKeyBuilder(TestSecret()).Tenant("t").Build().error().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Base().Region("a").Region("b").Build().error().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Base().Region("a").Region("a").Build().has_value());
}

TEST(TokenHashTest, IsSipHashOfTheAuthorsVector) {
  // Key 00 to 0f, input 00 to 0e: the example in the paper's appendix.
  std::vector<uint8_t> input;
  for (uint8_t i = 0; i < 15; ++i) input.push_back(i);
  EXPECT_EQ(TokenHash(0x0706050403020100, 0x0f0e0d0c0b0a0908).OfBytes(input), 0xa129ca6149be45e5u);
}

TEST(TokenHashTest, AgreesWithOpenSsl) {
  EVP_MAC* mac = EVP_MAC_fetch(nullptr, "SIPHASH", nullptr);
  ASSERT_NE(mac, nullptr);
  EVP_MAC_CTX* context = EVP_MAC_CTX_new(mac);
  std::vector<uint8_t> key(16), input;
  for (uint8_t i = 0; i < 16; ++i) key[i] = static_cast<uint8_t>(31 * i + 5);
  size_t size = 8;
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_size_t("size", &size), OSSL_PARAM_construct_end()};
  uint64_t word[2];
  std::memcpy(word, key.data(), 16);
  for (size_t length = 0; length < 80; ++length) {
    uint64_t expected = 0;
    size_t written = 0;
    ASSERT_EQ(EVP_MAC_init(context, key.data(), key.size(), params), 1);
    ASSERT_EQ(EVP_MAC_update(context, input.data(), input.size()), 1);
    ASSERT_EQ(EVP_MAC_final(context, reinterpret_cast<uint8_t*>(&expected), &written, 8), 1);
    EXPECT_EQ(TokenHash(word[0], word[1]).OfBytes(input), expected) << length;
    input.push_back(static_cast<uint8_t>(length * 7));
  }
  EVP_MAC_CTX_free(context);
  EVP_MAC_free(mac);
}

}  // namespace
}  // namespace surety::kv
