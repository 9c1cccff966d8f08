#include "gateway/document_text.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <utf8proc.h>

namespace surety::gateway {
namespace {

constexpr size_t kDocumentTermBytes = 64;  // longer ones are cut
constexpr int64_t kDocumentSecond = 1'000'000'000;

const utf8proc_uint8_t* DocumentUtf8(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

// The length of the character that begins here; 0 where none does.
size_t DocumentCharacter(std::string_view text, utf8proc_int32_t* code) {
  const auto n = utf8proc_iterate(DocumentUtf8(text), static_cast<utf8proc_ssize_t>(std::min<size_t>(text.size(), 4)),
                                  code);
  return n > 0 ? static_cast<size_t>(n) : 0;
}

std::string DocumentFolded(std::string_view text, int options) {
  utf8proc_uint8_t* mapped = nullptr;
  const auto n = utf8proc_map(DocumentUtf8(text), static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                              static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  return n > 0 ? std::string(reinterpret_cast<const char*>(mapped), static_cast<size_t>(n)) : std::string();
}

std::string DocumentValidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    utf8proc_int32_t code = 0;
    const size_t n = DocumentCharacter(text, &code);
    if (n == 0) out += ' ';
    else out += text.substr(0, n);
    text.remove_prefix(std::max<size_t>(n, 1));
  }
  return out;
}

bool IsDocumentDigit(char c) { return c >= '0' && c <= '9'; }

bool IsWordCharacter(utf8proc_int32_t code) {
  const utf8proc_category_t category = utf8proc_category(code);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO;
}

bool StandsAlone(utf8proc_int32_t code) {
  return (code >= 0x3041 && code <= 0x30FF) || (code >= 0x3400 && code <= 0x9FFF) ||
         (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x20000 && code <= 0x3FFFF);
}

void StemPlural(std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyz";
  if (word.size() < 4 || word.back() != 's' || word.find_first_not_of(kPlain) != word.npos) return;
  if (word.ends_with("ies")) {
    if (!word.ends_with("eies") && !word.ends_with("aies")) word.replace(word.size() - 3, 3, "y");
    return;
  }
  if (!word.ends_with("us") && !word.ends_with("ss")) word.pop_back();
}

// Collects terms of a folded text.
class TermReader {
 public:
  explicit TermReader(std::string_view text) : text_(text) {}

  std::vector<std::string> Read() {
    while (at_ < text_.size()) {
      utf8proc_int32_t code = 0;
      const size_t n = std::max<size_t>(DocumentCharacter(text_.substr(at_), &code), 1);
      if (IsWordCharacter(code)) {
        if (StandsAlone(code)) EndWord();
        word_ += text_.substr(at_, n);
        if (StandsAlone(code)) EndWord();
      } else if (n == 1 && (text_[at_] == '.' || text_[at_] == ',') && JoinsDigits()) {
        const std::string whole = number_ + word_;
        EndPart();
        number_ = whole + text_[at_];
      } else {
        // "creditor's" is found by "creditor".
        const bool possessive = code == '\'' || code == 0x2019;
        if (possessive && !word_.empty() && text_.substr(at_ + n).starts_with("s") && EndsAt(at_ + n + 1)) at_ += 1;
        EndWord();
      }
      at_ += n;
    }
    EndWord();
    return std::move(terms_);
  }

 private:
  bool JoinsDigits() const {
    if (number_.size() + word_.size() >= kDocumentTermBytes) return false;
    return !word_.empty() && IsDocumentDigit(word_.back()) && at_ + 1 < text_.size() && IsDocumentDigit(text_[at_ + 1]);
  }
  bool EndsAt(size_t at) const {
    if (at >= text_.size()) return true;
    utf8proc_int32_t code = 0;
    return DocumentCharacter(text_.substr(at), &code) == 0 || !IsWordCharacter(code);
  }
  void EndPart() {
    if (!word_.empty()) Emit(std::move(word_));
    word_.clear();
  }
  void EndWord() {
    if (!number_.empty()) Emit(number_ + word_);
    number_.clear();
    EndPart();
  }
  void Emit(std::string term) {
    if (term.size() > kDocumentTermBytes) {
      size_t end = kDocumentTermBytes;
      while ((static_cast<unsigned char>(term[end]) & 0xC0) == 0x80) --end;
      term.resize(end);
    }
    StemPlural(term);
    terms_.push_back(std::move(term));
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string word_, number_;  // number_: parts of a number so far, with what joins them
  std::vector<std::string> terms_;
};

// `width` digits, as a number.
std::optional<int> TakeDigits(std::string_view& text, size_t width) {
  if (text.size() < width) return std::nullopt;
  int value = 0;
  for (size_t i = 0; i < width; ++i) {
    if (!IsDocumentDigit(text[i])) return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(width);
  return value;
}

bool TakeCharacter(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

// Seconds and nanoseconds of "hh:mm[:ss[.fraction]]"; nullopt if it is none.
std::optional<int64_t> TakeTimeOfDay(std::string_view& text) {
  const auto hour = TakeDigits(text, 2);
  if (!hour || *hour > 23 || !TakeCharacter(text, ':')) return std::nullopt;
  const auto minute = TakeDigits(text, 2);
  if (!minute || *minute > 59) return std::nullopt;
  int64_t ns = (*hour * 3600LL + *minute * 60LL) * kDocumentSecond;
  if (!TakeCharacter(text, ':')) return ns;
  const auto second = TakeDigits(text, 2);
  if (!second || *second > 59) return std::nullopt;
  ns += *second * kDocumentSecond;
  if (!TakeCharacter(text, '.')) return ns;
  int64_t unit = kDocumentSecond;
  size_t digits = 0;
  for (; !text.empty() && IsDocumentDigit(text[0]); ++digits, text.remove_prefix(1)) {
    unit /= 10;
    ns += (text[0] - '0') * unit;
  }
  if (digits == 0 || digits > 9) return std::nullopt;
  return ns;
}

// The offset east of Greenwich.
std::optional<int64_t> TakeZone(std::string_view& text) {
  if (TakeCharacter(text, 'Z') || TakeCharacter(text, 'z')) return 0;
  const int sign = text.starts_with('-') ? -1 : 1;
  if (!TakeCharacter(text, '+') && !TakeCharacter(text, '-')) return std::nullopt;
  const auto hours = TakeDigits(text, 2);
  if (!hours || *hours > 23 || !TakeCharacter(text, ':')) return std::nullopt;
  const auto minutes = TakeDigits(text, 2);
  if (!minutes || *minutes > 59) return std::nullopt;
  return sign * (*hours * 3600LL + *minutes * 60LL) * kDocumentSecond;
}

std::optional<int64_t> InstantOf(std::string_view text) {
  const auto year = TakeDigits(text, 4);
  if (!year || *year < 1678 || *year > 2261 || !TakeCharacter(text, '-')) return std::nullopt;
  const auto month = TakeDigits(text, 2);
  if (!month || !TakeCharacter(text, '-')) return std::nullopt;
  const auto day = TakeDigits(text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok()) return std::nullopt;
  int64_t ns = std::chrono::sys_days(date).time_since_epoch().count() * 86400LL * kDocumentSecond;
  if (text.empty()) return ns;
  if (!TakeCharacter(text, 'T') && !TakeCharacter(text, 't')) return std::nullopt;
  const auto time = TakeTimeOfDay(text);
  if (!time) return std::nullopt;
  const auto zone = TakeZone(text);
  if (!zone || !text.empty()) return std::nullopt;
  return ns + *time - *zone;
}

}  // namespace

std::vector<std::string> DocumentTerms(std::string_view text) {
  const std::string folded = DocumentFolded(DocumentValidUtf8(text), UTF8PROC_STABLE | UTF8PROC_COMPOSE |
                                            UTF8PROC_COMPAT | UTF8PROC_CASEFOLD | UTF8PROC_STRIPMARK | UTF8PROC_IGNORE);
  return TermReader(folded).Read();
}

Status CheckCitable(std::string_view what, std::string_view name) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  constexpr std::string_view kFurther = "._-";
  std::string right;
  for (const char c : name) {
    if (kAlphabet.find(c) != kAlphabet.npos || (!right.empty() && kFurther.find(c) != kFurther.npos)) right += c;
    else if (!right.empty() && right.back() != '-') right += '-';
  }
  if (right == name && !name.empty() && name.size() <= 128) return OkStatus();
  right.resize(std::min<size_t>(right.size(), 128));
  while (right.ends_with('-')) right.pop_back();
  return InvalidArgumentError(fmt::format(
      "{}: '{}' can not be cited: use 1 to 128 of A-Z a-z 0-9 . _ - with a letter or digit first{}", what,
      DocumentValidUtf8(name.substr(0, 200)), right.empty() ? "" : fmt::format(", such as '{}'", right)));
}

Status CheckRightName(std::string_view what, std::string_view name) {
  const auto wrong = [&](std::string_view why) {
    return InvalidArgumentError(fmt::format("{}: '{}' {}", what, DocumentValidUtf8(name.substr(0, 200)), why));
  };
  if (name.empty()) return wrong("is empty");
  if (name.size() > 256) return wrong("is longer than 256 bytes");
  if (FindNoText(name) != name.npos) return wrong("is not valid UTF-8");
  bool first = true;
  for (std::string_view rest = name; !rest.empty();) {
    utf8proc_int32_t code = 0;
    rest.remove_prefix(DocumentCharacter(rest, &code));
    const utf8proc_category_t category = utf8proc_category(code);
    if (category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CN ||
        category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP) {
      return wrong("holds a character that does not show");
    }
    const bool at_end = rest.empty() || first;
    first = false;
    if (category == UTF8PROC_CATEGORY_ZS && at_end) return wrong("has white space at an end");
  }
  if (DocumentFolded(name, UTF8PROC_STABLE | UTF8PROC_COMPOSE) != name) return wrong("is not in NFC");
  return OkStatus();
}

size_t FindNoText(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t code = 0;
    const size_t n = text[at] == '\0' ? 0 : DocumentCharacter(text.substr(at), &code);
    if (n == 0) return at;
    at += n;
  }
  return text.npos;
}

Result<int64_t> ParseDocumentInstant(std::string_view text) {
  if (const auto instant = InstantOf(text)) return *instant;
  return Error(InvalidArgumentError(fmt::format(
      "'{}' is no instant: write 2026-11-15 for midnight UTC, or 2026-11-15T00:00:00-05:00 (with Z or an offset; years "
      "1678 to 2261)", DocumentValidUtf8(text.substr(0, 200)))));
}

std::string DocumentInstantText(int64_t t_ns) {
  if (t_ns == std::numeric_limits<int64_t>::min()) return "always";
  if (t_ns == std::numeric_limits<int64_t>::max()) return "for ever";
  constexpr int64_t kDay = 86400 * kDocumentSecond;
  const int64_t days = t_ns / kDay - (t_ns % kDay < 0 ? 1 : 0);
  const int64_t rest = t_ns % kDay + (t_ns % kDay < 0 ? kDay : 0);
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(days))};
  std::string out = fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                                static_cast<unsigned>(date.day()));
  if (rest == 0) return out;
  const int64_t seconds = rest / kDocumentSecond;
  out += fmt::format("T{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  if (const int64_t fraction = rest % kDocumentSecond; fraction != 0) {
    std::string digits = fmt::format("{:09}", fraction);
    while (digits.ends_with('0')) digits.pop_back();
    out += '.' + digits;
  }
  return out + 'Z';
}

}  // namespace surety::gateway
