// Words of a policy that would mean nothing where it runs are refused when it is read.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/personal_data.h"
#include "gateway/testing/policy_text.h"

namespace surety::gateway {
namespace {

using ::testing::HasSubstr;
using policy_text::ReadEdited;

std::string ForbiddenFault(const std::string& kinds) {
  const auto policy = ReadEdited({{"forbidden: [ssn]", "forbidden: [" + kinds + "]"}});
  return policy ? "" : policy.error().message();
}

std::string PiiFault(const std::string& kinds) {
  const std::string verifier = "  codes: {kind: table";
  const auto policy = ReadEdited({{verifier, "  pii: {kind: pii, kinds: [" + kinds + "]}\n" + verifier}});
  return policy ? "" : policy.error().message();
}

TEST(PolicyWordsTest, KindsOfPersonalDataAreThoseThatCanBeFound) {
  for (const auto& fault : {ForbiddenFault, PiiFault}) {
    for (int i = 0; i < kPersonalKindCount; ++i) {
      EXPECT_EQ(fault(std::string(NameOf(static_cast<PersonalKind>(i)))), "");
    }
    EXPECT_THAT(fault("pan"), HasSubstr("'pan' is no kind of personal data that can be found; did you mean 'card'?"));
    EXPECT_THAT(fault("ssn, cards"), HasSubstr("'cards' is no kind of personal data that can be found; did you mean "
                                               "'card'?"));
    EXPECT_THAT(fault("suspicious_activity"), HasSubstr("there is card, ssn, itin, iban, email, phone, routing"));
    EXPECT_THAT(fault("Card"), HasSubstr("did you mean 'card'?"));
    EXPECT_THAT(fault("ssn, ssn"), HasSubstr("stands in this list twice"));
  }
}

}  // namespace
}  // namespace surety::gateway
