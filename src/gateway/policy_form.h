// The form of a policy file, part by part. Internal to the reader: policy_reader.h is the way in.
//
// Threads: any; each call makes the shape anew.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/policy.h"
#include "gateway/policy_shape.h"

namespace surety::gateway {

template <typename T>
using Named = std::vector<std::pair<std::string, T>>;

struct WhenForm {
  bool always = false;
  When when;
};

// policy_form_identity.cc
Shape<DimensionSource> DimensionSourceShape(Dimension dimension);
Shape<Policy> IdentityShape();
Shape<Named<SignalSpec>> SignalsShape();
Shape<LevelSpec> LevelShape(bool of_complexity);
Shape<Level> LevelNameShape();
// Where conditions stand: in a rule of risk signals alone are known, in one of complexity risk too, in a route all.
enum class WhenPlace { kRisk, kComplexity, kRoute };
Shape<WhenForm> WhenShape(WhenPlace place);
// policy_form_parts.cc
Shape<Named<ModelSpec>> ModelsShape();
Shape<Named<RetrieverSpec>> RetrieversShape();
Shape<Named<ToolSpec>> ToolsShape();
Shape<std::vector<InvariantSpec>> InvariantsShape();
Shape<Named<VerifierSpec>> VerifiersShape();
Shape<Named<TemplateSpec>> TemplatesShape();
// policy_form_routes.cc
Shape<std::vector<RouteSpec>> RoutesShape();
Shape<Named<ContextSpec>> ContextsShape();
// policy_form_limits.cc
Shape<std::vector<BudgetSpec>> BudgetsShape();
Shape<Named<SloSpec>> SlosShape();
Shape<Named<ReviewQueueSpec>> ReviewShape();
Shape<Policy> PolicyShape();

// Which keys a map needs and may have besides `common`, once its kind is known.
struct KeyRule {
  std::string_view kind;                                // "by: pattern"
  std::vector<std::string_view> required, optional;
};
void CheckKeys(PolicyReading& reading, const YamlNode& node, const KeyRule& rule,
               std::initializer_list<std::string_view> common);

// Every name that was referred to is defined, and what two parts say fits together. Notes faults.
void CheckPolicyLinks(PolicyReading& reading, const YamlNode& root, const Policy& policy);
// The names in "{name}" of a text, in order.
std::vector<std::string> PlaceholdersOf(std::string_view text);

}  // namespace surety::gateway
