#include "gateway/payload_vault.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

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
    const std::string hex(sealed.at(part).as_string());
    for (size_t i = 0; i < hex.size(); ++i) {
      auto changed = sealed;
      std::string other = hex;
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
  std::filesystem::remove(Path("vault.key"));
  EXPECT_EQ(OpenVault()->Unseal(sealed, "d").error().code(), StatusCode::kDataLoss);  // another master key
}

}  // namespace
}  // namespace surety::gateway
