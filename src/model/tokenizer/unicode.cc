#include "model/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <unordered_map>

namespace surety::model {
namespace {

// Printable ASCII and Latin-1 stand for themselves, the other bytes for characters from U+0100 on, in order.
std::array<char32_t, 256> MakeByteLetters() {
  std::array<char32_t, 256> letters{};
  char32_t next = 0x100;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool visible = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    letters[b] = visible ? static_cast<char32_t>(b) : next++;
  }
  return letters;
}

const std::array<char32_t, 256>& ByteLetters() {
  static const std::array<char32_t, 256> letters = MakeByteLetters();
  return letters;
}

}  // namespace

int DecodeUtf8(std::string_view text, size_t at, char32_t& c) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const size_t left = text.size() - at;
  const uint8_t lead = byte(0);
  if (lead < 0x80) {
    c = lead;
    return 1;
  }
  const int length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || left < static_cast<size_t>(length)) return 0;
  char32_t value = lead & (0xFF >> (length + 1));
  for (int i = 1; i < length; ++i) {
    const uint8_t next = byte(static_cast<size_t>(i));
    if ((next & 0xC0) != 0x80) return 0;
    value = (value << 6) | (next & 0x3F);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kSmallest[length] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return 0;
  c = value;
  return length;
}

void AppendUtf8(char32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

int CharLength(std::string_view text, size_t at) {
  char32_t c;
  const int length = DecodeUtf8(text, at, c);
  return length == 0 ? 1 : length;
}

bool IsValidUtf8(std::string_view text) {
  char32_t c;
  for (size_t at = 0; at < text.size();) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const int length = DecodeUtf8(text, at, c);
    if (length == 0) return false;
    at += static_cast<size_t>(length);
  }
  return true;
}

namespace {

// Bytes at `at` that together are one fault: the longest start of a valid character that breaks off, or one byte.
size_t FaultLength(std::string_view text, size_t at) {
  size_t length = 1;
  for (size_t n = 2; n <= 3 && at + n <= text.size(); ++n) {
    if (UnfinishedTail(text.substr(at, n)) == n) length = n;
  }
  return length;
}

}  // namespace

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  char32_t c;
  for (size_t at = 0; at < text.size();) {
    const int length = DecodeUtf8(text, at, c);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      at += FaultLength(text, at);
    } else {
      out += text.substr(at, static_cast<size_t>(length));
      at += static_cast<size_t>(length);
    }
  }
  return out;
}

size_t UnfinishedTail(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto lead = static_cast<uint8_t>(text[text.size() - back]);
    if ((lead & 0xC0) == 0x80) continue;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (length <= back) return 0;
    // The bytes so far must be able to start a valid character: fill up with the smallest and largest continuation.
    for (const char fill : {'\x80', '\xBF'}) {
      std::string trial(text.substr(text.size() - back));
      trial.append(length - back, fill);
      char32_t c;
      if (DecodeUtf8(trial, 0, c) != 0) return back;
    }
    return 0;
  }
  return 0;
}

namespace {

// Appends the normal form of `text`.
void AppendMapped(std::string_view text, int options, std::string& out) {
  if (text.empty()) return;
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, static_cast<utf8proc_option_t>(options));
  if (size < 0) {
    out += text;
    return;
  }
  out.append(reinterpret_cast<char*>(mapped), static_cast<size_t>(size));
  std::free(mapped);
}

}  // namespace

// Only stretches around characters that a form can change go through the library: below the form's first such character
// everything is a starter that stays as it is, but may take a mark that follows it.
std::string Normalise(std::string_view text, NormalForm form) {
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compatibility = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const char32_t lowest = compatibility ? 0x80 : compose ? 0x300 : 0xC0;
  const int options =
      UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatibility ? UTF8PROC_COMPAT : 0);
  std::string out;
  out.reserve(text.size());
  size_t done = 0;       // all before is in out
  size_t last_char = 0;  // start of the character before `at`
  bool open = false;     // a stretch that starts at `done`
  char32_t c = 0;
  for (size_t at = 0; at < text.size();) {
    const auto length = static_cast<size_t>(std::max(1, DecodeUtf8(text, at, c)));
    const bool kept = (compatibility && KeepsItsForm(c)) || (c == 0x11938 && !compose);
    if (kept) {
      open ? AppendMapped(text.substr(done, at - done), options, out) : void(out += text.substr(done, at - done));
      out += text.substr(at, length);
      done = at + length;
      open = false;
    } else if (c >= lowest && !open) {
      const size_t start = std::max(done, at == 0 ? 0 : last_char);
      out += text.substr(done, start - done);
      done = start;
      open = true;
    } else if (c < lowest && open) {
      AppendMapped(text.substr(done, at - done), options, out);
      done = at;
      open = false;
    }
    last_char = at;
    at += length;
  }
  if (open) {
    AppendMapped(text.substr(done), options, out);
  } else {
    out += text.substr(done);
  }
  return out;
}

size_t GraphemeEnd(std::string_view text, size_t at) {
  char32_t left = 0, right = 0;
  utf8proc_int32_t state = 0;
  at += static_cast<size_t>(std::max(1, DecodeUtf8(text, at, left)));
  while (at < text.size()) {
    const auto length = static_cast<size_t>(std::max(1, DecodeUtf8(text, at, right)));
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(left), static_cast<utf8proc_int32_t>(right),
                                         &state)) {
      break;
    }
    left = right;
    at += length;
  }
  return at;
}

std::string_view StripSpaces(std::string_view text, bool left, bool right) {
  char32_t c = 0;
  while (left && !text.empty() && DecodeUtf8(text, 0, c) > 0 && IsWhitespace(c)) {
    text.remove_prefix(static_cast<size_t>(CharLength(text, 0)));
  }
  while (right && !text.empty()) {
    size_t start = text.size() - 1;
    while (start > 0 && (static_cast<uint8_t>(text[start]) & 0xC0) == 0x80) --start;
    if (DecodeUtf8(text, start, c) == 0 || !IsWhitespace(c)) break;
    text = text.substr(0, start);
  }
  return text;
}

std::string Lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  char32_t c;
  for (size_t at = 0; at < text.size();) {
    const int length = DecodeUtf8(text, at, c);
    at += static_cast<size_t>(length == 0 ? 1 : length);
    if (length == 0) continue;
    if (c == 0x130) {  // the one capital whose lower case is two characters
      out += "i\xCC\x87";
    } else {
      AppendUtf8(LowercaseOf(c), out);
    }
  }
  return out;
}

char32_t ByteToLetter(uint8_t byte) { return ByteLetters()[byte]; }

bool LettersToBytes(std::string_view letters, std::string& bytes) {
  static const std::unordered_map<char32_t, uint8_t> table = [] {
    std::unordered_map<char32_t, uint8_t> t;
    for (uint32_t b = 0; b < 256; ++b) t[ByteLetters()[b]] = static_cast<uint8_t>(b);
    return t;
  }();
  bytes.clear();
  char32_t c;
  for (size_t at = 0; at < letters.size();) {
    const int length = DecodeUtf8(letters, at, c);
    if (length == 0) return false;
    const auto it = table.find(c);
    if (it == table.end()) return false;
    bytes += static_cast<char>(it->second);
    at += static_cast<size_t>(length);
  }
  return true;
}

}  // namespace surety::model
