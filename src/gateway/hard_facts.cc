// SameHardFacts: a gate in front of a match by meaning. It errs to the side of a miss, which costs a generation; a
// false match gives a customer the answer to another question.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <utf8proc.h>

#include "gateway/hard_words.h"
#include "gateway/response_cache.h"

namespace surety::gateway {
namespace {

struct HardToken {
  enum class Kind : uint8_t { kWord, kNumber, kCode, kSymbol };
  Kind kind = Kind::kWord;
  std::string text = {};        // lower case; kNumber: digits with their separators
  bool capital = false;         // one upper-case letter at least
  bool shouted = false;         // two or more letters, all upper-case
  bool caseless = false;        // a script without capitals
  bool opens = false;           // first of a sentence
  bool negative = false;        // kNumber: a minus before it
};

struct HardFacts {
  std::vector<std::string> facts;           // sorted: the multiset
  std::vector<std::string> sequence;        // what is said, in order
  std::map<std::string, int> words;         // all of them, lower case
  std::set<std::string> names;
  std::array<uint32_t, hard::kMaxRivalGroups> rivals = {};
};

std::optional<std::string> HardFold(std::string_view text) {
  utf8proc_uint8_t* mapped = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT |
                                                      UTF8PROC_IGNORE);
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &mapped, options);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(mapped, &std::free);
  if (size < 0) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
}

constexpr utf8proc_int32_t kHardMinus = 0x2212;

struct HardChar {
  utf8proc_int32_t code;
  utf8proc_category_t category;
  bool letter() const { return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO; }
  bool part() const {  // of a word or number
    return letter() || (category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_NO);
  }
  bool digit() const { return code >= '0' && code <= '9'; }
  bool number() const { return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO; }
  bool apostrophe() const { return code == '\'' || code == 0x2019; }
  bool ends_sentence() const {
    return code == '.' || code == '!' || code == '?' || code == ':' || code == ';' || code == '\n' || code == '"' ||
           code == 0x201c || code == '(';
  }
};

std::vector<HardChar> HardCharsOf(std::string_view text) {
  std::vector<HardChar> chars;
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t code = -1;
    const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                                       static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    if (size <= 0) break;  // HardFold made it valid
    chars.push_back({code, utf8proc_category(code)});
    at += static_cast<size_t>(size);
  }
  return chars;
}

void HardAppend(std::string& out, utf8proc_int32_t code) {
  utf8proc_uint8_t bytes[4];
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(utf8proc_encode_char(code, bytes)));
}

class HardTokenizer {
 public:
  explicit HardTokenizer(std::vector<HardChar> chars) : chars_(std::move(chars)) {}

  std::vector<HardToken> Run() {
    bool opens = true;
    while (at_ < chars_.size()) {
      const HardChar c = chars_[at_];
      if (c.part() || (c.code == '.' && Digit(at_ + 1) && !Part(at_ - 1))) {
        Word(opens);
        opens = false;
        continue;
      }
      const bool symbol = c.category >= UTF8PROC_CATEGORY_SM && c.category <= UTF8PROC_CATEGORY_SO;
      if ((symbol && c.code != kHardMinus) || c.code == '%') {
        HardToken token{.kind = HardToken::Kind::kSymbol};
        HardAppend(token.text, c.code);
        tokens_.push_back(std::move(token));
      }
      opens |= c.ends_sentence();
      ++at_;
    }
    return std::move(tokens_);
  }

 private:
  bool Digit(size_t at) const { return at < chars_.size() && chars_[at].digit(); }
  bool Part(size_t at) const { return at < chars_.size() && chars_[at].part(); }
  bool Letter(size_t at) const { return at < chars_.size() && chars_[at].letter(); }

  // A minus stands before the number or its currency, and after nothing or a space or a bracket; else a dash joins
  // two things.
  bool MinusBefore(size_t at) const {
    const auto currency = [&](size_t i) { return chars_[i].category == UTF8PROC_CATEGORY_SC; };
    if (at > 0 && currency(at - 1)) --at;
    if (at == 0 || (chars_[at - 1].code != '-' && chars_[at - 1].code != kHardMinus)) return false;
    return at == 1 || chars_[at - 2].category == UTF8PROC_CATEGORY_ZS || chars_[at - 2].code == '(' ||
           currency(at - 2);
  }

  void Word(bool opens) {
    HardToken token{.opens = opens};
    token.negative = MinusBefore(at_);
    int n_letters = 0, n_upper = 0, n_digits = 0, n_odd = 0;
    if (chars_[at_].code == '.') token.text = "0";  // ".5"
    for (; at_ < chars_.size(); ++at_) {
      const HardChar c = chars_[at_];
      const bool inner = ((c.code == '.' || c.code == ',') && n_letters == 0 && Digit(at_ + 1)) ||
                         (c.apostrophe() && n_letters > 0 && n_digits == 0 && Letter(at_ + 1));
      if (!c.part() && !inner) break;
      n_letters += c.letter();
      n_upper += c.category == UTF8PROC_CATEGORY_LU || c.category == UTF8PROC_CATEGORY_LT;
      n_digits += c.number();
      n_odd += c.number() && !c.digit();
      token.caseless |= c.category == UTF8PROC_CATEGORY_LO;
      if (n_letters == 1 && n_digits > 0 && n_odd == 0 && c.letter()) split_ = token.text.size();
      HardAppend(token.text, c.apostrophe() ? '\'' : utf8proc_tolower(c.code));
    }
    token.capital = n_upper > 0;
    token.shouted = n_letters > 1 && n_upper == n_letters;
    if (n_digits > 0) token.kind = n_letters == 0 && n_odd == 0 ? HardToken::Kind::kNumber : HardToken::Kind::kCode;
    if (token.kind == HardToken::Kind::kCode && split_ > 0) return AddMixed(std::move(token));
    split_ = 0;
    tokens_.push_back(std::move(token));
  }

  // "10k", "5pm", "1st", "30days" are numbers with a word behind them; "10b5" is a code.
  void AddMixed(HardToken token) {
    const std::string suffix = token.text.substr(split_);
    const bool known = hard::NumberWordOf(suffix) || hard::EqualFactOf(suffix) || suffix == "k" || suffix == "m" ||
                       suffix == "mn" || suffix == "bn" || suffix == "am" || suffix == "pm" || suffix == "st" ||
                       suffix == "nd" || suffix == "rd" || suffix == "th";
    if (known) {
      HardToken number = token;
      number.kind = HardToken::Kind::kNumber;
      number.text.resize(split_);
      tokens_.push_back(std::move(number));
      token = {.text = "#" + suffix};
    }
    split_ = 0;
    tokens_.push_back(std::move(token));
  }

  std::vector<HardChar> chars_;
  std::vector<HardToken> tokens_;
  size_t at_ = 0, split_ = 0;
};

// "1,000" and "1000", "10.50" and "10.5" are one number. What may be read in two ways stays as it is written: "1.000"
// (a thousand, or one), "1,5", "007".
std::string HardNumberText(std::string_view text) {
  std::string digits;
  std::vector<std::string_view> groups;
  const std::string_view whole = text.substr(0, text.find('.'));
  const std::string_view rest = text.substr(whole.size());
  for (size_t at = 0; at <= whole.size();) {
    const size_t end = std::min(whole.find(',', at), whole.size());
    groups.push_back(whole.substr(at, end - at));
    at = end + 1;
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    const bool fits = i == 0 ? groups.size() == 1 || groups[i].size() <= 3 : groups[i].size() == 3;
    if (!fits) return std::string(text);
    digits += groups[i];
  }
  if (rest.empty()) return digits;
  const std::string_view fraction = rest.substr(1);
  if (fraction.find_first_of(".,") != std::string_view::npos || fraction.size() == 3) return std::string(text);
  const size_t last = fraction.find_last_not_of('0');
  if (last == std::string_view::npos) return digits;
  return digits + "." + std::string(fraction.substr(0, last + 1));
}

// Times ten to the n-th.
std::string HardShift(std::string text, int n) {
  const size_t point = text.find('.');
  std::string fraction = point == std::string::npos ? "" : text.substr(point + 1);
  text.resize(std::min(point, text.size()));
  for (; n > 0; --n) {
    text += fraction.empty() ? '0' : fraction[0];
    if (!fraction.empty()) fraction.erase(0, 1);
  }
  text.erase(0, std::min(text.find_first_not_of('0'), text.size() - 1));
  return fraction.empty() ? text : text + "." + fraction;
}

std::string HardStem(std::string word) {
  if (word.ends_with("'s")) word.resize(word.size() - 2);
  if (word.size() > 4 && word.ends_with("ies")) return word.substr(0, word.size() - 3) + "y";
  if (word.size() > 3 && word.ends_with('s') && !word.ends_with("ss")) word.pop_back();
  return word;
}

class HardReader {
 public:
  explicit HardReader(std::vector<HardToken> tokens) : tokens_(std::move(tokens)) {
    shouting_ = std::ranges::none_of(tokens_, [](const HardToken& t) {
      return t.kind == HardToken::Kind::kWord && !t.shouted && t.text.size() > 1;
    });
  }

  HardFacts Run() {
    for (at_ = 0; at_ < tokens_.size(); ++at_) {
      const HardToken& token = tokens_[at_];
      switch (token.kind) {
        case HardToken::Kind::kSymbol: Symbol(token); break;
        case HardToken::Kind::kCode: Fact("code " + token.text); break;
        case HardToken::Kind::kNumber: Number(HardNumberText(token.text), token.negative); break;
        case HardToken::Kind::kWord: Word(token); break;
      }
    }
    std::ranges::sort(facts_.facts);
    return std::move(facts_);
  }

 private:
  void Fact(std::string fact) {
    facts_.sequence.push_back(fact);
    facts_.facts.push_back(std::move(fact));
  }
  std::string_view Next(size_t n) const {
    return at_ + n < tokens_.size() ? std::string_view(tokens_[at_ + n].text) : std::string_view();
  }

  void Symbol(const HardToken& token) {
    static const std::map<std::string_view, std::string_view> kCurrencies = {
        {"$", "usd"}, {"\u20ac", "eur"}, {"\u00a3", "gbp"}, {"\u00a5", "jpy"}, {"<", "<"}, {">", ">"}};
    const auto currency = kCurrencies.find(token.text);
    facts_.facts.push_back("is " + std::string(currency == kCurrencies.end() ? token.text : currency->second));
  }

  // Takes scales and the percent sign behind a number to it.
  void Number(std::string text, bool negative) {
    for (;;) {
      static const std::map<std::string_view, int> kScales = {
          {"hundred", 2}, {"thousand", 3}, {"million", 6}, {"billion", 9}, {"#k", 3}, {"#m", 6}, {"#mn", 6},
          {"#bn", 9},     {"#million", 6}, {"#billion", 9}, {"#thousand", 3}, {"#hundred", 2}};
      const auto scale = kScales.find(Next(1));
      if (scale == kScales.end() || text.find(',') != std::string::npos) break;
      text = HardShift(std::move(text), scale->second);
      ++at_;
    }
    const std::string_view next = Next(1);
    if (next == "%" || next == "percent") {
      text += "%";
      ++at_;
    } else if (next == "per" && Next(2) == "cent") {
      text += "%";
      at_ += 2;
    } else if (next == "#st" || next == "#nd" || next == "#rd" || next == "#th") {
      text = "ordinal " + text;
      ++at_;
    } else if (next == "am" || next == "pm" || next == "#am" || next == "#pm") {
      text += next.ends_with("am") ? " am" : " pm";
      ++at_;
    }
    Fact((negative ? "number -" : "number ") + text);
  }

  // "one hundred and twenty five", "a" before it apart.
  bool NumberWords() {
    int64_t total = 0, group = 0;
    size_t n = 0;
    bool ordinal = false;
    for (;; ++n) {
      const bool joined = n > 0 && Next(n) == "and" && hard::NumberWordOf(Next(n + 1)) && group >= 100;
      if (joined) continue;
      const auto word = hard::NumberWordOf(Next(n));
      if (!word || ordinal) break;
      if (word->scale && word->value > 100) {
        total += std::max<int64_t>(group, 1) * word->value;
        group = 0;
      } else if (word->scale) {
        group = std::max<int64_t>(group, 1) * word->value;
      } else {
        const bool fits = n == 0 || (group == 0 && total > 0) || (group >= 100 && group % 100 == 0) ||
                          (group % 10 == 0 && group % 100 >= 20 && word->value > 0 && word->value < 10);
        if (!fits) break;
        group += word->value;
        ordinal = word->ordinal;
      }
      if (total > 1'000'000'000'000 || group > 1'000'000'000) return false;
    }
    if (n == 0) return false;
    at_ += n - 1;
    Number((ordinal ? "ordinal " : "") + std::to_string(total + group), false);
    return true;
  }

  bool IsName(const HardToken& token) const {
    if (token.caseless) return true;
    if (!token.capital) return false;
    if (token.shouted && !shouting_) return true;
    if (hard::IsFunctionWord(token.text) && (token.opens || token.text.size() > 1 || token.text == "i")) return false;
    if (!token.opens) return true;
    return !(hard::IsOpeningWord(token.text) || hard::IsNegation(token.text) || hard::EqualFactOf(token.text) ||
             !hard::RivalsOf(token.text).empty());
  }

  void Word(const HardToken& token) {
    const std::string word = token.text.starts_with('#') ? token.text.substr(1) : token.text;
    const std::string stem = HardStem(word);
    if (NumberWords()) return;
    ++facts_.words[stem];
    for (const hard::Rival& rival : hard::RivalsOf(word)) facts_.rivals[static_cast<size_t>(rival.group)] |= rival.pole;
    if (IsName(token)) facts_.names.insert(stem);
    if (hard::IsNegation(word)) return Fact("not");
    if (word == "from") return From();
    if (const auto equal = hard::EqualFactOf(word)) {
      facts_.facts.push_back("is " + std::string(*equal));
      return;
    }
    if (!hard::IsFunctionWord(word) || facts_.names.contains(stem)) facts_.sequence.push_back(stem);
  }

  // Where a thing comes from: "from checking to savings" is not "to checking from savings".
  void From() {
    for (size_t n = 1; at_ + n < tokens_.size(); ++n) {
      const std::string_view next = Next(n);
      if (hard::IsFunctionWord(next)) continue;
      facts_.facts.push_back("from " + HardStem(std::string(next)));
      return;
    }
    facts_.facts.push_back("from");
  }

  std::vector<HardToken> tokens_;
  HardFacts facts_;
  size_t at_ = 0;
  bool shouting_ = false;  // all capitals: they say nothing
};

int HardCount(const HardFacts& facts, const std::string& word) {
  const auto found = facts.words.find(word);
  return found == facts.words.end() ? 0 : found->second;
}

bool HardHasNames(const HardFacts& a, const HardFacts& b) {
  return std::ranges::all_of(a.names, [&](const auto& name) { return HardCount(a, name) == HardCount(b, name); });
}

bool HardAnyRivals(const HardFacts& a, const HardFacts& b) {
  for (size_t i = 0; i < hard::kMaxRivalGroups; ++i) {
    if (a.rivals[i] != 0 && b.rivals[i] != 0 && a.rivals[i] != b.rivals[i]) return true;
  }
  return false;
}

// "authorised" in one, "unauthorised" in the other.
bool HardAnyPrefixed(const HardFacts& plain, const HardFacts& other) {
  for (const auto& [word, count] : plain.words) {
    if (word.size() < 4 || other.words.contains(word)) continue;
    for (const char* prefix :
         {"un", "in", "im", "il", "ir", "dis", "non", "de", "mis", "anti", "re", "pre", "over", "under"}) {
      if (other.words.contains(prefix + word)) return true;
    }
  }
  return false;
}

// The items that both have, in the order of `mine`; a repeated one is told apart by its place among its like.
std::vector<std::string> HardShared(const std::vector<std::string>& mine, const std::vector<std::string>& others) {
  std::map<std::string, int> available, seen;
  for (const std::string& item : others) ++available[item];
  std::vector<std::string> shared;
  for (const std::string& item : mine) {
    const auto found = available.find(item);
    if (found == available.end()) continue;
    const int nth = ++seen[item];
    if (nth <= found->second) shared.push_back(item + "#" + std::to_string(nth));
  }
  return shared;
}

HardFacts HardFactsOf(const std::string& folded) {
  return HardReader(HardTokenizer(HardCharsOf(folded)).Run()).Run();
}

}  // namespace

bool SameHardFacts(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const auto folded_a = HardFold(a), folded_b = HardFold(b);
  if (!folded_a || !folded_b) return false;
  const HardFacts one = HardFactsOf(*folded_a), two = HardFactsOf(*folded_b);
  return one.facts == two.facts && HardHasNames(one, two) && HardHasNames(two, one) && !HardAnyRivals(one, two) &&
         !HardAnyPrefixed(one, two) && !HardAnyPrefixed(two, one) &&
         HardShared(one.sequence, two.sequence) == HardShared(two.sequence, one.sequence);
}

}  // namespace surety::gateway
