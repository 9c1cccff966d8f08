#include "model/chat/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "model/chat/unicode.h"

namespace surety::model::chat {
namespace {

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

std::string NormaliseNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> Run() {
    while (pos_ < source_.size()) {
      const size_t tag = FindTag(pos_);
      if (tag == std::string::npos) {
        AddData(source_.substr(pos_));
        pos_ = source_.size();
        break;
      }
      SURETY_RETURN_IF_ERROR(Tag(tag));
    }
    Add(Token::Kind::kEnd, source_.size());
    return std::move(tokens_);
  }

 private:
  size_t FindTag(size_t from) const {
    for (size_t at = source_.find('{', from); at != std::string::npos; at = source_.find('{', at + 1)) {
      if (at + 1 < source_.size() && (source_[at + 1] == '{' || source_[at + 1] == '%' || source_[at + 1] == '#')) {
        return at;
      }
    }
    return std::string::npos;
  }

  char At(size_t i) const { return i < source_.size() ? source_[i] : '\0'; }
  bool StartsAt(size_t i, std::string_view what) const { return std::string_view(source_).substr(i).starts_with(what); }
  size_t SkipSpace(size_t i) const {
    while (i < source_.size() && IsSpace(source_[i])) ++i;
    return i;
  }

  // The text before a tag, stripped as the tag's mark and lstrip_blocks say.
  std::string_view Before(size_t tag, char mark) const {
    std::string_view text = std::string_view(source_).substr(pos_, tag - pos_);
    if (mark == '-') {
      while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
    } else if (mark != '+' && source_[tag + 1] != '{') {
      const size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
      const bool line_starts_here = line > 0 || pos_ == 0 || source_[pos_ - 1] == '\n';
      const std::string_view rest = text.substr(line);
      if (line_starts_here && std::all_of(rest.begin(), rest.end(), IsSpace)) text = text.substr(0, line);
    }
    return text;
  }

  Status Tag(size_t tag) {
    const char kind = source_[tag + 1];
    const char mark = At(tag + 2) == '-' || At(tag + 2) == '+' ? source_[tag + 2] : '\0';
    AddData(Before(tag, mark));
    const size_t inside = tag + 2 + (mark != '\0' ? 1 : 0);
    if (kind == '#') return Comment(tag, inside);
    if (kind == '%') {
      if (const size_t after = RawBegin(inside); after != 0) return Raw(tag, after);
      Add(Token::Kind::kBlockBegin, tag);
    } else {
      Add(Token::Kind::kOutputBegin, tag);
    }
    pos_ = inside;
    return Inside(tag, kind == '%');
  }

  // The place after a block's or comment's closing bracket, its mark read before it.
  size_t AfterClose(size_t after, char mark) const {
    if (mark == '-') return SkipSpace(after);
    return mark != '+' && At(after) == '\n' ? after + 1 : after;
  }

  Status Comment(size_t tag, size_t inside) {
    const size_t end = source_.find("#}", inside);
    if (end == std::string::npos) return ErrorAt(PositionOf(tag), "this comment has no end '#}'");
    pos_ = AfterClose(end + 2, end > inside ? source_[end - 1] : '\0');
    return OkStatus();
  }

  // The place after "raw %}", or 0 if this is another block.
  size_t RawBegin(size_t inside) const {
    size_t i = SkipSpace(inside);
    if (!StartsAt(i, "raw")) return 0;
    i = SkipSpace(i + 3);
    if (StartsAt(i, "-%}")) return SkipSpace(i + 3);
    return StartsAt(i, "%}") ? i + 2 : 0;
  }

  Status Raw(size_t tag, size_t inside) {
    pos_ = inside;
    for (size_t at = source_.find("{%", inside); at != std::string::npos; at = source_.find("{%", at + 1)) {
      const char mark = At(at + 2) == '-' || At(at + 2) == '+' ? source_[at + 2] : '\0';
      size_t i = SkipSpace(at + 2 + (mark != '\0' ? 1 : 0));
      if (!StartsAt(i, "endraw")) continue;
      i = SkipSpace(i + 6);
      const char end_mark = At(i) == '-' || At(i) == '+' ? source_[i] : '\0';
      if (end_mark != '\0') ++i;
      if (!StartsAt(i, "%}")) continue;
      AddData(Before(at, mark));
      pos_ = AfterClose(i + 2, end_mark);
      return OkStatus();
    }
    return ErrorAt(PositionOf(tag), "'raw' without 'endraw'");
  }

  // Tokens up to the closing bracket of a block or an output.
  Status Inside(size_t tag, bool block) {
    std::string open;  // brackets that wait for their end
    while (true) {
      pos_ = SkipSpace(pos_);
      if (pos_ >= source_.size()) {
        return ErrorAt(PositionOf(tag), block ? "this tag has no end '%}'" : "this output has no end '}}'");
      }
      if (open.empty() && Close(block)) return OkStatus();
      SURETY_RETURN_IF_ERROR(One(open));
    }
  }

  bool Close(bool block) {
    const size_t start = pos_;
    size_t i = pos_;
    char mark = '\0';
    if (At(i) == '-' || (block && At(i) == '+')) mark = source_[i++];
    if (!StartsAt(i, block ? "%}" : "}}")) return false;
    i += 2;
    pos_ = block ? AfterClose(i, mark) : mark == '-' ? SkipSpace(i) : i;
    Add(block ? Token::Kind::kBlockEnd : Token::Kind::kOutputEnd, start);
    return true;
  }

  Status One(std::string& open) {
    const char c = source_[pos_];
    if (IsDigit(c)) return Number();
    if (IsNameStart(c)) {
      const size_t start = pos_;
      while (pos_ < source_.size() && (IsNameStart(source_[pos_]) || IsDigit(source_[pos_]))) ++pos_;
      Add(Token::Kind::kName, start, source_.substr(start, pos_ - start));
      return OkStatus();
    }
    if (c == '\'' || c == '"') return Text(c);
    return Operator(open);
  }

  Status Text(char quote) {
    const size_t start = pos_;
    size_t i = pos_ + 1;
    while (i < source_.size() && source_[i] != quote) i += source_[i] == '\\' ? 2 : 1;
    if (i >= source_.size()) return ErrorAt(PositionOf(start), "this string has no end");
    auto text = Unescape(std::string_view(source_).substr(start + 1, i - start - 1));
    if (!text) return ErrorAt(PositionOf(start), text.error().message());
    Add(Token::Kind::kText, start, *std::move(text));
    pos_ = i + 1;
    return OkStatus();
  }

  // Digits with single underscores between them; false if a digit must come and does not.
  bool Digits(size_t& i, std::string& out) const {
    if (!IsDigit(At(i))) return false;
    while (IsDigit(At(i)) || (At(i) == '_' && IsDigit(At(i + 1)))) {
      if (source_[i] != '_') out += source_[i];
      ++i;
    }
    return true;
  }

  Status Number() {
    const size_t start = pos_;
    size_t i = pos_;
    std::string digits;
    int base = 10;
    const char letter = static_cast<char>(At(i + 1) | 0x20);
    if (source_[i] == '0' && (letter == 'x' || letter == 'o' || letter == 'b')) {
      base = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
      for (i += 2; ReadAsDigit(At(i)) < base || At(i) == '_'; ++i) {
        if (source_[i] != '_') digits += source_[i];
      }
      return AddInteger(start, i, digits, base);
    }
    Digits(i, digits);
    bool is_float = false;
    if (At(i) == '.' && IsDigit(At(i + 1)) && (start == 0 || source_[start - 1] != '.')) {
      is_float = true;
      digits += '.';
      ++i;
      Digits(i, digits);
    }
    if ((At(i) | 0x20) == 'e') {
      size_t j = i + 1;
      std::string exponent = "e";
      if (At(j) == '+' || At(j) == '-') exponent += source_[j++];
      if (Digits(j, exponent)) {
        is_float = true;
        digits += exponent;
        i = j;
      }
    }
    if (!is_float) {
      if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos) {
        return ErrorAt(PositionOf(start), "an integer must not start with 0");
      }
      return AddInteger(start, i, digits, 10);
    }
    Token& token = Add(Token::Kind::kFloat, start);
    std::from_chars(digits.data(), digits.data() + digits.size(), token.number);
    pos_ = i;
    return OkStatus();
  }

  static int ReadAsDigit(char c) {
    if (IsDigit(c)) return c - '0';
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
  }

  Status AddInteger(size_t start, size_t end, const std::string& digits, int base) {
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error == std::errc::result_out_of_range) {
      return ErrorAt(PositionOf(start), "integers of more than 64 bits are not supported");
    }
    if (error != std::errc()) return ErrorAt(PositionOf(start), "this is not a number");
    Add(Token::Kind::kInteger, start).integer = value;
    pos_ = end;
    return OkStatus();
  }

  Status Operator(std::string& open) {
    static constexpr std::array<std::string_view, 26> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (std::string_view op : kOperators) {
      if (!StartsAt(pos_, op)) continue;
      if (op == "(" || op == "[" || op == "{") {
        open += op == "(" ? ')' : op == "[" ? ']' : '}';
      } else if (op == ")" || op == "]" || op == "}") {
        if (open.empty() || open.back() != op[0]) {
          return ErrorAt(PositionOf(pos_), Quoted(op) + " closes nothing that is open");
        }
        open.pop_back();
      }
      Add(Token::Kind::kOperator, pos_, std::string(op));
      pos_ += op.size();
      return OkStatus();
    }
    return ErrorAt(PositionOf(pos_), "unexpected character '" + source_.substr(pos_, 1) + "'");
  }

  void AddData(std::string_view text) {
    if (!text.empty()) Add(Token::Kind::kData, pos_, std::string(text));
  }

  Token& Add(Token::Kind kind, size_t start, std::string text = {}) {
    tokens_.push_back({kind, PositionOf(start), std::move(text), 0, 0.0});
    return tokens_.back();
  }

  // Positions are asked for in rising order, nearly always: count on from the last one.
  Position PositionOf(size_t offset) {
    if (offset < counted_) {
      counted_ = line_start_ = 0;
      line_ = 1;
    }
    for (; counted_ < offset; ++counted_) {
      if (source_[counted_] == '\n') {
        ++line_;
        line_start_ = counted_ + 1;
      }
    }
    return {line_, static_cast<uint32_t>(offset - line_start_ + 1)};
  }

  std::string source_;
  size_t pos_ = 0;
  size_t counted_ = 0, line_start_ = 0;
  uint32_t line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

Status ErrorAt(Position at, std::string_view what) {
  return InvalidArgumentError("line " + std::to_string(at.line) + ", column " + std::to_string(at.column) + ": " +
                              std::string(what));
}

std::string Quoted(std::string_view name) {
  std::string text(1, '\'');
  text.append(name);
  text += '\'';
  return text;
}

std::string Describe(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kData: return "text";
    case Token::Kind::kBlockBegin: return "'{%'";
    case Token::Kind::kBlockEnd: return "'%}'";
    case Token::Kind::kOutputBegin: return "'{{'";
    case Token::Kind::kOutputEnd: return "'}}'";
    case Token::Kind::kText: return "a string";
    case Token::Kind::kInteger:
    case Token::Kind::kFloat: return "a number";
    case Token::Kind::kName:
    case Token::Kind::kOperator: return Quoted(token.text);
    case Token::Kind::kEnd: return "the end of the template";
  }
  return "?";
}

Result<std::vector<Token>> Tokenise(std::string_view source, int64_t max_source_bytes) {
  if (static_cast<int64_t>(source.size()) > max_source_bytes) {
    return Error(ResourceExhaustedError("the template has " + std::to_string(source.size()) +
                                        " bytes; the limit max_source_bytes is " + std::to_string(max_source_bytes)));
  }
  return Lexer(NormaliseNewlines(source)).Run();
}

Result<std::string> Unescape(std::string_view raw) {
  std::string out;
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 >= raw.size()) {
      out += raw[i];
      continue;
    }
    const char c = raw[++i];
    static constexpr std::string_view kLetters = "abfnrtv\\'\"";
    static constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t simple = kLetters.find(c); simple != std::string_view::npos) {
      out += kMeanings[simple];
    } else if (c == '\n') {
      continue;  // a line that goes on
    } else if (c >= '0' && c <= '7') {
      uint32_t code = 0;
      size_t n = 0;
      for (; n < 3 && i + n < raw.size() && raw[i + n] >= '0' && raw[i + n] <= '7'; ++n) {
        code = code * 8 + static_cast<uint32_t>(raw[i + n] - '0');
      }
      AppendUtf8(out, code);
      i += n - 1;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      uint32_t code = 0;
      const char* begin = raw.data() + i + 1;
      if (i + n >= raw.size()) return Error(InvalidArgumentError("a \\x, \\u or \\U escape is too short"));
      const auto [stop, error] = std::from_chars(begin, begin + n, code, 16);
      if (error != std::errc() || stop != begin + n) {
        return Error(InvalidArgumentError("a \\x, \\u or \\U escape needs hexadecimal digits"));
      }
      if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
        return Error(InvalidArgumentError("an escape names no Unicode character"));
      }
      AppendUtf8(out, code);
      i += n;
    } else if (c == 'N') {
      return Error(InvalidArgumentError("\\N{...} escapes are not supported"));
    } else {
      out += '\\';
      out += c;
    }
  }
  return out;
}

}  // namespace surety::model::chat
