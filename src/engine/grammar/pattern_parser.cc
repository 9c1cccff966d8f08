#include "engine/grammar/pattern_parser.h"

#include <string>

#include "base/hash.h"
#include "model/tokenizer/unicode.h"

namespace surety::engine {
namespace {

constexpr int kMaxPatternRepeat = 10'000;

const CharSet kDigits = {{'0', '9'}};
const CharSet kWordChars = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
// WhiteSpace and LineTerminator of ECMA-262.
const CharSet kSpaces = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                         {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CharSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

// Recursive, as deep as max_depth.
class PatternParser {
 public:
  PatternParser(std::string_view text, int max_depth) : text_(text), max_depth_(max_depth) {}

  Result<PatternNode> Run() {
    SURETY_ASSIGN_OR_RETURN(PatternNode node, Choice());
    if (!at_end()) return Error(At(pos_, "')' without '('"));
    return node;
  }

 private:
  bool at_end() const { return pos_ >= text_.size(); }
  char peek(size_t ahead = 0) const { return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0'; }
  Status At(size_t place, const std::string& what) const {
    return InvalidArgumentError("pattern at " + std::to_string(place + 1) + ": " + what);
  }

  Result<PatternNode> Choice() {
    if (++depth_ > max_depth_) {
      return Error(At(pos_, "more than " + std::to_string(max_depth_) + " groups within each other"));
    }
    PatternNode choice{.kind = PatternNode::Kind::kChoice, .set = {}, .parts = {}};
    while (true) {
      SURETY_ASSIGN_OR_RETURN(PatternNode sequence, Sequence());
      choice.parts.push_back(std::move(sequence));
      if (peek() != '|' || at_end()) break;
      ++pos_;
    }
    --depth_;
    if (choice.parts.size() > 1) return choice;
    PatternNode only = std::move(choice.parts[0]);
    return only;
  }

  Result<PatternNode> Sequence() {
    PatternNode sequence;
    while (!at_end() && peek() != '|' && peek() != ')') {
      const size_t place = pos_;
      SURETY_ASSIGN_OR_RETURN(PatternNode atom, Atom());
      int least = 1, most = 1;
      SURETY_RETURN_IF_ERROR(Suffix(least, most));
      if (least != 1 || most != 1) {
        if (atom.kind == PatternNode::Kind::kBegin || atom.kind == PatternNode::Kind::kEnd) {
          return Error(At(place, "an anchor cannot be repeated"));
        }
        PatternNode repeat{.kind = PatternNode::Kind::kRepeat, .set = {}, .parts = {}, .least = least, .most = most};
        repeat.parts.push_back(std::move(atom));
        atom = std::move(repeat);
      }
      sequence.parts.push_back(std::move(atom));
    }
    return sequence;
  }

  Result<PatternNode> Atom() {
    const size_t place = pos_;
    const char c = peek();
    switch (c) {
      case '^':
        ++pos_;
        return PatternNode{.kind = PatternNode::Kind::kBegin, .set = {}, .parts = {}};
      case '$':
        ++pos_;
        return PatternNode{.kind = PatternNode::Kind::kEnd, .set = {}, .parts = {}};
      case '.':
        ++pos_;
        return Set(kLineEnds.Complement());
      case '(':
        return Group();
      case '[':
        return Class();
      case '*':
      case '+':
      case '?':
        return Error(At(place, std::string("nothing to repeat before '") + c + "'"));
      case '{':
        return Error(At(place, "'{' that repeats nothing must be written \\{"));
      case '\\': {
        SURETY_ASSIGN_OR_RETURN(CharSet set, Escape(false));
        return Set(std::move(set));
      }
      default: {
        SURETY_ASSIGN_OR_RETURN(const char32_t literal, Literal());
        return Set(CharSet{{literal, literal}});
      }
    }
  }

  static PatternNode Set(CharSet set) { return {.kind = PatternNode::Kind::kSet, .set = std::move(set), .parts = {}}; }

  Result<char32_t> Literal() {
    char32_t c = 0;
    const int length = model::DecodeUtf8(text_, pos_, c);
    if (length <= 0) return Error(At(pos_, "bytes that are not UTF-8"));
    pos_ += static_cast<size_t>(length);
    return c;
  }

  Result<PatternNode> Group() {
    const size_t place = pos_++;
    if (peek() == '?') {
      if (peek(1) == ':') {
        pos_ += 2;
      } else if (peek(1) == '<' && peek(2) != '=' && peek(2) != '!') {
        const size_t close = text_.find('>', pos_);
        if (close == std::string_view::npos) return Error(At(place, "a group name that never ends"));
        pos_ = close + 1;
      } else {
        return Error(At(place, "look-around and flags cannot be enforced; plain and (?:...) groups can"));
      }
    }
    SURETY_ASSIGN_OR_RETURN(PatternNode node, Choice());
    if (peek() != ')') return Error(At(place, "this '(' is never closed"));
    ++pos_;
    // A group of its own, so that a repetition takes it whole and an anchor in it keeps its place.
    PatternNode group;
    group.parts.push_back(std::move(node));
    return group;
  }

  Status Suffix(int& least, int& most) {
    const char c = peek();
    if (at_end() || (c != '*' && c != '+' && c != '?' && c != '{')) return OkStatus();
    const size_t place = pos_++;
    least = c == '+' ? 1 : 0;
    most = c == '?' ? 1 : -1;
    if (c == '{') {
      SURETY_RETURN_IF_ERROR(Count(least));
      most = least;
      if (peek() == ',') {
        ++pos_;
        most = -1;
        if (peek() != '}') SURETY_RETURN_IF_ERROR(Count(most));
      }
      if (peek() != '}') return At(pos_, "expected '}'");
      ++pos_;
      if (most >= 0 && most < least) return At(place, "the most is less than the least");
    }
    if (peek() == '?') ++pos_;  // reluctant: the same strings
    return OkStatus();
  }

  Status Count(int& value) {
    const size_t place = pos_;
    value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + (text_[pos_++] - '0');
      if (value > kMaxPatternRepeat) return At(place, "at most " + std::to_string(kMaxPatternRepeat) + " repetitions");
    }
    return pos_ > place ? OkStatus() : At(place, "expected a number of repetitions; a plain '{' is written \\{");
  }

  Result<uint32_t> Hex(size_t place, int n_digits) {
    uint32_t value = 0;
    for (int i = 0; i < n_digits; ++i, ++pos_) {
      const int digit = HexDigitValue(peek());
      if (digit < 0) {
        return Error(At(place, "this escape needs " + std::to_string(n_digits) + " hexadecimal digits"));
      }
      value = (value << 4) | static_cast<uint32_t>(digit);
    }
    return value;
  }

  Result<CharSet> UnicodeEscape(size_t place) {
    uint32_t value = 0;
    if (peek() == '{') {
      const size_t close = text_.find('}', pos_);
      const size_t n_digits = close == std::string_view::npos ? 0 : close - pos_ - 1;
      if (n_digits < 1 || n_digits > 6) return Error(At(place, "\\u{...} holds one to six hexadecimal digits"));
      ++pos_;
      SURETY_ASSIGN_OR_RETURN(value, Hex(place, static_cast<int>(n_digits)));
      ++pos_;
    } else {
      SURETY_ASSIGN_OR_RETURN(value, Hex(place, 4));
      if (value >= 0xD800 && value < 0xDC00 && peek() == '\\' && peek(1) == 'u') {
        pos_ += 2;
        SURETY_ASSIGN_OR_RETURN(const uint32_t low, Hex(place, 4));
        if (low < 0xDC00 || low > 0xDFFF) return Error(At(place, "half of a surrogate pair"));
        value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
      }
    }
    if (value > CharSet::kLast || (value >= 0xD800 && value <= 0xDFFF)) {
      return Error(At(place, "not a Unicode code point"));
    }
    return CharSet{{value, value}};
  }

  Result<CharSet> Escape(bool in_class) {
    const size_t place = pos_++;
    const char c = peek();
    if (at_end()) return Error(At(place, "a backslash with nothing behind it"));
    if (static_cast<unsigned char>(c) >= 0x80) return Error(At(place, "this character needs no backslash"));
    ++pos_;
    const auto one = [](char32_t code) { return CharSet{{code, code}}; };
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return kDigits.Complement();
      case 'w':
        return kWordChars;
      case 'W':
        return kWordChars.Complement();
      case 's':
        return kSpaces;
      case 'S':
        return kSpaces.Complement();
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'v':
        return one('\v');
      case 'f':
        return one('\f');
      case 'r':
        return one('\r');
      case 'b':
        if (in_class) return one('\b');
        return Error(At(place, "word borders cannot be enforced"));
      case '0':
        if (peek() < '0' || peek() > '9') return one(0);
        return Error(At(place, "octal escapes are not part of ECMA-262 patterns"));
      case 'c': {
        const char letter = static_cast<char>(peek() & ~0x20);
        if (letter < 'A' || letter > 'Z') return Error(At(place, "\\c needs a letter"));
        ++pos_;
        return one(static_cast<char32_t>(letter - '@'));
      }
      case 'x': {
        SURETY_ASSIGN_OR_RETURN(const uint32_t value, Hex(place, 2));
        return one(value);
      }
      case 'u':
        return UnicodeEscape(place);
      default:
        break;
    }
    if (c >= '1' && c <= '9') return Error(At(place, "back references cannot be enforced"));
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      return Error(At(place, std::string("\\") + c + " cannot be enforced"));
    }
    return one(static_cast<char32_t>(c));
  }

  Result<CharSet> ClassPart() {
    if (peek() == '\\') return Escape(true);
    SURETY_ASSIGN_OR_RETURN(const char32_t c, Literal());
    return CharSet{{c, c}};
  }

  Result<PatternNode> Class() {
    const size_t place = pos_++;
    const bool negated = peek() == '^';
    if (negated) ++pos_;
    std::vector<CharSet::Range> ranges;
    while (peek() != ']' || at_end()) {
      if (at_end()) return Error(At(place, "this class is never closed"));
      const size_t begin = pos_;
      SURETY_ASSIGN_OR_RETURN(CharSet set, ClassPart());
      if (peek() == '-' && pos_ + 1 < text_.size() && peek(1) != ']') {
        ++pos_;
        SURETY_ASSIGN_OR_RETURN(const CharSet to, ClassPart());
        const auto is_one = [](const CharSet& s) {
          return s.ranges().size() == 1 && s.ranges()[0].first == s.ranges()[0].second;
        };
        if (!is_one(set) || !is_one(to)) return Error(At(begin, "a range between sets; write '-' as \\-"));
        if (to.ranges()[0].first < set.ranges()[0].first) return Error(At(begin, "a range that ends before it begins"));
        set = CharSet{{set.ranges()[0].first, to.ranges()[0].first}};
      }
      ranges.insert(ranges.end(), set.ranges().begin(), set.ranges().end());
    }
    ++pos_;
    const CharSet set(std::move(ranges));
    return Set(negated ? set.Complement() : set);
  }

  std::string_view text_;
  int max_depth_;
  size_t pos_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<PatternNode> ParsePattern(std::string_view pattern, int max_depth) {
  return PatternParser(pattern, max_depth).Run();
}

}  // namespace surety::engine
