// GBNF against a naive reading of the same grammars: the test builds random grammars as trees, writes them out, and
// matches texts with plain recursion over sets of positions.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/grammar/grammar.h"
#include "engine/grammar/parse_states.h"

namespace surety::engine {
namespace {

bool Accepts(ParseStates& states, std::string_view text) {
  ParseStates::Id id = states.IdOf(states.start());
  for (const char c : text) id = states.Step(id, static_cast<uint8_t>(c));
  return states.state(id)->complete;
}

bool Matches(const std::string& grammar, std::string_view text) {
  auto compiled = CompileGbnf(grammar);
  EXPECT_TRUE(compiled.has_value()) << grammar << "\n" << compiled.error().message();
  if (!compiled) return false;
  ParseStates states(*compiled);
  return Accepts(states, text);
}

std::string ErrorOf(const std::string& grammar, const GrammarLimits& limits = {}) {
  const auto compiled = CompileGbnf(grammar, limits);
  if (compiled) return "";
  EXPECT_EQ(compiled.error().code(), StatusCode::kInvalidArgument);
  return compiled.error().message();
}

// A grammar's tree, and all places where a match that begins at `at` may end.
struct Expr {
  enum Kind { kText, kClass, kRule, kSequence, kChoice, kRepeat } kind;
  std::string text;  // kText, and kClass: its letters
  bool negated = false;
  int rule = 0;
  std::vector<Expr> parts;
  int least = 0, most = 0;
};

std::string Write(const Expr& e) {
  switch (e.kind) {
    case Expr::kText:
      return "\"" + e.text + "\"";
    case Expr::kClass:
      return std::string(e.negated ? "[^" : "[") + e.text + "]";
    case Expr::kRule:
      return "r" + std::to_string(e.rule);
    case Expr::kSequence:
    case Expr::kChoice: {
      std::string out = "(";
      for (size_t i = 0; i < e.parts.size(); ++i)
        out += (i == 0 ? "" : e.kind == Expr::kChoice ? " | " : " ") + Write(e.parts[i]);
      return out + ")";
    }
    case Expr::kRepeat: {
      const std::string inner = Write(e.parts[0]);
      if (e.least == 0 && e.most == 1) return inner + "?";
      if (e.least == 0 && e.most < 0) return inner + "*";
      if (e.least == 1 && e.most < 0) return inner + "+";
      if (e.least == e.most) return inner + "{" + std::to_string(e.least) + "}";
      return inner + "{" + std::to_string(e.least) + "," + (e.most < 0 ? "" : std::to_string(e.most)) + "}";
    }
  }
  return "";
}

class Naive {
 public:
  Naive(const std::vector<Expr>& rules, std::string_view text) : rules_(rules), text_(text) {}
  bool Matches() { return Ends(rules_[0], 0).contains(text_.size()); }

 private:
  using Set = std::set<size_t>;
  Set EndsOfAll(const std::vector<Expr>& parts, size_t from, size_t at) {
    if (from == parts.size()) return {at};
    Set all;
    for (const size_t end : Ends(parts[from], at)) all.merge(EndsOfAll(parts, from + 1, end));
    return all;
  }
  Set Ends(const Expr& e, size_t at) {
    switch (e.kind) {
      case Expr::kText:
        return text_.substr(at).starts_with(e.text) ? Set{at + e.text.size()} : Set{};
      case Expr::kClass:
        if (at == text_.size() || (e.text.find(text_[at]) == std::string::npos) != e.negated) return {};
        return {at + 1};
      case Expr::kRule: {
        const auto key = std::make_pair(e.rule, at);
        if (const auto known = memo_.find(key); known != memo_.end()) return known->second;
        return memo_[key] = Ends(rules_[static_cast<size_t>(e.rule)], at);
      }
      case Expr::kSequence:
        return EndsOfAll(e.parts, 0, at);
      case Expr::kChoice: {
        Set all;
        for (const Expr& part : e.parts) all.merge(Ends(part, at));
        return all;
      }
      case Expr::kRepeat: {
        Set now = {at}, all;
        if (e.least == 0) all.insert(at);
        for (int i = 1; (e.most < 0 ? i <= e.least + static_cast<int>(text_.size()) + 1 : i <= e.most) && !now.empty();
             ++i) {
          Set next;
          for (const size_t p : now) next.merge(Ends(e.parts[0], p));
          now = std::move(next);
          if (i >= e.least) all.insert(now.begin(), now.end());
        }
        return all;
      }
    }
    return {};
  }
  const std::vector<Expr>& rules_;
  std::string_view text_;
  std::map<std::pair<int, size_t>, Set> memo_;
};

class Maker {
 public:
  explicit Maker(unsigned seed) : random_(seed) {}
  // A rule calls later ones freely, earlier ones behind a letter: no left recursion.
  std::vector<Expr> Grammar() {
    const int n = 1 + Draw(4);
    std::vector<Expr> rules;
    for (int r = 0; r < n; ++r) rules.push_back(Make(3, r, n));
    return rules;
  }
  std::string Text() {
    std::string text;
    for (int i = Draw(9); i > 0; --i) text += static_cast<char>('a' + Draw(3));
    return text;
  }
  int Draw(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

 private:
  Expr Letter() { return {.kind = Expr::kText, .text = std::string(1, static_cast<char>('a' + Draw(3))), .parts = {}}; }
  Expr Make(int depth, int rule, int n) {
    Expr e{.kind = Expr::kText, .text = {}, .parts = {}};
    switch (depth == 0 ? Draw(2) : Draw(7)) {
      case 0:
        for (int i = Draw(3); i >= 0; --i) e.text += Letter().text;
        if (Draw(8) == 0) e.text.clear();
        return e;
      case 1:
        e.kind = Expr::kClass;
        e.text = std::string("abc").substr(static_cast<size_t>(Draw(3)));
        e.negated = e.text.size() < 3 && Draw(2) == 0;
        return e;
      case 2: {
        e.kind = Expr::kRule;
        if (rule + 1 < n && Draw(2) == 0) {
          e.rule = rule + 1 + Draw(n - rule - 1);
          return e;
        }
        e.rule = Draw(n);
        // Behind a letter, and never alone: something must end the recursion.
        Expr end = Letter();
        Expr call{.kind = Expr::kSequence, .text = {}, .parts = {Letter(), e}};
        return {.kind = Expr::kChoice, .text = {}, .parts = {end, call}};
      }
      case 3:
      case 4:
        e.kind = Draw(2) == 0 ? Expr::kSequence : Expr::kChoice;
        for (int i = Draw(3); i >= 0; --i) e.parts.push_back(Make(depth - 1, rule, n));
        return e;
      default: {
        e.kind = Expr::kRepeat;
        e.parts.push_back(Make(depth - 1, rule, n));
        const int forms[][2] = {{0, 1}, {0, -1}, {1, -1}, {2, 2}, {0, 2}, {1, 3}, {2, -1}, {0, 0}};
        const auto& form = forms[Draw(8)];
        e.least = form[0];
        e.most = form[1];
        return e;
      }
    }
  }
  std::mt19937 random_;
};

std::string WriteAll(const std::vector<Expr>& rules) {
  std::string source = "root ::= r0\n";
  for (size_t i = 0; i < rules.size(); ++i) source += "r" + std::to_string(i) + " ::= " + Write(rules[i]) + "\n";
  return source;
}

TEST(GbnfTest, AgreesWithANaiveMatcherOnRandomGrammars) {
  int n_accepted = 0, n_refused = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    Maker maker(seed);
    const auto rules = maker.Grammar();
    const std::string source = WriteAll(rules);
    const auto grammar = CompileGbnf(source);
    ASSERT_TRUE(grammar.has_value()) << source << grammar.error().message();
    ParseStates states(*grammar);
    for (int i = 0; i < 40; ++i) {
      const std::string text = maker.Text();
      const bool expected = Naive(rules, text).Matches();
      ASSERT_EQ(Accepts(states, text), expected) << source << "text: " << text;
      ++(expected ? n_accepted : n_refused);
    }
  }
  EXPECT_GT(n_accepted, 5000);
  EXPECT_GT(n_refused, 5000);
}

TEST(GbnfTest, ReadsTheLanguageAsItsUsersWriteIt) {
  const std::string arithmetic = R"g(
# a comment
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws   # groups go on over lines
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
)g";
  EXPECT_TRUE(Matches(arithmetic, "a +(b*2) = 3\n"));
  EXPECT_FALSE(Matches(arithmetic, "a + = 3\n"));
  EXPECT_TRUE(Matches("root ::= a |\n  b\na ::= \"1\"\nb ::= (\n \"2\"\n)\n", "2"));
  EXPECT_TRUE(Matches("root ::= \"\\x41\\u00e9\\U0001F600\\n\\\"\\\\\"", "A\xC3\xA9\xF0\x9F\x98\x80\n\"\\"));
  EXPECT_TRUE(Matches("root ::= [\\]\\-a-]+", "]-a-"));
  EXPECT_TRUE(Matches("root ::= \"ab\"{2} \"c\"{1,} \"d\"{0,2}", "ababccd"));
  EXPECT_FALSE(Matches("root ::= \"ab\"{2}", "ab"));
  EXPECT_TRUE(Matches("root ::= \"\"", ""));
  EXPECT_TRUE(Matches("root ::= . [^a-z] [\xC3\xA0-\xC3\xBC]", "\xE4\xB8\x96\xF0\x9F\x98\x80\xC3\xA9"));
}

TEST(GbnfTest, ClassesHoldWholeCharactersOnly) {
  const std::string grammar = "root ::= [^x]";
  EXPECT_FALSE(Matches(grammar, "x"));
  EXPECT_FALSE(Matches(grammar, "\xC3"));
  EXPECT_FALSE(Matches(grammar, "\xED\xA0\x80"));      // a surrogate
  EXPECT_FALSE(Matches(grammar, "\xC0\x80"));          // an overlong form
  EXPECT_FALSE(Matches(grammar, "\xF4\x90\x80\x80"));  // past the last code point
  EXPECT_TRUE(Matches(grammar, "\xF4\x8F\xBF\xBF"));
}

TEST(GbnfTest, NamesThePlaceAndWhatIsWrong) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "1:1: there is no rule 'root'"},
      {"a ::= \"x\"", "there is no rule 'root'"},
      {"root ::= a", "1:10: rule 'a' is not defined"},
      {"root ::= \"x\"\n  root ::= \"y\"", "2:3: rule 'root' is defined twice"},
      {"root ::= \"x", "1:10: this literal is never closed"},
      {"root ::= [x", "1:10: this class is never closed"},
      {"root ::= []", "1:10: an empty class"},
      {"root ::= [z-a]", "1:11: a range that ends before it begins"},
      {"root ::= (\"x\"", "1:10: this '(' is never closed"},
      {"root ::= \"x\")", "1:13: ')' without '('"},
      {"root ::= *", "1:10: nothing to repeat"},
      {"root ::= \"x\"{3,2}", "1:13: the most is less than the least"},
      {"root ::= \"x\"{}", "1:14: expected a number"},
      {"root ::= \"x\"{99999999999}", "1:14: at most"},
      {"root ::= \"\\q\"", "1:11: unknown escape"},
      {"root ::= \"\\ud800\"", "1:11: not a Unicode code point"},
      {"root ::= \"\xFF\"", "1:11: bytes that are not UTF-8"},
      {"root ::= <think>", "1:10: token references are not supported"},
      {"root = \"x\"", "1:6: '::=' must follow"},
      {"root ::= a\na ::= \"x\" a", "1:1: no finite text matches 'root'"},
      {"root ::= a | \"x\"\na ::= b \"y\"\nb ::= \"z\"? a | \"q\"", "left recursion: a -> b -> a"},
      {"root ::= root \"x\" | \"y\"", "left recursion: root -> root"},
      {"root ::= \"a\" b \"c\" b ::= \"d\"", "1:20: rule 'b' must begin on a line of its own"},
  };
  for (const auto& [grammar, message] : cases) {
    EXPECT_NE(ErrorOf(grammar).find(message), std::string::npos) << grammar << "\n" << ErrorOf(grammar);
  }
}

TEST(GbnfTest, DepthAndSizeBombsAreRefused) {
  EXPECT_NE(ErrorOf("root ::= " + std::string(60'000, '(') + "\"x\"" + std::string(60'000, ')')).find("groups within"),
            std::string::npos);
  EXPECT_NE(ErrorOf("root ::= \"x\"{100000} \"y\"{100000} \"z\"{100000}").find("more than 200000 states"),
            std::string::npos);
  EXPECT_NE(ErrorOf("root ::= " + std::string(300'000, ' ')).find("bytes"), std::string::npos);
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 9000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  EXPECT_EQ(ErrorOf(chain + "r9000 ::= \"x\"\n"), "");  // deep, but no recursion in the compiler
}

class LateClock : public Clock {
 public:
  int64_t NowNanos() const override { return now_ += 1'000'000; }
  int64_t WallNanos() const override { return 0; }
  void SleepNanos(int64_t) override {}

 private:
  mutable int64_t now_ = 0;
};

TEST(GbnfTest, StopsWhenItsTimeIsUp) {
  LateClock clock;
  GrammarLimits limits;
  limits.clock = &clock;
  limits.max_compile_ms = 3;
  EXPECT_NE(ErrorOf("root ::= \"x\"{2000}", limits).find("more than 3 milliseconds"), std::string::npos);
}

TEST(ParseStatesTest, AmbiguityDoesNotGrowWithTheText) {
  const auto grammar = CompileGbnf("root ::= s\ns ::= \"a\" s s | \"a\" s \"b\" | \"a\" s \"c\" | \"a\"");
  ASSERT_TRUE(grammar.has_value());
  ParseStates states(*grammar);
  ParseStates::Id id = states.IdOf(states.start());
  for (int i = 0; i < 300; ++i) {
    id = states.Step(id, 'a');
    ASSERT_NE(id, ParseStates::kDeadId) << i;
    ASSERT_LT(states.state(id)->items.size(), 4000u);
  }
}

TEST(ParseStatesTest, RightRecursionNeedsNoStack) {
  const auto grammar = CompileGbnf("root ::= item root | item\nitem ::= \"(\" [a-c] \")\"");
  ASSERT_TRUE(grammar.has_value());
  ParseStates states(*grammar);
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "(b)";
  EXPECT_TRUE(Accepts(states, text));
  EXPECT_LT(states.n_states(), 20u);
}

TEST(ParseStatesTest, TooDeepNestingIsRefusedNotFollowed) {
  const auto grammar = CompileGbnf("root ::= \"[\" root \"]\" | \"x\"");
  ASSERT_TRUE(grammar.has_value());
  ParseStates states(*grammar);
  const auto nested = [](int n) {
    return std::string(static_cast<size_t>(n), '[') + "x" + std::string(static_cast<size_t>(n), ']');
  };
  EXPECT_TRUE(Accepts(states, nested(ParseStates::kMaxDepth)));
  EXPECT_FALSE(Accepts(states, nested(100'000)));
  EXPECT_EQ(states.cut(), ParseStates::Cut::kDepth);
}

}  // namespace
}  // namespace surety::engine
