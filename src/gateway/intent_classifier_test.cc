#include "gateway/intent_classifier.h"

#include <cmath>

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace surety::gateway {
namespace {

using testing::HasSubstr;

IntentClassifier SmallClassifier() {
  IntentClassifier c;
  c.labels = {"balance", "dispute", "greeting"};
  c.label_rows = {3, 4, 5};
  c.dimension = 2;
  c.weights = {1, 0, 0.5F, 0, 2, -0.25F, -1, -1e-30F, 0.125F};
  c.temperature = 0.5;
  c.l2 = 1e-3;
  c.embedding_model = "tiny";
  c.embedding_digest = std::string(64, 'a');
  c.probe_text = "probe";
  c.probe_vector = {0.6F, 0.8F};
  c.training_rows = 12;
  c.training_digest = std::string(64, '0');
  c.seed = 7;
  c.evaluation = {{"accuracy", 0.9}};
  return c;
}

std::string ClassifierText() { return boost::json::serialize(ToJson(SmallClassifier())); }

// The file with one value put in place of another.
std::string ClassifierWith(const std::string& pointer, const boost::json::value& value) {
  boost::json::value json = ToJson(SmallClassifier());
  json.at_pointer(pointer) = value;
  return boost::json::serialize(json);
}

void ExpectUnreadable(const std::string& text, const std::string& says) {
  const auto read = ParseIntentClassifier(text, "x.json");
  ASSERT_FALSE(read) << text;
  EXPECT_THAT(read.error().message(), testing::StartsWith("x.json: "));
  EXPECT_THAT(read.error().message(), HasSubstr(says));
}

TEST(IntentClassifierTest, ProbabilitiesAreTheSoftmaxOfTheLayerOverTheTemperature) {
  const IntentClassifier c = SmallClassifier();
  const std::vector<float> x = {0.6F, -0.8F};
  const auto intent = c.Classify(x);
  ASSERT_TRUE(intent.has_value());
  const double z[] = {(0.6F * 1.0 + 0.5) / 0.5, (-0.8F * 2.0 - 0.25) / 0.5, (-0.6F * 1.0 + 0.125) / 0.5};
  const double sum = std::exp(z[0]) + std::exp(z[1]) + std::exp(z[2]);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(intent->probabilities[i], std::exp(z[i]) / sum, 1e-12);
  EXPECT_EQ(intent->label, 0);
  EXPECT_EQ(intent->confidence, intent->probabilities[0]);
  IntentClassifier extreme = c;   // logits of 1e38 / 1e-3: no overflow
  extreme.weights[0] = 3e38F;
  extreme.temperature = 1e-3;
  EXPECT_EQ(extreme.Classify(x)->confidence, 1);
}

TEST(IntentClassifierTest, VectorsOfAnotherModelAreRefused) {
  const IntentClassifier c = SmallClassifier();
  const std::vector<float> shorter = {1}, broken = {1, NAN}, same = {0.6F, 0.8F}, near = {0.601F, 0.7993F},
                           other = {0.8F, 0.6F};
  EXPECT_THAT(c.Classify(shorter).error().message(), HasSubstr("1 numbers for a classifier of 2"));
  EXPECT_FALSE(c.Classify(broken));
  EXPECT_TRUE(c.CheckProbe(same).ok());
  EXPECT_TRUE(c.CheckProbe(near).ok());
  EXPECT_THAT(c.CheckProbe(other).message(), HasSubstr("vectors of tiny"));
  EXPECT_FALSE(c.CheckProbe(shorter).ok());
  EXPECT_FALSE(c.CheckProbe(broken).ok());
}

TEST(IntentClassifierTest, WrittenAndReadIsTheSame) {
  const IntentClassifier c = SmallClassifier();
  const auto read = ParseIntentClassifier(ClassifierText(), "x.json");
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(read->labels, c.labels);
  EXPECT_EQ(read->label_rows, c.label_rows);
  EXPECT_EQ(read->weights, c.weights);
  EXPECT_EQ(read->temperature, c.temperature);
  EXPECT_EQ(read->l2, c.l2);
  EXPECT_EQ(read->embedding_model, c.embedding_model);
  EXPECT_EQ(read->embedding_digest, c.embedding_digest);
  EXPECT_EQ(read->probe_text, c.probe_text);
  EXPECT_EQ(read->probe_vector, c.probe_vector);
  EXPECT_EQ(read->training_rows, c.training_rows);
  EXPECT_EQ(read->training_digest, c.training_digest);
  EXPECT_EQ(read->seed, c.seed);
  EXPECT_EQ(read->evaluation, c.evaluation);
  EXPECT_EQ(boost::json::serialize(ToJson(*read)), ClassifierText());
}

TEST(IntentClassifierTest, WhatIsNoClassifierIsRefusedWithItsPlace) {
  ExpectUnreadable("", "no JSON");
  ExpectUnreadable("[1]", "\"format\" must be \"surety-intent-classifier\"");
  ExpectUnreadable("{\"format\": \"other\"}", "\"format\" must be");
  ExpectUnreadable(ClassifierWith("/version", 2), "version 2; this program reads 1");
  ExpectUnreadable(ClassifierWith("/temperature", 0), "temperature of 0");
  ExpectUnreadable(ClassifierWith("/temperature", "1"), "\"temperature\" must be a number");
  ExpectUnreadable(ClassifierWith("/embedding/dimension", 3), "label 1: \"weights\" holds 3 numbers, not 4");
  ExpectUnreadable(ClassifierWith("/embedding/dimension", -2), "\"dimension\" must be a whole number");
  ExpectUnreadable(ClassifierWith("/embedding/sha256", "abc"), "embedding model's digest");
  ExpectUnreadable(ClassifierWith("/embedding/probe_vector", "0000"), "8 hexadecimal digits");
  ExpectUnreadable(ClassifierWith("/training/sha256", ""), "training texts' digest");
  ExpectUnreadable(ClassifierWith("/labels/1/label", "balance"), "\"balance\" stands twice or is not in order");
  ExpectUnreadable(ClassifierWith("/labels/0/label", "abstained"), "\"abstained\" can not be a label");
  ExpectUnreadable(ClassifierWith("/labels/0/label", ""), "can not be a label");
  ExpectUnreadable(ClassifierWith("/labels/2/weights", "0000c07f0000000000000000"), "not finite");
  ExpectUnreadable(ClassifierWith("/labels", boost::json::array()), "0 labels");
  boost::json::object json = ToJson(SmallClassifier());
  json["temperatur"] = 1;
  ExpectUnreadable(boost::json::serialize(json), "unknown key \"temperatur\"; did you mean \"temperature\"?");
  json = ToJson(SmallClassifier());
  json.erase("training");
  ExpectUnreadable(boost::json::serialize(json), "\"training\" is missing");
}

TEST(IntentClassifierTest, AChangedWeightAndACutFileAreNoticed) {
  const std::string text = ClassifierText();
  ASSERT_TRUE(ParseIntentClassifier(text, "x.json"));
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(ParseIntentClassifier(text.substr(0, size), "x.json")) << size;
  }
  const boost::json::object json = ToJson(SmallClassifier());
  const std::string row(json.at("labels").at(1).at("weights").as_string());
  for (size_t i = 0; i < row.size(); ++i) {
    std::string other = row;
    other[i] = other[i] == '1' ? '2' : '1';
    EXPECT_FALSE(ParseIntentClassifier(ClassifierWith("/labels/1/weights", boost::json::value(other)), "x.json")) << i;
  }
}

TEST(IntentClassifierTest, AFileThatIsNotThereIsNotFound) {
  const auto read = ReadIntentClassifier(FileSystem::Real(), "/nowhere/intents.json");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace surety::gateway
