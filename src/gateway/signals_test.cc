#include "gateway/signals.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/random.h"
#include "gateway/intent_classifier.h"

namespace surety::gateway {
namespace {

using testing::HasSubstr;

SignalSpec PhraseSpec(const std::string& name, std::map<std::string, std::vector<std::string>> phrases) {
  SignalSpec spec;
  spec.name = name;
  spec.by = SignalSpec::By::kPhrases;
  spec.phrases = std::move(phrases);
  return spec;
}

SignalSpec AmountSpec(const std::string& pattern = R"((?i)[$\x{20AC}]\s?([0-9][0-9., ]*[0-9]?\s?(?:k|m|million)?))") {
  SignalSpec spec;
  spec.name = "amount";
  spec.by = SignalSpec::By::kPattern;
  spec.pattern = pattern;
  spec.number = true;
  return spec;
}

std::unique_ptr<SignalReader> ReaderOf(const Policy& policy, const std::string& directory = {}, EmbedTexts embed = {}) {
  auto reader = SignalReader::Make(policy, directory, std::move(embed));
  EXPECT_TRUE(reader.has_value()) << reader.error().message();
  return reader ? std::move(*reader) : nullptr;
}

SignalValue ReadOne(const Policy& policy, std::string_view text, std::string_view all = {},
                    const api::Caller& caller = {}) {
  return ReaderOf(policy)->Read(text, all, caller).values.at(policy.signals[0].name);
}

std::string FaultOfSignals(const Policy& policy, const std::string& directory = {}, EmbedTexts embed = {}) {
  auto reader = SignalReader::Make(policy, directory, std::move(embed));
  return reader ? "" : reader.error().message();
}

TEST(SignalsTest, ARightIsHeardHoweverItIsTyped) {
  Policy policy;
  policy.signals = {PhraseSpec("rights", {{"", {"did not authorise", "didn't authorise", "unauthorised", "dispute",
                                                "erreur de facturation"}}})};
  for (const char* text : {
           "I did not authorise this", "i DID NOT AUTHORISE this", "I did  not\tauthorise this",
           "I did not\nauthorise this",
           "I did **not** authorise this", "I did not author**ise** this", "> I did not\n> authorise this",
           "I did not, authorise this", "I did not authorise!", "\"did not authorise\"", "I didn\u2019t authorise this",
           "I didnt authorise this", "I d\u200Bid n\u200Dot autho\u00ADrise", "I did\u00A0not\u2003authorise",
           "\uFF29 \uFF44\uFF49\uFF44 \uFF4E\uFF4F\uFF54 \uFF41\uFF55\uFF54\uFF48\uFF4F\uFF52\uFF49\uFF53\uFF45",
           "I \U0001D41D\U0001D422\U0001D41D not authorise", "an un\u0430uthorised charge (a Cyrillic letter)",
           "I d\u00EDsp\u00FAte it", "d\u0456spute", "charge/dispute/refund", "#dispute", "_dispute_", "Dispute.",
           "une erreur de factur\u0061\u0301tion", "\xFF dispute \xC3", "dis\xFFpute",
           "d i s p u t e", "d.i.s.p.u.t.e", "dis-\npute", "disput3", "dis<b>pute</b>", "dispute&nbsp;it",
           "did<br>not&nbsp;authorise"}) {
    EXPECT_EQ(ReadOne(policy, text).label, "true") << text;
  }
  for (const char* text : {"I authorise this", "disputes", "indisputable", "I did authorise, not him",
                           "did not. Authorise it", "", "a dis"}) {
    EXPECT_EQ(ReadOne(policy, text).label, "false") << text;
  }
}

TEST(SignalsTest, ARightOnceSaidCountsInTheWholeConversationAndLabelsInTheLastTurn) {
  Policy policy;
  policy.signals = {PhraseSpec("rights", {{"true", {"dispute"}}}), PhraseSpec("topic", {{"cards", {"card"}}})};
  const auto reader = ReaderOf(policy);
  const Signals signals = reader->Read("thank you", "I dispute it\nWhich card?\nthank you", {});
  EXPECT_EQ(signals.values.at("rights").label, "true");
  EXPECT_EQ(signals.values.at("topic").label, "none");
  EXPECT_EQ(reader->Read("my card", "hello", {}).values.at("topic").label, "cards");
  EXPECT_EQ(reader->Read("I dispute it", "", {}).values.at("rights").label, "true") << "the turn itself is part of it";
  EXPECT_EQ(reader->Read("pute it", "end dis", {}).values.at("rights").label, "false");
}

TEST(SignalsTest, PhrasesOfTwoLabelsAbstain) {
  Policy policy;
  policy.signals = {PhraseSpec("topic", {{"cards", {"card", "pin"}}, {"loans", {"loan"}}})};
  EXPECT_EQ(ReadOne(policy, "my card's pin").label, "cards");
  EXPECT_EQ(ReadOne(policy, "a loan").label, "loans");
  EXPECT_EQ(ReadOne(policy, "a loan on my card").label, "abstained");
  EXPECT_EQ(ReadOne(policy, "hello").label, "none");
}

TEST(SignalsTest, TheLargestNumberCountsAndOneThatCanNotBeReadAbstains) {
  Policy policy;
  policy.signals = {AmountSpec()};
  const std::pair<const char*, double> amounts[] = {
      {"pay $10,000 and $500 please", 10000}, {"$5 then \u20AC 12 000!", 12000}, {"**$**10k", 10000},
      {"$\uFF11\uFF10\uFF10", 100}, {"$1.5 million", 1.5e6}};
  for (const auto& [text, value] : amounts) {
    const SignalValue read = ReadOne(policy, text);
    EXPECT_TRUE(read.has_number) << text;
    EXPECT_DOUBLE_EQ(read.number, value) << text;
  }
  EXPECT_EQ(ReadOne(policy, "$10,000").label, "10000");
  EXPECT_EQ(ReadOne(policy, "ten dollars").label, "none");
  EXPECT_FALSE(ReadOne(policy, "ten dollars").has_number);
  const SignalValue two = ReadOne(policy, "$5 and $12 34");
  EXPECT_EQ(two.label, "abstained");
  EXPECT_FALSE(two.has_number);
  policy.signals = {AmountSpec("(x)?$")};   // an empty match at the end, its group without a part in it
  EXPECT_EQ(ReadOne(policy, "abc\u00E9").label, "none");
  policy.signals[0].number = false;
  policy.signals[0].pattern = "(?i)iban\\b";
  EXPECT_EQ(ReadOne(policy, "my \uFF29BAN").label, "true");
  EXPECT_EQ(ReadOne(policy, "ibanez").label, "false");
}

TEST(SignalsTest, MetadataHasListedTextsOnlyAndLengthCountsCharacters) {
  Policy policy;
  SignalSpec channel;
  channel.name = "channel";
  channel.by = SignalSpec::By::kMetadata;
  channel.key = "channel";
  channel.values = {"app", "web"};
  policy.signals = {channel};
  api::Caller caller;
  EXPECT_EQ(ReadOne(policy, "", "", caller).label, "none");
  for (const boost::json::value& said : {boost::json::value("App"), boost::json::value(" app"), boost::json::value(1),
                                         boost::json::value(nullptr), boost::json::value(boost::json::array{"app"}),
                                         boost::json::value("admin"), boost::json::value("abstained")}) {
    caller.metadata["channel"] = said;
    EXPECT_EQ(ReadOne(policy, "", "", caller).label, "none") << boost::json::serialize(said);
  }
  caller.metadata["channel"] = "web";
  EXPECT_EQ(ReadOne(policy, "", "", caller).label, "web");

  policy.signals[0].by = SignalSpec::By::kLength;
  EXPECT_EQ(ReadOne(policy, "caf\u00E9 \U0001F600").number, 6);
  EXPECT_EQ(ReadOne(policy, "", "long history").label, "0");
}

// A classifier of three labels along three axes, in a folder of its own, and an embedder that knows three words.
class ClassifierSignalTest : public testing::Test {
 protected:
  ClassifierSignalTest() {
    folder_ = std::filesystem::temp_directory_path() / ("surety-signals-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    IntentClassifier c;
    c.labels = {"balance", "dispute", "greeting"};
    c.label_rows = {1, 1, 1};
    c.dimension = 3;
    for (int label = 0; label < 3; ++label) {
      for (int j = 0; j < 4; ++j) c.weights.push_back(j == label ? 6.0F : 0.0F);
    }
    c.embedding_model = "three-words";
    c.probe_text = "balance";
    c.probe_vector = {1, 0, 0};
    c.training_digest = std::string(64, '0');
    std::ofstream(folder_ / "intents.json") << boost::json::serialize(ToJson(c));
    SignalSpec spec;
    spec.name = "intent";
    spec.by = SignalSpec::By::kClassifier;
    spec.file = "intents.json";
    spec.min_confidence = 0.8;
    spec.groups = {{"faq", {"greeting"}}, {"money", {"balance", "dispute"}}};
    policy_.signals = {spec};
  }
  ~ClassifierSignalTest() override { std::filesystem::remove_all(folder_); }

  static Result<std::vector<std::vector<float>>> Embed(std::span<const std::string> texts) {
    std::vector<std::vector<float>> out;
    for (const std::string& text : texts) {
      if (text.contains("crash")) return Error(UnavailableError("the embedding model is gone"));
      std::vector<float> x = {text.contains("balance") ? 1.0F : 0.0F, text.contains("dispute") ? 1.0F : 0.0F,
                              text.contains("hello") ? 1.0F : 0.0F};
      if (text.contains("short")) x.pop_back();
      if (text.contains("nan")) x[0] = NAN;
      out.push_back(x);
    }
    return out;
  }
  std::unique_ptr<SignalReader> Reader() const { return ReaderOf(policy_, folder_.string(), Embed); }
  std::string Fault(EmbedTexts embed = Embed) const {
    return FaultOfSignals(policy_, folder_.string(), std::move(embed));
  }

  std::filesystem::path folder_;
  Policy policy_;
};

TEST_F(ClassifierSignalTest, SureLabelsAreGivenAndAllElseAbstains) {
  const auto reader = Reader();
  const auto read = [&](const char* text) { return reader->Read(text, "", {}).values.at("intent"); };
  EXPECT_EQ(read("my balance").label, "balance");
  EXPECT_NEAR(read("my balance").confidence, std::exp(6) / (std::exp(6) + 2), 1e-9);
  EXPECT_EQ(read("hello").label, "greeting");
  EXPECT_EQ(read("hello, I dispute it").label, "abstained") << "two at once: each is half as likely";
  EXPECT_NEAR(read("hello, I dispute it").confidence, 0.5, 0.01);
  for (const char* text : {"crash balance", "short balance", "nan balance", "", " \u200B ", "anything else"}) {
    EXPECT_EQ(read(text).label, "abstained") << text;
  }
}

TEST_F(ClassifierSignalTest, MistakesAreToldWhenThePolicyIsLoaded) {
  EXPECT_EQ(Fault(), "");
  EXPECT_THAT(Fault({}), HasSubstr("signal 'intent'"));
  EXPECT_THAT(Fault({}), HasSubstr("needs the embedding model three-words, and none is served"));
  const auto other = [](std::span<const std::string>) -> Result<std::vector<std::vector<float>>> {
    return std::vector<std::vector<float>>{{0, 1, 0}};
  };
  EXPECT_THAT(Fault(other), HasSubstr("the embedding model here makes other ones"));
  policy_.signals[0].groups["faq"] = {"greting"};
  EXPECT_THAT(Fault(), HasSubstr("has no label \"greting\"; did you mean \"greeting\"?"));
  policy_.signals[0].groups.clear();
  policy_.routes.resize(1);
  policy_.routes[0].name = "r";
  policy_.routes[0].when = {{"intent", {"disputes"}, {}, {}, {}}};
  EXPECT_THAT(Fault(), HasSubstr("route r: intents.json has no label \"disputes\"; did you mean \"dispute\"?"));
  policy_.routes.clear();
  policy_.signals[0].min_confidence = 1.5;
  EXPECT_THAT(Fault(), HasSubstr("min_confidence 1.5"));
  policy_.signals[0].file = "absent.json";
  EXPECT_THAT(Fault(), HasSubstr("absent.json"));
  EXPECT_EQ(SignalReader::Make(policy_, folder_.string(), Embed).error().code(), StatusCode::kNotFound);
}

TEST(SignalsTest, MistakesNameTheSignal) {
  Policy policy;
  policy.signals = {PhraseSpec("rights", {})};
  EXPECT_EQ(FaultOfSignals(policy), "signal 'rights': no phrases");
  policy.signals = {PhraseSpec("rights", {{"", {"..."}}})};
  EXPECT_THAT(FaultOfSignals(policy), HasSubstr("signal 'rights': "));
  policy.signals = {PhraseSpec("topic", {{"none", {"x"}}, {"a", {"y"}}})};
  EXPECT_THAT(FaultOfSignals(policy), HasSubstr("\"none\" can not be a label"));
  policy.signals = {AmountSpec("([0-9]+")};
  EXPECT_THAT(FaultOfSignals(policy), HasSubstr("signal 'amount': pattern \"([0-9]+\": missing )"));
  policy.signals = {AmountSpec("[0-9]+")};
  EXPECT_THAT(FaultOfSignals(policy), HasSubstr("put the number in parentheses"));
  policy.signals = {AmountSpec(), AmountSpec()};
  EXPECT_THAT(FaultOfSignals(policy), HasSubstr("signal 'amount': the name stands twice"));
  policy.signals = {AmountSpec()};
  policy.signals[0].by = SignalSpec::By::kMetadata;
  EXPECT_THAT(FaultOfSignals(policy), HasSubstr("a key and the values that count"));
}

// A conversation of one message is its last turn and a line feed: read once. The plain way reads both; a line feed more
// before it makes that sure.
TEST(SignalsTest, AConversationOfOneMessageIsReadAsOneOfMany) {
  Policy policy;
  policy.signals = {PhraseSpec("rights", {{"", {"did not authorise", "dispute", "i s a", "42", "e2e"}}}),
                    PhraseSpec("intent", {{"fees", {"fee", "what it costs"}},
                                          {"hours", {"opening hours", "open 24 h"}}})};
  const auto reader = ReaderOf(policy);
  const std::vector<std::string> pieces = {
      "did",     "not",  "authorise", "auth\u00ADorise", "disput3", "dispute", "d i s p u t e", "fee",  "fees",
      "opening", "hours", " ",        " ",               " ",       "\n",      "-",             "\xFF", "\xC3",
      "42",      "e2e",  "a\u0301",   "\u0430",          "<b>",     "&am",     "&amp;",         "<!-",  "**",
      ".",       "1",    "|",         "\r",              "what it costs",      "open 24",       "h",    "\uFF44",
      "\u200B",  "is a", "i",         "s"};
  uint64_t n_true = 0;
  for (uint64_t n = 0; n < 20'000; ++n) {
    const RandomKey key{.seed = 9, .position = n, .purpose = RandomPurpose::kTest};
    std::string text;
    for (uint64_t i = 0; i < 1 + RandomBits(key, 0) % 7; ++i) {
      text += pieces[RandomBits(key, static_cast<uint32_t>(1 + i)) % pieces.size()];
    }
    const Signals one = reader->Read(text, text + "\n", {}), many = reader->Read(text, "\n" + text + "\n", {});
    for (const char* name : {"rights", "intent"}) {
      ASSERT_EQ(one.values.at(name).label, many.values.at(name).label) << name << " in '" << text << "'";
    }
    n_true += one.values.at("rights").label == "true";
  }
  EXPECT_GT(n_true, 1000u);
  EXPECT_LT(n_true, 19'000u);
}

TEST(SignalsTest, ANumberIsWrittenAsFmtWritesIt) {
  Policy policy;
  policy.signals = {AmountSpec()};
  const auto reader = ReaderOf(policy);
  for (const double number : {0.0, 1.0, 0.5, 12.25, 100000.0, 999'999'999'999'999.0, 1e15, 1e16, 123456789012345.0}) {
    const SignalValue value = reader->Read("it is $" + fmt::format("{:f}", number), {}, {}).values.at("amount");
    EXPECT_EQ(value.number, number);
    EXPECT_EQ(value.label, fmt::format("{}", number));
  }
}

}  // namespace
}  // namespace surety::gateway
