// A YAML file as a tree with the place of every value: the strict part of the language that a policy needs.
//
// Refused are anchors, aliases, merge keys, tags, several documents, duplicate keys, keys that are no texts, and
// whatever is larger or deeper than the limits. Scalars stay texts: what they mean is the reader's choice, so that
// `version: 1.10` is never 1.1.
// Threads: values. Errors: kInvalidArgument, "LINE:COLUMN: what is wrong". Never throws.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json/value.hpp>

#include "base/status.h"

namespace surety::gateway {

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  struct Entry;
  Kind kind = Kind::kNull;
  std::string text;              // kScalar
  bool quoted = false;           // kScalar: in quotes or as a block, so a text whatever stands in it
  int line = 1, column = 1;
  std::vector<YamlNode> items;   // kList
  std::vector<Entry> entries;    // kMap, in the order of the file

  const YamlNode* Find(std::string_view key) const;
};

struct YamlNode::Entry {
  std::string key;
  int line = 1, column = 1;      // of the key
  YamlNode value;
};

struct YamlLimits {
  size_t max_bytes = 1 << 20;
  size_t max_nodes = 100'000;
  int max_depth = 16;
};

Result<YamlNode> ParseYaml(std::string_view text, const YamlLimits& limits = {});

// "a list", "a map", "a text", "nothing": for messages.
std::string_view DescribeKind(const YamlNode& node);
// Plain scalars become null, true, false and numbers as JSON writes them; everything else is a text.
boost::json::value JsonOfYaml(const YamlNode& node);

}  // namespace surety::gateway
