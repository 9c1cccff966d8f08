// The table that a policy's form is: for each value how it is read and what its JSON schema says, side by side, so that
// the reader and the schema for editors cannot differ.
//
// A Shape<T> reads a YAML value into a T and knows its schema; Fields<T> makes the shape of a map from the shapes of
// its keys. A fault is noted with its place and reading goes on, so that one run shows what is wrong in the whole file.
// Threads: a PolicyReading belongs to one thread; shapes are immutable once made.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json.hpp>

#include "base/file.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "gateway/yaml_tree.h"

namespace surety::gateway {

// What one reading of a file has found.
class PolicyReading {
 public:
  // A place where a name of another part of the file is used.
  struct Reference {
    std::string kind, name, path;    // kind: "model", ...
    std::string of;                  // the subject of a condition whose label it is
    int line = 1, column = 1;
  };

  PolicyReading(FileSystem& files, std::string path);

  void Fail(const YamlNode& node, std::string_view what) { FailAt(node.line, node.column, Path(), what); }
  void FailAt(int line, int column, std::string_view path, std::string_view what);
  bool failed() const { return n_faults_ > 0; }
  Status status() const;

  // Reads the file that `node` names, relative to the policy's folder; it becomes part of the digest. nullptr: a fault
  // was noted.
  const std::string* File(const YamlNode& node, int64_t max_bytes);
  void Refer(std::string kind, const YamlNode& node, std::string of = {});

  void Enter(std::string part) { path_.push_back(std::move(part)); }
  void Leave() { path_.pop_back(); }
  std::string Path() const;                                       // "routes[2].cache.ttl"
  const std::vector<Reference>& references() const { return references_; }
  const std::map<std::string, std::string>& files() const { return contents_; }
  const std::string& directory() const { return directory_; }

 private:
  FileSystem& files_;
  std::string name_, directory_;
  std::vector<std::string> path_, faults_;
  size_t n_faults_ = 0;
  int64_t bytes_read_ = 0;
  std::vector<Reference> references_;
  std::map<std::string, std::string> contents_;                   // by name as written
};

// "; did you mean 'x'?", or the known names where they are few.
std::string PolicyHint(std::string_view name, std::span<const std::string> known);

template <typename T>
struct Shape {
  boost::json::object schema;
  std::function<bool(PolicyReading&, const YamlNode&, T&)> read;  // false: a fault was noted
};

// Texts.
Shape<std::string> TextShape(size_t max_bytes = 256);
Shape<std::string> NameShape();                                   // letters, digits, - and _; at most 64
Shape<std::string> LabelShape();                                  // a text without control characters, at most 128
Shape<std::string> UrlShape();
Shape<std::string> ReferenceShape(std::string kind);              // of a name that another part defines
Shape<std::string> FileNameShape(int64_t max_bytes);              // the file becomes part of the digest
Shape<std::string> TextOrFileShape(size_t max_bytes);             // a text, or {file: NAME}
Shape<std::vector<std::string>> PhrasesShape();                   // a list, or the name of a file with one a line
Shape<std::string> PatternShape();                                // RE2
// Values.
Shape<bool> BoolShape();
Shape<int64_t> IntegerShape(int64_t min, int64_t max);
Shape<int> IntShape(int min, int max);
Shape<double> NumberShape(double min, double max);
Shape<int64_t> DurationShape();
Shape<int64_t> SizeShape();
Shape<int64_t> InstantShape();
Shape<double> ShareShape();

// Reads the text of a scalar; a fault says what is wanted instead of what stands there.
bool ReadScalar(PolicyReading& reading, const YamlNode& node, std::string_view wanted, std::string& out);
bool ReadPlain(PolicyReading& reading, const YamlNode& node, std::string_view wanted, std::string& out);

template <typename E>
Shape<E> EnumShape(std::vector<std::pair<std::string, E>> names) {
  Shape<E> shape;
  boost::json::array allowed;
  std::vector<std::string> known;
  for (const auto& [name, value] : names) {
    allowed.push_back(boost::json::string(name));
    known.push_back(name);
  }
  shape.schema["enum"] = std::move(allowed);
  shape.read = [names = std::move(names), known = std::move(known)](PolicyReading& reading, const YamlNode& node,
                                                                    E& out) {
    std::string text;
    if (!ReadScalar(reading, node, "one of its names", text)) return false;
    for (const auto& [name, value] : names) {
      if (name != text) continue;
      out = value;
      return true;
    }
    reading.Fail(node, "'" + text + "' is not one of its values" + PolicyHint(text, known));
    return false;
  };
  return shape;
}

template <typename T>
Shape<std::vector<T>> ListShape(Shape<T> item, size_t max_items, size_t min_items = 0, bool unique = false) {
  Shape<std::vector<T>> shape;
  shape.schema["type"] = "array";
  shape.schema["items"] = item.schema;
  shape.schema["maxItems"] = max_items;
  if (min_items > 0) shape.schema["minItems"] = min_items;
  if (unique) shape.schema["uniqueItems"] = true;
  shape.read = [item = std::move(item), max_items, min_items, unique](PolicyReading& reading, const YamlNode& node,
                                                                      std::vector<T>& out) {
    if (node.kind != YamlNode::Kind::kList) {
      reading.Fail(node, "a list is wanted, as in [a, b]; here stands " + std::string(DescribeKind(node)));
      return false;
    }
    if (node.items.size() > max_items || node.items.size() < min_items) {
      reading.Fail(node, "a list of " + std::to_string(min_items) + " to " + std::to_string(max_items) +
                             " is wanted; here stand " + std::to_string(node.items.size()));
      return false;
    }
    bool good = true;
    for (size_t i = 0; i < node.items.size(); ++i) {
      reading.Enter("[" + std::to_string(i) + "]");
      T value{};
      const bool read = item.read(reading, node.items[i], value);
      if constexpr (requires { value == value; }) {
        if (read && unique && std::find(out.begin(), out.end(), value) != out.end()) {
          reading.Fail(node.items[i], "stands in this list twice");
          good = false;
        }
      }
      if (read) out.push_back(std::move(value));
      good = good && read;
      reading.Leave();
    }
    return good;
  };
  return shape;
}

// A map whose keys are names that the file gives. `set_name`: puts the key into the value before it is read.
template <typename T>
Shape<std::vector<std::pair<std::string, T>>> NamedShape(Shape<std::string> key, Shape<T> value, size_t max_entries,
                                                         std::function<void(T&, const std::string&)> set_name = {}) {
  Shape<std::vector<std::pair<std::string, T>>> shape;
  shape.schema["type"] = "object";
  shape.schema["additionalProperties"] = value.schema;
  shape.schema["propertyNames"] = key.schema;
  shape.schema["maxProperties"] = max_entries;
  shape.read = [key = std::move(key), value = std::move(value), max_entries, set_name = std::move(set_name)](
                   PolicyReading& reading, const YamlNode& node, std::vector<std::pair<std::string, T>>& out) {
    if (node.kind != YamlNode::Kind::kMap || node.entries.size() > max_entries) {
      reading.Fail(node, node.kind == YamlNode::Kind::kMap
                             ? "more than " + std::to_string(max_entries) + " entries"
                             : "a map of names is wanted, as in {NAME: ...}; here stands " +
                                   std::string(DescribeKind(node)));
      return false;
    }
    bool good = true;
    for (const YamlNode::Entry& entry : node.entries) {
      YamlNode key_node;
      key_node.kind = YamlNode::Kind::kScalar;
      key_node.text = entry.key;
      key_node.line = entry.line;
      key_node.column = entry.column;
      std::pair<std::string, T> made;
      const bool named = key.read(reading, key_node, made.first);
      reading.Enter(entry.key);
      if (set_name && named) set_name(made.second, made.first);
      const bool read = value.read(reading, entry.value, made.second);
      reading.Leave();
      if (named && read) out.push_back(std::move(made));
      good = good && named && read;
    }
    return good;
  };
  return shape;
}

// The first shape whose kind of value stands there reads it: for values with a short form.
template <typename T>
Shape<T> EitherShape(Shape<T> scalar, Shape<T> other) {
  Shape<T> shape;
  shape.schema["anyOf"] = boost::json::array{scalar.schema, other.schema};
  shape.read = [scalar = std::move(scalar), other = std::move(other)](PolicyReading& reading, const YamlNode& node,
                                                                      T& out) {
    return (node.kind == YamlNode::Kind::kScalar ? scalar : other).read(reading, node, out);
  };
  return shape;
}

enum class Presence { kOptional, kRequired };

template <typename T>
class Fields {
 public:
  using Check = std::function<void(PolicyReading&, const YamlNode&, T&)>;

  explicit Fields(std::string about) : about_(std::move(about)) {}

  // `help`: one line with the default, for editors.
  template <typename U>
  Fields& Add(std::string name, U T::*member, Shape<U> shape, std::string help,
              Presence presence = Presence::kOptional) {
    return AddWith<U>(std::move(name), std::move(shape), std::move(help),
                      [member](T& out, U value) { out.*member = std::move(value); }, presence);
  }
  template <typename U>
  Fields& AddWith(std::string name, Shape<U> shape, std::string help, std::function<void(T&, U)> set,
                  Presence presence = Presence::kOptional) {
    boost::json::object schema = shape.schema;
    schema["description"] = help;
    fields_.push_back({std::move(name), std::move(schema), presence == Presence::kRequired,
                       [shape = std::move(shape), set = std::move(set)](PolicyReading& reading, const YamlNode& node,
                                                                        T& out) {
                         U value{};
                         if (!shape.read(reading, node, value)) return false;
                         set(out, std::move(value));
                         return true;
                       }});
    return *this;
  }
  // Keys that several maps have: `add` adds them.
  Fields& Also(void (*add)(Fields&)) {
    add(*this);
    return *this;
  }
  // After all keys were read without a fault.
  Fields& Then(Check check) {
    checks_.push_back(std::move(check));
    return *this;
  }
  Fields& Line(int T::*member) {
    line_ = member;
    return *this;
  }

  Shape<T> Done() {
    Shape<T> shape;
    shape.schema["type"] = "object";
    if (!about_.empty()) shape.schema["description"] = about_;
    boost::json::object properties;
    boost::json::array required;
    auto known = std::make_shared<std::vector<std::string>>();
    for (const Field& field : fields_) {
      properties[field.name] = field.schema;
      if (field.required) required.push_back(boost::json::string(field.name));
      known->push_back(field.name);
    }
    shape.schema["properties"] = std::move(properties);
    if (!required.empty()) shape.schema["required"] = std::move(required);
    shape.schema["additionalProperties"] = false;
    shape.read = [self = std::make_shared<Fields>(std::move(*this)), known](PolicyReading& reading,
                                                                            const YamlNode& node, T& out) {
      return self->Read(reading, node, *known, out);
    };
    return shape;
  }

 private:
  struct Field {
    std::string name;
    boost::json::object schema;
    bool required = false;
    std::function<bool(PolicyReading&, const YamlNode&, T&)> read;
  };

  bool Read(PolicyReading& reading, const YamlNode& node, const std::vector<std::string>& known, T& out) const {
    if (node.kind != YamlNode::Kind::kMap) {
      reading.Fail(node, "a map is wanted, as in {" + (known.empty() ? "" : known.front()) + ": ...}; here stands " +
                             std::string(DescribeKind(node)));
      return false;
    }
    bool good = true;
    if (line_ != nullptr) out.*line_ = node.line;
    for (const YamlNode::Entry& entry : node.entries) {
      const auto field = std::find_if(fields_.begin(), fields_.end(),
                                      [&](const Field& candidate) { return candidate.name == entry.key; });
      if (field == fields_.end()) {
        reading.FailAt(entry.line, entry.column, reading.Path(),
                       "unknown key '" + entry.key + "'" + PolicyHint(entry.key, known));
        good = false;
        continue;
      }
      reading.Enter(entry.key);
      good = field->read(reading, entry.value, out) && good;
      reading.Leave();
    }
    for (const Field& field : fields_) {
      if (!field.required || node.Find(field.name) != nullptr) continue;
      reading.Fail(node, "the key '" + field.name + "' is missing");
      good = false;
    }
    if (!good) return false;
    const bool failed_before = reading.failed();
    for (const Check& check : checks_) check(reading, node, out);
    return failed_before || !reading.failed();
  }

  std::string about_;
  std::vector<Field> fields_;
  std::vector<Check> checks_;
  int T::*line_ = nullptr;
};

}  // namespace surety::gateway
