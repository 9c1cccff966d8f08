#include "cli/model_options.h"

#include <gtest/gtest.h>

namespace surety::cli {
namespace {

TEST(ModelOptionsTest, ModelIsNamedAfterTheLastPartOfItsPath) {
  EXPECT_EQ(ModelNameOf("/models/tiny.gguf"), "tiny");
  EXPECT_EQ(ModelNameOf("tiny.gguf"), "tiny");
  EXPECT_EQ(ModelNameOf("/models/hf"), "hf");
  EXPECT_EQ(ModelNameOf("/models/hf/"), "hf");
  EXPECT_EQ(ModelNameOf("hf//"), "hf");
  EXPECT_EQ(ModelNameOf("/models/hf/."), "hf");
  EXPECT_NE(ModelNameOf("."), "");
  EXPECT_NE(ModelNameOf("/"), "");
}

TEST(ModelOptionsTest, FlagsOfSpeculationBecomeOptionsThatTheEngineTakes) {
  for (int draft_max = 0; draft_max <= 63; ++draft_max) {
    SpeculationFlags flags;
    flags.draft_max = draft_max;
    flags.draft_branches = 63 - draft_max / 2;
    ASSERT_TRUE(flags.Validate().ok());
    const engine::SpeculationOptions options = flags.Options();
    EXPECT_TRUE(options.Validate().ok());
    EXPECT_EQ(options.max_draft_tokens, draft_max);
    EXPECT_EQ(options.max_branches, 63 - draft_max / 2);
    EXPECT_GE(options.max_draft_rows, draft_max);
    flags.speculate = "off";
    EXPECT_TRUE(flags.Validate().ok());
    EXPECT_EQ(flags.Options().max_draft_tokens, 0);
  }
  EXPECT_EQ(SpeculationFlags().draft_max, 16);
}

TEST(ModelOptionsTest, FaultsOfSpeculationNameTheFlag) {
  SpeculationFlags flags;
  flags.speculate = "on";
  EXPECT_NE(flags.Validate().message().find("--speculate: 'on'"), std::string::npos);
  for (const int draft_max : {-1, 64}) {
    flags = SpeculationFlags();
    flags.draft_max = draft_max;
    EXPECT_NE(flags.Validate().message().find("--draft-max"), std::string::npos);
  }
  for (const int draft_branches : {0, 64}) {
    flags = SpeculationFlags();
    flags.draft_branches = draft_branches;
    EXPECT_NE(flags.Validate().message().find("--draft-branches"), std::string::npos);
  }
}

}  // namespace
}  // namespace surety::cli
