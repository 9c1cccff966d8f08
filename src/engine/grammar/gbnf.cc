// GBNF to a grammar: rules `name ::= alternatives`, literals, character classes, `.`, groups, `* + ? {m} {m,} {m,n}`,
// comments. No recursion: open groups are a stack, as deep as the limits say. A rule ends with its line, unless a group
// is open or an alternative has just begun. Source: the language as llama.cpp's users write it; token references
// (`<x>`) are refused, and so is a rule defined twice.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_builder.h"
#include "model/tokenizer/unicode.h"

namespace surety::engine {
namespace {

constexpr int kMaxGbnfRepeat = 100'000;

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view source, const GrammarLimits& limits) : source_(source), builder_(limits) {}

  Result<GrammarPtr> Run() {
    if (source_.size() > builder_.limits().max_source_bytes) {
      return Error(InvalidArgumentError("the grammar has " + std::to_string(source_.size()) + " bytes, at most " +
                                        std::to_string(builder_.limits().max_source_bytes) + " are allowed"));
    }
    SURETY_RETURN_IF_ERROR(ParseAll());
    for (const auto& [name, rule] : rules_) {
      if (!builder_.is_set(rule.id)) return Error(At(rule.first_use, "rule '" + name + "' is not defined"));
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) return Error(At(source_.size(), "there is no rule 'root' to begin with"));
    auto grammar = builder_.Finish(root->second.id);
    if (!grammar) return Error(At(root->second.defined, grammar.error().message()));
    return grammar;
  }

 private:
  struct RuleEntry {
    int32_t id = -1;
    size_t first_use = 0;
    size_t defined = 0;
  };
  struct Group {
    int32_t start, end, at;                  // `at`: where the alternative has got to
    int32_t last_start = -1, last_end = -1;  // the last item, not joined to `at` yet
    size_t place = 0;
  };

  Status At(size_t offset, const std::string& what) const {
    int line = 1;
    size_t line_start = 0;
    for (size_t i = 0; i < offset && i < source_.size(); ++i) {
      if (source_[i] == '\n') {
        ++line;
        line_start = i + 1;
      }
    }
    return InvalidArgumentError("grammar " + std::to_string(line) + ":" + std::to_string(offset - line_start + 1) +
                                ": " + what);
  }

  bool at_end() const { return pos_ >= source_.size(); }
  char peek() const { return at_end() ? '\0' : source_[pos_]; }

  void SkipSpace(bool newlines) {
    while (!at_end()) {
      const char c = source_[pos_];
      if (c == '#') {
        while (!at_end() && source_[pos_] != '\n') ++pos_;
      } else if (c == ' ' || c == '\t' || c == '\r' || (newlines && c == '\n')) {
        ++pos_;
      } else {
        break;
      }
    }
  }

  std::string_view ReadName() {
    const size_t begin = pos_;
    while (!at_end() && IsNameChar(source_[pos_])) ++pos_;
    return source_.substr(begin, pos_ - begin);
  }

  RuleEntry& RuleNamed(std::string_view name, size_t place) {
    auto [found, is_new] = rules_.try_emplace(std::string(name));
    if (is_new) {
      found->second.id = builder_.NewRule(std::string(name));
      found->second.first_use = place;
    }
    return found->second;
  }

  Status ParseAll() {
    SkipSpace(true);
    while (!at_end()) {
      const size_t place = pos_;
      const std::string_view name = ReadName();
      if (name.empty()) return At(place, "a rule must begin with its name, of letters, digits, '-' and '_'");
      SkipSpace(true);
      if (source_.substr(pos_, 3) != "::=")
        return At(pos_, "'::=' must follow the rule name '" + std::string(name) + "'");
      pos_ += 3;
      RuleEntry& rule = RuleNamed(name, place);
      if (builder_.is_set(rule.id)) {
        return At(place, "rule '" + std::string(name) + "' is defined twice");
      }
      rule.defined = place;
      SURETY_RETURN_IF_ERROR(ParseRule(rule.id));
      SkipSpace(true);
    }
    return OkStatus();
  }

  void OpenGroup(size_t place) {
    const int32_t start = builder_.NewState(), end = builder_.NewState(), at = builder_.NewState();
    builder_.Empty(start, at);
    groups_.push_back({start, end, at, -1, -1, place});
  }

  // The last item becomes part of the sequence: nothing will be repeated any more.
  void Join() {
    Group& group = groups_.back();
    if (group.last_start < 0) return;
    builder_.Empty(group.at, group.last_start);
    group.at = group.last_end;
    group.last_start = group.last_end = -1;
  }

  void SetLast(int32_t start, int32_t end) {
    Join();
    groups_.back().last_start = start;
    groups_.back().last_end = end;
  }

  Status ParseRule(int32_t rule) {
    groups_.clear();
    OpenGroup(pos_);
    SkipSpace(true);
    while (true) {
      if (!builder_.ok()) return At(pos_, builder_.status().message());
      const bool nested = groups_.size() > 1;
      const char c = peek();
      if (at_end() || c == '\n') {
        if (nested) return At(groups_.back().place, "this '(' is never closed");
        break;
      }
      if (c == '|') {
        Join();
        builder_.Empty(groups_.back().at, groups_.back().end);
        groups_.back().at = builder_.NewState();
        builder_.Empty(groups_.back().start, groups_.back().at);
        ++pos_;
        SkipSpace(true);
        continue;
      }
      if (c == '(') {
        if (static_cast<int>(groups_.size()) > builder_.limits().max_depth) {
          return At(pos_, "more than " + std::to_string(builder_.limits().max_depth) + " groups within each other");
        }
        Join();
        OpenGroup(pos_++);
        SkipSpace(true);
        continue;
      }
      if (c == ')') {
        if (!nested) return At(pos_, "')' without '('");
        Join();
        const Group done = groups_.back();
        builder_.Empty(done.at, done.end);
        groups_.pop_back();
        SetLast(done.start, done.end);
        ++pos_;
      } else {
        SURETY_RETURN_IF_ERROR(ParseItem());
      }
      SkipSpace(groups_.size() > 1);
    }
    Join();
    builder_.Empty(groups_.back().at, groups_.back().end);
    builder_.SetRule(rule, groups_.back().start, groups_.back().end);
    return OkStatus();
  }

  Status ParseItem() {
    const char c = peek();
    if (c == '"') return ParseLiteral();
    if (c == '[') return ParseClass();
    if (c == '*' || c == '+' || c == '?') return ParseSuffix();
    if (c == '{') return ParseRepeat();
    if (c == '.') {
      ++pos_;
      AddSet(CharSet::All());
      return OkStatus();
    }
    const size_t place = pos_;
    const std::string_view name = ReadName();
    if (name.empty()) {
      return At(place, c == '<' || c == '!' ? "token references are not supported; write the token's text as a literal"
                                            : "expected a literal, a class, a rule name or '('");
    }
    const size_t after = pos_;
    SkipSpace(false);
    if (source_.substr(pos_, 3) == "::=") {
      return At(place, "rule '" + std::string(name) + "' must begin on a line of its own");
    }
    pos_ = after;
    const int32_t start = builder_.NewState(), end = builder_.NewState();
    builder_.Call(start, RuleNamed(name, place).id, end);
    SetLast(start, end);
    return OkStatus();
  }

  void AddSet(const CharSet& set) {
    const int32_t start = builder_.NewState(), end = builder_.NewState();
    builder_.Chars(start, set, end);
    SetLast(start, end);
  }

  // One code point, escapes decoded, inside a literal or a class.
  Result<char32_t> ReadChar() {
    const size_t place = pos_;
    if (peek() != '\\') {
      char32_t c = 0;
      const int length = model::DecodeUtf8(source_, pos_, c);
      if (length <= 0) return Error(At(place, "bytes that are not UTF-8"));
      pos_ += static_cast<size_t>(length);
      return c;
    }
    ++pos_;
    const char escape = peek();
    ++pos_;
    int n_digits = 0;
    switch (escape) {
      case 'n':
        return U'\n';
      case 'r':
        return U'\r';
      case 't':
        return U'\t';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
      case '/':
        return static_cast<char32_t>(escape);
      case 'x':
        n_digits = 2;
        break;
      case 'u':
        n_digits = 4;
        break;
      case 'U':
        n_digits = 8;
        break;
      default:
        return Error(At(place, "unknown escape; known are \\n \\r \\t \\\\ \\\" \\[ \\] \\xHH \\uHHHH \\UHHHHHHHH"));
    }
    uint32_t value = 0;
    for (int i = 0; i < n_digits; ++i, ++pos_) {
      const int digit = HexDigitValue(peek());
      if (digit < 0) return Error(At(place, "this escape needs " + std::to_string(n_digits) + " hexadecimal digits"));
      value = (value << 4) | static_cast<uint32_t>(digit);
    }
    if (value > CharSet::kLast || (value >= 0xD800 && value <= 0xDFFF)) {
      return Error(At(place, "not a Unicode code point"));
    }
    return static_cast<char32_t>(value);
  }

  Status ParseLiteral() {
    const size_t place = pos_++;
    std::string text;
    while (peek() != '"') {
      if (at_end() || peek() == '\n') return At(place, "this literal is never closed");
      SURETY_ASSIGN_OR_RETURN(const char32_t c, ReadChar());
      model::AppendUtf8(c, text);
    }
    ++pos_;
    const int32_t start = builder_.NewState(), end = builder_.NewState();
    builder_.Literal(start, text, end);
    SetLast(start, end);
    return OkStatus();
  }

  Status ParseClass() {
    const size_t place = pos_++;
    const bool negated = peek() == '^';
    if (negated) ++pos_;
    std::vector<CharSet::Range> ranges;
    while (peek() != ']') {
      if (at_end() || peek() == '\n') return At(place, "this class is never closed");
      const size_t begin = pos_;
      SURETY_ASSIGN_OR_RETURN(const char32_t first, ReadChar());
      char32_t last = first;
      if (peek() == '-' && pos_ + 1 < source_.size() && source_[pos_ + 1] != ']') {
        ++pos_;
        if (at_end() || peek() == '\n') return At(place, "this class is never closed");
        SURETY_ASSIGN_OR_RETURN(last, ReadChar());
        if (last < first) return At(begin, "a range that ends before it begins");
      }
      ranges.emplace_back(first, last);
    }
    ++pos_;
    const CharSet set(std::move(ranges));
    if (set.empty() && !negated) return At(place, "an empty class matches nothing");
    AddSet(negated ? set.Complement() : set);
    return OkStatus();
  }

  Status ParseSuffix() {
    Group& group = groups_.back();
    if (group.last_start < 0) return At(pos_, std::string("nothing to repeat before '") + peek() + "'");
    const char c = source_[pos_++];
    if (c != '?') builder_.Empty(group.last_end, group.last_start);
    if (c != '+') builder_.Empty(group.last_start, group.last_end);
    // A fresh end, so that a way back into the item does not skip a later suffix's edges.
    const int32_t start = builder_.NewState(), end = builder_.NewState();
    builder_.Empty(start, group.last_start);
    builder_.Empty(group.last_end, end);
    group.last_start = start;
    group.last_end = end;
    return OkStatus();
  }

  Result<int> ReadCount() {
    const size_t place = pos_;
    int value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + (source_[pos_++] - '0');
      if (value > kMaxGbnfRepeat) return Error(At(place, "at most " + std::to_string(kMaxGbnfRepeat) + " repetitions"));
    }
    if (pos_ == place) return Error(At(place, "expected a number of repetitions"));
    return value;
  }

  Status ParseRepeat() {
    const size_t place = pos_;
    if (groups_.back().last_start < 0) return At(place, "nothing to repeat before '{'");
    ++pos_;
    SkipSpace(false);
    SURETY_ASSIGN_OR_RETURN(const int least, ReadCount());
    int most = least;
    SkipSpace(false);
    if (peek() == ',') {
      ++pos_;
      SkipSpace(false);
      most = -1;
      if (peek() != '}') {
        SURETY_ASSIGN_OR_RETURN(most, ReadCount());
        SkipSpace(false);
      }
    }
    if (peek() != '}') return At(pos_, "expected '}'");
    if (most >= 0 && most < least) return At(place, "the most is less than the least");
    ++pos_;
    Repeat(least, most);
    return OkStatus();
  }

  // The item becomes a rule, called as often as it may stand there.
  void Repeat(int least, int most) {
    Group& group = groups_.back();
    const int32_t item = builder_.NewRule("a repetition");
    builder_.SetRule(item, group.last_start, group.last_end);
    const int32_t start = builder_.NewState(), end = builder_.NewState();
    int32_t at = start;
    for (int i = 0; (i < least || i < most) && builder_.ok(); ++i) {
      if (i >= least) builder_.Empty(at, end);
      const int32_t next = builder_.NewState();
      builder_.Call(at, item, next);
      at = next;
    }
    if (most < 0) {
      const int32_t loop = builder_.NewState();
      builder_.Empty(at, loop);
      builder_.Call(loop, item, loop);
      at = loop;
    }
    builder_.Empty(at, end);
    group.last_start = start;
    group.last_end = end;
  }

  std::string_view source_;
  size_t pos_ = 0;
  GrammarBuilder builder_;
  std::map<std::string, RuleEntry, std::less<>> rules_;
  std::vector<Group> groups_;
};

}  // namespace

Result<GrammarPtr> CompileGbnf(std::string_view source, const GrammarLimits& limits) {
  return GbnfParser(source, limits).Run();
}

}  // namespace surety::engine
