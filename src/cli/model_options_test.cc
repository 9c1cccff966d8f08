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

}  // namespace
}  // namespace surety::cli
