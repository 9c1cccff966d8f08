#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <re2/re2.h>

#include "gateway/answer_views.h"
#include "gateway/phrase_matcher.h"
#include "gateway/text_folding.h"
#include "gateway/verifier_kinds.h"

namespace surety::gateway {
namespace {

std::string ListedText(const VerifierSpec& spec) {
  std::string all;
  for (const std::string& phrase : spec.phrases) all += "p" + std::to_string(phrase.size()) + ":" + phrase;
  for (const std::string& pattern : spec.patterns) all += "r" + std::to_string(pattern.size()) + ":" + pattern;
  return all;
}

class PhraseVerifier : public SpecVerifier {
 public:
  PhraseVerifier(const VerifierSpec& spec, PhraseMatcher matcher, std::vector<std::unique_ptr<re2::RE2>> patterns,
                 const Clock& clock)
      : SpecVerifier(spec, VerifierVersion(1, ListedText(spec)), clock), matcher_(std::move(matcher)),
        patterns_(std::move(patterns)) {}

  Verdict Check(const AnswerText& answer, const Evidence&, int64_t deadline_ns) const override {
    FindingList findings;
    for (const AnswerView& view : ViewsOf(answer)) {
      if (Late(deadline_ns)) return LateVerdict();
      FindOverrides(view, findings);
      Find(view, FoldText(view.text, Folding::kPhrase), findings);
      if (view.text.find_first_of("<&") != std::string::npos) {
        Find(view, FoldText(view.text, Folding::kPhrase, /*html=*/true), findings);
      }
    }
    return VerdictOf(findings.Take());
  }

 private:
  // A text that is turned round reads as another one than its letters say: it cannot be checked.
  static void FindOverrides(const AnswerView& view, FindingList& findings) {
    for (const std::string_view mark : {"\u202D", "\u202E"}) {
      const size_t at = view.text.find(mark);
      if (at != std::string::npos) findings.Add(view.Locate("text direction override", at, at + mark.size()));
    }
  }

  void Find(const AnswerView& view, const FoldedText& folded, FindingList& findings) const {
    const auto report = [&](std::string what, size_t begin, size_t end) {
      const auto [offset, length] = folded.OriginOf(begin, end);
      findings.Add(view.Locate(std::move(what), offset, offset + length));
    };
    for (const PhraseMatch& match : matcher_.Find(folded)) {
      report("forbidden phrase '" + spec().phrases[match.phrase] + "'", match.begin, match.end);
    }
    const re2::StringPiece text(folded.text);
    for (size_t i = 0; i < patterns_.size(); ++i) {
      re2::StringPiece found;
      for (size_t at = 0; patterns_[i]->Match(text, at, text.size(), re2::RE2::UNANCHORED, &found, 1);) {
        const auto begin = static_cast<size_t>(found.data() - text.data());
        if (!found.empty()) report("forbidden pattern '" + spec().patterns[i] + "'", begin, begin + found.size());
        at = begin + std::max<size_t>(found.size(), 1);
        if (at > text.size() || findings.full()) break;
      }
    }
  }

  PhraseMatcher matcher_;
  std::vector<std::unique_ptr<re2::RE2>> patterns_;
};

}  // namespace

MadeVerifier MakePhraseVerifier(const VerifierSpec& spec, const Clock& clock) {
  if (spec.phrases.empty() && spec.patterns.empty()) {
    return Error(SpecError(spec, "phrases and patterns are empty: it would pass everything"));
  }
  auto matcher = PhraseMatcher::Make(spec.phrases);
  if (!matcher) return Error(SpecError(spec, matcher.error().message()));
  std::vector<std::unique_ptr<re2::RE2>> patterns;
  for (const std::string& pattern : spec.patterns) {
    re2::RE2::Options options;
    options.set_log_errors(false);
    auto compiled = std::make_unique<re2::RE2>(pattern, options);
    if (!compiled->ok()) return Error(SpecError(spec, "pattern '" + pattern + "': " + compiled->error()));
    if (re2::RE2::FullMatch("", *compiled)) {
      return Error(SpecError(spec, "pattern '" + pattern + "' matches the empty text"));
    }
    patterns.push_back(std::move(compiled));
  }
  return std::make_unique<PhraseVerifier>(spec, *std::move(matcher), std::move(patterns), clock);
}

}  // namespace surety::gateway
