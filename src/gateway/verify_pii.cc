#include <string>
#include <utility>
#include <vector>

#include "base/nearest_name.h"
#include "gateway/answer_views.h"
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
  PiiVerifier(const VerifierSpec& spec, std::vector<PersonalKind> kinds, const Clock& clock)
      : SpecVerifier(spec, VerifierVersion(2, JoinedKinds(spec.kinds)), clock), kinds_(std::move(kinds)) {}

  Verdict Check(const AnswerText& answer, const Evidence& evidence, int64_t deadline_ns) const override {
    FindingList findings;
    for (const AnswerView& view : ViewsOf(answer)) {
      if (Late(deadline_ns)) return LateVerdict();
      for (const PersonalItem& item : FindPersonalData(WithoutKnownKeys(view.text, evidence), kinds_)) {
        // Two numbers side by side in joined fields may look like one.
        if (item.shape && view.kind == AnswerView::Kind::kJoined) continue;
        std::string what = "personal data: " + std::string(NameOf(item.kind));
        if (!item.detail.empty()) what += " (" + item.detail + ")";
        if (item.shape) what += ", by its shape";
        findings.Add(view.Locate(std::move(what), item.offset, item.offset + item.length));
      }
      if (findings.full()) break;
    }
    return VerdictOf(findings.Take());
  }

 private:
  std::vector<PersonalKind> kinds_;
};

}  // namespace

MadeVerifier MakePiiVerifier(const VerifierSpec& spec, const Clock& clock) {
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
  return std::make_unique<PiiVerifier>(spec, std::move(kinds), clock);
}

}  // namespace surety::gateway
