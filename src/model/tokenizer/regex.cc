#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/tokenizer/regex.h"

#include <pcre2.h>

namespace surety::model {
namespace {

// PCRE2's \s counts U+180E as a space, which Unicode's White_Space, the dialect's meaning, no longer does.
constexpr std::string_view kSpaces =
    "\\x{09}-\\x{0d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

std::string SpellOutSpaces(const std::string& pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's') {
        out += in_class ? std::string(kSpaces) : "[" + std::string(kSpaces) + "]";
      } else if (next == 'S' && !in_class) {
        out += "[^" + std::string(kSpaces) + "]";
      } else {
        out += c;
        out += next;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

struct MatchDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

// One match block and its limits a thread, so that matching does not allocate.
pcre2_match_data* ThreadMatchData() {
  thread_local std::unique_ptr<pcre2_match_data, MatchDeleter> data(pcre2_match_data_create(16, nullptr));
  return data.get();
}

}  // namespace

Result<Regex> Regex::Make(const std::string& pattern) {
  const std::string spelled = SpellOutSpaces(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(), PCRE2_UTF | PCRE2_UCP,
                                   &error, &offset, nullptr);
  if (code == nullptr) {
    char message[160] = "";
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof(message));
    return Error(InvalidArgumentError("pattern '" + pattern + "' at offset " + std::to_string(offset) + ": " + message));
  }
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it, matching falls back to the interpreter
  Regex regex;
  regex.code_ = std::shared_ptr<void>(code, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
  return regex;
}

void Regex::ForEachMatch(std::string_view text, FunctionRef<void(size_t, size_t)> fn) const {
  pcre2_match_data* data = ThreadMatchData();
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  size_t at = 0;
  while (at <= text.size()) {
    const int n = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, PCRE2_NO_UTF_CHECK,
                              data, nullptr);
    if (n <= 0) return;
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data);
    const size_t begin = span[0], end = span[1];
    if (end > begin) {
      fn(begin, end);
      at = end;
    } else {
      at = end + 1;
      while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) ++at;
    }
  }
}

}  // namespace surety::model
