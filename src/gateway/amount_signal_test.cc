// The signal `by: amount`: what customers write of amounts, read by the rule book of text_numbers.h.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/policy_reader.h"
#include "gateway/signals.h"

namespace surety::gateway {
namespace {

// The risk that the example policy finds in a text.
Level DemoRisk(const std::string& text) {
  static const auto* policy = new Policy(*ReadPolicy(FileSystem::Real(), SURETY_TESTDATA
                                                     "/../policies/retail-demo/policy.yaml"));
  static const auto* reader =
      new std::unique_ptr<SignalReader>(*SignalReader::Make(*policy, SURETY_TESTDATA "/../policies/retail-demo", {}));
  return (*reader)->Read(text, text, {}).risk;
}

TEST(AmountSignalTest, ALargeAmountIsHighRiskHoweverItIsWritten) {
  for (const char* amount :
       {"USD 12000", "EUR 12,000", "12,000 Dollars", "$12 000", "$12k", "\u00A320,000", "twelve thousand dollars",
        "$12,000", "12000 usd", "12.000 \u20AC", "$ 12,000.50", "12K dollars", "12 grand", "$12 K", "\u20B95 lakh",
        "five lakh rupees", "$0.012 million", "$12 mil", "US$12,000", "$12'000", "$12,<b>000</b>", "$12&#44;000",
        "$12,**000**", "\uFF04\uFF11\uFF12\uFF10\uFF10\uFF10", "12 thousand bucks", "12 hundred thousand pounds",
        "a million dollars", "-$12,000", "\u00A512000", "CHF 12'000", "twelve grand"}) {
    EXPECT_EQ(DemoRisk(std::string("What are the fees to send ") + amount + " abroad?"), Level::kHigh) << amount;
  }
}

TEST(AmountSignalTest, ASmallAmountIsNot) {
  for (const char* amount : {"USD 900", "EUR 9,999", "10,000 Dollars", "$9 000", "$9k", "\u00A31,000", "nine dollars",
                             "$9,999.99", "12 cents", "nothing", "9 hundred dollars", "12000 steps"}) {
    EXPECT_EQ(DemoRisk(std::string("What are the fees to send ") + amount + " abroad?"), Level::kLow) << amount;
  }
}

TEST(AmountSignalTest, TheLargestCountsAndWhatIsNoNumberAbstains) {
  Policy policy;
  SignalSpec spec;
  spec.name = "amount";
  spec.by = SignalSpec::By::kAmount;
  policy.signals = {spec};
  const auto reader = SignalReader::Make(policy, "", {});
  ASSERT_TRUE(reader);
  const auto read = [&](std::string_view text) { return (*reader)->Read(text, text, {}).values.at("amount"); };
  EXPECT_EQ(read("from $5 to $7,000, not 9000 km").number, 7000);
  EXPECT_TRUE(read("from $5 to $7,000").has_number);
  EXPECT_EQ(read("no money, 9000 km").label, "none");
  EXPECT_EQ(read("").label, "none");
  EXPECT_EQ(read("send $0x2710").label, kAbstained);
  EXPECT_EQ(read("send $5 and $1.2.3.4").label, kAbstained);
}

}  // namespace
}  // namespace surety::gateway
