#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gateway/citation_check.h"
#include "gateway/number_words.h"
#include "gateway/strict_json.h"
#include "gateway/text_numbers.h"
#include "gateway/verifier_kinds.h"

namespace surety::gateway {
namespace {

class NumberVerifier : public SpecVerifier {
 public:
  NumberVerifier(const VerifierSpec& spec, const Clock& clock) : SpecVerifier(spec, "2", clock) {}

  Verdict Check(const AnswerText& answer, const Evidence& evidence, int64_t deadline_ns) const override {
    NumberSet known;
    known.AddToolsAndFacts(evidence);
    for (const Passage& passage : evidence.passages) {
      if (!passage.validity.Contains(evidence.as_of_ns)) continue;
      const auto reading = ReadingOf(passage.text);
      for (const NumberMention& mention : reading->numbers) known.Add(mention);
    }
    FindingList findings;
    if (Late(deadline_ns)) return LateVerdict();
    CheckText(WithoutKnownKeys(answer.text, evidence), "text", known, findings);
    for (size_t i = 0; i < answer.calls.size(); ++i) {
      const std::string where = fmt::format("calls[{}].arguments", i);
      const std::string& arguments = answer.calls[i].arguments;
      if (Late(deadline_ns)) return LateVerdict();
      if (arguments.empty()) continue;
      const auto value = ParseStrictJson(arguments);
      if (value) {
        CheckJson(*value, where, arguments.size(), known, findings);
      } else {
        CheckText(arguments, where, known, findings);
      }
    }
    return VerdictOf(findings.Take());
  }

 private:
  static void CheckText(std::string_view text, const std::string& where, const NumberSet& known,
                        FindingList& findings) {
    for (const bool html : {false, true}) {  // as it stands, and as it would be shown
      if (html && text.find_first_of("<&") == std::string_view::npos) continue;
      for (const NumberMention& number : FindNumbers(text, html)) {
        if (known.Supports(number)) continue;
        findings.Add({std::string(kUngrounded), where, number.offset, number.length});
      }
    }
  }

  // Findings cover the whole of the arguments: a parsed value has no place in them.
  static void CheckJson(const boost::json::value& value, const std::string& where, size_t size, const NumberSet& known,
                        FindingList& findings) {
    if (findings.full()) return;
    if (value.is_object()) {
      for (const auto& member : value.get_object()) CheckJson(member.value(), where, size, known, findings);
    } else if (value.is_array()) {
      for (const auto& item : value.get_array()) CheckJson(item, where, size, known, findings);
    } else if (value.is_string()) {
      FindingList inner;
      CheckText(std::string_view(value.get_string()), where, known, inner);
      if (!inner.Take().empty()) findings.Add({std::string(kUngrounded), where, 0, size});
    } else if (value.is_number()) {
      NumberMention number;
      const std::string text = JsonNumberText(value);
      number.negative = text.starts_with('-');
      number.values = {number.negative ? text.substr(1) : text};
      if (!known.Supports(number)) findings.Add({std::string(kUngrounded), where, 0, size});
    }
  }

  static constexpr std::string_view kUngrounded = "a number that no passage, tool or fact bears out";
};

}  // namespace

MadeVerifier MakeNumberVerifier(const VerifierSpec& spec, const Clock& clock) {
  return std::make_unique<NumberVerifier>(spec, clock);
}

}  // namespace surety::gateway
