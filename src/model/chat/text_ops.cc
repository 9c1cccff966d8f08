#include "model/chat/text_ops.h"

#include <algorithm>

#include "model/chat/printing.h"

namespace surety::model::chat {
namespace {

// A character begins where a byte is no continuation.
size_t CharacterBefore(std::string_view text, size_t end) {
  size_t i = end - 1;
  while (i > 0 && end - i < 4 && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) --i;
  return i + CharacterAt(text, i).size == end ? i : end - 1;
}

bool InSet(std::string_view text, size_t at, size_t size, const TaintedText* characters) {
  if (characters == nullptr) return IsSpaceCharacter(CharacterAt(text, at).code);
  const std::string_view wanted = text.substr(at, size);
  const std::string& set = characters->text();
  for (size_t i = 0; i < set.size();) {
    const size_t n = CharacterAt(set, i).size;
    if (std::string_view(set).substr(i, n) == wanted) return true;
    i += n;
  }
  return false;
}

// Letter by letter: `choose` says which case, given whether this is the first letter of a word.
template <typename Choose>
TaintedText Mapped(const TaintedText& text, Choose&& choose) {
  TaintedText out;
  const std::string& bytes = text.text();
  for (size_t i = 0; i < bytes.size();) {
    const Character c = CharacterAt(bytes, i);
    std::string piece;
    if (c.code == kNoCharacter) {
      piece = bytes.substr(i, c.size);
    } else {
      AppendInCase(piece, c.code, choose(c.code));
    }
    out.Append(piece, text.TrustedAt(i));
    i += c.size;
  }
  return out;
}

bool IsLineEnd(uint32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

}  // namespace

TaintedText Strip(const TaintedText& text, const TaintedText* characters, Side side) {
  const std::string_view bytes = text.text();
  size_t begin = 0;
  size_t end = bytes.size();
  while (side != Side::kRight && begin < end) {
    const size_t size = CharacterAt(bytes, begin).size;
    if (!InSet(bytes, begin, size, characters)) break;
    begin += size;
  }
  while (side != Side::kLeft && end > begin) {
    const size_t last = CharacterBefore(bytes, end);
    if (!InSet(bytes, last, end - last, characters)) break;
    end = last;
  }
  return text.Substring(begin, end - begin);
}

Result<TaintedText> Replace(Machine& machine, const TaintedText& text, const TaintedText& from, const TaintedText& to,
                            int64_t count) {
  machine.budget().SpendBytes(text.size());
  TaintedText out;
  const std::string_view bytes = text.text();
  size_t done = 0;
  size_t next = 0;
  for (; count != 0; --count) {
    const size_t found = next <= bytes.size() ? bytes.find(from.text(), next) : std::string_view::npos;
    if (found == std::string_view::npos) break;
    out.AppendRange(text, done, found - done);
    out.Append(to);
    done = found + from.size();
    // An empty pattern matches before every character and at the end.
    next = from.empty() ? (found < bytes.size() ? found + CharacterAt(bytes, found).size : found + 1) : done;
    machine.budget().SpendBytes(to.size());
    SURETY_RETURN_IF_ERROR(machine.CheckBudget());
    SURETY_RETURN_IF_ERROR(machine.CheckTextSize(out.size()));
  }
  out.AppendRange(text, done, bytes.size() - done);
  SURETY_RETURN_IF_ERROR(machine.CheckTextSize(out.size()));
  return out;
}

TaintedText InCase(const TaintedText& text, Case target) {
  return Mapped(text, [&](uint32_t) { return target; });
}

TaintedText Capitalize(const TaintedText& text) {
  bool first = true;
  return Mapped(text, [&](uint32_t) { return std::exchange(first, false) ? Case::kTitle : Case::kLower; });
}

TaintedText TitleMethod(const TaintedText& text) {
  bool in_word = false;
  return Mapped(text, [&](uint32_t code) {
    const bool letter = IsAlphabetic(code);
    const Case result = letter && !in_word ? Case::kTitle : Case::kLower;
    in_word = letter;
    return result;
  });
}

TaintedText TitleFilter(const TaintedText& text) {
  bool first = true;
  return Mapped(text, [&](uint32_t code) {
    const bool separates = IsSpaceCharacter(code) || code == '-' || code == '(' || code == '{' || code == '[' ||
                           code == '<';
    const Case result = first ? Case::kUpper : Case::kLower;
    first = separates;
    return result;
  });
}

namespace {

Result<std::vector<Value>> SplitAtSpace(Machine& machine, const TaintedText& text, int64_t max_splits) {
  std::vector<Value> parts;
  const std::string_view bytes = text.text();
  size_t i = 0;
  while (true) {
    while (i < bytes.size() && IsSpaceCharacter(CharacterAt(bytes, i).code)) i += CharacterAt(bytes, i).size;
    if (i >= bytes.size()) return parts;
    machine.budget().Spend(1);
    SURETY_RETURN_IF_ERROR(machine.CheckBudget());
    if (max_splits >= 0 && static_cast<int64_t>(parts.size()) == max_splits) {
      parts.emplace_back(text.Substring(i, bytes.size() - i));  // space at its end stays
      return parts;
    }
    const size_t begin = i;
    while (i < bytes.size() && !IsSpaceCharacter(CharacterAt(bytes, i).code)) i += CharacterAt(bytes, i).size;
    parts.emplace_back(text.Substring(begin, i - begin));
  }
}

Result<std::vector<Value>> SplitAtSpaceFromRight(Machine& machine, const TaintedText& text, int64_t max_splits) {
  std::vector<Value> parts;
  const std::string_view bytes = text.text();
  size_t end = bytes.size();
  while (true) {
    while (end > 0) {
      const size_t last = CharacterBefore(bytes, end);
      if (!IsSpaceCharacter(CharacterAt(bytes, last).code)) break;
      end = last;
    }
    if (end == 0) break;
    machine.budget().Spend(1);
    SURETY_RETURN_IF_ERROR(machine.CheckBudget());
    if (static_cast<int64_t>(parts.size()) == max_splits) {
      parts.emplace_back(text.Substring(0, end));
      break;
    }
    size_t begin = end;
    while (begin > 0) {
      const size_t last = CharacterBefore(bytes, begin);
      if (IsSpaceCharacter(CharacterAt(bytes, last).code)) break;
      begin = last;
    }
    parts.emplace_back(text.Substring(begin, end - begin));
    end = begin;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

Result<std::vector<Value>> Split(Machine& machine, const TaintedText& text, const TaintedText* separator,
                                 int64_t max_splits, bool from_right) {
  machine.budget().SpendBytes(text.size());
  if (separator == nullptr) {
    return from_right && max_splits >= 0 ? SplitAtSpaceFromRight(machine, text, max_splits)
                                         : SplitAtSpace(machine, text, max_splits);
  }
  if (separator->empty()) return Error(InvalidArgumentError("split: the separator is empty"));
  std::vector<Value> parts;
  const std::string_view bytes = text.text();
  size_t begin = 0;
  size_t end = bytes.size();
  for (; max_splits != 0; --max_splits) {
    size_t at = std::string_view::npos;
    if (from_right) {
      if (end >= separator->size()) at = bytes.rfind(separator->text(), end - separator->size());
    } else {
      at = bytes.find(separator->text(), begin);
    }
    if (at == std::string_view::npos) break;
    machine.budget().Spend(1);
    SURETY_RETURN_IF_ERROR(machine.CheckBudget());
    const size_t after = at + separator->size();
    parts.emplace_back(from_right ? text.Substring(after, end - after) : text.Substring(begin, at - begin));
    (from_right ? end : begin) = from_right ? at : after;
  }
  parts.emplace_back(text.Substring(begin, end - begin));
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Value> SplitLines(const TaintedText& text, bool keep_ends) {
  std::vector<Value> lines;
  const std::string_view bytes = text.text();
  size_t begin = 0;
  for (size_t i = 0; i < bytes.size();) {
    const Character c = CharacterAt(bytes, i);
    size_t after = i + c.size;
    if (IsLineEnd(c.code)) {
      if (c.code == '\r' && after < bytes.size() && bytes[after] == '\n') ++after;
      lines.emplace_back(text.Substring(begin, (keep_ends ? after : i) - begin));
      begin = after;
    }
    i = after;
  }
  if (begin < bytes.size()) lines.emplace_back(text.Substring(begin, bytes.size() - begin));
  return lines;
}

Result<TaintedText> Join(Machine& machine, const TaintedText& separator, const std::vector<Value>& items) {
  TaintedText out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.Append(separator);
    machine.budget().SpendBytes(separator.size());
    SURETY_ASSIGN_OR_RETURN(const TaintedText text, ToText(machine, items[i]));
    out.Append(text);
    SURETY_RETURN_IF_ERROR(machine.CheckBudget());
    SURETY_RETURN_IF_ERROR(machine.CheckTextSize(out.size()));
  }
  return out;
}

Result<TaintedText> Center(Machine& machine, const TaintedText& text, int64_t width) {
  const int64_t n = CharacterCount(text.text());
  if (width <= n) return text;
  SURETY_RETURN_IF_ERROR(machine.CheckTextSize(static_cast<size_t>(width) + text.size()));
  const int64_t padding = width - n;
  const int64_t left = padding / 2 + (padding & width & 1);  // the odd one goes where Python puts it
  TaintedText out(std::string(static_cast<size_t>(left), ' '), true);
  out.Append(text);
  out.Append(std::string(static_cast<size_t>(padding - left), ' '), true);
  return out;
}

}  // namespace surety::model::chat
