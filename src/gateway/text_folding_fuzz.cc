// Bytes as an answer: folded, searched for phrases and personal data, split into sentences and numbers. Never a crash;
// every finding lies in the bytes that were given.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "gateway/answer_views.h"
#include "gateway/citation_text.h"
#include "gateway/personal_data.h"
#include "gateway/phrase_matcher.h"
#include "gateway/text_folding.h"
#include "gateway/text_numbers.h"

namespace surety::gateway {
namespace {

PhraseMatcher FuzzMatcher() {
  const std::string phrases[] = {"we guarantee", "risk free", "ok", "100 % safe"};
  auto matcher = PhraseMatcher::Make(phrases);
  SURETY_CHECK(matcher.has_value());
  return *std::move(matcher);
}

void CheckFold(std::string_view text, Folding folding, bool html) {
  static const PhraseMatcher matcher = FuzzMatcher();
  const FoldedText folded = FoldText(text, folding, html);
  size_t begin = 0, end = 0;
  for (size_t i = 0; i < folded.text.size(); ++i) {
    const auto [b, e] = folded.Origin(i);
    SURETY_CHECK(b < e && e <= text.size() && b >= begin && e >= end);
    begin = b, end = e;
  }
  for (size_t at = 0; at < folded.text.size();) {   // valid UTF-8, character by character
    const auto [c, n] = CharacterAt(folded.text, at);
    SURETY_CHECK(n > 0 && at + n <= folded.text.size());
    SURETY_CHECK(n > 1 || static_cast<unsigned char>(folded.text[at]) < 0x80);
    at += n;
  }
  SURETY_CHECK(folded.text.find("  ") == std::string::npos);
  if (!html) SURETY_CHECK(FoldText(folded.text, folding).text == folded.text);
  for (const PhraseMatch& match : matcher.Find(folded)) {
    SURETY_CHECK(match.begin < match.end && match.end <= folded.text.size());
    const auto [offset, length] = folded.OriginOf(match.begin, match.end);
    SURETY_CHECK(length > 0 && offset + length <= text.size());
  }
}

void OneInput(std::string_view text) {
  for (const bool html : {false, true}) CheckFold(text, Folding::kPhrase, html);
  CheckFold(text, Folding::kQuote, false);
  for (const PersonalItem& item : FindPersonalData(text)) {
    SURETY_CHECK(item.length > 0 && item.offset + item.length <= text.size());
  }
  size_t last = 0;
  for (const NumberMention& mention : FindNumbers(text)) {
    SURETY_CHECK(mention.length > 0 && mention.offset + mention.length <= text.size() && !mention.values.empty());
    SURETY_CHECK(mention.offset >= last);
    last = mention.offset;
  }
  const std::vector<Citation> citations = FindCitations(text);
  SURETY_CHECK(WithoutCitations(text, citations).size() == text.size());
  size_t sentence_end = 0, cited = 0;
  for (const Sentence& sentence : SplitSentences(text, citations)) {
    SURETY_CHECK(sentence.begin >= sentence_end && sentence.begin < sentence.end && sentence.end <= text.size());
    sentence_end = sentence.end;
    cited += sentence.citations.size();
  }
  SURETY_CHECK(cited == citations.size());   // every citation belongs to one sentence
  AnswerText answer;
  answer.text = text.substr(0, text.size() / 2);
  answer.calls = {{"call", std::string(text.substr(text.size() / 2))}};
  for (const AnswerView& view : ViewsOf(answer)) {
    for (size_t at = 0; at < view.text.size(); at += 7) {
      const Finding finding = view.Locate("", at, view.text.size());
      const size_t size = finding.where == "text" ? answer.text.size()
                          : finding.where == "calls[0].name" ? 4 : answer.calls[0].arguments.size();
      SURETY_CHECK(finding.offset + finding.length <= size);
    }
  }
}

}  // namespace
}  // namespace surety::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  surety::gateway::OneInput(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
