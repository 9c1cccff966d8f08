#include "gateway/yaml_tree.h"

#include <algorithm>
#include <exception>
#include <set>
#include <sstream>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <utf8proc.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

namespace surety::gateway {
namespace {

// Builds the tree from the parser's events. The first fault is kept and the rest of the events is let pass, so that
// nothing is thrown through the parser.
class YamlTreeBuilder final : public YAML::EventHandler {
 public:
  explicit YamlTreeBuilder(const YamlLimits& limits) : limits_(limits) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (Accept(mark, anchor, "")) Put(Made(YamlNode::Kind::kNull, mark));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Fail(mark, "an alias (*name) is not allowed: write the value where it is meant");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (!Accept(mark, anchor, tag)) return;
    YamlNode node = Made(YamlNode::Kind::kScalar, mark);
    node.text = value;
    node.quoted = tag == "!";
    Put(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kList, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kMap, mark, tag, anchor);
  }
  void OnMapEnd() override { Close(); }

  const std::string& fault() const { return fault_; }
  YamlNode Take() { return std::move(root_); }

 private:
  struct Level {
    YamlNode node;
    bool has_key = false;
    YamlNode::Entry entry;         // whose value comes next
    std::set<std::string> keys;
  };

  static YamlNode Made(YamlNode::Kind kind, const YAML::Mark& mark) {
    YamlNode node;
    node.kind = kind;
    node.line = std::max(0, mark.line) + 1;
    node.column = std::max(0, mark.column) + 1;
    return node;
  }
  void Fail(const YAML::Mark& mark, std::string_view what) {
    if (fault_.empty())
      fault_ = fmt::format("{}:{}: {}", std::max(0, mark.line) + 1, std::max(0, mark.column) + 1, what);
  }
  bool Accept(const YAML::Mark& mark, YAML::anchor_t anchor, std::string_view tag) {
    if (anchor != YAML::NullAnchor) Fail(mark, "an anchor (&name) is not allowed: write the value where it is meant");
    if (!tag.empty() && tag != "?" && tag != "!") Fail(mark, fmt::format("a tag ({}) is not allowed", tag));
    if (++n_nodes_ > limits_.max_nodes) Fail(mark, fmt::format("more than {} values", limits_.max_nodes));
    return fault_.empty();
  }
  void Open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (!Accept(mark, anchor, tag)) return;
    if (static_cast<int>(levels_.size()) >= limits_.max_depth) {
      return Fail(mark, fmt::format("nested deeper than {} levels", limits_.max_depth));
    }
    if (!levels_.empty() && levels_.back().node.kind == YamlNode::Kind::kMap && !levels_.back().has_key) {
      return Fail(mark, "a key must be a text");
    }
    levels_.push_back({Made(kind, mark), false, {}, {}});
  }
  void Close() {
    if (!fault_.empty() || levels_.empty()) return;
    YamlNode node = std::move(levels_.back().node);
    levels_.pop_back();
    Put(std::move(node));
  }
  void Put(YamlNode node) {
    if (levels_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = levels_.back();
    if (level.node.kind == YamlNode::Kind::kList) {
      level.node.items.push_back(std::move(node));
    } else if (level.has_key) {
      level.entry.value = std::move(node);
      level.node.entries.push_back(std::move(level.entry));
      level.entry = {};
      level.has_key = false;
    } else {
      PutKey(level, std::move(node));
    }
  }
  void PutKey(Level& level, YamlNode node) {
    YAML::Mark mark;
    mark.line = node.line - 1;
    mark.column = node.column - 1;
    if (node.kind != YamlNode::Kind::kScalar) return Fail(mark, "a key must be a text");
    if (node.text == "<<" && !node.quoted) return Fail(mark, "a merge key (<<) is not allowed: write the keys out");
    if (!level.keys.insert(node.text).second)
      return Fail(mark, fmt::format("the key '{}' stands here twice", node.text));
    level.entry = {std::move(node.text), node.line, node.column, {}};
    level.has_key = true;
  }

  YamlLimits limits_;
  std::vector<Level> levels_;
  YamlNode root_;
  size_t n_nodes_ = 0;
  std::string fault_;
};

// Where the text is no UTF-8 or holds a control character; empty: nowhere. The parser would take other encodings for
// granted, and a hidden character in a name is never meant.
std::string YamlTextFault(std::string_view text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  int line = 1, column = 1;
  for (size_t i = 0; i < text.size();) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t n = utf8proc_iterate(bytes + i, static_cast<utf8proc_ssize_t>(text.size() - i), &code);
    if (n <= 0) return fmt::format("{}:{}: not UTF-8", line, column);
    const bool allowed = code == '\n' || code == '\r' || code == '\t';
    if ((code < 0x20 && !allowed) || (code >= 0x7f && code < 0xa0) || code == 0xfeff) {
      return fmt::format("{}:{}: the character U+{:04X} is not allowed in this file", line, column, code);
    }
    i += static_cast<size_t>(n);
    column = code == '\n' ? 1 : column + 1;
    line += code == '\n' ? 1 : 0;
  }
  return {};
}

// The parser reads ahead to the end of a flow collection before it says anything, at a cost that grows with the square
// of the nesting, so that depth is bounded before it starts. Brackets in quotes count too: a text of that many open
// ones belongs into a file of its own.
std::string YamlNestingFault(std::string_view text) {
  constexpr int kMaxOpen = 200;
  int open = 0, n_line = 0;
  for (size_t begin = 0; begin < text.size(); ) {
    const size_t end = std::min(text.find_first_of("\n\r", begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    n_line += end < text.size() && text[end] == '\r' && text.substr(begin).starts_with('\n') ? 0 : 1;
    // A comment's do not count. Where the line has a quote, '#' may stand in a text; where it has another of YAML's
    // line ends, the comment may end before it does: the rest is counted then.
    const bool plain = line.find_first_of("'\"") == std::string_view::npos &&
                       line.find("\u2028") == std::string_view::npos && line.find("\u2029") == std::string_view::npos;
    for (size_t at = line.find('#'); plain && at != std::string_view::npos; at = line.find('#', at + 1)) {
      if (at > 0 && line[at - 1] != ' ' && line[at - 1] != '\t') continue;
      line = line.substr(0, at);
      break;
    }
    for (const char c : line) {
      if (c == '[' || c == '{') ++open;
      if ((c == ']' || c == '}') && open > 0) --open;
      if (open > kMaxOpen) return fmt::format("{}:1: more than {} brackets are open", n_line, kMaxOpen);
    }
  }
  return {};
}

bool IsJsonNumber(std::string_view text) {
  size_t i = text.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const size_t begin = i;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
    return i > begin;
  };
  const size_t first = i;
  if (!digits() || (text[first] == '0' && i > first + 1)) return false;
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (!digits()) return false;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (!digits()) return false;
  }
  return i == text.size();
}

}  // namespace

const YamlNode* YamlNode::Find(std::string_view key) const {
  const auto found = std::ranges::find(entries, key, &Entry::key);
  return found == entries.end() ? nullptr : &found->value;
}

Result<YamlNode> ParseYaml(std::string_view text, const YamlLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return Error(InvalidArgumentError(fmt::format("1:1: {} bytes, more than {}", text.size(), limits.max_bytes)));
  }
  if (std::string fault = YamlTextFault(text); !fault.empty()) return Error(InvalidArgumentError(std::move(fault)));
  if (std::string fault = YamlNestingFault(text); !fault.empty()) return Error(InvalidArgumentError(std::move(fault)));
  YamlTreeBuilder builder(limits);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return Error(InvalidArgumentError("1:1: the file is empty"));
    if (builder.fault().empty() && parser) {
      YamlTreeBuilder more(limits);
      if (parser.HandleNextDocument(more)) {
        return Error(InvalidArgumentError("1:1: several documents (---) in one file; one is wanted"));
      }
    }
  } catch (const YAML::Exception& error) {
    if (builder.fault().empty()) {
      return Error(InvalidArgumentError(fmt::format("{}:{}: {}", std::max(0, error.mark.line) + 1,
                                                    std::max(0, error.mark.column) + 1, error.msg)));
    }
  } catch (const std::exception& error) {
    return Error(InvalidArgumentError(fmt::format("1:1: no YAML: {}", error.what())));
  }
  if (!builder.fault().empty()) return Error(InvalidArgumentError(builder.fault()));
  return builder.Take();
}

std::string_view DescribeKind(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull: return "nothing";
    case YamlNode::Kind::kScalar: return "a text";
    case YamlNode::Kind::kList: return "a list";
    case YamlNode::Kind::kMap: return "a map";
  }
  return "something";
}

boost::json::value JsonOfYaml(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull: return nullptr;
    case YamlNode::Kind::kScalar:
      if (!node.quoted && node.text == "true") return true;
      if (!node.quoted && node.text == "false") return false;
      if (!node.quoted && IsJsonNumber(node.text)) {
        boost::system::error_code ignored;
        if (auto number = boost::json::parse(node.text, ignored); !ignored) return number;
      }
      return boost::json::string(node.text);
    case YamlNode::Kind::kList: {
      boost::json::array out;
      for (const YamlNode& item : node.items) out.push_back(JsonOfYaml(item));
      return out;
    }
    case YamlNode::Kind::kMap: {
      boost::json::object out;
      for (const YamlNode::Entry& entry : node.entries) out[entry.key] = JsonOfYaml(entry.value);
      return out;
    }
  }
  return nullptr;
}

}  // namespace surety::gateway
