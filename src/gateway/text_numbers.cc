#include "gateway/text_numbers.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <re2/re2.h>

#include "gateway/number_units.h"
#include "gateway/number_words.h"
#include "gateway/text_folding.h"

namespace surety::gateway {
namespace {

using Kind = NumberMention::Kind;

bool NumIsDigit(char c) { return c >= '0' && c <= '9'; }
bool NumIsLetter(char c) { return (c >= 'a' && c <= 'z') || static_cast<unsigned char>(c) >= 0x80; }
bool NumIsWord(char c) { return NumIsDigit(c) || NumIsLetter(c); }
bool NumIsSpace(char c) { return c == ' ' || c == '\n'; }

int DaysOfMonth(int year, int month) {
  static constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  return kDays[static_cast<size_t>(month - 1)] + (month == 2 && leap ? 1 : 0);
}

// year 0: any.
std::optional<std::string> IsoDay(int year, int month, int day) {
  if (month < 1 || month > 12 || day < 1 || day > DaysOfMonth(year == 0 ? 2000 : year, month)) return std::nullopt;
  return year == 0 ? fmt::format("--{:02}-{:02}", month, day) : fmt::format("{:04}-{:02}-{:02}", year, month, day);
}

int MonthOf(std::string_view name) {
  static constexpr std::array<std::string_view, 12> kMonths = {"jan", "feb", "mar", "apr", "may", "jun",
                                                               "jul", "aug", "sep", "oct", "nov", "dec"};
  return static_cast<int>(std::ranges::find(kMonths, name.substr(0, 3)) - kMonths.begin()) + 1;
}

std::string ShiftedDecimal(std::string_view digits, int places) {
  const size_t point = std::min(digits.find('.'), digits.size());
  std::string whole(digits.substr(0, point));
  std::string fraction(point < digits.size() ? digits.substr(point + 1) : "");
  for (; places > 0; --places) {
    whole += fraction.empty() ? '0' : fraction.front();
    if (!fraction.empty()) fraction.erase(0, 1);
  }
  for (; places < 0; ++places) {
    fraction.insert(fraction.begin(), whole.empty() ? '0' : whole.back());
    if (!whole.empty()) whole.pop_back();
  }
  return CanonicalDecimal(whole + "." + fraction);
}

constexpr std::string_view kMonthPattern =
    "(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    "nov(?:ember)?|dec(?:ember)?)";

struct DatePatterns {
  re2::RE2 iso{R"((\d{4})[-/.](\d{1,2})[-/.](\d{1,2}))"};
  re2::RE2 numeric{R"((\d{1,2})([-/.])(\d{1,2})([-/.])(\d{4}|\d{2}))"};
  re2::RE2 day_first{fmt::format(R"((\d{{1,2}})(?:st|nd|rd|th)?(?:\sof)?[\s-]{}\.?(?:,?[\s-](\d{{4}}))?)",
                                 kMonthPattern)};
  re2::RE2 month_first{fmt::format(R"({}\.?\s(\d{{1,2}})(?:st|nd|rd|th)?(?:,?\s(\d{{4}}))?)", kMonthPattern)};
  re2::RE2 month{fmt::format(R"({}\.?,?\s(\d{{4}}))", kMonthPattern)};
  re2::RE2 time{R"((\d{1,2}):(\d{2})(?::\d{2}(?:\.\d+)?)?(?:\s?([ap])\.?m\b\.?)?)"};
};

const DatePatterns& Dates() {
  static const DatePatterns patterns;
  return patterns;
}

class NumberFinder {
 public:
  NumberFinder(std::string_view text, bool html)
      : folded_(FoldText(text, Folding::kPhrase, html)), text_(folded_.text), original_(text) {
    // A line's end parts numbers where a space may group the digits of one.
    if (text.find('\n') == std::string_view::npos && text.find('\r') == std::string_view::npos) return;
    for (size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] != ' ') continue;
      const auto [begin, end] = folded_.Origin(i);
      if (text.substr(begin, end - begin).find_first_of("\n\r") != std::string_view::npos) text_[i] = '\n';
    }
  }

  std::vector<NumberMention> Run() {
    for (size_t at = 0; at < text_.size();) {
      const bool starts = at == 0 || !NumIsWord(text_[at - 1]) || after_date_ == at;
      if (!NumIsWord(text_[at])) {
        ++at;
      } else if (!starts) {
        at = WordEnd(at);
      } else {
        at = Take(at);
      }
    }
    return std::move(found_);
  }

 private:
  size_t WordEnd(size_t at) const {
    while (at < text_.size() && NumIsWord(text_[at])) ++at;
    return at;
  }
  bool Ends(size_t at) const { return at >= text_.size() || !NumIsWord(text_[at]); }
  std::string_view Rest(size_t at) const { return std::string_view(text_).substr(at); }

  void Report(Kind kind, std::vector<std::string> values, size_t from, size_t to) {
    NumberMention mention;
    mention.kind = kind;
    mention.values = std::move(values);
    if (kind == Kind::kCode) {  // "$0x10": a currency at what is no number
      NumberMention beside = mention;
      size_t end = to;
      TakeCurrency(from, &end, beside);
      mention.currency = beside.currency;
    }
    Report(std::move(mention), from, to);
  }

  void Report(NumberMention mention, size_t from, size_t to) {
    std::tie(mention.offset, mention.length) = folded_.OriginOf(from, to);
    found_.push_back(std::move(mention));
  }

  size_t Take(size_t at) {
    if (const size_t end = TakeDate(at); end > 0) return end;
    if (NumIsDigit(text_[at])) {
      if (const size_t end = SkipListLabel(at); end > 0) return end;
      return TakeNumeral(at);
    }
    if (const auto words = ReadNumberWords(Rest(at))) {
      const size_t end = at + words->length;
      if (words->value == "1" && words->length == 3 && !FollowedByUnit(end)) return end;
      NumberMention mention;
      mention.values = {words->value};
      return TakeUnits(at, end, std::move(mention));
    }
    const size_t end = WordEnd(at);
    if (IsCurrencyCode(at, end)) return end;
    const std::string_view word = Rest(at).substr(0, end - at);
    if (std::ranges::any_of(word, NumIsDigit)) {
      for (const CurrencyName& name : kCurrencyNames) {  // usd35
        if (word.starts_with(name.text) && std::ranges::all_of(word.substr(name.text.size()), NumIsDigit)) {
          return TakeNumeral(at + name.text.size());
        }
      }
      Report(Kind::kCode, {std::string(word)}, at, end);
    }
    return end;
  }

  bool IsCurrencyCode(size_t at, size_t end) const {
    const std::string_view word = Rest(at).substr(0, end - at);
    return std::ranges::find(kCurrencyNames, word, &CurrencyName::text) != kCurrencyNames.end();
  }

  bool FollowedByUnit(size_t end) const {
    static const re2::RE2 unit(
        R"([\s-](?:(?:business|banking|calendar|working|full|billing)[\s-])?(?:days?|weeks?|months?|years?|hours?|)"
        R"(minutes?|cycles?|percent|per\scent|%|dollars?|euros?|pounds?|cents?|hundred|thousand|million)\b)");
    re2::StringPiece rest(text_.data() + end, text_.size() - end);
    return RE2::Consume(&rest, unit);
  }

  // What all the patterns of dates and times ask of the first characters.
  bool MayBeginDate(size_t at) const {
    if (!NumIsDigit(text_[at])) return BeginsMonth(at);
    size_t end = DigitsEnd(at);
    const size_t n = end - at;
    const char next = end < text_.size() ? text_[end] : '\0';
    if (next == '-' || next == '.' || next == '/') return n == 4 || n <= 2;
    if (n > 2 || next == '\0') return false;
    if (next == ':') return true;
    if (NumIsLetter(next)) end += 2;                             // 2nd
    if (Rest(std::min(end, text_.size())).substr(0, 3).ends_with("of")) end += 3;
    return BeginsMonth(end + 1);
  }

  bool BeginsMonth(size_t at) const { return at < text_.size() && MonthOf(Rest(at)) <= 12; }

  size_t TakeDate(size_t at) {
    const DatePatterns& dates = Dates();
    const re2::StringPiece whole(text_.data() + at, text_.size() - at);
    int a = 0, b = 0, c = 0;
    std::string s, t, month, year;
    const auto finish = [&](const re2::StringPiece& rest, std::vector<std::string> days) -> size_t {
      const size_t end = at + (whole.size() - rest.size());
      const bool time_follows = end + 1 < text_.size() && text_[end] == 't' && NumIsDigit(text_[end + 1]);
      if (days.empty() || (!Ends(end) && !time_follows)) return 0;
      Report(Kind::kDate, std::move(days), at, end);
      if (time_follows) after_date_ = end + 1;
      return time_follows ? end + 1 : end;
    };
    const auto one = [](std::optional<std::string> day) {
      return day ? std::vector<std::string>{*day} : std::vector<std::string>{};
    };
    re2::StringPiece rest = whole;
    if (!MayBeginDate(at)) return 0;
    if (NumIsDigit(text_[at])) {
      if (RE2::Consume(&rest, dates.iso, &a, &b, &c)) {
        if (const size_t end = finish(rest, one(IsoDay(a, b, c)))) return end;
      }
      rest = whole;
      if (RE2::Consume(&rest, dates.numeric, &a, &s, &b, &t, &year) && s == t) {
        c = std::stoi(year) + (year.size() == 2 ? 2000 : 0);
        std::vector<std::string> days = one(IsoDay(c, b, a));
        if (const auto american = IsoDay(c, a, b); american && a != b) days.push_back(*american);
        if (const size_t end = year.size() == 2 && s != "/" ? 0 : finish(rest, std::move(days))) return end;
      }
      rest = whole;
      if (RE2::Consume(&rest, dates.day_first, &a, &month, &year)) {
        const auto day = IsoDay(year.empty() ? 0 : std::stoi(year), MonthOf(month), a);
        if (const size_t end = finish(rest, one(day))) return end;
      }
      rest = whole;
      return TakeTime(at, rest);
    }
    if (RE2::Consume(&rest, dates.month_first, &month, &a, &year)) {
      const auto day = IsoDay(year.empty() ? 0 : std::stoi(year), MonthOf(month), a);
      if (const size_t end = finish(rest, one(day))) return end;
    }
    rest = whole;
    if (RE2::Consume(&rest, dates.month, &month, &a)) {
      return finish(rest, {fmt::format("{:04}-{:02}", a, MonthOf(month))});
    }
    return 0;
  }

  size_t TakeTime(size_t at, re2::StringPiece rest) {
    const size_t size = rest.size();
    int hour = 0, minute = 0;
    std::string half;
    if (!RE2::Consume(&rest, Dates().time, &hour, &minute, &half) || minute > 59 || hour > 24) return 0;
    if (!half.empty()) hour = hour % 12 + (half == "p" ? 12 : 0);
    const size_t end = at + (size - rest.size());
    Report(Kind::kTime, {fmt::format("{:02}:{:02}", hour, minute)}, at, end);
    return end;
  }

  // "2. " at the begin of a line, if 1 went before.
  size_t SkipListLabel(size_t at) {
    size_t before = at;
    if (before > 0 && text_[before - 1] == '(') --before;
    while (before > 0 && (text_[before - 1] == ' ' || text_[before - 1] == '#' || text_[before - 1] == '-' ||
                          text_[before - 1] == '>')) {
      --before;
    }
    if (before > 0 && text_[before - 1] != '\n') return 0;
    size_t end = at;
    int value = 0;
    for (; end < text_.size() && end < at + 3 && NumIsDigit(text_[end]); ++end) value = value * 10 + (text_[end] - '0');
    if (end + 1 >= text_.size() || (text_[end] != '.' && text_[end] != ')') || !NumIsSpace(text_[end + 1])) return 0;
    if (value != 1 && value != list_label_ + 1) return 0;
    list_label_ = value;
    return end;
  }

  size_t DigitsEnd(size_t at) const {
    while (at < text_.size() && NumIsDigit(text_[at])) ++at;
    return at;
  }

  // After the group that ends at `end`: the end of a further group of three digits behind `separator`; 0: none.
  size_t GroupEnd(size_t end, char separator) const {
    if (end >= text_.size() || text_[end] != separator) return 0;
    return DigitsEnd(end + 1) == end + 4 ? end + 4 : 0;
  }

  std::string Digits(size_t from, size_t to) const {
    std::string digits;
    std::ranges::copy_if(Rest(from).substr(0, to - from), std::back_inserter(digits), NumIsDigit);
    return digits;
  }

  size_t TakeNumeral(size_t at) {
    size_t end = DigitsEnd(at);
    const size_t first = end - at;
    char separator = 0;
    size_t groups = 0;
    for (const char candidate : {',', ' ', '\'', '.'}) {
      if (first > 3 || separator != 0) break;
      for (size_t next = GroupEnd(end, candidate); next > 0; next = GroupEnd(end, candidate)) {
        separator = candidate;
        end = next;
        ++groups;
      }
    }
    std::string whole = Digits(at, end), fraction;
    std::vector<std::string> values;
    // A point before three digits parts the fraction, in some countries thousands; a comma after a zero the fraction.
    if (groups == 1 && (separator == '.' || (separator == ',' && text_[at] == '0'))) {
      values = {whole.substr(0, first) + "." + whole.substr(first), whole};
    }
    const char point = separator == '.' ? ',' : '.';
    const bool comma_fraction = separator == 0 || separator == ' ' || separator == '\'';
    if (end + 1 < text_.size() && NumIsDigit(text_[end + 1]) &&
        (text_[end] == point || (text_[end] == ',' && comma_fraction && DigitsEnd(end + 1) <= end + 3))) {
      const size_t fraction_end = DigitsEnd(end + 1);
      fraction = Digits(end + 1, fraction_end);
      end = fraction_end;
      values.clear();
      if (groups == 0 && end + 1 < text_.size() && text_[end] == '.' && NumIsDigit(text_[end + 1])) {
        return TakeDotted(at);
      }
    }
    if (values.empty()) values = {whole + (fraction.empty() ? "" : "." + fraction)};
    if (at > 0 && text_[at - 1] == '.' && (at < 2 || !NumIsWord(text_[at - 2])) && groups == 0 && fraction.empty()) {
      values = {"0." + whole};
    }
    NumberMention mention;
    mention.two_decimals = fraction.size() == 2;
    for (const std::string& value : values) mention.values.push_back(CanonicalDecimal(value));
    return TakeSuffix(at, end, std::move(mention));
  }

  size_t TakeDotted(size_t at) {
    size_t end = at;
    while (end < text_.size() && (NumIsWord(text_[end]) || (text_[end] == '.' && !Ends(end + 1)))) ++end;
    Report(Kind::kCode, {text_.substr(at, end - at)}, at, end);
    return end;
  }

  // Letters that follow the digits at once.
  size_t TakeSuffix(size_t at, size_t end, NumberMention mention) {
    const size_t word_end = WordEnd(end);
    const std::string_view suffix = Rest(end).substr(0, word_end - end);
    if (suffix.empty() || static_cast<unsigned char>(suffix[0]) >= 0x80) return TakeUnits(at, end, std::move(mention));
    if (suffix == "st" || suffix == "nd" || suffix == "rd" || suffix == "th") return word_end;
    static constexpr std::array<std::pair<std::string_view, int>, 6> kMultipliers = {
        {{"k", 3}, {"m", 6}, {"mn", 6}, {"mm", 6}, {"bn", 9}, {"b", 9}}};
    for (const auto& [name, places] : kMultipliers) {
      if (suffix != name) continue;
      for (std::string& value : mention.values) value = ShiftedDecimal(value, places);
      return TakeUnits(at, word_end, std::move(mention));
    }
    if (std::ranges::any_of(suffix, NumIsDigit)) {
      Report(Kind::kCode, {text_.substr(at, word_end - at)}, at, word_end);
      return word_end;
    }
    return TakeUnits(at, end, std::move(mention));  // 30days, 35usd
  }

  // Percent, currency and thousands around the number at [at, end).
  size_t TakeUnits(size_t at, size_t end, NumberMention mention) {
    static const re2::RE2 percent(R"(\s?%|[\s-](?:percent|per\scent|pct)\b|\s?(bps)\b|\s(basis\spoints?)\b)");
    static const re2::RE2 cents(R"(\s?(?:cents?\b|\x{A2}))");
    const size_t number = at;
    bool money_word = false;
    for (auto scale = ReadScaleWord(Rest(end)); scale && scale->places > 0; scale = ReadScaleWord(Rest(end))) {
      if (scale->needs_money && !HasMoneyBeside(at, end + scale->length, mention)) break;
      for (std::string& value : mention.values) value = ShiftedDecimal(value, scale->places);
      money_word |= scale->is_money;
      end += scale->length;
      if (mention.values[0].size() > 30) break;
    }
    re2::StringPiece rest(text_.data() + end, text_.size() - end);
    const auto taken = [&] { return text_.size() - rest.size(); };
    std::string points, basis;
    if (RE2::Consume(&rest, percent, &points, &basis)) {
      mention.kind = Kind::kPercent;
      if (!points.empty() || !basis.empty()) {
        for (std::string& value : mention.values) value = ShiftedDecimal(value, -2);
      }
      end = taken();
    } else if (RE2::Consume(&rest, cents)) {
      mention.kind = Kind::kMoney;
      mention.currency = "USD";
      for (std::string& value : mention.values) value = ShiftedDecimal(value, -2);
      end = taken();
    } else {
      at = TakeCurrency(at, &end, mention);
      if (money_word && mention.kind != Kind::kMoney) {
        mention.kind = Kind::kMoney;
        mention.currency = "USD";
      }
    }
    at = TakeSign(number, at, mention);
    if (!has_owed_words_) has_owed_words_ = HasOwedWords(folded_.text);
    mention.owed = *has_owed_words_ && SaysOwed(text_, at, end);
    Report(std::move(mention), at, end);
    return end;
  }

  bool HasMoneyBeside(size_t at, size_t end, const NumberMention& mention) const {
    NumberMention beside = mention;
    TakeCurrency(at, &end, beside);
    return beside.kind == Kind::kMoney;
  }

  // A minus at the number, or at its currency before it ("-$5", "$-5"), that joins it to no word: where it stands, else
  // `begin`, where the number or its currency begins.
  size_t TakeSign(size_t number, size_t begin, NumberMention& mention) const {
    const auto parted = [&](size_t at) {
      return at == 0 || NumIsSpace(text_[at - 1]) || std::string_view("([{:=,;\"'|/+<>").find(text_[at - 1]) < 16;
    };
    // Bullets are folded to hyphens too; they are none.
    const auto minus = [&](size_t at) {
      const auto [from, to] = folded_.Origin(at);
      const std::string_view written = original_.substr(from, to - from);
      return text_[at] == '-' && written != "\u2022" && written != "\u00B7" && written != "\u2027" &&
             written != "\u30FB";
    };
    const bool within = number > begin && minus(number - 1);
    const bool before = begin > 0 && minus(begin - 1) && parted(begin - 1);
    mention.negative = within || before || EndsWithMinusWord(std::string_view(text_).substr(0, begin));
    return before ? begin - 1 : begin;
  }

  size_t TakeCurrency(size_t at, size_t* end, NumberMention& mention) const {
    size_t before = at;
    if (before > 0 && text_[before - 1] == '.' && mention.values[0].starts_with("0.")) --before;  // $.50
    if (before > 0 && text_[before - 1] == '-') --before;
    if (before > 0 && text_[before - 1] == ' ') --before;
    const std::string_view left = std::string_view(text_).substr(0, before);
    const std::string_view right = Rest(*end);
    const size_t space = right.starts_with(' ') ? 1 : 0;
    for (const auto& [name, currency] : kCurrencyNames) {
      const bool word = NumIsLetter(name[0]) && static_cast<unsigned char>(name[0]) < 0x80;
      const size_t from = left.size() - std::min(left.size(), name.size());
      if (left.ends_with(name) && (!word || from == 0 || !NumIsWord(left[from - 1]))) {
        mention.kind = Kind::kMoney;
        mention.currency = currency;
        return from;
      }
      if (right.substr(space).starts_with(name) && (!word || Ends(*end + space + name.size()))) {
        mention.kind = Kind::kMoney;
        mention.currency = currency;
        *end += space + name.size();
        return at;
      }
    }
    return at;
  }

  FoldedText folded_;
  std::string text_;
  std::string_view original_;
  std::optional<bool> has_owed_words_;  // of the whole text; asked for by its first number
  std::vector<NumberMention> found_;
  int list_label_ = 0;
  size_t after_date_ = std::string::npos;
};

std::string SignedValue(const std::string& value, bool negative) {
  return negative && value != "0" ? "-" + value : value;
}

std::string DayOf(int64_t wall_ns) {
  const std::chrono::sys_days day = std::chrono::floor<std::chrono::days>(
      std::chrono::sys_time<std::chrono::nanoseconds>(std::chrono::nanoseconds(wall_ns)));
  const std::chrono::year_month_day date(day);
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

}  // namespace

std::string CanonicalDecimal(std::string_view digits) {
  const size_t point = std::min(digits.find('.'), digits.size());
  std::string_view whole = digits.substr(0, point);
  std::string_view fraction = point < digits.size() ? digits.substr(point + 1) : std::string_view();
  while (whole.size() > 1 && whole.front() == '0') whole.remove_prefix(1);
  while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
  std::string out(whole.empty() ? "0" : whole);
  if (!fraction.empty()) out += "." + std::string(fraction);
  return out;
}

std::vector<NumberMention> FindNumbers(std::string_view text, bool html) { return NumberFinder(text, html).Run(); }

bool NumberSet::Has(std::string_view space, const std::string& value) const {
  return keys_.contains(std::string(space) + "|" + value);
}

void NumberSet::Put(std::string_view space, const std::string& value) {
  keys_.insert(std::string(space) + "|" + value);
}

void NumberSet::Add(const NumberMention& mention) {
  for (const std::string& unsigned_value : mention.values) {
    const std::string value = SignedValue(unsigned_value, mention.negative);
    switch (mention.kind) {
      case Kind::kPlain:
        Put("plain", value);
        if (mention.two_decimals) Put("amount", value);
        break;
      case Kind::kMoney:
        Put(mention.currency, value);
        Put("plain", value);
        break;
      case Kind::kPercent:
        Put("percent", value);
        Put("plain", value);
        break;
      case Kind::kDate:
        Put("date", value);
        if (value.size() == 10) {  // parts of a whole date
          Put("date", value.substr(0, 7));
          Put("date", "--" + value.substr(5));
        }
        if (!value.starts_with("-")) Put("plain", CanonicalDecimal(value.substr(0, 4)));
        break;
      case Kind::kTime: Put("time", value); break;
      case Kind::kCode: Put("code", value); break;
    }
  }
}

void NumberSet::AddText(std::string_view text) {
  for (const NumberMention& mention : FindNumbers(text)) Add(mention);
}

void NumberSet::AddValue(std::string_view text) {
  const std::vector<NumberMention> mentions = FindNumbers(text);
  for (const NumberMention& mention : mentions) Add(mention);
  if (mentions.size() == 1 && mentions[0].kind == Kind::kPlain && mentions[0].length == text.size()) {
    for (const std::string& unsigned_value : mentions[0].values) {
      const std::string value = SignedValue(unsigned_value, mentions[0].negative);
      Put("amount", value);
      Put("ratio", value);
    }
  }
}

void NumberSet::AddJson(const boost::json::value& value, std::string_view currency) {
  switch (value.kind()) {
    case boost::json::kind::object: {
      for (const auto& member : value.get_object()) {
        const auto* text = member.value().if_string();
        if (text == nullptr || text->size() != 3) continue;
        for (const CurrencyName& name : kCurrencyNames) {
          if (name.currency == std::string_view(*text)) currency = name.currency;
        }
      }
      for (const auto& member : value.get_object()) AddJson(member.value(), currency);
      break;
    }
    case boost::json::kind::array:
      for (const auto& item : value.get_array()) AddJson(item, currency);
      break;
    case boost::json::kind::string: AddValue(std::string_view(value.get_string())); break;
    case boost::json::kind::int64:
    case boost::json::kind::uint64:
    case boost::json::kind::double_: {
      const std::string text = JsonNumberText(value);
      Put(currency.empty() ? "amount" : currency, text);
      Put("ratio", text);
      Put("plain", text);
      break;
    }
    default: break;
  }
}

void NumberSet::AddToolsAndFacts(const Evidence& evidence) {
  for (const ToolResult& result : evidence.tools) {
    if (result.status.ok()) AddJson(result.value);
  }
  for (const auto& [name, text] : evidence.facts) AddValue(text);
  AddText(DayOf(evidence.as_of_ns));
}

bool NumberSet::Supports(const NumberMention& mention) const {
  return SupportsAs(mention, mention.negative) || (mention.owed && !mention.negative && SupportsAs(mention, true));
}

bool NumberSet::SupportsAs(const NumberMention& mention, bool negative) const {
  return std::ranges::any_of(mention.values, [&](const std::string& unsigned_value) {
    const std::string value = SignedValue(unsigned_value, negative);
    switch (mention.kind) {
      case Kind::kPlain: return Has("plain", value);
      case Kind::kMoney: return Has(mention.currency, value) || Has("amount", value);
      case Kind::kPercent:
        return Has("percent", value) || Has("ratio", value) ||
               Has("ratio", SignedValue(ShiftedDecimal(unsigned_value, -2), negative));
      case Kind::kDate: return Has("date", value);
      case Kind::kTime: return Has("time", value);
      case Kind::kCode: return Has("code", value);
    }
    return false;
  });
}

}  // namespace surety::gateway
