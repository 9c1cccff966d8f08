#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <re2/re2.h>

#include "gateway/answer_views.h"
#include "gateway/code_table.h"
#include "gateway/text_folding.h"
#include "gateway/verifier_kinds.h"

namespace surety::gateway {
namespace {

constexpr size_t kTitleBytes = 240;   // how much of the text beside a code is read for its title

std::string TableFolded(std::string_view text) { return FoldText(text, Folding::kPhrase).text; }

char UpperCase(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

bool StartsWithWords(std::string_view text, std::string_view words) {
  return text.starts_with(words) &&
         (text.size() == words.size() || !IsWordCharacter(CharacterAt(text, words.size()).first));
}

bool EndsWithWords(std::string_view text, std::string_view words) {
  return text.ends_with(words) &&
         (text.size() == words.size() || !IsWordCharacter(CharacterBefore(text, text.size() - words.size())));
}

class TableVerifier : public SpecVerifier {
 public:
  TableVerifier(const VerifierSpec& spec, CodeTable table, const Clock& clock)
      : SpecVerifier(spec, fmt::format("2:{}@{}:{}{}", table.name(), table.version(), table.digest().substr(0, 8),
                                       spec.complete ? ":complete" : ""),
                     clock),
        table_(std::move(table)), pattern_("(?i)(?:" + table_.pattern() + ")") {
    for (const CodeEntry& entry : table_.entries()) {
      codes_[TableFolded(entry.code)] = entry.code;
      for (const std::string& title : entry.titles) titles_[TableFolded(title)].insert(entry.code);
    }
  }

  Verdict Check(const AnswerText& answer, const Evidence& evidence, int64_t deadline_ns) const override {
    FindingList findings;
    const std::set<std::string> known = CodesOfTools(evidence);
    for (const std::string& code : known) {
      // What the case is about, named in the answer or not.
      if (const std::string why = Unconfirmed(table_.Find(code, evidence.as_of_ns)); !why.empty()) {
        findings.Add({.what = why, .where = "tools", .offset = 0, .length = 0});
      }
    }
    for (const AnswerView& view : ViewsOf(answer)) {
      if (view.kind == AnswerView::Kind::kJoined) continue;
      const std::string plain = WithoutKnownKeys(view.text, evidence);  // names of passages are no codes
      for (const bool html : {false, true}) {
        if (html && plain.find_first_of("<&") == std::string::npos) continue;
        const FoldedText folded = FoldText(plain, Folding::kPhrase, html);
        for (const bool squeezed : {false, true}) {
          if (Late(deadline_ns)) return LateVerdict();
          CheckMentions({view, folded, squeezed ? Squeezed(folded.text) : Whole(folded.text), known}, evidence.as_of_ns,
                        findings);
        }
      }
    }
    if (spec().complete) {
      if (Late(deadline_ns)) return LateVerdict();
      CheckComplete(answer.text, known, evidence.as_of_ns, findings);
    }
    return VerdictOf(findings.Take());
  }

 private:
  struct Mention {
    std::string code;        // as the table writes it, else as it stands
    size_t begin, end;
  };

  std::vector<Mention> MentionsIn(std::string_view text) const {
    std::vector<Mention> mentions;
    const re2::StringPiece whole(text.data(), text.size());
    re2::StringPiece found;
    for (size_t at = 0; at <= text.size() &&
                        pattern_.Match(whole, at, text.size(), re2::RE2::UNANCHORED, &found, 1);) {
      const auto begin = static_cast<size_t>(found.data() - text.data());
      const size_t end = begin + found.size();
      at = std::max(end, begin + 1);
      const bool whole_word = (begin == 0 || !IsWordCharacter(CharacterBefore(text, begin))) &&
                              (end == text.size() || !IsWordCharacter(CharacterAt(text, end).first));
      if (!whole_word) continue;
      const auto known = codes_.find(TableFolded(found.as_string()));
      std::string code = known == codes_.end() ? found.as_string() : known->second;
      if (known == codes_.end()) std::ranges::transform(code, code.begin(), UpperCase);
      mentions.push_back({std::move(code), begin, end});
    }
    return mentions;
  }

  void CollectCodes(const boost::json::value& value, std::set<std::string>& codes) const {
    if (value.is_object()) {
      for (const auto& member : value.get_object()) CollectCodes(member.value(), codes);
    } else if (value.is_array()) {
      for (const auto& item : value.get_array()) CollectCodes(item, codes);
    } else if (value.is_string()) {
      const std::string_view text = value.get_string();
      const std::vector<Mention> mentions = MentionsIn(text);
      if (mentions.size() == 1 && mentions[0].end - mentions[0].begin == text.size()) codes.insert(mentions[0].code);
    }
  }

  std::set<std::string> CodesOfTools(const Evidence& evidence) const {
    std::set<std::string> codes;
    for (const ToolResult& result : evidence.tools) {
      if (result.status.ok()) CollectCodes(result.value, codes);
    }
    return codes;
  }

  // A text with where each byte stands in the folded one.
  struct Reading {
    std::string text;
    std::vector<size_t> at;
  };

  static Reading Whole(const std::string& folded) {
    Reading reading{folded, std::vector<size_t>(folded.size())};
    std::iota(reading.at.begin(), reading.at.end(), size_t{0});
    return reading;
  }

  // Without a space or sign between a letter and a digit: "R 54", "R-54" and "R. 54" are R54.
  static Reading Squeezed(const std::string& folded) {
    const auto parts = [&](size_t at) { return std::string_view(" -./:#").find(folded[at]) != std::string_view::npos; };
    const auto letter = [&](size_t at) { return folded[at] >= 'a' && folded[at] <= 'z'; };
    Reading reading;
    for (size_t at = 0; at < folded.size(); ++at) {
      if (at > 0 && letter(at - 1) && parts(at)) {
        size_t next = at + 1;
        if (next < folded.size() && parts(next)) ++next;
        if (next < folded.size() && folded[next] >= '0' && folded[next] <= '9') at = next;
      }
      reading.text += folded[at];
      reading.at.push_back(at);
    }
    return reading;
  }

  struct ViewReading {
    const AnswerView& view;
    const FoldedText& folded;
    Reading reading;
    const std::set<std::string>& of_tools;
  };

  void CheckMentions(const ViewReading& in, int64_t as_of_ns, FindingList& findings) const {
    for (const Mention& found : MentionsIn(in.reading.text)) {
      if (findings.full()) return;
      const Mention mention{found.code, in.reading.at[found.begin], in.reading.at[found.end - 1] + 1};
      const std::string wrong = Wrong(in.folded.text, mention, as_of_ns, in.of_tools);
      if (wrong.empty()) continue;
      const auto [offset, length] = in.folded.OriginOf(mention.begin, mention.end);
      findings.Add(in.view.Locate(wrong, offset, offset + length));
    }
  }

  // What the customer reads names the reasons: all that tools gave, and no other.
  void CheckComplete(const std::string& text, const std::set<std::string>& of_tools, int64_t as_of_ns,
                     FindingList& findings) const {
    if (of_tools.empty()) findings.Add({.what = "no tool gave a code that could be named", .where = "tools"});
    std::set<std::string> named;
    for (const bool html : {false, true}) {
      if (html && text.find_first_of("<&") == std::string::npos) continue;
      const FoldedText folded = FoldText(text, Folding::kPhrase, html);
      for (const Mention& mention : MentionsIn(folded.text)) named.insert(mention.code);   // others are faults already
      for (const auto& [title, begin] : TitlesIn(folded.text)) {
        const std::vector<std::string> codes = CodesTitled(title, as_of_ns);
        const auto given = [&](const std::string& code) { return of_tools.contains(code); };
        if (std::ranges::any_of(codes, given)) {
          std::ranges::copy_if(codes, std::inserter(named, named.end()), given);
          continue;
        }
        const auto [offset, length] = folded.OriginOf(begin, begin + title.size());
        findings.Add({.what = codes.empty() ? fmt::format("'{}' is not a title that is in force", title)
                                            : fmt::format("'{}' is not what the tools gave", title),
                      .where = "text", .offset = offset, .length = length});
      }
    }
    for (const std::string& code : of_tools) {
      if (named.contains(code)) continue;
      findings.Add({.what = fmt::format("code {}, which the tools gave, is not named", code), .where = "text"});
    }
  }

  // Where titles of the table stand as whole words, in order; one within a longer one is not meant.
  std::vector<std::pair<std::string_view, size_t>> TitlesIn(std::string_view text) const {
    std::vector<std::pair<std::string_view, size_t>> found;
    for (const auto& [title, codes] : titles_) {
      if (title.empty()) continue;
      for (size_t at = text.find(title); at != text.npos; at = text.find(title, at + 1)) {
        if (StartsWithWords(text.substr(at), title) && EndsWithWords(text.substr(0, at + title.size()), title)) {
          found.emplace_back(title, at);
        }
      }
    }
    std::ranges::sort(found, [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second < b.second : a.first.size() > b.first.size();
    });
    size_t end = 0;
    std::erase_if(found, [&](const auto& one) {
      const size_t own_end = one.second + one.first.size();
      return own_end <= std::exchange(end, std::max(end, own_end));
    });
    return found;
  }

  std::vector<std::string> CodesTitled(std::string_view title, int64_t as_of_ns) const {
    std::vector<std::string> codes;
    for (const std::string& code : titles_.find(std::string(title))->second) {
      const CodeEntry* entry = table_.Find(code, as_of_ns);
      const auto is_it = [&](const std::string& one) { return TableFolded(one) == title; };
      if (entry != nullptr && std::ranges::any_of(entry->titles, is_it)) codes.push_back(code);
    }
    return codes;
  }

  std::string Wrong(std::string_view text, const Mention& mention, int64_t as_of_ns,
                    const std::set<std::string>& of_tools) const {
    if (!table_.Knows(mention.code)) return "code " + mention.code + " is not in the table " + table_.name();
    const CodeEntry* entry = table_.Find(mention.code, as_of_ns);
    if (entry == nullptr) return "code " + mention.code + " is not in force";
    if (!of_tools.empty() && !of_tools.contains(mention.code)) {
      return "code " + mention.code + " is not the one that the tools gave (" + *of_tools.begin() +
             (of_tools.size() > 1 ? ", ..." : "") + ")";
    }
    std::set<std::string> own;
    for (const std::string& title : entry->titles) own.insert(TableFolded(title));
    if (TitleAfterIsWrong(text.substr(mention.end, kTitleBytes), own) ||
        TitleBeforeIsWrong(text.substr(0, mention.begin), own)) {
      return "code " + mention.code + " with another meaning than the table's ('" + entry->titles[0] + "')";
    }
    return Unconfirmed(entry);
  }

  static std::string Unconfirmed(const CodeEntry* entry) {
    if (entry == nullptr || entry->unconfirmed.empty()) return "";
    return "code " + entry->code + " is unconfirmed (" + entry->unconfirmed + "): a person decides";
  }

  // "R01 (...)", "R01: ...", "R01 means ..." state a title; after a comma or "is" only a title of the table is one.
  bool TitleAfterIsWrong(std::string_view after, const std::set<std::string>& own) const {
    static const re2::RE2 separator(
        R"(\s?["')\]]?\s?(?:(\(|:|=|\||- |means|stands for|indicates that|indicates)|,|is|was|code)?\s?)"
        R"((?:that )?(?:the |an |a )?["']?)");
    const std::string folded = TableFolded(after);
    re2::StringPiece rest(folded);
    std::string stated;
    if (!re2::RE2::Consume(&rest, separator, &stated)) return false;
    const std::string_view title(rest.data(), rest.size());
    if (std::ranges::any_of(own, [title](const std::string& t) { return StartsWithWords(title, t); })) return false;
    const bool of_another =
        std::ranges::any_of(titles_, [title](const auto& t) { return StartsWithWords(title, t.first); });
    if (of_another || stated.empty()) return of_another;
    re2::StringPiece next(title.data(), title.size());
    return !title.empty() && !re2::RE2::Consume(&next, pattern_);  // "R01 - R04": another code
  }

  // "insufficient funds (R01)"
  bool TitleBeforeIsWrong(std::string_view before, const std::set<std::string>& own) const {
    static const re2::RE2 separator(R"(^(.*?)["']?\s?[(\[]\s?(?:(?:ach )?(?:return )?(?:reason )?code:? )?$)");
    const size_t from = before.size() > kTitleBytes ? before.size() - kTitleBytes : 0;
    const std::string folded = TableFolded(before.substr(from));
    std::string left;
    if (!re2::RE2::FullMatch(folded, separator, &left)) return false;
    const std::string* longest = nullptr;
    for (const auto& [title, codes] : titles_) {
      if (EndsWithWords(left, title) && (longest == nullptr || title.size() > longest->size())) longest = &title;
    }
    return longest != nullptr && !own.contains(*longest);
  }

  CodeTable table_;
  re2::RE2 pattern_;
  std::map<std::string, std::string> codes_;             // folded -> as written
  std::map<std::string, std::set<std::string>> titles_;  // folded -> codes, at any time
};

}  // namespace

MadeVerifier MakeTableVerifier(const VerifierSpec& spec, const std::string& directory, const Clock& clock) {
  if (spec.table.empty()) return Error(SpecError(spec, "table is missing"));
  const std::filesystem::path path = std::filesystem::path(directory) / spec.table;
  auto table = CodeTable::Read(path.string());
  if (!table) return Error(table.error().WithContext("verifier '" + spec.name + "'"));
  return std::make_unique<TableVerifier>(spec, *std::move(table), clock);
}

}  // namespace surety::gateway
