#include "gateway/text_folding.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>

#include <utf8proc.h>

#include "gateway/look_alikes.h"

namespace surety::gateway {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
constexpr size_t kMaxTagBytes = 4096;

const utf8proc_property_t& FoldProperties(char32_t c) {
  return *utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
}

// Of ASCII these three are known without the tables; most text is that.
bool FoldIsSpace(char32_t c) {
  if (c < 0x80) return c == U' ' || (c >= 9 && c <= 13);
  if (c == 0x85 || c == 0x2800) return true;  // U+2800: the Braille pattern without dots
  const auto category = FoldProperties(c).category;
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

bool FoldIsInvisible(char32_t c) {
  if (c < 0x80) return c < 0x20 || c == 0x7F;
  const utf8proc_property_t& properties = FoldProperties(c);
  return properties.ignorable || properties.category == UTF8PROC_CATEGORY_CF ||
         properties.category == UTF8PROC_CATEGORY_CC || c == 0x1160 || c == 0x115F;
}

bool FoldIsGeneralMark(char32_t c) {
  return (c >= 0x0300 && c <= 0x036F) || (c >= 0x0483 && c <= 0x0489) || (c >= 0x1AB0 && c <= 0x1AFF) ||
         (c >= 0x1DC0 && c <= 0x1DFF) || (c >= 0x20D0 && c <= 0x20FF) || (c >= 0xFE20 && c <= 0xFE2F);
}

// May compose with what stands before it.
bool FoldJoinsBefore(char32_t c) {
  if (c < 0x80) return false;
  const utf8proc_property_t& properties = FoldProperties(c);
  if (properties.combining_class != 0) return true;
  switch (properties.boundclass) {
    case UTF8PROC_BOUNDCLASS_EXTEND:
    case UTF8PROC_BOUNDCLASS_SPACINGMARK:
    case UTF8PROC_BOUNDCLASS_V:
    case UTF8PROC_BOUNDCLASS_T: return true;
    default: return false;
  }
}

// Decimal digits stand in Unicode in runs of ten, zero first.
char32_t FoldDigit(char32_t c) {
  if (c < 0x80 || FoldProperties(c).category != UTF8PROC_CATEGORY_ND) return c;
  char32_t before = 0;
  while (FoldProperties(c - before - 1).category == UTF8PROC_CATEGORY_ND) ++before;
  return U'0' + before % 10;
}

// One character of UTF-8, as RFC 3629 has it; 0 bytes: none.
std::pair<char32_t, size_t> DecodeCharacter(std::string_view text, size_t at) {
  utf8proc_int32_t c = 0;
  const auto n = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                                  static_cast<utf8proc_ssize_t>(text.size() - at), &c);
  if (n <= 0) return {kReplacement, 0};
  return {static_cast<char32_t>(c), static_cast<size_t>(n)};
}

char AsciiLower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool AsciiIsLetter(char c) { return AsciiLower(c) >= 'a' && AsciiLower(c) <= 'z'; }

// Where the next one of a mark stands, looked for anew only behind the last one found: asked for rising places, all
// searches together read the text once, whatever opens in it and never ends.
class HtmlNextMark {
 public:
  HtmlNextMark(std::string_view text, std::string_view mark) : text_(text), mark_(mark) {}
  // npos: none from `at` on.
  size_t From(size_t at) {
    if (!asked_ || (found_ != std::string_view::npos && found_ < at)) found_ = text_.find(mark_, at);
    asked_ = true;
    return found_;
  }

 private:
  std::string_view text_, mark_;
  size_t found_ = 0;
  bool asked_ = false;
};

// Tags and comments of one text, asked for at rising places.
class HtmlTags {
 public:
  explicit HtmlTags(std::string_view text) : text_(text), comment_end_(text, "-->"), tag_end_(text, ">") {}

  // Length of the tag or comment that begins at `at`; 0: none does.
  size_t LengthAt(size_t at) {
    if (text_.substr(at).starts_with("<!--")) {
      const size_t end = comment_end_.From(at + 4);
      return end == std::string_view::npos ? 0 : end + 3 - at;
    }
    size_t name = at + 1;
    if (name < text_.size() && (text_[name] == '/' || text_[name] == '!' || text_[name] == '?')) ++name;
    if (name >= text_.size() || !AsciiIsLetter(text_[name])) return 0;
    const size_t end = tag_end_.From(name);
    return end == std::string_view::npos || end >= at + kMaxTagBytes ? 0 : end + 1 - at;
  }

 private:
  std::string_view text_;
  HtmlNextMark comment_end_, tag_end_;
};

// The character that a reference stands for, and the reference's length.
std::optional<std::pair<char32_t, size_t>> HtmlReference(std::string_view text, size_t at) {
  std::string_view rest = text.substr(at + 1);
  if (rest.starts_with("#")) {
    rest.remove_prefix(1);
    const bool hex = rest.starts_with("x") || rest.starts_with("X");
    if (hex) rest.remove_prefix(1);
    uint32_t value = 0;
    size_t digits = 0;
    for (; digits < rest.size(); ++digits) {
      const char c = AsciiLower(rest[digits]);
      const int digit = c >= '0' && c <= '9' ? c - '0' : hex && c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
      if (digit < 0) break;
      value = std::min<uint32_t>(value * (hex ? 16 : 10) + static_cast<uint32_t>(digit), 0x110000);
    }
    if (digits == 0) return std::nullopt;
    const size_t length = 2 + (hex ? 1 : 0) + digits + (digits < rest.size() && rest[digits] == ';' ? 1 : 0);
    const bool valid = value > 0 && value < 0x110000 && (value < 0xD800 || value > 0xDFFF);
    return std::pair(valid ? char32_t{value} : kReplacement, length);
  }
  static constexpr std::array<std::pair<std::string_view, char32_t>, 17> kNamed = {
      {{"nbsp;", 0xA0}, {"shy;", 0xAD}, {"zwnj;", 0x200C}, {"zwj;", 0x200D}, {"ensp;", 0x2002}, {"emsp;", 0x2003},
       {"thinsp;", 0x2009}, {"ZeroWidthSpace;", 0x200B}, {"NoBreak;", 0x2060}, {"lt;", '<'}, {"gt;", '>'},
       {"quot;", '"'}, {"apos;", '\''}, {"commat;", '@'}, {"hyphen;", 0x2010}, {"Tab;", '\t'}, {"amp;", '&'}}};
  for (const auto& [name, c] : kNamed) {
    if (rest.starts_with(name)) return std::pair(c, name.size() + 1);
  }
  return std::nullopt;
}

// What becomes of a byte of ASCII.
enum class AsciiFate : uint8_t { kKept, kSpace, kDropped, kOther };  // kOther: no ASCII, or the begin of HTML
struct AsciiFates {
  std::array<AsciiFate, 256> fate = {};
  std::array<char, 256> kept_as = {};
};

consteval AsciiFates FatesOfAscii(bool phrase, bool html) {
  AsciiFates fates;
  for (size_t c = 0; c < 256; ++c) {
    const bool space = c == ' ' || (c >= 9 && c <= 13);
    const bool mark = phrase && (c == '*' || c == '_' || c == '`' || c == '~');
    fates.fate[c] = c >= 0x80 || (html && (c == '<' || c == '&')) ? AsciiFate::kOther
                    : space                                      ? AsciiFate::kSpace
                    : c < 0x20 || c == 0x7F || mark              ? AsciiFate::kDropped
                                                                 : AsciiFate::kKept;
    const bool upper = phrase && c >= 'A' && c <= 'Z';
    fates.kept_as[c] = space ? ' ' : static_cast<char>(upper ? c + 32 : c);
  }
  return fates;
}

constexpr std::array<AsciiFates, 4> kAsciiFates = {FatesOfAscii(false, false), FatesOfAscii(false, true),
                                                   FatesOfAscii(true, false), FatesOfAscii(true, true)};

}  // namespace

// Characters become units with their origins (decomposed, mapped). A unit and those after it that may compose with it
// are a group, which becomes text (ordered, composed) when the next unit begins another one. Runs of ASCII compose with
// nothing but what may follow them, so all but their last byte go to the text at once.
class TextFolder {
 public:
  TextFolder(std::string_view original, Folding folding, bool html)
      : original_(original), phrase_(folding == Folding::kPhrase), html_(html),
        fates_(kAsciiFates[(phrase_ ? 2 : 0) + (html ? 1 : 0)]), tags_(original) {}

  FoldedText Run() {
    folded_.text.reserve(original_.size());
    for (size_t at = 0; at < original_.size();) at += Take(at);
    EmitGroup();
    return std::move(folded_);
  }

 private:
  struct Unit {
    char32_t c;
    size_t begin, end;
  };

  AsciiFate FateAt(size_t at) const { return fates_.fate[static_cast<unsigned char>(original_[at])]; }

  size_t Take(size_t at) {
    switch (FateAt(at)) {
      case AsciiFate::kKept: return TakeAscii(at);
      case AsciiFate::kSpace: AddUnit({U' ', at, at + 1}); return 1;
      case AsciiFate::kDropped: return 1;
      case AsciiFate::kOther: return TakeOther(at);
    }
    return 1;
  }

  // From a byte that is kept: such bytes and single spaces between them.
  size_t TakeAscii(size_t at) {
    EmitGroup();
    size_t end = at + 1;
    for (;;) {
      while (end < original_.size() && FateAt(end) == AsciiFate::kKept) ++end;
      const bool next = end + 1 < original_.size() && FateAt(end) == AsciiFate::kSpace;
      if (!next || FateAt(end + 1) != AsciiFate::kKept) break;
      end += 2;
    }
    const size_t last = end - 1;
    const auto kept_as = [&](size_t i) { return fates_.kept_as[static_cast<unsigned char>(original_[i])]; };
    if (last > at) {
      BeginCopy(at);
      const size_t size = folded_.text.size();
      folded_.text.resize(size + (last - at));
      char* out = folded_.text.data() + size;
      for (size_t i = at; i < last; ++i) *out++ = kept_as(i);
    }
    group_.push_back({static_cast<unsigned char>(kept_as(last)), last, end});
    return end - at;
  }

  size_t TakeOther(size_t at) {
    const char first = original_[at];
    if (html_ && first == '<') {
      if (const size_t length = tags_.LengthAt(at); length > 0) return length;
    }
    if (html_ && first == '&') {
      if (const auto reference = HtmlReference(original_, at)) {
        Add(reference->first, at, at + reference->second);
        return reference->second;
      }
    }
    if (static_cast<unsigned char>(first) < 0x80) {
      AddMapped(static_cast<unsigned char>(first), at, at + 1);
      return 1;
    }
    const auto [c, n] = DecodeCharacter(original_, at);
    if (n == 0) {
      if (!phrase_) AddUnit({kReplacement, at, at + 1});
      return 1;
    }
    Add(c, at, at + n);
    return n;
  }

  void Add(char32_t c, size_t begin, size_t end) {
    if (c < 0x80) {
      AddMapped(c, begin, end);
      return;
    }
    if (!FoldIsSpace(c) && FoldIsInvisible(c)) return;
    std::array<utf8proc_int32_t, 32> parts;
    int boundary = 0;
    const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(), parts.size(),
                                           static_cast<utf8proc_option_t>(UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE),
                                           &boundary);
    for (utf8proc_ssize_t i = 0; i < n; ++i) AddMapped(static_cast<char32_t>(parts[i]), begin, end);
  }

  void AddMapped(char32_t c, size_t begin, size_t end) {
    if (FoldIsSpace(c)) {
      AddUnit({U' ', begin, end});
      return;
    }
    if (FoldIsInvisible(c)) return;
    if (!phrase_) {
      if (c == 0x2018 || c == 0x2019 || c == 0x201B) c = U'\'';
      if (c == 0x201C || c == 0x201D || c == 0x201F) c = U'"';
      AddUnit({c, begin, end});
      return;
    }
    if (FoldIsGeneralMark(c) || c == kReplacement || c == U'*' || c == U'_' || c == U'`' || c == U'~') return;
    if (c < 0x80) {
      AddUnit({c >= U'A' && c <= U'Z' ? c + 32 : c, begin, end});
      return;
    }
    if (const char32_t latin = LookAlike(c)) {
      AddUnit({latin, begin, end});
      return;
    }
    std::array<utf8proc_int32_t, 32> parts;
    int boundary = 0;
    const auto n = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(c), parts.data(), parts.size(),
        static_cast<utf8proc_option_t>(UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE | UTF8PROC_CASEFOLD), &boundary);
    for (utf8proc_ssize_t i = 0; i < n; ++i) {
      const auto part = static_cast<char32_t>(parts[i]);
      if (FoldIsGeneralMark(part)) continue;
      const char32_t latin = LookAlike(part);
      AddUnit({latin ? latin : FoldDigit(part), begin, end});
    }
  }

  void AddUnit(const Unit& unit) {
    if (!group_.empty() && !FoldJoinsBefore(unit.c)) EmitGroup();
    group_.push_back(unit);
  }

  void EmitGroup() {
    if (group_.size() == 1) Append(group_[0].c, group_[0].begin, group_[0].end);
    if (group_.size() > 1) EmitComposed();
    group_.clear();
  }

  void EmitComposed() {
    for (size_t i = 0; i < group_.size();) {  // canonical order within each run of marks
      size_t j = i + 1;
      if (FoldProperties(group_[i].c).combining_class != 0) {
        while (j < group_.size() && FoldProperties(group_[j].c).combining_class != 0) ++j;
        std::stable_sort(group_.begin() + static_cast<ptrdiff_t>(i), group_.begin() + static_cast<ptrdiff_t>(j),
                         [](const Unit& a, const Unit& b) {
                           return FoldProperties(a.c).combining_class < FoldProperties(b.c).combining_class;
                         });
      }
      i = j;
    }
    std::vector<utf8proc_int32_t> characters;
    size_t begin = group_[0].begin, end = group_[0].end;
    for (const Unit& unit : group_) {
      characters.push_back(static_cast<utf8proc_int32_t>(unit.c));
      begin = std::min(begin, unit.begin);
      end = std::max(end, unit.end);
    }
    const auto n = utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
                                            static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    for (utf8proc_ssize_t i = 0; i < n; ++i) Append(static_cast<char32_t>(characters[i]), begin, end);
  }

  void Append(char32_t c, size_t begin, size_t end) {
    if (c == U' ' && folded_.text.ends_with(' ')) {
      StretchLast(end);
      return;
    }
    if (c < 0x80) {
      if (end == begin + 1) {
        BeginCopy(begin);
      } else {
        folded_.spans_.push_back({folded_.text.size(), begin, end});
      }
      folded_.text.push_back(static_cast<char>(c));
      return;
    }
    std::array<utf8proc_uint8_t, 4> bytes;
    const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes.data());
    folded_.spans_.push_back({folded_.text.size(), begin, end});
    folded_.text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(n));
  }

  // The next byte of the text is that at `begin`.
  void BeginCopy(size_t begin) {
    const size_t at = folded_.text.size();
    auto& spans = folded_.spans_;
    const bool copied = !spans.empty() && spans.back().end == 0;
    if (!copied || spans.back().begin + (at - spans.back().at) != begin) spans.push_back({at, begin, 0});
  }

  // The last byte of the text is made from all up to `end`.
  void StretchLast(size_t end) {
    const size_t last = folded_.text.size() - 1;
    const size_t begin = FoldedText::OriginIn(folded_.spans_.back(), last).first;
    if (folded_.spans_.back().at == last) folded_.spans_.pop_back();
    folded_.spans_.push_back({last, begin, end});
  }

  std::string_view original_;
  bool phrase_, html_;
  const AsciiFates& fates_;
  HtmlTags tags_;
  std::vector<Unit> group_;
  FoldedText folded_;
};

const FoldedText::Span* FoldedText::SpanOf(size_t at) const {
  return &*std::prev(std::ranges::upper_bound(spans_, at, {}, &Span::at));
}

bool FoldedText::GapBefore(size_t at) const {
  if (at == 0 || at >= text.size()) return false;
  const Span* const span = SpanOf(at);
  return span->at == at && OriginIn(*std::prev(span), at - 1).second < span->begin;
}

FoldedText FoldText(std::string_view original, Folding folding, bool html) {
  return TextFolder(original, folding, html).Run();
}

bool IsLetter(char32_t c) {
  if (c < 0x80) return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z');
  const auto category = FoldProperties(c).category;
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
         category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC;  // vowel signs are part of their word
}

bool IsWordCharacter(char32_t c) {
  if (c < 0x80) return IsLetter(c) || (c >= U'0' && c <= U'9');
  const auto category = FoldProperties(c).category;
  return IsLetter(c) || (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

std::pair<char32_t, size_t> CharacterAt(std::string_view text, size_t at) {
  if (static_cast<unsigned char>(text[at]) < 0x80) return {static_cast<unsigned char>(text[at]), 1};
  const auto decoded = DecodeCharacter(text, at);
  return decoded.second == 0 ? std::pair<char32_t, size_t>(kReplacement, 1) : decoded;
}

char32_t CharacterBefore(std::string_view text, size_t at) {
  if (at == 0) return 0;
  size_t begin = at - 1;
  while (begin > 0 && at - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return CharacterAt(text, begin).first;
}

size_t CharacterCount(std::string_view valid_utf8) {
  return static_cast<size_t>(
      std::ranges::count_if(valid_utf8, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace surety::gateway
