#include "engine/grammar/json_rules.h"

#include <vector>

namespace surety::engine {
namespace {

const CharSet& PlainChars() {
  static const CharSet set = CharSet{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}.Complement();
  return set;
}

// The letter of a short escape, 0 if there is none.
char ShortEscape(char32_t c) {
  switch (c) {
    case '"':
      return '"';
    case '\\':
      return '\\';
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return 0;
  }
}

uint8_t HexLetter(uint32_t digit) { return static_cast<uint8_t>("0123456789abcdef"[digit]); }

}  // namespace

int32_t JsonRules::Known(const std::string& name, bool& is_new) {
  const auto [found, inserted] = rules_.try_emplace(name, 0);
  if (inserted) found->second = builder_.NewRule(name);
  is_new = inserted;
  return found->second;
}

int32_t JsonRules::Space() {
  bool is_new = false;
  const int32_t rule = Known("white space", is_new);
  if (!is_new) return rule;
  const int32_t start = builder_.NewState(), end = builder_.NewState();
  builder_.Empty(start, end);
  builder_.Bytes(start, ' ', ' ', end);
  int32_t at = builder_.NewState();
  builder_.Bytes(start, '\n', '\n', at);
  for (int i = 0; i < kMaxIndent; ++i) {
    builder_.Empty(at, end);
    const int32_t next = i + 1 < kMaxIndent ? builder_.NewState() : end;
    builder_.Bytes(at, ' ', ' ', next);
    builder_.Bytes(at, '\t', '\t', next);
    at = next;
  }
  builder_.SetRule(rule, start, end);
  return rule;
}

int32_t JsonRules::LongChar() {
  bool is_new = false;
  const int32_t rule = Known(std::string(kLongCharRule), is_new);
  if (!is_new) return rule;
  const auto hex = [this](int32_t from, int32_t to) {
    builder_.Bytes(from, '0', '9', to);
    builder_.Bytes(from, 'A', 'F', to);
    builder_.Bytes(from, 'a', 'f', to);
  };
  const auto letters = [this](int32_t from, std::string_view bytes, int32_t to) {
    for (const char c : bytes) builder_.Bytes(from, static_cast<uint8_t>(c), static_cast<uint8_t>(c), to);
  };
  const int32_t start = builder_.NewState(), end = builder_.NewState();
  builder_.Chars(start, CharSet{{0x80, CharSet::kLast}}, end);
  const int32_t escape = builder_.NewState(), u = builder_.NewState();
  builder_.Bytes(start, '\\', '\\', escape);
  letters(escape, "\"\\/bfnrt", end);
  builder_.Bytes(escape, 'u', 'u', u);
  const int32_t last3 = builder_.NewState(), last2 = builder_.NewState(), last1 = builder_.NewState();
  letters(u, "0123456789abcefABCEF", last3);
  hex(last3, last2);
  hex(last2, last1);
  hex(last1, end);
  const int32_t d = builder_.NewState();
  letters(u, "dD", d);
  builder_.Bytes(d, '0', '7', last2);
  // A high surrogate, then a low one.
  int32_t high = builder_.NewState();
  letters(d, "89abAB", high);
  for (int i = 0; i < 2; ++i) {
    const int32_t next = builder_.NewState();
    hex(high, next);
    high = next;
  }
  const int32_t low = builder_.NewState(), low2 = builder_.NewState();
  builder_.Literal(high, "\\u", low);
  letters(low, "dD", low2);
  letters(low2, "cdefCDEF", last2);
  builder_.SetRule(rule, start, end);
  return rule;
}

void JsonRules::AddChar(int32_t from, int32_t to) {
  builder_.Bytes(from, ' ', '!', to);
  builder_.Bytes(from, '#', '[', to);
  builder_.Bytes(from, ']', 0x7F, to);
  builder_.Call(from, LongChar(), to);
}

int32_t JsonRules::String() {
  bool is_new = false;
  const int32_t rule = Known("string", is_new);
  if (!is_new) return rule;
  const int32_t start = builder_.NewState(), in = builder_.NewState(), end = builder_.NewState();
  builder_.Bytes(start, '"', '"', in);
  AddChar(in, in);
  builder_.Bytes(in, '"', '"', end);
  builder_.SetRule(rule, start, end);
  return rule;
}

int32_t JsonRules::Integer() {
  bool is_new = false;
  const int32_t rule = Known("integer", is_new);
  if (!is_new) return rule;
  const int32_t start = builder_.NewState(), digits = builder_.NewState();
  const int32_t more = builder_.NewState(), end = builder_.NewState();
  builder_.Empty(start, digits);
  builder_.Bytes(start, '-', '-', digits);
  builder_.Bytes(digits, '0', '0', end);
  builder_.Bytes(digits, '1', '9', more);
  builder_.Bytes(more, '0', '9', more);
  builder_.Empty(more, end);
  builder_.SetRule(rule, start, end);
  return rule;
}

int32_t JsonRules::Number() {
  bool is_new = false;
  const int32_t rule = Known("number", is_new);
  if (!is_new) return rule;
  const int32_t start = builder_.NewState(), whole = builder_.NewState(), end = builder_.NewState();
  builder_.Call(start, Integer(), whole);
  builder_.Empty(whole, end);
  const int32_t point = builder_.NewState(), fraction = builder_.NewState();
  builder_.Bytes(whole, '.', '.', point);
  builder_.Bytes(point, '0', '9', fraction);
  builder_.Bytes(fraction, '0', '9', fraction);
  builder_.Empty(fraction, end);
  const int32_t e = builder_.NewState(), sign = builder_.NewState(), exponent = builder_.NewState();
  for (const int32_t from : {whole, fraction}) {
    builder_.Bytes(from, 'e', 'e', e);
    builder_.Bytes(from, 'E', 'E', e);
  }
  builder_.Empty(e, sign);
  builder_.Bytes(e, '+', '+', sign);
  builder_.Bytes(e, '-', '-', sign);
  builder_.Bytes(sign, '0', '9', exponent);
  builder_.Bytes(exponent, '0', '9', exponent);
  builder_.Empty(exponent, end);
  builder_.SetRule(rule, start, end);
  return rule;
}

int32_t JsonRules::Value(int depth) {
  bool is_new = false;
  const int32_t rule = Known("value of " + std::to_string(depth) + " levels", is_new);
  if (!is_new) return rule;
  const int32_t start = builder_.NewState(), end = builder_.NewState();
  builder_.AnyOf(start, {"null", "true", "false"}, end);
  builder_.Call(start, String(), end);
  builder_.Call(start, Number(), end);
  if (depth > 0) {
    builder_.Call(start, Object(depth), end);
    builder_.Call(start, Array(depth), end);
  }
  builder_.SetRule(rule, start, end);
  return rule;
}

// open space [item {"," space item} space] close
void JsonRules::List(int32_t from, char open, char close, int32_t item, int32_t to) {
  const int32_t opened = builder_.NewState(), first = builder_.NewState(), after = builder_.NewState();
  const int32_t comma = builder_.NewState(), next = builder_.NewState(), closing = builder_.NewState();
  builder_.Bytes(from, static_cast<uint8_t>(open), static_cast<uint8_t>(open), opened);
  builder_.Call(opened, Space(), first);
  builder_.Empty(first, closing);
  builder_.Call(first, item, after);
  builder_.Bytes(after, ',', ',', comma);
  builder_.Call(comma, Space(), next);
  builder_.Call(next, item, after);
  builder_.Call(after, Space(), closing);
  builder_.Bytes(closing, static_cast<uint8_t>(close), static_cast<uint8_t>(close), to);
}

int32_t JsonRules::Object(int depth) {
  bool is_new = false;
  const int32_t rule = Known("object of " + std::to_string(depth) + " levels", is_new);
  if (!is_new) return rule;
  const int32_t member = builder_.NewRule("member of " + std::to_string(depth) + " levels");
  const int32_t name = builder_.NewState(), colon = builder_.NewState(), space = builder_.NewState();
  const int32_t value = builder_.NewState(), done = builder_.NewState();
  builder_.Call(name, String(), colon);
  builder_.Bytes(colon, ':', ':', space);
  builder_.Call(space, Space(), value);
  builder_.Call(value, Value(depth - 1), done);
  builder_.SetRule(member, name, done);
  const int32_t start = builder_.NewState(), end = builder_.NewState();
  List(start, '{', '}', member, end);
  builder_.SetRule(rule, start, end);
  return rule;
}

int32_t JsonRules::Array(int depth) {
  bool is_new = false;
  const int32_t rule = Known("array of " + std::to_string(depth) + " levels", is_new);
  if (!is_new) return rule;
  const int32_t start = builder_.NewState(), end = builder_.NewState();
  List(start, '[', ']', Value(depth - 1), end);
  builder_.SetRule(rule, start, end);
  return rule;
}

void JsonRules::CharsOf(int32_t from, const CharSet& set, int32_t to) {
  builder_.Chars(from, set.Intersect(PlainChars()), to);
  const CharSet escaped = set.Minus(PlainChars());
  if (escaped.empty()) return;
  const int32_t escape = builder_.NewState();
  builder_.Bytes(from, '\\', '\\', escape);
  int32_t high = -1, low[2] = {-1, -1};  // before the last two digits, the last one
  for (const auto& [first, last] : escaped.ranges()) {
    for (char32_t c = first; c <= last; ++c) {
      if (const char letter = ShortEscape(c); letter != 0) {
        builder_.Bytes(escape, static_cast<uint8_t>(letter), static_cast<uint8_t>(letter), to);
        continue;
      }
      if (high < 0) {
        high = builder_.NewState();
        builder_.Literal(escape, "u00", high);
      }
      int32_t& before = low[c >> 4];
      if (before < 0) {
        before = builder_.NewState();
        builder_.Bytes(high, HexLetter(c >> 4), HexLetter(c >> 4), before);
      }
      builder_.Bytes(before, HexLetter(c & 15), HexLetter(c & 15), to);
    }
  }
}

void JsonRules::StringOf(const CharDfa& dfa, int32_t from, int32_t to) {
  std::vector<int32_t> states;
  for (size_t i = 0; i < dfa.states.size(); ++i) states.push_back(builder_.NewState());
  builder_.Bytes(from, '"', '"', states[0]);
  for (size_t i = 0; i < dfa.states.size() && builder_.ok(); ++i) {
    std::map<int32_t, std::vector<CharSet::Range>> by_target;
    for (const auto& edge : dfa.states[i].edges) by_target[edge.target].emplace_back(edge.first, edge.last);
    for (auto& [target, ranges] : by_target) {
      CharsOf(states[i], CharSet(std::move(ranges)), states[static_cast<size_t>(target)]);
    }
    if (dfa.states[i].accepts) builder_.Bytes(states[i], '"', '"', to);
  }
}

std::string JsonRules::Quote(std::string_view utf8) {
  std::string out = "\"";
  for (const char c : utf8) {
    const auto byte = static_cast<unsigned char>(c);
    if (const char letter = ShortEscape(byte); letter != 0) {
      out += '\\';
      out += letter;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += static_cast<char>(HexLetter(byte >> 4));
      out += static_cast<char>(HexLetter(byte & 15));
    } else {
      out += c;
    }
  }
  return out + '"';
}

Result<GrammarPtr> CompileJsonObject(const GrammarLimits& limits) {
  GrammarBuilder builder(limits);
  JsonRules rules(builder);
  return builder.Finish(rules.Object(kMaxAnyJsonDepth));
}

}  // namespace surety::engine
