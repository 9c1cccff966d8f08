// Python's string methods on TaintedText, shared by filters and methods.
// Errors: kResourceExhausted when a result passes a limit.
#pragma once

#include <vector>

#include "base/status.h"
#include "model/chat/machine.h"
#include "model/chat/unicode.h"

namespace surety::model::chat {

enum class Side { kLeft, kRight, kBoth };
// Removes characters of the set, or white space if it is null.
TaintedText Strip(const TaintedText& text, const TaintedText* characters, Side side);

// count < 0: all.
Result<TaintedText> Replace(Machine& machine, const TaintedText& text, const TaintedText& from, const TaintedText& to,
                            int64_t count);

TaintedText InCase(const TaintedText& text, Case target);
TaintedText Capitalize(const TaintedText& text);
TaintedText TitleMethod(const TaintedText& text);  // str.title: a word is a run of letters
TaintedText TitleFilter(const TaintedText& text);  // Jinja's: a word begins after white space or one of - ( { [ <

// At white space, or at `separator` (not empty) if given. max_splits < 0: all.
Result<std::vector<Value>> Split(Machine& machine, const TaintedText& text, const TaintedText* separator,
                                 int64_t max_splits, bool from_right);
std::vector<Value> SplitLines(const TaintedText& text, bool keep_ends);

Result<TaintedText> Join(Machine& machine, const TaintedText& separator, const std::vector<Value>& items);
Result<TaintedText> Center(Machine& machine, const TaintedText& text, int64_t width);

}  // namespace surety::model::chat
