#include "gateway/policy_reader.h"

#include <filesystem>
#include <span>

#include <fmt/format.h>

#include "base/hash.h"
#include "gateway/policy_form.h"
#include "gateway/yaml_tree.h"

namespace surety::gateway {
namespace {

constexpr int64_t kMaxPolicyBytes = 1 << 20;

const Shape<Policy>& TheShape() {
  static const Shape<Policy>* shape = new Shape<Policy>(PolicyShape());
  return *shape;
}

void HashPart(Sha256& hash, std::string_view part) {
  uint8_t length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(part.size() >> (8 * i));
  hash.Update(std::as_bytes(std::span(length)));
  hash.Update(std::as_bytes(std::span(part.data(), part.size())));
}

std::string DigestOfFiles(std::string_view text, const std::map<std::string, std::string>& files) {
  Sha256 hash;
  HashPart(hash, "surety-policy-1");
  HashPart(hash, text);
  for (const auto& [name, contents] : files) {
    HashPart(hash, name);
    HashPart(hash, contents);
  }
  return HexOf(hash.Finish());
}

}  // namespace

Result<Policy> ReadPolicy(FileSystem& files, const std::string& path) {
  SURETY_ASSIGN_OR_RETURN(const std::string text, files.ReadAll(path, kMaxPolicyBytes));
  return ReadPolicyText(files, path, text);
}

Result<Policy> ReadPolicyText(FileSystem& files, const std::string& path, std::string_view text) {
  const std::string name = std::filesystem::path(path).filename().string();
  const auto root = ParseYaml(text);
  if (!root) return Error(InvalidArgumentError(fmt::format("{}:{}", name, root.error().message())));
  PolicyReading reading(files, path);
  Policy policy;
  // Names are looked up only in a file whose parts could all be read: a part that failed would be missed everywhere.
  if (TheShape().read(reading, *root, policy) && !reading.failed()) CheckPolicyLinks(reading, *root, policy);
  if (reading.failed()) return Error(reading.status());
  policy.path = path;
  policy.digest = DigestOfFiles(text, reading.files());
  return policy;
}

boost::json::object PolicySchema() {
  boost::json::object schema;
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "surety policy";
  for (const auto& [key, value] : TheShape().schema) schema[key] = value;
  return schema;
}

}  // namespace surety::gateway
