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
Shape<std::string> PersonalKindShape();   // of personal_data.h: another word would never be looked for
Shape<Named<VerifierSpec>> VerifiersShape();
Shape<Named<TemplateSpec>> TemplatesShape();
// policy_form_access.cc
Shape<SecretSource> SecretShape();
Shape<std::string> CertificateFileShape();
Shape<Named<SecretSource>> HeadersShape();
void CheckAccess(PolicyReading& reading, const YamlNode& node, const HttpAccess& access, std::string_view url);
// The keys of HttpAccess, for what has a member `access`.
inline constexpr std::string_view kAccessKeys[] = {"ca_file", "headers", "client_certificate", "client_key"};
template <typename T>
void AddAccess(Fields<T>& fields) {
  fields
      .template AddWith<std::string>("ca_file", CertificateFileShape(),
                                     "https: a file of authorities that are trusted beside the system's (none)",
                                     [](T& out, std::string name) { out.access.ca_file = std::move(name); })
      .template AddWith<Named<SecretSource>>(
          "headers", HeadersShape(), "sent with each call: NAME: os.environ/NAME or {file: NAME} (none)",
          [](T& out, Named<SecretSource> headers) {
            for (auto& [name, secret] : headers) out.access.headers.emplace(std::move(name), std::move(secret));
          })
      .template AddWith<std::string>("client_certificate", CertificateFileShape(),
                                     "https: a file with the certificate of this side and its chain (none)",
                                     [](T& out, std::string name) { out.access.client_certificate = std::move(name); })
      .template AddWith<std::string>("client_key", TextShape(1024), "the file of its key, without a pass phrase",
                                     [](T& out, std::string name) { out.access.client_key = std::move(name); });
}
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
