#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gateway/citation_text.h"
#include "gateway/number_words.h"
#include "gateway/strict_json.h"
#include "gateway/text_numbers.h"
#include "gateway/verifier_kinds.h"

namespace surety::gateway {
namespace {

class NumberVerifier : public SpecVerifier {
 public:
  explicit NumberVerifier(const VerifierSpec& spec) : SpecVerifier(spec, "1") {}

  Verdict Check(const AnswerText& answer, const Evidence& evidence, int64_t) const override {
    NumberSet known;
    known.AddToolsAndFacts(evidence);
    for (const Passage& passage : evidence.passages) {
      if (passage.validity.Contains(evidence.as_of_ns)) known.AddText(passage.text);
    }
    std::vector<Finding> findings;
    const std::string plain = WithoutCitations(answer.text, FindCitations(answer.text));
    CheckText(plain, "text", known, findings);
    for (size_t i = 0; i < answer.calls.size(); ++i) {
      const std::string where = fmt::format("calls[{}].arguments", i);
      const std::string& arguments = answer.calls[i].arguments;
      if (arguments.empty()) continue;
      const auto value = ParseStrictJson(arguments);
      if (value) {
        CheckJson(*value, where, arguments.size(), known, findings);
      } else {
        CheckText(arguments, where, known, findings);
      }
    }
    return VerdictOf(std::move(findings));
  }

 private:
  static void CheckText(std::string_view text, const std::string& where, const NumberSet& known,
                        std::vector<Finding>& findings) {
    for (const NumberMention& number : FindNumbers(text)) {
      if (!known.Supports(number)) findings.push_back({std::string(kUngrounded), where, number.offset, number.length});
    }
  }

  // Findings cover the whole of the arguments: a parsed value has no place in them.
  static void CheckJson(const boost::json::value& value, const std::string& where, size_t size, const NumberSet& known,
                        std::vector<Finding>& findings) {
    if (value.is_object()) {
      for (const auto& member : value.get_object()) CheckJson(member.value(), where, size, known, findings);
    } else if (value.is_array()) {
      for (const auto& item : value.get_array()) CheckJson(item, where, size, known, findings);
    } else if (value.is_string()) {
      std::vector<Finding> inner;
      CheckText(std::string_view(value.get_string()), where, known, inner);
      if (!inner.empty()) findings.push_back({std::string(kUngrounded), where, 0, size});
    } else if (value.is_number()) {
      NumberMention number;
      number.values = {JsonNumberText(value)};
      if (!known.Supports(number)) findings.push_back({std::string(kUngrounded), where, 0, size});
    }
  }

  static constexpr std::string_view kUngrounded = "a number that no passage, tool or fact bears out";
};

}  // namespace

MadeVerifier MakeNumberVerifier(const VerifierSpec& spec) { return std::make_unique<NumberVerifier>(spec); }

}  // namespace surety::gateway
