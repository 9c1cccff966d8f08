#include "gateway/policy_shape.h"

#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <re2/re2.h>

#include "gateway/http_client.h"
#include "gateway/policy_values.h"

namespace surety::gateway {
namespace {

constexpr size_t kMaxShownFaults = 10;
constexpr int64_t kMaxAllFileBytes = 512LL << 20;
constexpr int64_t kMaxListFileBytes = 4LL << 20;
constexpr size_t kMaxPhrases = 10'000;
constexpr size_t kMaxPhraseBytes = 512;

// A shape of scalars that `parse` reads; its message already says what would be right.
template <typename T, typename Parse>
Shape<T> ScalarShape(boost::json::object schema, std::string wanted, Parse parse) {
  Shape<T> shape;
  shape.schema = std::move(schema);
  shape.read = [wanted = std::move(wanted), parse = std::move(parse)](PolicyReading& reading, const YamlNode& node,
                                                                      T& out) {
    std::string text;
    if (!ReadPlain(reading, node, wanted, text)) return false;
    auto value = parse(text);
    if (!value) {
      reading.Fail(node, value.error().message());
      return false;
    }
    out = *std::move(value);
    return true;
  };
  return shape;
}

boost::json::object TextSchema(size_t max_bytes) {
  return {{"type", boost::json::array{"string", "number", "boolean"}}, {"maxLength", max_bytes}};
}

// Why a text is too long, empty or has control characters; empty: it is good.
std::string TextFault(std::string_view text, size_t max_bytes, bool lines) {
  if (text.empty()) return "an empty text; leave the key away or say something";
  if (text.size() > max_bytes) return fmt::format("{} bytes, more than {}", text.size(), max_bytes);
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x20 || (lines && (c == '\n' || c == '\t'))) continue;
    return "a line break or control character where one line is wanted";
  }
  return {};
}

Shape<std::string> CheckedText(boost::json::object schema, std::function<std::string(const std::string&)> fault) {
  Shape<std::string> shape;
  shape.schema = std::move(schema);
  shape.read = [fault = std::move(fault)](PolicyReading& reading, const YamlNode& node, std::string& out) {
    if (!ReadScalar(reading, node, "a text", out)) return false;
    const std::string what = fault(out);
    if (!what.empty()) reading.Fail(node, what);
    return what.empty();
  };
  return shape;
}

// Phrases of a file, one a line; '#' at the start of a line makes it a comment.
bool PhrasesOfFile(PolicyReading& reading, const YamlNode& node, const std::string& contents,
                   std::vector<std::string>& out) {
  int number = 0;
  for (size_t begin = 0; begin <= contents.size(); ++number) {
    const size_t end = std::min(contents.find('\n', begin), contents.size());
    std::string_view line(contents.data() + begin, end - begin);
    begin = end + 1;
    const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    while (!line.empty() && blank(line.front())) line.remove_prefix(1);
    while (!line.empty() && blank(line.back())) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    const std::string fault = TextFault(line, kMaxPhraseBytes, false);
    if (!fault.empty()) reading.Fail(node, fmt::format("line {} of '{}': {}", number + 1, node.text, fault));
    if (out.size() >= kMaxPhrases) reading.Fail(node, fmt::format("'{}': more than {} phrases", node.text, kMaxPhrases));
    if (!fault.empty() || out.size() >= kMaxPhrases) return false;
    out.emplace_back(line);
  }
  if (out.empty()) reading.Fail(node, fmt::format("'{}' holds no phrase", node.text));
  return !out.empty();
}

}  // namespace

PolicyReading::PolicyReading(FileSystem& files, std::string path) : files_(files) {
  const std::filesystem::path whole(std::move(path));
  name_ = whole.filename().string();
  directory_ = whole.parent_path().string();
}

void PolicyReading::FailAt(int line, int column, std::string_view path, std::string_view what) {
  if (++n_faults_ > kMaxShownFaults) return;
  faults_.push_back(fmt::format("{}:{}:{}: {}{}{}", name_, line, column, path, path.empty() ? "" : ": ", what));
}

Status PolicyReading::status() const {
  if (n_faults_ == 0) return OkStatus();
  std::string all = fmt::format("{}", fmt::join(faults_, "\n"));
  if (n_faults_ > faults_.size()) all += fmt::format("\n{}: and {} more", name_, n_faults_ - faults_.size());
  return InvalidArgumentError(std::move(all));
}

const std::string* PolicyReading::File(const YamlNode& node, int64_t max_bytes) {
  if (const auto known = contents_.find(node.text); known != contents_.end()) return &known->second;
  const std::filesystem::path relative(node.text);
  const std::string path = relative.is_absolute() ? node.text : (std::filesystem::path(directory_) / relative).string();
  auto contents = files_.ReadAll(path, std::min(max_bytes, kMaxAllFileBytes - bytes_read_));
  if (!contents) {
    Fail(node, contents.error().message());
    return nullptr;
  }
  bytes_read_ += static_cast<int64_t>(contents->size());
  return &contents_.emplace(node.text, *std::move(contents)).first->second;
}

void PolicyReading::Refer(std::string kind, const YamlNode& node, std::string of) {
  references_.push_back({std::move(kind), node.text, Path(), std::move(of), node.line, node.column});
}

std::string PolicyReading::Path() const {
  std::string out;
  for (const std::string& part : path_) out += (out.empty() || part.starts_with('[') ? "" : ".") + part;
  return out;
}

std::string PolicyHint(std::string_view name, std::span<const std::string> known) {
  const std::string nearest = NearestName(name, known);
  if (!nearest.empty()) return fmt::format("; did you mean '{}'?", nearest);
  if (known.empty()) return "; there is none";
  if (known.size() <= 24) return fmt::format("; there is {}", fmt::join(known, ", "));
  return {};
}

bool ReadScalar(PolicyReading& reading, const YamlNode& node, std::string_view wanted, std::string& out) {
  if (node.kind == YamlNode::Kind::kScalar) {
    out = node.text;
    return true;
  }
  reading.Fail(node, fmt::format("{} is wanted; here stands {}", wanted, DescribeKind(node)));
  return false;
}

bool ReadPlain(PolicyReading& reading, const YamlNode& node, std::string_view wanted, std::string& out) {
  if (!ReadScalar(reading, node, wanted, out)) return false;
  if (!node.quoted) return true;
  reading.Fail(node, fmt::format("{} is wanted, without quotes; here stands the text '{}'", wanted, node.text));
  return false;
}

Shape<std::string> TextShape(size_t max_bytes) {
  return CheckedText(TextSchema(max_bytes),
                     [max_bytes](const std::string& text) { return TextFault(text, max_bytes, true); });
}

Shape<std::string> NameShape() {
  return CheckedText({{"type", "string"}, {"pattern", "^[A-Za-z0-9_-]{1,64}$"}}, [](const std::string& text) {
    bool good = !text.empty() && text.size() <= 64;
    for (const char c : text) {
      good = good && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-');
    }
    return good ? std::string() : fmt::format("'{}' is no name: 1 to 64 letters, digits, - or _", text);
  });
}

Shape<std::string> LabelShape() {
  return CheckedText(TextSchema(128), [](const std::string& text) { return TextFault(text, 128, false); });
}

Shape<std::string> UrlShape() {
  return CheckedText({{"type", "string"}, {"pattern", "^https?://"}}, [](const std::string& text) {
    const auto address = ParseHttpAddress(text);
    return address ? std::string() : address.error().message();
  });
}

Shape<std::string> ReferenceShape(std::string kind) {
  Shape<std::string> shape;
  shape.schema = {{"type", "string"}};
  shape.read = [kind = std::move(kind)](PolicyReading& reading, const YamlNode& node, std::string& out) {
    if (!ReadScalar(reading, node, "the name of a " + kind, out)) return false;
    reading.Refer(kind, node);
    return true;
  };
  return shape;
}

Shape<std::string> FileNameShape(int64_t max_bytes) {
  Shape<std::string> shape;
  shape.schema = {{"type", "string"}, {"maxLength", 1024}};
  shape.read = [max_bytes](PolicyReading& reading, const YamlNode& node, std::string& out) {
    if (!ReadScalar(reading, node, "the name of a file", out)) return false;
    if (const std::string fault = TextFault(out, 1024, false); !fault.empty()) {
      reading.Fail(node, fault);
      return false;
    }
    return reading.File(node, max_bytes) != nullptr;
  };
  return shape;
}

Shape<std::string> TextOrFileShape(size_t max_bytes) {
  struct FileForm {
    std::string file;
  };
  const auto form = Fields<FileForm>("the text of a file")
                        .Add("file", &FileForm::file, FileNameShape(static_cast<int64_t>(max_bytes)),
                             "its name, relative to the policy", Presence::kRequired)
                        .Done();
  Shape<std::string> from_file;
  from_file.schema = form.schema;
  from_file.read = [form, max_bytes](PolicyReading& reading, const YamlNode& node, std::string& out) {
    FileForm made;
    if (!form.read(reading, node, made)) return false;
    const YamlNode& name = *node.Find("file");
    out = *reading.File(name, static_cast<int64_t>(max_bytes));
    while (out.ends_with('\n') || out.ends_with('\r')) out.pop_back();
    const bool empty = out.empty();
    if (empty) reading.Fail(name, fmt::format("'{}' is empty", name.text));
    return !empty;
  };
  return EitherShape(TextShape(max_bytes), std::move(from_file));
}

Shape<std::vector<std::string>> PhrasesShape() {
  Shape<std::vector<std::string>> from_file;
  from_file.schema = {{"type", "string"}, {"maxLength", 1024}};
  from_file.read = [](PolicyReading& reading, const YamlNode& node, std::vector<std::string>& out) {
    std::string ignored;
    if (!FileNameShape(kMaxListFileBytes).read(reading, node, ignored)) return false;
    return PhrasesOfFile(reading, node, *reading.File(node, kMaxListFileBytes), out);
  };
  return EitherShape(std::move(from_file), ListShape(CheckedText(TextSchema(kMaxPhraseBytes),
                                                                [](const std::string& text) {
                                                                  return TextFault(text, kMaxPhraseBytes, false);
                                                                }),
                                                     kMaxPhrases, 1));
}

Shape<std::string> PatternShape() {
  return CheckedText({{"type", "string"}, {"maxLength", 2048}}, [](const std::string& text) {
    if (std::string fault = TextFault(text, 2048, false); !fault.empty()) return fault;
    RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(4 << 20);
    const RE2 pattern(text, options);
    return pattern.ok() ? std::string() : fmt::format("the pattern '{}' is not RE2: {}", text, pattern.error());
  });
}

Shape<bool> BoolShape() {
  return ScalarShape<bool>({{"type", "boolean"}}, "true or false", [](const std::string& text) -> Result<bool> {
    if (text == "true" || text == "false") return text == "true";
    return Error(InvalidArgumentError(fmt::format("'{}' is neither true nor false", text)));
  });
}

Shape<int64_t> IntegerShape(int64_t min, int64_t max) {
  boost::json::object schema{{"type", "integer"}, {"minimum", min}};
  if (max != std::numeric_limits<int64_t>::max()) schema["maximum"] = max;
  return ScalarShape<int64_t>(std::move(schema), "a whole number", [min, max](const std::string& text) {
    Result<int64_t> value = ParseInteger(text);
    if (value && (*value < min || *value > max)) {
      value = Error(InvalidArgumentError(fmt::format("{} is not within {} to {}", text, min, max)));
    }
    return value;
  });
}

Shape<int> IntShape(int min, int max) {
  auto wide = IntegerShape(min, max);
  Shape<int> shape;
  shape.schema = wide.schema;
  shape.read = [wide = std::move(wide)](PolicyReading& reading, const YamlNode& node, int& out) {
    int64_t value = 0;
    if (!wide.read(reading, node, value)) return false;
    out = static_cast<int>(value);
    return true;
  };
  return shape;
}

Shape<double> NumberShape(double min, double max) {
  boost::json::object schema{{"type", "number"}, {"minimum", min}, {"maximum", max}};
  return ScalarShape<double>(std::move(schema), "a number", [min, max](const std::string& text) {
    Result<double> value = ParseNumber(text);
    if (value && !(*value >= min && *value <= max)) {
      value = Error(InvalidArgumentError(fmt::format("{} is not within {} to {}", text, min, max)));
    }
    return value;
  });
}

Shape<int64_t> DurationShape() {
  return ScalarShape<int64_t>({{"type", "string"}, {"pattern", "^[0-9.]+(ns|us|ms|s|m|h|d)$"}}, "a duration as in 10s",
                              [](const std::string& text) { return ParseDuration(text); });
}

Shape<int64_t> SizeShape() {
  return ScalarShape<int64_t>({{"type", boost::json::array{"string", "integer"}},
                               {"pattern", "^[0-9.]+([KMGT]i?)?B?$"}}, "a size as in 64MB",
                              [](const std::string& text) { return ParseSize(text); });
}

Shape<int64_t> InstantShape() {
  Shape<int64_t> shape;
  shape.schema = {{"type", "string"},
                  {"pattern", "^\\d{4}-\\d{2}-\\d{2}(T\\d{2}:\\d{2}:\\d{2}(\\.\\d+)?(Z|[+-]\\d{2}:\\d{2}))?$"}};
  shape.read = [](PolicyReading& reading, const YamlNode& node, int64_t& out) {
    std::string text;
    if (!ReadScalar(reading, node, "an instant as in 2026-11-15T00:00:00-05:00", text)) return false;
    const auto value = ParseInstant(text);
    if (!value) reading.Fail(node, value.error().message());
    if (value) out = *value;
    return value.has_value();
  };
  return shape;
}

Shape<double> ShareShape() {
  return ScalarShape<double>({{"type", boost::json::array{"string", "number"}}, {"pattern", "^[0-9.]+%?$"}},
                             "a share as in 0.5%", [](const std::string& text) { return ParseShare(text); });
}

}  // namespace surety::gateway
