// Masks against brute force: a token is allowed if and only if a fork of the matcher accepts its bytes.
#include "engine/grammar/matcher.h"

#include <gtest/gtest.h>
#include <time.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

#include "model/model_source.h"
#include "model/tokenizer/tokenizer.h"

namespace surety::engine {
namespace json = boost::json;
namespace {

bool Has(std::span<const uint64_t> mask, int32_t token) {
  return (mask[static_cast<size_t>(token) / 64] >> (token % 64) & 1) != 0;
}

std::shared_ptr<GrammarSession> SessionOf(const Result<GrammarPtr>& grammar, std::shared_ptr<const TokenTrie> trie) {
  EXPECT_TRUE(grammar.has_value()) << grammar.error().message();
  auto session = GrammarSession::Make(*grammar, std::move(trie));
  EXPECT_TRUE(session.has_value());
  return *session;
}

// Compares the whole mask with forks, then takes random allowed tokens. Returns the text.
std::string WalkAndCompare(const std::shared_ptr<GrammarSession>& session, std::mt19937& random, int n_steps) {
  const TokenTrie& trie = session->trie();
  GrammarMatcher matcher(session);
  std::vector<uint64_t> mask(trie.mask_words());
  std::string text;
  for (int step = 0; step < n_steps; ++step) {
    const Status status = matcher.FillMask(mask);
    std::vector<int32_t> allowed;
    for (int32_t t = 0; t < trie.vocab_size(); ++t) {
      GrammarMatcher fork = matcher;
      const bool expected = fork.AcceptToken(t);
      if (status.ok()) {
        EXPECT_EQ(Has(mask, t), expected) << "'" << trie.bytes(t) << "' after " << text;
      }
      if (expected && !trie.ends_text(t)) allowed.push_back(t);
      EXPECT_TRUE(status.ok() || !expected) << status.message();
    }
    if (::testing::Test::HasFailure() || !status.ok() || allowed.empty()) return text;
    const int32_t next = allowed[std::uniform_int_distribution<size_t>(0, allowed.size() - 1)(random)];
    text += trie.bytes(next);
    EXPECT_TRUE(matcher.AcceptToken(next));
  }
  return text;
}

std::shared_ptr<const TokenTrie> RandomTrie(std::mt19937& random, std::string_view letters, bool strips_space) {
  std::vector<std::string> tokens = {"", "</s>"};
  for (const char c : letters) tokens.emplace_back(1, c);
  for (int i = 0; i < 150; ++i) {
    std::string token;
    for (int n = 1 + static_cast<int>(random() % 5); n > 0; --n) token += letters[random() % letters.size()];
    tokens.push_back(token);  // some twice
  }
  return std::make_shared<TokenTrie>(std::move(tokens), std::vector<int32_t>{1}, strips_space);
}

TEST(GrammarMatcherTest, MasksEqualBruteForceOnGrammars) {
  const char* grammars[] = {
      "root ::= \"a\"* \"b\" root | \"c\"",
      "root ::= (\"ab\" | \"abc\" | \"a\")+ \" \"?",
      "root ::= s\ns ::= \"(\" s \")\" s | \"a\"{0,3}",
      "root ::= x y\nx ::= \"a\" x \"b\" | \"\"\ny ::= \"c\" y | \"c\"",
      "root ::= s\ns ::= \"a\" s s | \"a\" s \"b\" | \"a\" s \"c\" | \"a\" | \"b\" | \"c\"",
      "root ::= [a-c( ]{3,7} (\")\" | \" \")*",
      "root ::= a | b | c | d | e | f\na ::= [ab]+ \"c\"\nb ::= [bc]+ \"a\"\nc ::= [ca]+ \"b\"\nd ::= \" a\" d | \" "
      "\"\n"
      "e ::= \"(\" e \")\" | \"()\"\nf ::= [abc]{4}",
  };
  std::mt19937 random(3);
  for (const bool strips_space : {false, true}) {
    for (const char* source : grammars) {
      const auto trie = RandomTrie(random, "abc() ", strips_space);
      const auto session = SessionOf(CompileGbnf(source), trie);
      for (int i = 0; i < 25; ++i) WalkAndCompare(session, random, 25);
      ASSERT_FALSE(HasFailure()) << source;
    }
  }
}

TEST(GrammarMatcherTest, MasksEqualBruteForceOnSchemas) {
  const char* schemas[] = {
      R"({"type": "object", "properties": {"ab": {"type": "string", "maxLength": 3},
          "b": {"type": "integer", "maximum": 21}, "a": {"enum": ["a", "ab", 1, null]}},
          "required": ["ab"], "additionalProperties": {"type": "boolean"}})",
      R"({"type": "array", "items": {"anyOf": [{"type": "string", "pattern": "^a+b?$"}, {"type": "number"}]}})",
      R"({"$defs": {"n": {"type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/n"}}},
          "$ref": "#/$defs/n"})",
      R"({})",
  };
  std::mt19937 random(5);
  for (const char* schema : schemas) {
    const auto trie = RandomTrie(random, "ab12\"{}[]:,-. \nnultrefs\\", false);
    const auto session = SessionOf(CompileJsonSchema(json::parse(schema)), trie);
    for (int i = 0; i < 25; ++i) WalkAndCompare(session, random, 40);
    ASSERT_FALSE(HasFailure()) << schema;
  }
}

TEST(GrammarMatcherTest, MasksStayRightWhenStatesAreForgotten) {
  // More states than the table keeps: nesting that never repeats.
  std::mt19937 random(9);
  const auto trie = RandomTrie(random, "[{ab", false);
  const auto session = SessionOf(CompileGbnf("root ::= \"[\" root \"]\" | \"{\" root \"}\" | [ab]{1,200}"), trie);
  const uint64_t first = session->states().generation();
  GrammarMatcher matcher(session);
  std::vector<uint64_t> mask(trie->mask_words());
  for (int i = 0; i < 600 && session->states().generation() == first; ++i) {
    GrammarMatcher fork(session);
    std::string text;
    for (int n = 0; n < 200; ++n) text += "[{ab"[random() % 2];
    ASSERT_TRUE(fork.Accept(text));
    ASSERT_TRUE(fork.FillMask(mask).ok());
    for (int32_t t = 0; t < trie->vocab_size(); ++t) {
      GrammarMatcher next = fork;
      ASSERT_EQ(Has(mask, t), next.AcceptToken(t));
    }
  }
  EXPECT_NE(session->states().generation(), first);
  EXPECT_TRUE(matcher.Accept("[{a}]"));
  EXPECT_TRUE(matcher.MustEnd());
}

TEST(GrammarMatcherTest, EndOfTextIsAllowedWhereTheGrammarIsComplete) {
  const auto trie = std::make_shared<TokenTrie>(std::vector<std::string>{"a", "b", "", ""}, std::vector<int32_t>{2});
  GrammarMatcher matcher(SessionOf(CompileGbnf("root ::= \"ab\"?"), trie));
  std::vector<uint64_t> mask(1);
  ASSERT_TRUE(matcher.FillMask(mask).ok());
  EXPECT_EQ(mask[0], 0b101u);
  EXPECT_FALSE(matcher.AcceptToken(3));
  EXPECT_FALSE(matcher.AcceptToken(-1));
  EXPECT_FALSE(matcher.AcceptToken(4));
  const GrammarMatcher before = matcher;
  ASSERT_TRUE(matcher.AcceptToken(0));
  EXPECT_FALSE(matcher.AcceptToken(2));
  EXPECT_EQ(matcher.ForcedBytes(10), "b");
  ASSERT_TRUE(matcher.FillMask(mask).ok());
  EXPECT_EQ(mask[0], 0b010u);
  ASSERT_TRUE(matcher.AcceptToken(1));
  EXPECT_TRUE(matcher.MustEnd());
  ASSERT_TRUE(matcher.FillMask(mask).ok());
  EXPECT_EQ(mask[0], 0b100u);
  EXPECT_TRUE(before.CanEnd());
}

TEST(GrammarMatcherTest, SaysSoWhereNoTokenFits) {
  const auto trie = std::make_shared<TokenTrie>(std::vector<std::string>{"a", "b"}, std::vector<int32_t>{});
  GrammarMatcher matcher(SessionOf(CompileGbnf("root ::= \"a\" \"x\""), trie));
  ASSERT_TRUE(matcher.AcceptToken(0));
  std::vector<uint64_t> mask(1, 77);
  const Status status = matcher.FillMask(mask);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("no token of the vocabulary"), std::string::npos);
  EXPECT_EQ(mask[0], 77u);
}

TEST(GrammarMatcherTest, AHeavilyAmbiguousGrammarEndsInAMaskOrAMessage) {
  std::string source = "root ::= s\ns ::= \"a\"";
  for (int i = 0; i < 60; ++i) source += " | s" + std::to_string(i);
  for (int i = 0; i < 60; ++i) source += "\ns" + std::to_string(i) + " ::= \"a\" s s \"b\"? | \"a\" s [a-c]";
  std::mt19937 random(1);
  const auto session = SessionOf(CompileGbnf(source), RandomTrie(random, "abc", false));
  GrammarMatcher matcher(session);
  std::vector<uint64_t> mask(session->trie().mask_words());
  for (int i = 0; i < 40; ++i) {
    if (!matcher.FillMask(mask).ok() || !matcher.Accept("a")) break;
  }
}

// A real vocabulary, where there is one on this machine.
std::string ModelPath() {
  const char* own = std::getenv("SURETY_MODELS");
  const char* home = std::getenv("HOME");
  const std::string folder = own != nullptr ? own : std::string(home != nullptr ? home : ".") + "/.cache/surety/models";
  for (const char* name : {"qwen2.5-coder-0.5b-instruct.gguf", "smollm2-135m-instruct.gguf"}) {
    if (std::filesystem::exists(folder + "/" + name)) return folder + "/" + name;
  }
  return "";
}

// Processor time: what else the machine does must not count.
double ThreadMillis() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

constexpr const char* kInvoice = R"({"type": "object", "properties": {
    "number": {"type": "string", "pattern": "^INV-[0-9]{6}$"}, "date": {"type": "string", "format": "date"},
    "customer": {"type": "object", "properties": {"name": {"type": "string"},
      "city": {"type": "string", "maxLength": 40},
      "vip": {"type": "boolean"}}, "required": ["name"]},
    "lines": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {"text": {"type": "string"},
      "amount": {"type": "number", "minimum": 0}, "unit": {"enum": ["piece", "hour", "kg"]}},
      "required": ["text", "amount"]}},
    "status": {"enum": ["open", "paid", "overdue"]}, "note": {"type": ["string", "null"]}},
    "required": ["number", "date", "lines", "status"]})";

TEST(GrammarMatcherTest, MasksOfARealVocabularyEqualBruteForceAndAreFast) {
  const std::string path = ModelPath();
  if (path.empty()) GTEST_SKIP() << "no real model on this machine (SURETY_MODELS)";
  auto source = model::OpenModelSource(FileSystem::Real(), path);
  ASSERT_TRUE(source.has_value()) << source.error().message();
  auto spec = (*source)->LoadTokenizer();
  ASSERT_TRUE(spec.has_value());
  auto tokenizer = model::Tokenizer::Make(*std::move(spec));
  ASSERT_TRUE(tokenizer.has_value());
  const auto trie = TokenTrie::Make(**tokenizer);
  for (int32_t t = 0; t < trie->vocab_size(); ++t) {
    EXPECT_TRUE(!(*tokenizer)->IsControl(t) || trie->bytes(t).empty());
  }
  const auto grammar = CompileJsonSchema(json::parse(kInvoice));
  const std::string text =
      R"({"number": "INV-000123", "date": "2024-02-29", "customer": {"name": "J\u00f6rg \"JJ\" M\u00fcller", "city":)"
      " \"K\xC3\xB6ln am Rhein\", \"vip\": true},\n  \"lines\": [{\"text\": \"repairing the old roof, and more\", "
      R"("amount": 12.5, "unit": "hour"}, {"text": "x", "amount": 0}], "status": "paid", "note": null})";
  std::vector<double> times_ms;
  std::mt19937 random(2);
  for (int round = 0; round < 3; ++round) {
    const auto session = SessionOf(grammar, trie);
    GrammarMatcher matcher(session);
    std::vector<uint64_t> mask(trie->mask_words());
    for (const int32_t id : (*tokenizer)->Encode(text)) {
      const double start = ThreadMillis();
      ASSERT_TRUE(matcher.FillMask(mask).ok());
      times_ms.push_back(ThreadMillis() - start);
      ASSERT_TRUE(Has(mask, id)) << (*tokenizer)->TokenBytes(id);
      for (int i = 0; round == 0 && i < 2000; ++i) {
        const auto t = static_cast<int32_t>(random() % static_cast<unsigned>(trie->vocab_size()));
        GrammarMatcher fork = matcher;
        ASSERT_EQ(Has(mask, t), fork.AcceptToken(t)) << t;
      }
      ASSERT_TRUE(matcher.AcceptToken(id));
    }
    EXPECT_TRUE(matcher.CanEnd());
    RecordProperty("cached_bytes", static_cast<int>(session->size_bytes()));
  }
  std::sort(times_ms.begin(), times_ms.end());
  const double p50 = times_ms[times_ms.size() / 2], p99 = times_ms[times_ms.size() * 99 / 100];
  RecordProperty("p50_us", static_cast<int>(p50 * 1000));
  RecordProperty("p99_us", static_cast<int>(p99 * 1000));
  RecordProperty("max_us", static_cast<int>(times_ms.back() * 1000));
  EXPECT_LT(p50, 2.0);
}

}  // namespace
}  // namespace surety::engine
