#include "gateway/personal_data.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

#include <re2/re2.h>

namespace surety::gateway {
namespace {

constexpr size_t kContextBytes = 48;   // how far a word that names the number may stand from it

bool DataIsDigit(char c) { return c >= '0' && c <= '9'; }
bool DataIsWord(char c) { return DataIsDigit(c) || (c >= 'a' && c <= 'z') || static_cast<unsigned char>(c) >= 0x80; }
// Between the groups of one number.
bool DataIsSeparator(char c) { return c == ' ' || c == '-' || c == '.' || c == '/'; }
// Between groups that are printed as a card's are; lists of other numbers have these too.
bool DataIsLooseSeparator(char c) { return std::string_view(" -./,:;()[]|+\\#'\"").find(c) != std::string_view::npos; }

// Digits, and what a phone number or an e-mail address may begin or have in it.
constexpr std::array<bool, 256> kDataMarks = [] {
  std::array<bool, 256> marks = {};
  for (const char c : std::string_view("0123456789+([@")) marks[static_cast<unsigned char>(c)] = true;
  return marks;
}();

class DataFinder {
 public:
  DataFinder(std::string_view text, bool html)
      : folded_(FoldText(text, Folding::kPhrase, html)), text_(folded_.text) {
    ReadMarks();
  }

  std::vector<PersonalItem> Run(const std::vector<PersonalKind>& kinds) {
    for (int i = 0; i < kPersonalKindCount; ++i) {
      const auto kind = static_cast<PersonalKind>(i);
      if (!kinds.empty() && std::ranges::find(kinds, kind) == kinds.end()) continue;
      switch (kind) {
        case PersonalKind::kCard: FindCards(); break;
        case PersonalKind::kSsn: FindNine(kind, IsSocialSecurityNumber); break;
        case PersonalKind::kItin: FindNine(kind, IsItin); break;
        case PersonalKind::kIban: FindIbans(); break;
        case PersonalKind::kEmail: FindEmails(); break;
        case PersonalKind::kPhone: FindPhones(); break;
        case PersonalKind::kRouting: FindRouting(); break;
      }
    }
    return std::move(items_);
  }

 private:
  struct Group {            // digits in a row
    size_t begin, end;
    bool joined;            // up to three separators, and nothing else, part it from the group before
    bool loose;             // the same with the looser ones
  };

  // What begins a number, and where a phone number or an e-mail address can be.
  void ReadMarks() {
    for (size_t at = 0;; ++at) {
      while (at < text_.size() && !kDataMarks[static_cast<unsigned char>(text_[at])]) ++at;
      if (at == text_.size()) return;
      const char mark = text_[at];
      if (mark != '@' && mark != '[') phone_begins_.push_back(at);
      if (mark == '@' || mark == '[' || mark == '(') email_marks_.push_back(at);
      if (DataIsDigit(mark)) at = ReadGroup(at) - 1;
    }
  }

  size_t ReadGroup(size_t at) {
    size_t end = at;
    while (end < text_.size() && DataIsDigit(text_[end])) ++end;
    bool joined = false, loose = false;
    if (!groups_.empty() && at - groups_.back().end <= 3) {
      const std::string_view between = text_.substr(groups_.back().end, at - groups_.back().end);
      joined = std::ranges::all_of(between, DataIsSeparator);
      loose = std::ranges::all_of(between, DataIsLooseSeparator);
    }
    groups_.push_back({at, end, joined, loose});
    return end;
  }

  std::string Digits(size_t first, size_t last) const {
    std::string digits;
    for (size_t i = first; i <= last; ++i) digits += text_.substr(groups_[i].begin, groups_[i].end - groups_[i].begin);
    return digits;
  }

  void Report(PersonalKind kind, bool shape, std::string detail, size_t begin, size_t end) {
    const auto [offset, length] = folded_.OriginOf(begin, end);
    items_.push_back({kind, shape, std::move(detail), offset, length});
  }

  // Any run of joined groups with the right number of digits. One with a valid sum goes before a mere shape.
  void FindCards() {
    for (size_t first = 0; first < groups_.size();) {
      size_t shape_last = 0, next = first + 1;
      std::string shape;
      size_t length = 0;
      bool loose = false;
      for (size_t last = first; last < groups_.size() && (last == first || groups_[last].loose); ++last) {
        loose |= last > first && !groups_[last].joined;
        length += groups_[last].end - groups_[last].begin;
        if (length > 19) break;
        if (length < 13) continue;
        const std::string digits = Digits(first, last);
        const std::string_view brand = CardBrand(digits);
        if (brand.empty() || (loose && !PrintedAsCard(first, last))) continue;
        if (PassesLuhn(digits)) {
          Report(PersonalKind::kCard, false, std::string(brand), groups_[first].begin, groups_[last].end);
          shape.clear();
          next = last + 1;
          break;
        }
        if (loose) continue;
        shape = brand;
        shape_last = last;
      }
      // Printed in fours (or Amex's and Diners' 4-6-5), or in one piece: other groups are several numbers.
      if (!shape.empty() && (shape_last == first || groups_[first].end - groups_[first].begin == 4)) {
        Report(PersonalKind::kCard, true, shape, groups_[first].begin, groups_[shape_last].end);
        next = shape_last + 1;
      }
      first = next;
    }
  }

  // In fours, the last of one to four; or Amex's and Diners' 4-6-5 and 4-6-4.
  bool PrintedAsCard(size_t first, size_t last) const {
    if (last - first == 2) return Size(first) == 4 && Size(first + 1) == 6 && (Size(last) == 5 || Size(last) == 4);
    for (size_t i = first; i < last; ++i) {
      if (Size(i) != 4) return false;
    }
    return Size(last) <= 4;
  }

  size_t Size(size_t group) const { return groups_[group].end - groups_[group].begin; }

  bool Near(const re2::RE2& words, size_t begin, size_t end) const {
    const size_t from = begin > kContextBytes ? begin - kContextBytes : 0;
    const size_t to = std::min(text_.size(), end + kContextBytes / 2);
    return RE2::PartialMatch(re2::StringPiece(text_.data() + from, to - from), words);
  }

  // ddd-dd-dddd, or nine digits near a word, in whatever groups.
  void FindNine(PersonalKind kind, bool (*is_one)(std::string_view)) {
    static const re2::RE2 words(
        R"(\b(ssn|itin|tin|social[\s-]?security|soc\.? ?sec|tax(?:payer)?[\s-]?(?:id|identification|number))\b)");
    for (size_t i = 0; i < groups_.size(); ++i) {
      const bool three = i + 2 < groups_.size() && Size(i) == 3 && Size(i + 1) == 2 && Size(i + 2) == 4 &&
                         groups_[i + 1].joined && groups_[i + 2].joined;
      if (three && is_one(Digits(i, i + 2))) {
        Report(kind, false, "", groups_[i].begin, groups_[i + 2].end);
        i += 2;
        continue;
      }
      size_t last = i, length = Size(i);  // grouped in another way
      while (length < 9 && last + 1 < groups_.size() && groups_[last + 1].loose) length += Size(++last);
      if (length != 9 || !is_one(Digits(i, last)) || !Near(words, groups_[i].begin, groups_[last].end)) continue;
      Report(kind, false, "", groups_[i].begin, groups_[last].end);
      i = last;
    }
  }

  void FindRouting() {
    static const re2::RE2 words(R"(\b(routing|aba|rtn|transit|r/t)\b)");
    for (size_t i = 0; i < groups_.size(); ++i) {
      size_t last = i, length = Size(i);
      while (length < 9 && last + 1 < groups_.size() && groups_[last + 1].joined) length += Size(++last);
      if (length != 9 || !IsRoutingNumber(Digits(i, last))) continue;
      if (Near(words, groups_[i].begin, groups_[last].end)) {
        Report(PersonalKind::kRouting, false, "", groups_[i].begin, groups_[last].end);
      }
    }
  }

  // Longer words than an IBAN are not read to their end.
  size_t WordEnd(size_t at) const {
    const size_t last = std::min(text_.size(), at + 40);
    while (at < last && DataIsWord(text_[at])) ++at;
    return at;
  }

  // In one piece, or printed in fours: two letters, and the next two digits that stand together.
  void FindIbans() {
    size_t next = 0;
    for (const Group& digits : groups_) {
      for (size_t at = std::max(next, digits.begin - std::min<size_t>(digits.begin, 2)); at + 4 <= digits.end; ++at) {
        if (at + 4 >= text_.size()) return;
        if (const size_t end = IbanEnd(at); end > 0) at = (next = end) - 1;
      }
    }
  }

  // Of the one that begins at `at`; 0: none does.
  size_t IbanEnd(size_t at) {
    if (at > 0 && DataIsWord(text_[at - 1]) && !folded_.GapBefore(at)) return 0;
    std::string iban;
    for (size_t group = at; iban.size() <= 34;) {
      const size_t end = WordEnd(group);
      const size_t size = end - group;
      if (size == 0 || (group != at && size > 4)) return 0;
      iban += text_.substr(group, size);
      if (IsIban(iban)) {
        Report(PersonalKind::kIban, false, iban.substr(0, 2), at, end);
        return end;
      }
      if (size != 4 || end >= text_.size() || !DataIsLooseSeparator(text_[end])) return 0;
      group = end + 1;
      if (group < text_.size() && text_[group] == ' ') ++group;
    }
    return 0;
  }

  void FindEmails() {
    static const re2::RE2 email(
        R"(([\pL\pN][\pL\pN.!#$%&'+/=?^{|}-]*(?:@| ?[\[(] ?at ?[\])] ?)[\pL\pN-]+)"
        R"((?:(?:\.| ?[\[(] ?dot ?[\])] ?)[\pL\pN-]+)*(?:\.| ?[\[(] ?dot ?[\])] ?)(?:\pL{2,}|xn--[a-z0-9-]+)))");
    if (!MayHoldEmail()) return;
    re2::StringPiece rest(text_.data(), text_.size()), found;
    while (RE2::FindAndConsume(&rest, email, &found)) {
      const auto begin = static_cast<size_t>(found.data() - text_.data());
      Report(PersonalKind::kEmail, false, "", begin, begin + found.size());
    }
  }

  // What every e-mail address has: an @ (or what stands for it) with a name before it, and behind it another that
  // ends where a dot may stand.
  bool MayHoldEmail() const {
    for (const size_t at : email_marks_) {
      if (text_[at] != '@') {
        const std::string_view inside = text_.substr(at + 1, 3);
        if (inside.starts_with("at") || inside == " at") return true;
        continue;
      }
      size_t end = at + 1;
      while (end < text_.size() && (DataIsWord(text_[end]) || text_[end] == '-')) ++end;
      const bool named = at > 0 && text_[at - 1] != ' ' && text_[at - 1] != '"';
      if (named && end > at + 1 && end < text_.size() && std::string_view(". [(").find(text_[end]) < 4) return true;
    }
    return false;
  }

  // American numbers are in groups of three, or in one piece of ten; a 1 before them.
  bool MayBeginAmerican(size_t at) const {
    if (text_[at] == '(') return true;
    size_t end = at;
    while (end < text_.size() && DataIsDigit(text_[end])) ++end;
    const size_t digits = end - at;
    return digits == 3 || digits == 10 || (text_[at] == '1' && (digits == 1 || digits == 4 || digits == 11));
  }

  void FindPhones() {
    static const re2::RE2 world(R"(\+ ?\(?[1-9](?:[ ().-]{0,3}\d){7,14})");
    // 00 in place of the plus: in groups, or near a word.
    static const re2::RE2 zeros(R"(00 ?\(?[1-9]\d{0,2}((?:[ ().-]{0,3}\d){6,13}))");
    static const re2::RE2 american(
        R"((?:1[ .-]?)?(?:\(([2-9]\d\d)\)[ .-]{0,2}|([2-9]\d\d)[ .-])([2-9]\d\d)[ .-](\d{4}))");
    static const re2::RE2 plain(R"(1?([2-9]\d\d)([2-9]\d\d)(\d{4}))");
    static const re2::RE2 words(R"(\b(phones?|tel|telephone|mobile|cell|fax|call|text|sms|whatsapp|ring)\b)");
    size_t next = 0;
    for (const size_t at : phone_begins_) {
      if (at < next) continue;
      re2::StringPiece rest(text_.data() + at, text_.size() - at);
      std::string area, other, exchange, line;
      const bool starts = at == 0 || !DataIsDigit(text_[at - 1]);
      const auto end = [&] { return text_.size() - rest.size(); };
      const auto whole = [&] { return end() == text_.size() || !DataIsDigit(text_[end()]); };
      bool hit = false;
      if (text_[at] == '+') {
        hit = RE2::Consume(&rest, world);
        if (hit) IsTollFree(text_.substr(at, end() - at)) ? void() : Report(PersonalKind::kPhone, false, "", at, end());
      } else if (starts && text_.substr(at).starts_with("00") && RE2::Consume(&rest, zeros, &line) && whole()) {
        const bool grouped = line.find_first_not_of("0123456789") != std::string::npos;
        hit = grouped || Near(words, at, end());
        if (hit) Report(PersonalKind::kPhone, false, "", at, end());
      } else if (starts && MayBeginAmerican(at)) {
        rest = re2::StringPiece(text_.data() + at, text_.size() - at);
        hit = RE2::Consume(&rest, american, &area, &other, &exchange, &line) && whole();
        if (!hit) {
          rest = re2::StringPiece(text_.data() + at, text_.size() - at);
          area.clear();
          hit = RE2::Consume(&rest, plain, &other, &exchange, &line) && whole() && Near(words, at, end());
        }
        const std::string& code = area.empty() ? other : area;
        hit = hit && !code.ends_with("11") && !exchange.ends_with("11") && !IsTollFree("+1" + code);
        if (hit) Report(PersonalKind::kPhone, false, "", at, end());
      }
      if (hit) next = end();
    }
  }

  // Such numbers belong to firms.
  static bool IsTollFree(std::string_view number) {
    std::string digits;
    std::ranges::copy_if(number, std::back_inserter(digits), DataIsDigit);
    for (const std::string_view code : {"1800", "1833", "1844", "1855", "1866", "1877", "1888"}) {
      if (digits.starts_with(code)) return true;
    }
    return false;
  }

  FoldedText folded_;
  std::string_view text_;
  std::vector<Group> groups_;
  std::vector<size_t> phone_begins_, email_marks_;   // places of digits in a row, + and (; of @, [ and (
  std::vector<PersonalItem> items_;
};

}  // namespace

std::vector<PersonalItem> FindPersonalData(std::string_view text, const std::vector<PersonalKind>& kinds) {
  std::vector<PersonalItem> items = DataFinder(text, /*html=*/false).Run(kinds);
  if (text.find('<') == std::string_view::npos && text.find('&') == std::string_view::npos) return items;
  // As it would be shown; what stands there anyhow is not said twice.
  std::map<PersonalKind, std::map<size_t, size_t>> found;
  for (const PersonalItem& item : items) found[item.kind].emplace(item.offset, item.offset + item.length);
  const size_t n_plain = items.size();
  for (PersonalItem& item : DataFinder(text, /*html=*/true).Run(kinds)) {
    const auto& places = found[item.kind];
    const auto after = places.lower_bound(item.offset + item.length);
    if (after != places.begin() && std::prev(after)->second > item.offset) continue;
    items.push_back(std::move(item));
  }
  if (items.size() > n_plain) {
    std::ranges::stable_sort(items, {}, [](const PersonalItem& item) { return std::pair(item.kind, item.offset); });
  }
  return items;
}

}  // namespace surety::gateway
