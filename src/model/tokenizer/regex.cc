#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/tokenizer/regex.h"

#include <pcre2.h>

#include <algorithm>

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

constexpr uint32_t kMatchLimit = 10'000'000;  // steps of one match
constexpr uint32_t kHeapLimit_kib = 64 << 10;
constexpr size_t kMaxJitStackBytes = 1 << 20;

// One match block with its limits a thread, so that matching does not allocate.
struct MatchBlock {
  pcre2_match_data* data = pcre2_match_data_create(16, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, kMaxJitStackBytes, nullptr);

  MatchBlock() {
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapLimit_kib);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~MatchBlock() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  MatchBlock(const MatchBlock&) = delete;
  MatchBlock& operator=(const MatchBlock&) = delete;
};

const MatchBlock& ThreadMatchBlock() {
  thread_local const MatchBlock block;
  return block;
}

}  // namespace

Result<Regex> Regex::Make(const std::string& pattern) {
  if (const ScanFunction scan = FindScanner(pattern)) {
    Regex regex;
    regex.scan_ = scan;
    return regex;
  }
  return MakeCompiled(pattern);
}

Result<Regex> Regex::MakeCompiled(const std::string& pattern) {
  const std::string spelled = SpellOutSpaces(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(), PCRE2_UTF | PCRE2_UCP,
                                   &error, &offset, nullptr);
  if (code == nullptr) {
    char message[160] = "";
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof(message));
    return Error(
        InvalidArgumentError("pattern '" + pattern + "' at offset " + std::to_string(offset) + ": " + message));
  }
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it, matching falls back to the interpreter
  Regex regex;
  regex.code_ = std::shared_ptr<void>(code, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
  return regex;
}

void Regex::ForEachMatch(std::string_view text, FunctionRef<void(size_t, size_t)> fn) const {
  if (scan_ != nullptr) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = scan_(text, at);
      fn(at, end);
      at = end;
    }
    return;
  }
  const MatchBlock& block = ThreadMatchBlock();
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const auto match = [&](size_t at, uint32_t options) {
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, PCRE2_NO_UTF_CHECK | options,
                       block.data, block.context);
  };
  for (size_t at = 0; at <= text.size();) {
    int n = match(at, 0);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT) n = match(at, PCRE2_NO_JIT);  // the interpreter's stack is the heap
    if (n < 0) return;
    // fn may match in its turn (steps follow each other inside it), so the span is read before.
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(block.data);
    const size_t begin = span[0], end = span[1];
    if (end > begin) {
      fn(begin, end);
      at = end;
    } else {
      at = std::max(at, end) + 1;
      while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) ++at;
    }
  }
}

}  // namespace surety::model
