#include "gateway/partition.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <span>

#include <fmt/format.h>
#include <utf8proc.h>

#include "base/check.h"
#include "base/hash.h"

namespace surety::gateway {
namespace {

constexpr size_t kPartitionMaxValueBytes = 256;
// Below it every character is a starter that neither composes nor decomposes: NFC needs no look.
constexpr utf8proc_int32_t kPartitionTrivialNfcEnd = 0x300;

// Tags: 1 to 8 are the dimensions, by their order.
constexpr uint8_t kPartitionPermissionTag = 1;  // inside the dimension's own bytes
constexpr uint8_t kPartitionFirstBasisTag = 16, kPartitionQuestionTag = 64;

bool PartitionIsSpace(utf8proc_int32_t code, utf8proc_category_t category) {
  return category == UTF8PROC_CATEGORY_ZS || (code >= 0x09 && code <= 0x0d) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

bool PartitionIsNfc(std::string_view text) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(mapped, &std::free);
  return size >= 0 && text == std::string_view(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
}

// Nothing that cannot be seen may tell two values apart. Not only category Cf: variation selectors, fillers and the
// grapheme joiner are marks or letters by category, and as invisible ("default ignorable").
std::string PartitionBadCharacter(utf8proc_int32_t code, size_t at) {
  const utf8proc_property_t* property = utf8proc_get_property(code);
  const auto category = static_cast<utf8proc_category_t>(property->category);
  const char* what = nullptr;
  if (category == UTF8PROC_CATEGORY_CC) what = "a control character";
  if (category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP) what = "a line separator";
  if (category == UTF8PROC_CATEGORY_CF || property->ignorable) what = "an invisible (format) character";
  if (category == UTF8PROC_CATEGORY_CN || category == UTF8PROC_CATEGORY_CS) what = "not assigned in Unicode";
  if (!what) return {};
  return fmt::format("byte {} is U+{:04X}, {}; write the value without it", at, static_cast<uint32_t>(code), what);
}

bool PartitionIsPlainAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

// Why `text` is no canonical value; empty if it is one. The value itself is never repeated: it may be personal.
std::string PartitionTextProblem(std::string_view text) {
  if (text.empty()) return "the value is empty; leave the dimension out if it has none";
  if (text.size() > kPartitionMaxValueBytes) {
    return fmt::format("the value has {} bytes; at most {} are allowed", text.size(), kPartitionMaxValueBytes);
  }
  bool space_first = text.front() == ' ', space_last = text.back() == ' ';
  if (!PartitionIsPlainAscii(text)) {
    bool may_change = false;
    for (size_t at = 0; at < text.size();) {
      utf8proc_int32_t code = -1;
      const utf8proc_ssize_t size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                                                     static_cast<utf8proc_ssize_t>(text.size() - at), &code);
      if (size <= 0) return fmt::format("byte {} is not UTF-8", at);
      const bool space = PartitionIsSpace(code, utf8proc_category(code));
      const size_t next = at + static_cast<size_t>(size);
      space_first |= space && at == 0;
      space_last |= space && next == text.size();
      if (std::string bad = PartitionBadCharacter(code, at); !bad.empty()) return bad;
      may_change |= code >= kPartitionTrivialNfcEnd;
      at = next;
    }
    if (may_change && !PartitionIsNfc(text)) return "the value is not in Unicode form NFC; compose its characters";
  }
  if (space_first) return "the value begins with white space; remove it";
  if (space_last) return "the value ends with white space; remove it";
  return {};
}

std::string PartitionDateProblem(std::string_view text) {
  static constexpr std::string_view kForm = "YYYY-MM-DD";
  bool form = text.size() == kForm.size();
  for (size_t i = 0; form && i < kForm.size(); ++i) {
    form = kForm[i] == '-' ? text[i] == '-' : text[i] >= '0' && text[i] <= '9';
  }
  if (!form) return "the value is not a date of the form YYYY-MM-DD";
  const auto number = [&](size_t at, size_t n) {
    unsigned value = 0;
    for (const char c : text.substr(at, n)) value = value * 10 + static_cast<unsigned>(c - '0');
    return value;
  };
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(number(0, 4))),
                                         std::chrono::month(number(5, 2)), std::chrono::day(number(8, 2))};
  if (!date.ok() || number(0, 4) == 0) return "the value is no date of the calendar";
  return {};
}

Status PartitionProblem(Dimension dimension, std::string_view problem) {
  return InvalidArgumentError(fmt::format("dimension '{}': {}", NameOf(dimension), problem));
}

Dimension PartitionDimension(int i) { return static_cast<Dimension>(i); }

// All but the permissions' order.
Status PartitionCheckValues(const Circumstances& values) {
  for (int i = 0; i < kDimensionCount; ++i) {
    const Dimension dimension = PartitionDimension(i);
    const std::optional<std::string>& text = values.text[static_cast<size_t>(i)];
    if (dimension == Dimension::kPermissions) {
      if (text) return PartitionProblem(dimension, "the value is one text; permissions are a set");
      if (!values.permissions) continue;
      for (size_t p = 0; p < values.permissions->size(); ++p) {
        const std::string problem = PartitionTextProblem((*values.permissions)[p]);
        if (!problem.empty()) return PartitionProblem(dimension, fmt::format("element {}: {}", p, problem));
      }
      continue;
    }
    if (!text) continue;
    std::string problem = PartitionTextProblem(*text);
    if (problem.empty() && dimension == Dimension::kEffectiveDate) problem = PartitionDateProblem(*text);
    if (!problem.empty()) return PartitionProblem(dimension, problem);
  }
  return OkStatus();
}

bool PartitionIsSet(const std::vector<std::string>& sorted) {
  return std::ranges::adjacent_find(sorted, std::ranges::greater_equal{}) == sorted.end();
}

// Room for `more` bytes is made at once: a key that grows leaves copies of what it holds in freed memory.
std::string PartitionWithBasis(const Partition& partition, const AnswerBasis& basis, size_t more) {
  const std::array fields = {
      &basis.route,     &basis.policy_digest,      &basis.model_revision, &basis.prompt_template,
      &basis.decoding,  &basis.tools,              &basis.verifiers,      &basis.retrieval_snapshot,
      &basis.audience,  &basis.channel,            &basis.subject,        &basis.conversation,
      &basis.risk};
  size_t size = partition.key().size() + more;
  for (const std::string* field : fields) size += kFieldHeadBytes + field->size();
  std::string key;
  key.reserve(size);
  key += partition.key();
  uint8_t tag = kPartitionFirstBasisTag;
  for (const std::string* field : fields) AppendField(key, tag++, *field);
  return key;
}

}  // namespace

void AppendField(std::string& out, uint8_t tag, std::string_view bytes) {
  char head[kFieldHeadBytes] = {static_cast<char>(tag)};
  for (int i = 0; i < 8; ++i) head[1 + i] = static_cast<char>(static_cast<uint64_t>(bytes.size()) >> (56 - 8 * i));
  out.append(head, sizeof(head));
  out.append(bytes);
}

Result<Circumstances> Canonical(Circumstances raw) {
  SURETY_RETURN_IF_ERROR(PartitionCheckValues(raw));
  if (raw.permissions) {
    std::ranges::sort(*raw.permissions);
    const auto repeated = std::ranges::unique(*raw.permissions);
    raw.permissions->erase(repeated.begin(), repeated.end());
  }
  return raw;
}

Result<Partition> Partition::Make(const Circumstances& canonical) {
  const Status valid = PartitionCheckValues(canonical);
  SURETY_CHECK_MSG(valid.ok(), valid.message());
  SURETY_CHECK_MSG(!canonical.permissions || PartitionIsSet(*canonical.permissions), "permissions are no sorted set");
  Partition partition;
  for (int i = 0; i < kDimensionCount; ++i) {
    const Dimension dimension = PartitionDimension(i);
    const bool set = dimension == Dimension::kPermissions;
    const std::optional<std::string>& text = canonical.text[static_cast<size_t>(i)];
    if (set ? !canonical.permissions.has_value() : !text.has_value()) {
      return Error(FailedPreconditionError(
          fmt::format("dimension '{}' has no value, so nothing may be cached or shared", NameOf(dimension))));
    }
    const auto tag = static_cast<uint8_t>(i + 1);
    if (!set) {
      AppendField(partition.key_, tag, *text);
      continue;
    }
    std::string elements;
    for (const std::string& element : *canonical.permissions) AppendField(elements, kPartitionPermissionTag, element);
    AppendField(partition.key_, tag, elements);
  }
  const auto value = [&](Dimension dimension) { return *canonical.text[static_cast<size_t>(dimension)]; };
  partition.scope_ = {.tenant = value(Dimension::kTenant),
                      .permissions = *canonical.permissions,
                      .region = value(Dimension::kRegion),
                      .product = value(Dimension::kProduct),
                      .policy_version = value(Dimension::kPolicyVersion),
                      .language = value(Dimension::kLanguage),
                      .eligibility = value(Dimension::kEligibility),
                      .effective_date = value(Dimension::kEffectiveDate),
                      .salt = {}};
  return partition;
}

std::string Partition::Digest() const {
  return HexOf(Sha256Of(std::as_bytes(std::span<const char>(key_.data(), key_.size()))));
}

std::string NeighbourhoodKey(const Partition& partition, const AnswerBasis& basis) {
  return PartitionWithBasis(partition, basis, 0);
}

std::string AnswerKey(const Partition& partition, const AnswerBasis& basis, std::string_view question) {
  std::string key = PartitionWithBasis(partition, basis, kFieldHeadBytes + question.size());
  AppendField(key, kPartitionQuestionTag, question);
  return key;
}

}  // namespace surety::gateway
