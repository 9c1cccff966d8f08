#include "gateway/answer_views.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/hash.h"

namespace surety::gateway {
namespace {

constexpr int kMaxNesting = 6;  // JSON in a text in JSON ...
// Between the parts of a joined view: invisible, so that folding leaves it out and knows of it.
constexpr std::string_view kJoint = "\u2060";

// Bytes with their offsets in the field; offsets holds one more, of the end.
struct MappedText {
  std::string text;
  std::vector<size_t> offsets;
};

int HexFour(std::string_view text, size_t at) {
  if (at + 4 > text.size()) return -1;
  int value = 0;
  for (size_t i = at; i < at + 4; ++i) {
    const int digit = HexDigitValue(text[i]);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
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

// The escape that begins at `at`, appended as what it stands for; its length, 0: none begins here.
size_t ReadEscape(std::string_view text, size_t at, std::string& out) {
  if (text[at] != '\\' || at + 1 >= text.size()) return 0;
  static constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
  if (const size_t known = kNames.find(text[at + 1]); known != std::string_view::npos) {
    out += kValues[known];
    return 2;
  }
  if (text[at + 1] != 'u') return 0;
  const int first = HexFour(text, at + 2);
  if (first < 0) return 0;
  if (first >= 0xD800 && first < 0xE000) {
    const bool second_follows = first < 0xDC00 && text.substr(at + 6).starts_with("\\u");
    const int second = second_follows ? HexFour(text, at + 8) : -1;
    if (second < 0xDC00 || second > 0xDFFF) return AppendUtf8(0xFFFD, out), 6;
    AppendUtf8(0x10000 + (static_cast<char32_t>(first - 0xD800) << 10) + static_cast<char32_t>(second - 0xDC00), out);
    return 12;
  }
  AppendUtf8(static_cast<char32_t>(first), out);
  return 6;
}

MappedText Unescape(const MappedText& from) {
  MappedText to;
  for (size_t at = 0; at < from.text.size();) {
    size_t length = ReadEscape(from.text, at, to.text);
    if (length == 0) to.text += from.text[at], length = 1;
    to.offsets.resize(to.text.size(), from.offsets[at]);
    at += length;
  }
  to.offsets.push_back(from.offsets.back());
  return to;
}

// What stands between quotation marks: JSON's strings, also where the JSON is broken.
std::vector<MappedText> StringsOf(const MappedText& json, bool keys) {
  std::vector<MappedText> strings;
  for (size_t at = json.text.find('"'); at != std::string::npos; at = json.text.find('"', at)) {
    const size_t begin = ++at;
    while (at < json.text.size() && json.text[at] != '"') at += json.text[at] == '\\' ? 2 : 1;
    const size_t end = std::min(at, json.text.size());
    at = std::min(end + 1, json.text.size());
    const size_t next = json.text.find_first_not_of(" \t\r\n", at);
    const bool is_key = next != std::string::npos && json.text[next] == ':';
    if (is_key && !keys) continue;
    MappedText string{json.text.substr(begin, end - begin), {}};
    string.offsets.assign(json.offsets.begin() + static_cast<ptrdiff_t>(begin),
                          json.offsets.begin() + static_cast<ptrdiff_t>(end) + 1);
    strings.push_back(std::move(string));
  }
  return strings;
}

bool LooksLikeJson(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (text[first] == '{' || text[first] == '[');
}

}  // namespace

class ViewBuilder {
 public:
  std::vector<AnswerView> Run(const AnswerText& answer) {
    const Fragments text = AddField("text", answer.text);
    const Fragments reasoning = AddField("reasoning", answer.reasoning);
    Fragments calls;
    for (size_t i = 0; i < answer.calls.size(); ++i) {
      AddField(fmt::format("calls[{}].name", i), answer.calls[i].name);
      Append(calls, AddField(fmt::format("calls[{}].arguments", i), answer.calls[i].arguments));
    }
    const std::vector<const Fragments*> all = {&text, &reasoning, &calls};
    std::vector<size_t> order = {0, 1, 2};
    do {
      Fragments joined;
      for (const size_t i : order) Append(joined, *all[i]);
      AddJoined(joined);
    } while (std::ranges::next_permutation(order).found);
    return std::move(views_);
  }

 private:
  struct Fragment {
    std::string where;
    MappedText text;
  };
  using Fragments = std::vector<Fragment>;

  static void Append(Fragments& to, const Fragments& from) { to.insert(to.end(), from.begin(), from.end()); }

  void AddView(AnswerView::Kind kind, const std::string& where, MappedText text) {
    AnswerView view;
    view.kind = kind;
    view.text = std::move(text.text);
    if (kind == AnswerView::Kind::kField) text.offsets.clear();
    view.parts_.push_back({where, 0, std::move(text.offsets)});
    views_.push_back(std::move(view));
  }

  // Views of one field, and what of it is joined with the others: the values of JSON, else all of it.
  Fragments AddField(const std::string& where, const std::string& field) {
    if (field.empty()) return {};
    MappedText text{field, std::vector<size_t>(field.size() + 1)};
    std::iota(text.offsets.begin(), text.offsets.end(), size_t{0});
    AddView(AnswerView::Kind::kField, where, text);
    Fragments values;
    if (LooksLikeJson(field)) {
      Fragments strings;
      for (MappedText& string : StringsOf(text, true)) strings.push_back({where, Resolve(std::move(string))});
      AddJoined(strings);  // keys too
      for (MappedText& string : StringsOf(text, false)) values.push_back({where, Resolve(std::move(string))});
    }
    MappedText all = text;
    for (int depth = 0; depth < kMaxNesting && all.text.find('\\') != std::string::npos; ++depth) {
      MappedText next = Unescape(all);
      if (next.text == all.text) break;
      all = std::move(next);
      AddView(AnswerView::Kind::kUnescaped, where, all);
    }
    if (values.empty()) values.push_back({where, std::move(all)});
    return values;
  }

  static MappedText Resolve(MappedText text) {
    for (int depth = 0; depth < kMaxNesting && text.text.find('\\') != std::string::npos; ++depth) {
      MappedText next = Unescape(text);
      if (next.text == text.text) break;
      text = std::move(next);
    }
    return text;
  }

  void AddJoined(const Fragments& fragments) {
    if (fragments.size() < 2) return;
    AnswerView view;
    view.kind = AnswerView::Kind::kJoined;
    for (const Fragment& fragment : fragments) {
      view.parts_.push_back({fragment.where, view.text.size(), fragment.text.offsets});
      view.text += fragment.text.text;
      view.text += kJoint;
    }
    const bool known = std::ranges::any_of(views_, [&view](const AnswerView& v) { return v.text == view.text; });
    if (!known) views_.push_back(std::move(view));
  }

  std::vector<AnswerView> views_;
};

Finding AnswerView::Locate(std::string what, size_t begin, size_t end) const {
  const auto after = std::ranges::upper_bound(parts_, begin, {}, &Part::begin);
  const Part& part = *std::prev(after);
  const size_t part_end = after == parts_.end() ? text.size() : after->begin;
  Finding finding{std::move(what), part.where, begin, end - begin};
  if (end > part_end) finding.what += ", which goes on in " + after->where;
  if (part.offsets.empty()) return finding;
  const auto offset = [&part](size_t at) { return part.offsets[std::min(at - part.begin, part.offsets.size() - 1)]; };
  finding.offset = offset(begin);
  finding.length = std::max<size_t>(offset(std::min(end, part_end)), finding.offset) - finding.offset;
  return finding;
}

std::vector<AnswerView> ViewsOf(const AnswerText& answer) { return ViewBuilder().Run(answer); }

}  // namespace surety::gateway
