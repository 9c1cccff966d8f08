// Any bytes as YAML: a fault with its place, or a tree within the limits whose places are in the file and whose keys
// stand once.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/check.h"
#include "gateway/yaml_tree.h"

namespace surety::gateway {
namespace {

constexpr YamlLimits kFuzzLimits{.max_bytes = 4096, .max_nodes = 500, .max_depth = 8};

void CheckNode(const YamlNode& node, int depth, int n_lines, size_t& n_nodes) {
  SURETY_CHECK(depth <= kFuzzLimits.max_depth && ++n_nodes <= kFuzzLimits.max_nodes);
  SURETY_CHECK(node.line >= 1 && node.line <= n_lines && node.column >= 1);
  SURETY_CHECK(node.kind == YamlNode::Kind::kScalar || node.text.empty());
  for (const YamlNode& item : node.items) CheckNode(item, depth + 1, n_lines, n_nodes);
  std::set<std::string> keys;
  for (const YamlNode::Entry& entry : node.entries) {
    SURETY_CHECK(keys.insert(entry.key).second);
    SURETY_CHECK(node.Find(entry.key) == &entry.value);
    CheckNode(entry.value, depth + 1, n_lines, n_nodes);
  }
}

}  // namespace
}  // namespace surety::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tree = surety::gateway::ParseYaml(text, surety::gateway::kFuzzLimits);
  if (!tree) {
    const std::string& message = tree.error().message();
    SURETY_CHECK(!message.empty() && message[0] >= '1' && message[0] <= '9' && message.find(':') != std::string::npos);
    return 0;
  }
  SURETY_CHECK(size <= surety::gateway::kFuzzLimits.max_bytes);
  size_t n_nodes = 0;
  const auto n_ends = std::ranges::count_if(text, [](char c) { return c == '\n' || c == '\r'; });
  surety::gateway::CheckNode(*tree, 0, static_cast<int>(n_ends) + 2, n_nodes);
  (void)surety::gateway::JsonOfYaml(*tree);
  return 0;
}
