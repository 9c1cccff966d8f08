// What of a request goes into a model's context.
#include "gateway/context_builder.h"

#include <gtest/gtest.h>

namespace surety::gateway {
namespace {

TEST(ContextBuilderTest, AModelWhoseLengthIsNotKnownGetsWhatThePolicyAllows) {
  RouteSpec route;
  route.name = "r";
  route.system = "Be brief.";
  ContextSpec spec;
  spec.max_input_tokens = 100;
  Conversation conversation;
  conversation.question = "Where is my card?";
  const CountTokens count = [](std::string_view text) { return static_cast<int>(text.size()) / 3; };
  const PersonalDataFinder nothing = [](std::string_view) { return std::vector<std::string>(); };
  ContextRequest request;
  request.route = &route;
  const auto fits = [&] { return BuildContext(request, conversation, {}, count, nothing).has_value(); };
  EXPECT_TRUE(fits()) << "its server refuses what is too long";
  request.spec = &spec;
  EXPECT_TRUE(fits());
  spec.max_input_tokens = 10;
  EXPECT_FALSE(fits());
  spec.max_input_tokens = 100;
  request.context_tokens = 520;
  EXPECT_FALSE(fits()) << "a length that is known counts, less what is kept for the answer";
  request.context_tokens = 1024;
  EXPECT_TRUE(fits());
}

}  // namespace
}  // namespace surety::gateway
