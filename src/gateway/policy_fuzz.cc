// Any bytes as a policy file: a fault with its place, or a policy whose names all lead somewhere and which `check` can
// judge.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "gateway/policy_reader.h"
#include "gateway/route_space.h"

namespace surety::gateway {
namespace {

// The files that the inputs of the corpus name.
class FuzzFiles final : public FileSystem {
 public:
  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override { return Error(NotFoundError(path)); }
  Result<std::string> ReadAll(const std::string& path, int64_t) override {
    if (path.ends_with(".txt")) return std::string("one phrase\n# a comment\nanother\n");
    return Error(NotFoundError(path));
  }
  Status WriteAll(const std::string& path, std::string_view) override { return IoError(path); }
  bool Exists(const std::string&) override { return false; }
  bool IsDirectory(const std::string&) override { return false; }
  Result<std::vector<std::string>> List(const std::string& directory) override { return Error(NotFoundError(directory)); }
};

void OnePolicy(std::string_view text) {
  FuzzFiles files;
  const auto policy = ReadPolicyText(files, "fuzz/policy.yaml", text);
  if (!policy) {
    SURETY_CHECK(policy.error().message().starts_with("policy.yaml:"));
    return;
  }
  SURETY_CHECK(!policy->routes.empty() && policy->routes.back().always);
  SURETY_CHECK(policy->digest.size() == 64 && policy->required_dimensions.size() == kDimensionCount);
  for (const RouteSpec& route : policy->routes) {
    SURETY_CHECK(route.model.empty() || policy->models.contains(route.model));
    SURETY_CHECK(route.template_name.empty() || policy->templates.contains(route.template_name));
    for (const FallbackSpec& fallback : route.fallback) SURETY_CHECK(policy->FindRoute(fallback.to) != nullptr);
    for (const std::string& verifier : route.verify) SURETY_CHECK(policy->verifiers.contains(verifier));
  }
  const RouteSpace space = SpaceOf(*policy, 1 << 10);
  SURETY_CHECK(space.routes.size() == policy->routes.size());
}

}  // namespace
}  // namespace surety::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  surety::gateway::OnePolicy(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
