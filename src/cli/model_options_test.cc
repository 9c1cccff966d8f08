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

TEST(ModelOptionsTest, ADraftHeadAndItsRecipeComeFromFlags) {
  SpeculationFlags flags;
  flags.draft_head = "head";
  flags.draft_head_floor = 50;
  flags.draft_head_layers = "2,15,27";
  flags.draft_head_norm = "true";
  ASSERT_TRUE(flags.Validate().ok()) << flags.Validate().ToString();
  DraftFlags drafts = flags.Drafts();
  EXPECT_EQ(drafts.head.path, "head");
  EXPECT_EQ(drafts.head.entering_layers, (std::vector<int>{2, 15, 27}));
  EXPECT_FALSE(drafts.head.layer_ids_are_outputs);
  EXPECT_EQ(drafts.head.norm_before_residual, std::optional<bool>(true));
  EXPECT_EQ(drafts.head_check.floor, 0.5);
  flags.draft_head_layers = "outputs";
  flags.draft_head_norm = "";
  drafts = flags.Drafts();
  EXPECT_TRUE(drafts.head.layer_ids_are_outputs && drafts.head.entering_layers.empty());
  EXPECT_FALSE(drafts.head.norm_before_residual.has_value());
  flags.draft_max = 0;
  EXPECT_TRUE(flags.Drafts().head.path.empty()) << "a head that nobody asks is neither loaded nor tried";
  flags.draft_max = 16;
  flags.speculate = "lookup";
  EXPECT_TRUE(flags.Drafts().head.path.empty());
  flags.speculate = "model";
  EXPECT_TRUE(flags.Validate().ok());
}

TEST(ModelOptionsTest, WhereNothingIsNamedTheModelsOwnHeadDrafts) {
  SpeculationFlags flags;
  EXPECT_TRUE(flags.Drafts().own_head);
  EXPECT_FALSE(flags.Drafts().needed);
  EXPECT_TRUE(flags.DraftsOf("", "")->own_head);
  EXPECT_FALSE(flags.DraftsOf("", "none")->own_head);
  EXPECT_TRUE(flags.DraftsOf("", "none")->head.path.empty());
  EXPECT_FALSE(flags.DraftsOf("small", "")->own_head);
  flags.speculate = "model";
  EXPECT_TRUE(flags.Drafts().own_head && flags.Drafts().needed);
  EXPECT_FALSE(flags.DraftsOf("", "")->needed) << "a policy's model without a head may stand beside one with a head";
  flags.draft_head = "none";
  EXPECT_FALSE(flags.Validate().ok());
  flags.speculate = "auto";
  EXPECT_TRUE(flags.Validate().ok());
  EXPECT_FALSE(flags.Drafts().own_head);
  EXPECT_FALSE(flags.DraftsOf("", "")->own_head) << "none is for every model of the process";
  EXPECT_TRUE(flags.Drafts().head.path.empty());
  flags.draft_head = "";
  for (const char* none : {"off", "lookup"}) {
    flags.speculate = none;
    EXPECT_FALSE(flags.Drafts().own_head) << none;
    EXPECT_FALSE(flags.DraftsOf("", "")->own_head) << none;
    EXPECT_TRUE(flags.DraftsOf("", "none").has_value()) << none;
  }
  flags.speculate = "auto";
  flags.draft_model = "small";
  EXPECT_FALSE(flags.Drafts().own_head);
}

TEST(ModelOptionsTest, AnotherModelOfTheProcessHasADrafterOfItsOwn) {
  SpeculationFlags flags;
  flags.draft_model = "of the first model";
  flags.draft_head_floor = 20;
  auto drafts = flags.DraftsOf("", "head");
  ASSERT_TRUE(drafts.has_value());
  EXPECT_EQ(drafts->model, "");
  EXPECT_EQ(drafts->head.path, "head");
  EXPECT_EQ(drafts->head_check.floor, 0.2);
  drafts = flags.DraftsOf("", "");
  ASSERT_TRUE(drafts.has_value());
  EXPECT_TRUE(drafts->model.empty() && drafts->head.path.empty());
  EXPECT_EQ(flags.DraftsOf("small", "head").error().code(), StatusCode::kInvalidArgument);
  flags.speculate = "lookup";
  EXPECT_TRUE(flags.DraftsOf("", "").has_value());
  const auto refused = flags.DraftsOf("small", "");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message(), "'small' would draft nothing: this server was started with --speculate lookup");
}

TEST(ModelOptionsTest, FaultsOfADraftHeadNameTheFlag) {
  const auto message = [](auto change) {
    SpeculationFlags flags;
    flags.draft_head = "head";
    change(flags);
    return flags.Validate().message();
  };
  for (const char* layers : {"2,", "2;3", "two", "-1", ",1", "outputs,2"}) {
    EXPECT_NE(message([&](auto& f) { f.draft_head_layers = layers; }).find("--draft-head-layers"), std::string::npos)
        << layers;
  }
  EXPECT_NE(message([](auto& f) { f.draft_head_norm = "yes"; }).find("--draft-head-norm: 'yes'"), std::string::npos);
  EXPECT_NE(message([](auto& f) { f.draft_head_floor = 101; }).find("--draft-head-floor: 101"), std::string::npos);
  EXPECT_NE(message([](auto& f) { f.draft_model = "small"; }).find("exclude each other"), std::string::npos);
}

}  // namespace
}  // namespace surety::cli
