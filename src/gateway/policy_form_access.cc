// How other servers are reached: authorities, a client's certificate, headers, and where secrets lie.
#include <algorithm>

#include <fmt/format.h>

#include "gateway/http_access.h"
#include "gateway/policy_form.h"

namespace surety::gateway {
namespace {

constexpr int64_t kMaxCertificateBytes = 1 << 20;
constexpr size_t kMaxHeaders = 16;

// "os.environ/NAME".
Shape<SecretSource> VariableShape() {
  Shape<SecretSource> shape;
  shape.schema = {{"type", "string"}, {"pattern", "^os\\.environ/[A-Za-z_][A-Za-z0-9_]*$"}};
  shape.read = [](PolicyReading& reading, const YamlNode& node, SecretSource& out) {
    constexpr std::string_view kPrefix = "os.environ/";
    const std::string name = node.text.starts_with(kPrefix) ? node.text.substr(kPrefix.size()) : "";
    const bool good = !name.empty() && (name[0] < '0' || name[0] > '9') && std::ranges::all_of(name, [](char c) {
      return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    });
    if (good) out.variable = name;
    // The text is not repeated: it may be the secret.
    if (!good) {
      reading.Fail(node, "a key does not belong into the policy; name its variable, os.environ/NAME, or {file: NAME}");
    }
    return good;
  };
  return shape;
}

std::string LowerName(std::string name) {
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return name;
}

Shape<std::string> HeaderNameShape() {
  Shape<std::string> shape;
  shape.schema = {{"type", "string"}, {"maxLength", 64}, {"pattern", "^[!#$%&'*+.^_`|~A-Za-z0-9-]+$"}};
  shape.read = [](PolicyReading& reading, const YamlNode& node, std::string& out) {
    out = node.text;
    const std::string fault = out.size() > 64 ? "is longer than 64 bytes" : HeaderFault(out);
    if (!fault.empty()) reading.Fail(node, fmt::format("'{}' {}", out, fault));
    return fault.empty();
  };
  return shape;
}

}  // namespace

Shape<SecretSource> SecretShape() {
  auto from_file = Fields<SecretSource>("a secret that a file holds")
                       .Add("file", &SecretSource::file, TextShape(1024),
                            "its name, relative to the policy; it is not part of the policy's digest",
                            Presence::kRequired)
                       .Done();
  return EitherShape(VariableShape(), std::move(from_file));
}

Shape<std::string> CertificateFileShape() { return FileNameShape(kMaxCertificateBytes); }

Shape<Named<SecretSource>> HeadersShape() {
  return NamedShape<SecretSource>(HeaderNameShape(), SecretShape(), kMaxHeaders);
}

void CheckAccess(PolicyReading& reading, const YamlNode& node, const HttpAccess& access, std::string_view url) {
  if (access.client_certificate.empty() != access.client_key.empty()) {
    reading.Fail(node, "client_certificate and client_key belong together");
  }
  for (const char* key : {"ca_file", "client_certificate"}) {
    const YamlNode* place = node.Find(key);
    if (place == nullptr || url.starts_with("https://")) continue;
    reading.Fail(*place, fmt::format("{} has no effect, as '{}' is not https", key, url));
  }
  std::vector<std::string> seen;
  for (const auto& [name, secret] : access.headers) {
    const std::string lower = LowerName(name);
    const bool twice = std::ranges::find(seen, lower) != seen.end();
    if (twice) reading.Fail(*node.Find("headers"), fmt::format("'{}' stands here twice", name));
    const bool beside_key = lower == "authorization" && node.Find("api_key") != nullptr;
    if (beside_key) reading.Fail(*node.Find("headers"), "api_key is the header Authorization; give one of the two");
    seen.push_back(lower);
  }
}

}  // namespace surety::gateway
