#include "gateway/payload_vault.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <thread>

#include <boost/json.hpp>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <sqlite3.h>

#include "base/hash.h"
#include "gateway/partition.h"

namespace surety::gateway {
namespace {

class PayloadVaultTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("surety_vault_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path(const char* name) const { return (folder_ / name).string(); }
  std::unique_ptr<PayloadVault> OpenVault() {
    auto vault = PayloadVault::Open(Path("vault.db"), Path("vault.key"));
    EXPECT_TRUE(vault) << vault.error().ToString();
    return vault ? *std::move(vault) : nullptr;
  }
  std::string AllBytes() const {
    std::string all;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      std::ifstream file(entry.path(), std::ios::binary);
      all += std::string(std::istreambuf_iterator<char>(file), {});
    }
    return all;
  }
  std::filesystem::path folder_;
};

TEST_F(PayloadVaultTest, GivesBackWhatWasSealedAlsoAfterARestart) {
  const std::string text("question\0answer", 15);
  boost::json::object sealed;
  {
    const auto vault = OpenVault();
    auto made = vault->Seal("acme", "anna", "dec_1", text);
    ASSERT_TRUE(made);
    sealed = *made;
    EXPECT_EQ(vault->Unseal(sealed, "dec_1").value(), text);
  }
  EXPECT_EQ(OpenVault()->Unseal(sealed, "dec_1").value(), text);
}

TEST_F(PayloadVaultTest, AnErasedSubjectsTextsAreGoneAndNobodyElses) {
  const auto vault = OpenVault();
  const auto anna = vault->Seal("acme", "anna", "dec_1", "anna's").value();
  const auto bert = vault->Seal("acme", "bert", "dec_2", "bert's").value();
  const auto other = vault->Seal("bank", "anna", "dec_3", "another anna's").value();
  EXPECT_EQ(vault->Erase("acme", "anna").value(), 1);
  EXPECT_EQ(vault->Erase("acme", "anna").value(), 0);
  EXPECT_EQ(vault->Unseal(anna, "dec_1").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(vault->Unseal(bert, "dec_2").value(), "bert's");
  EXPECT_EQ(vault->Unseal(other, "dec_3").value(), "another anna's");
  // A new text of the subject has a new key, which does not open the old ones.
  const auto later = vault->Seal("acme", "anna", "dec_4", "new").value();
  EXPECT_EQ(vault->Unseal(later, "dec_4").value(), "new");
  EXPECT_EQ(vault->Unseal(anna, "dec_1").error().code(), StatusCode::kDataLoss);
}

TEST_F(PayloadVaultTest, EachChangedByteAndAnotherDecisionAreRefused) {
  const auto vault = OpenVault();
  const auto sealed = vault->Seal("acme", "anna", "dec_1", "the text").value();
  EXPECT_EQ(vault->Unseal(sealed, "dec_2").error().code(), StatusCode::kDataLoss);
  for (const char* part : {"nonce", "data", "tag"}) {
    const std::string text(sealed.at(part).as_string());
    for (size_t i = 0; i < text.size(); ++i) {
      auto changed = sealed;
      std::string other = text;
      other[i] = other[i] == '0' ? '1' : '0';
      changed[part] = other;
      EXPECT_EQ(vault->Unseal(changed, "dec_1").error().code(), StatusCode::kDataLoss) << part << " " << i;
    }
  }
}

TEST_F(PayloadVaultTest, NoFileHoldsTheTextOrTheNames) {
  {
    const auto vault = OpenVault();
    const auto sealed = vault->Seal("tenant-of-test", "subject-of-test", "dec_1", "secret sentence").value();
    EXPECT_EQ(boost::json::serialize(sealed).find("secret sentence"), std::string::npos);
  }
  const std::string all = AllBytes();
  EXPECT_GT(all.size(), 100u);
  for (const char* text : {"secret sentence", "tenant-of-test", "subject-of-test"}) {
    EXPECT_EQ(all.find(text), std::string::npos) << text;
  }
}

TEST_F(PayloadVaultTest, AMasterKeyThatIsNoneIsNeverReplaced) {
  { std::ofstream(Path("vault.key")) << "short"; }
  chmod(Path("vault.key").c_str(), 0600);
  EXPECT_EQ(PayloadVault::Open(Path("vault.db"), Path("vault.key")).error().code(), StatusCode::kDataLoss);
  std::filesystem::remove(Path("vault.key"));
  const auto sealed = OpenVault()->Seal("a", "b", "d", "t").value();
  chmod(Path("vault.key").c_str(), 0644);
  EXPECT_EQ(PayloadVault::Open(Path("vault.db"), Path("vault.key")).error().code(), StatusCode::kFailedPrecondition);
  chmod(Path("vault.key").c_str(), 0600);
  EXPECT_EQ(OpenVault()->Unseal(sealed, "d").value(), "t");
}

TEST_F(PayloadVaultTest, AMissingOrWrongMasterKeyIsFoundAtTheStart) {
  for (const bool used : {true, false}) {  // one without keys too
    auto vault = OpenVault();
    if (used) {
      ASSERT_TRUE(vault->Seal("a", "b", "d", "t"));
    }
    vault.reset();
    std::filesystem::rename(Path("vault.key"), Path("kept.key"));
    EXPECT_EQ(PayloadVault::Open(Path("vault.db"), Path("vault.key")).error().code(), StatusCode::kFailedPrecondition);
    EXPECT_FALSE(std::filesystem::exists(Path("vault.key")));
    { std::ofstream(Path("vault.key")) << std::string(32, 'x'); }
    chmod(Path("vault.key").c_str(), 0600);
    EXPECT_EQ(PayloadVault::Open(Path("vault.db"), Path("vault.key")).error().code(), StatusCode::kDataLoss);
    std::filesystem::rename(Path("kept.key"), Path("vault.key"));
    ASSERT_NE(OpenVault(), nullptr);
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
}

TEST_F(PayloadVaultTest, ACrashWhileTheKeyIsMadeLeavesNothingInTheWay) {
  { std::ofstream(Path("vault.key.Ab12Cd")) << "half"; }  // of a process that died
  const auto vault = OpenVault();
  ASSERT_NE(vault, nullptr);
  EXPECT_EQ(std::filesystem::file_size(Path("vault.key")), 32u);
  size_t n_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    n_files += entry.path().filename().string().starts_with("vault.key");
  }
  EXPECT_EQ(n_files, 2u);  // the key and the dead one's, and none of ours
}

TEST_F(PayloadVaultTest, OnlyTheOwnerMayReadTheFiles) {
  const auto mode = [&](const char* name) {
    struct stat facts {};
    return stat(Path(name).c_str(), &facts) == 0 ? facts.st_mode & 0777 : 0;
  };
  { ASSERT_TRUE(OpenVault()->Seal("a", "b", "d", "t")); }
  for (const char* name : {"vault.db", "vault.key"}) EXPECT_EQ(mode(name), 0600u) << name;
  chmod(Path("vault.db").c_str(), 0644);  // as an earlier version made it
  const auto vault = OpenVault();
  ASSERT_TRUE(vault->Seal("a", "c", "d", "t"));
  for (const char* name : {"vault.db", "vault.db-wal"}) EXPECT_EQ(mode(name), 0600u) << name;
}

// The name stands beside the wrapped key: where one is found, so is the other.
TEST_F(PayloadVaultTest, AKeysBytesThatAReaderKeepsAreReported) {
  const auto vault = OpenVault();
  const auto sealed = vault->Seal("acme", "anna", "dec_1", "text").value();
  sqlite3* reader = nullptr;
  ASSERT_EQ(sqlite3_open(Path("vault.db").c_str(), &reader), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM keys", nullptr, nullptr, nullptr), SQLITE_OK);
  const std::string name(sealed.at("key").as_string());
  EXPECT_NE(AllBytes().find(name), std::string::npos);
  const auto blocked = vault->Erase("acme", "anna");
  ASSERT_FALSE(blocked);
  EXPECT_EQ(blocked.error().code(), StatusCode::kUnavailable);
  EXPECT_NE(AllBytes().find(name), std::string::npos);
  EXPECT_EQ(vault->Unseal(sealed, "dec_1").error().code(), StatusCode::kNotFound);
  ASSERT_EQ(sqlite3_exec(reader, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(reader);
  EXPECT_EQ(vault->Erase("acme", "anna").value(), 1);  // of both calls
  EXPECT_EQ(AllBytes().find(name), std::string::npos);
  EXPECT_EQ(vault->Erase("acme", "anna").value(), 0);
}

// Keys as an earlier version named and wrapped them, texts as it spelled them.
TEST_F(PayloadVaultTest, AnEarlierVersionsVaultIsReadAndErased) {
  const std::string master(32, 'm');
  { std::ofstream(Path("vault.key")) << master; }
  chmod(Path("vault.key").c_str(), 0600);
  const auto encrypt = [](std::string_view key, std::string_view context, std::string_view text) {
    std::array<std::string, 3> out = {std::string(12, 'n'), std::string(text.size(), 0), std::string(16, 0)};
    EVP_CIPHER_CTX* cipher = EVP_CIPHER_CTX_new();
    const auto bytes = [](std::string_view t) { return reinterpret_cast<const unsigned char*>(t.data()); };
    const auto into = [](std::string& t) { return reinterpret_cast<unsigned char*>(t.data()); };
    int n = 0;
    EVP_EncryptInit_ex(cipher, EVP_aes_256_gcm(), nullptr, bytes(key), bytes(out[0]));
    EVP_EncryptUpdate(cipher, nullptr, &n, bytes(context), static_cast<int>(context.size()));
    EVP_EncryptUpdate(cipher, into(out[1]), &n, bytes(text), static_cast<int>(text.size()));
    EVP_EncryptFinal_ex(cipher, into(out[1]) + n, &n);
    EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_GET_TAG, 16, out[2].data());
    EVP_CIPHER_CTX_free(cipher);
    return out;
  };
  const auto hex = [](const std::string& t) {
    return HexOf(std::span(reinterpret_cast<const uint8_t*>(t.data()), t.size()));
  };
  std::string named = master;
  AppendField(named, 1, "acme");
  AppendField(named, 2, "anna");
  const std::string name = HexOf(Sha256Of(std::as_bytes(std::span(named)))), key(32, 'k');
  const auto wrapped = encrypt(master, name, key);
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(Path("vault.db").c_str(), &raw), SQLITE_OK);
  const std::string sql = "CREATE TABLE keys(name TEXT PRIMARY KEY, nonce BLOB NOT NULL, data BLOB NOT NULL, tag BLOB "
                          "NOT NULL) WITHOUT ROWID; INSERT INTO keys VALUES('" + name + "', x'" + hex(wrapped[0]) +
                          "', x'" + hex(wrapped[1]) + "', x'" + hex(wrapped[2]) + "')";
  ASSERT_EQ(sqlite3_exec(raw, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(raw);
  const auto text = encrypt(key, "dec_1", "an old text");
  const boost::json::object sealed{
      {"key", name}, {"nonce", hex(text[0])}, {"data", hex(text[1])}, {"tag", hex(text[2])}};
  const auto vault = OpenVault();
  ASSERT_NE(vault, nullptr);
  EXPECT_EQ(vault->Unseal(sealed, "dec_1").value(), "an old text");
  const auto later = vault->Seal("acme", "anna", "dec_2", "a new text").value();
  EXPECT_NE(later.at("key"), sealed.at("key"));
  EXPECT_EQ(vault->Erase("acme", "anna").value(), 2);
  EXPECT_EQ(vault->Unseal(sealed, "dec_1").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(vault->Unseal(later, "dec_2").error().code(), StatusCode::kNotFound);
}

TEST_F(PayloadVaultTest, AsTextItIsWhatTheObjectWouldBe) {
  const auto vault = OpenVault();
  for (const std::string& text : {std::string(), std::string("a"), std::string("ab"), std::string(5000, '\xFF')}) {
    const std::string sealed = vault->SealToText("acme", "anna", "dec_1", text).value();
    const boost::json::object object = boost::json::parse(sealed).as_object();
    EXPECT_EQ(boost::json::serialize(object), sealed);
    EXPECT_EQ(vault->Unseal(object, "dec_1").value(), text);
    const auto plain = vault->Seal("acme", "anna", "dec_1", text).value();
    EXPECT_EQ(object.at("key"), plain.at("key"));
    EXPECT_NE(object.at("nonce"), plain.at("nonce"));
    EXPECT_TRUE(std::ranges::equal(object, plain, {}, [](const auto& m) { return m.key(); },
                                   [](const auto& m) { return m.key(); }));
  }
}

// Names and keys are remembered; an erasure counts at once all the same, whatever is sealed beside it.
TEST_F(PayloadVaultTest, WhatIsRememberedOutlivesNoErasure) {
  const auto vault = OpenVault();
  const auto sealed_for = [&](const std::string& subject, const std::string& decision) {
    return boost::json::parse(vault->SealToText("acme", subject, decision, "text").value()).as_object();
  };
  (void)sealed_for("bert", "dec_0");
  std::atomic<bool> stop = false;
  std::thread beside([&] {
    while (!stop) (void)sealed_for("bert", "dec_0");
  });
  for (int i = 0; i < 20; ++i) {
    const auto first = sealed_for("anna", "dec_1"), second = sealed_for("anna", "dec_2");
    EXPECT_EQ(vault->Unseal(first, "dec_1").value(), "text");
    EXPECT_EQ(vault->Erase("acme", "anna").value(), 1);
    EXPECT_EQ(vault->Unseal(first, "dec_1").error().code(), StatusCode::kNotFound);
    EXPECT_EQ(vault->Unseal(second, "dec_2").error().code(), StatusCode::kNotFound);
    const auto later = sealed_for("anna", "dec_3");
    EXPECT_EQ(later.at("key"), first.at("key"));
    EXPECT_EQ(vault->Unseal(first, "dec_1").error().code(), StatusCode::kDataLoss);
    EXPECT_EQ(OpenVault()->Unseal(later, "dec_3").value(), "text");   // its key is in the file
  }
  stop = true;
  beside.join();
}

}  // namespace
}  // namespace surety::gateway
