#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/nearest_name.h"
#include "gateway/answer_views.h"
#include "gateway/citation_text.h"
#include "gateway/personal_data.h"
#include "gateway/verifier_kinds.h"

namespace surety::gateway {
namespace {

std::string JoinedKinds(const std::vector<std::string>& kinds) {
  std::string all;
  for (const std::string& kind : kinds) all += kind + ",";
  return all;
}

class PiiVerifier : public SpecVerifier {
 public:
  PiiVerifier(const VerifierSpec& spec, std::vector<PersonalKind> kinds)
      : SpecVerifier(spec, VerifierVersion(1, JoinedKinds(spec.kinds))), kinds_(std::move(kinds)) {}

  Verdict Check(const AnswerText& answer, const Evidence& evidence, int64_t) const override {
    std::vector<Finding> findings;
    for (const AnswerView& view : ViewsOf(answer)) {
      const std::string text = WithoutKnownKeys(view.text, evidence);
      for (const PersonalItem& item : FindPersonalData(text, kinds_)) {
        // Two numbers side by side in joined fields may look like one.
        if (item.shape && view.kind == AnswerView::Kind::kJoined) continue;
        std::string what = "personal data: " + std::string(NameOf(item.kind));
        if (!item.detail.empty()) what += " (" + item.detail + ")";
        if (item.shape) what += ", by its shape";
        Finding finding = view.Locate(std::move(what), item.offset, item.offset + item.length);
        const bool known = std::ranges::any_of(findings, [&finding](const Finding& f) {
          return f.where == finding.where && f.offset == finding.offset && f.what == finding.what;
        });
        if (!known) findings.push_back(std::move(finding));
      }
    }
    return VerdictOf(std::move(findings));
  }

 private:
  // [terms:2@v1.final] is no address, where it names a passage of the evidence.
  static std::string WithoutKnownKeys(std::string text, const Evidence& evidence) {
    for (const Citation& citation : FindCitations(text)) {
      if (FindPassage(evidence, citation.key) == nullptr) continue;
      std::fill_n(text.begin() + static_cast<ptrdiff_t>(citation.offset) + 1, citation.key.size(), ',');
    }
    return text;
  }

  std::vector<PersonalKind> kinds_;
};

}  // namespace

MadeVerifier MakePiiVerifier(const VerifierSpec& spec) {
  std::vector<PersonalKind> kinds;
  std::vector<std::string> names;
  for (int i = 0; i < kPersonalKindCount; ++i) names.emplace_back(NameOf(static_cast<PersonalKind>(i)));
  for (const std::string& name : spec.kinds) {
    const auto kind = PersonalKindOf(name);
    if (!kind) {
      const std::string nearest = NearestName(name, names);
      return Error(SpecError(spec, "unknown kind of personal data '" + name + "'" +
                                       (nearest.empty() ? "; known: " + JoinedKinds(names)
                                                        : "; did you mean '" + nearest + "'?")));
    }
    kinds.push_back(*kind);
  }
  return std::make_unique<PiiVerifier>(spec, std::move(kinds));
}

}  // namespace surety::gateway
