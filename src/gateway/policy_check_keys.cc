// Obligations 1, 2, 4 and 5: the keys by which answers are kept apart. They run the real functions of partition.h.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "gateway/policy_check.h"
#include "gateway/policy_values.h"

namespace surety::gateway {
namespace {

constexpr size_t kDimensions = kDimensionCount;

struct KeyField {
  uint8_t tag = 0;
  std::string bytes;
};

// Cuts a key into its fields again, by the rule that partition.h states and not by its code: tag, length in eight bytes
// with the highest first, bytes. nullopt: it does not come out even.
std::optional<std::vector<KeyField>> CutKey(std::string_view key) {
  std::vector<KeyField> fields;
  while (!key.empty()) {
    if (key.size() < 9) return std::nullopt;
    uint64_t length = 0;
    for (size_t i = 1; i < 9; ++i) length = length << 8 | static_cast<uint8_t>(key[i]);
    if (length > key.size() - 9) return std::nullopt;
    fields.push_back({static_cast<uint8_t>(key[0]), std::string(key.substr(9, length))});
    key.remove_prefix(9 + length);
  }
  return fields;
}

// The circumstances that a key was made of: a left inverse of the encoding.
std::optional<Circumstances> CircumstancesOf(std::string_view key) {
  const auto fields = CutKey(key);
  if (!fields || fields->size() != kDimensions) return std::nullopt;
  Circumstances out;
  for (size_t i = 0; i < kDimensions; ++i) {
    if ((*fields)[i].tag != i + 1) return std::nullopt;
    if (static_cast<Dimension>(i) != Dimension::kPermissions) {
      out.text[i] = (*fields)[i].bytes;
      continue;
    }
    const auto elements = CutKey((*fields)[i].bytes);
    if (!elements) return std::nullopt;
    out.permissions.emplace();
    for (const KeyField& element : *elements) out.permissions->push_back(element.bytes);
  }
  return out;
}

std::string TextOf(const Circumstances& values, Dimension dimension) {
  if (dimension != Dimension::kPermissions) return values.text[static_cast<size_t>(dimension)].value_or("");
  std::string out;
  for (const std::string& permission : values.permissions.value_or(std::vector<std::string>{})) out += permission + " ";
  return out;
}

Circumstances With(Circumstances values, Dimension dimension, std::optional<std::string> value) {
  if (dimension != Dimension::kPermissions) {
    values.text[static_cast<size_t>(dimension)] = std::move(value);
  } else if (value) {
    values.permissions = std::vector<std::string>{*std::move(value)};
  } else {
    values.permissions.reset();
  }
  return values;
}

// Values of which one could be taken for another if a key were joined by a separator, by a bare length, or folded.
std::vector<Circumstances> ConfusableValues(const CheckInput& input) {
  static constexpr std::string_view kParts[] = {
      "a",  "aa", "a|b",  "a,b",   "a:b", "a=b", "a/b",      "a;b", "ab", "1",
      "11", "0",  "a\\b", "\"a\"", "8 a", "a 8", "tenant=a", "A",   "а" /* Cyrillic */};
  std::vector<Circumstances> out{WitnessBase(input)};
  for (size_t d = 0; d < kDimensions; ++d) {
    const auto dimension = static_cast<Dimension>(d);
    out.push_back(WitnessSibling(input, dimension));
    for (const std::string& value : input.policy.identity[d].values) out.push_back(With(out[0], dimension, value));
    if (dimension == Dimension::kEffectiveDate) continue;
    for (const std::string_view part : kParts) out.push_back(With(out[0], dimension, std::string(part)));
  }
  // One text cut between two neighbours at every place.
  const std::string whole = "abcdefgh";
  for (size_t d = 0; d + 1 < kDimensions; ++d) {
    const auto left = static_cast<Dimension>(d), right = static_cast<Dimension>(d + 1);
    if (right == Dimension::kEffectiveDate) continue;
    for (size_t cut = 1; cut < whole.size(); ++cut) {
      out.push_back(With(With(out[0], left, whole.substr(0, cut)), right, whole.substr(cut)));
    }
  }
  // And with a separator inside, on either side of the border.
  for (const std::string separator : {"|", ",", ":", ";", "=", "/", " ", "\\", "\"", "-", "_", "."}) {
    for (size_t d = 0; d + 1 < kDimensions; ++d) {
      const auto left = static_cast<Dimension>(d), right = static_cast<Dimension>(d + 1);
      if (right == Dimension::kEffectiveDate) continue;
      out.push_back(With(With(out[0], left, "x" + separator + "y"), right, "z"));
      out.push_back(With(With(out[0], left, "x"), right, "y" + separator + "z"));
    }
  }
  const std::vector<std::vector<std::string>> sets = {{},         {"a", "b"}, {"a", "b", "c"}, {"a", "bc"},
                                                      {"ab", "c"}, {"abc"},    {"a b"},         {"a", "b c"}};
  for (const auto& set : sets) {
    out.push_back(out[0]);
    out.back().permissions = set;
  }
  return out;
}

std::string Quoted(const Circumstances& values) {
  std::string out;
  for (size_t d = 0; d < kDimensions; ++d) {
    out += fmt::format("{}{}={}", d == 0 ? "" : " ", NameOf(static_cast<Dimension>(d)),
                       TextOf(values, static_cast<Dimension>(d)));
  }
  return out;
}

using BasisField = std::pair<const char*, std::string AnswerBasis::*>;
constexpr BasisField kBasisFields[] = {
    {"route", &AnswerBasis::route},
    {"policy digest", &AnswerBasis::policy_digest},
    {"model revision", &AnswerBasis::model_revision},
    {"prompt template", &AnswerBasis::prompt_template},
    {"decoding parameters", &AnswerBasis::decoding},
    {"tool schemas", &AnswerBasis::tools},
    {"verifiers and tables", &AnswerBasis::verifiers},
    {"retrieval snapshot", &AnswerBasis::retrieval_snapshot},
    {"audience", &AnswerBasis::audience},
    {"channel", &AnswerBasis::channel},
    {"subject", &AnswerBasis::subject},
    {"conversation", &AnswerBasis::conversation},
    {"risk", &AnswerBasis::risk}};

// Each part of the basis, changed alone, changes the key; so does a byte that moves from one part to the next.
void CheckBasis(const CheckInput& input, const RouteSpec& route, Obligation& out) {
  const Circumstances values = WitnessBase(input);
  AnswerBasis base = WitnessBasis(input.policy, route);
  for (const auto& [name, member] : kBasisFields) base.*member += "x";
  const auto key_of = [&](const AnswerBasis& basis, const std::string& question) {
    return input.run.answer_key(values, basis, question).value_or("");
  };
  const std::string key = key_of(base, "question");
  if (key.empty() || key != key_of(base, "question")) out.faults.push_back(route.name + ": equal requests, other keys");
  if (key == key_of(base, "another question"))
    out.faults.push_back(route.name + ": the question is not part of the key");
  for (size_t i = 0; i < std::size(kBasisFields); ++i) {
    const auto& [name, member] = kBasisFields[i];
    AnswerBasis other = base;
    other.*member += "y";
    if (key_of(other, "question") == key) {
      out.faults.push_back(fmt::format("{}: the {} is not part of the key", route.name, name));
    }
    if (i + 1 == std::size(kBasisFields)) continue;
    AnswerBasis moved = base;
    (moved.*member).pop_back();
    (moved.*kBasisFields[i + 1].second).insert(0, "x");
    if (key_of(moved, "question") == key && !(moved.*kBasisFields[i + 1].second == base.*kBasisFields[i + 1].second)) {
      out.faults.push_back(fmt::format("{}: a byte of the {} can be taken for one of the {}", route.name, name,
                                       kBasisFields[i + 1].first));
    }
  }
}

// Vectors of obligation 4: values of one dimension that must be refused, all as they may come from a token or a body.
const std::vector<std::pair<const char*, std::string>>& RefusedValues() {
  static const auto* values = new std::vector<std::pair<const char*, std::string>>{
      {"empty", ""},
      {"space in front", " value"},
      {"space behind", "value "},
      {"no-break space behind", "value\xc2\xa0"},
      {"tab", "val\tue"},
      {"line break", "value\n"},
      {"NUL", std::string("val\0ue", 6)},
      {"zero-width space", "val\xe2\x80\x8bue"},
      {"zero-width joiner", "val\xe2\x80\x8due"},
      {"direction override", "val\xe2\x80\xaeue"},
      {"soft hyphen", "val\xc2\xadue"},
      {"byte order mark", "\xef\xbb\xbfvalue"},
      {"decomposed letter", "cafe\xcc\x81"},
      {"no UTF-8", "val\xffue"},
      {"overlong UTF-8", "val\xc0\xafue"},
      {"surrogate", "val\xed\xa0\x80ue"},
      {"unassigned character", "val\xf3\xa0\x82\x80ue"},
      {"257 bytes", std::string(257, 'v')}};
  return *values;
}

// Values that must stay apart from each other, whatever they look like.
const std::vector<std::string>& ApartValues() {
  static const auto* values = new std::vector<std::string>{
      "value", "Value", "VALUE", "v\xd0\xb0lue" /* Cyrillic a */, "valu\xc3\xa9", "null", "none", "undefined",
      "default", "*", "any", "unknown", "0", "-", "values", "valu", "val ue", "\xef\xbd\x96" "alue" /* full width */};
  return *values;
}

void CheckMissing(const CheckInput& input, Dimension dimension, Obligation& out) {
  const auto canonical = input.run.canonical(With(WitnessBase(input), dimension, std::nullopt));
  const Result<std::string> key = canonical ? input.run.partition_key(*canonical) : Error(canonical.error());
  if (key) out.faults.push_back(fmt::format("{}: without a value there is still a key", NameOf(dimension)));
  if (!key && key.error().message().find(NameOf(dimension)) == std::string::npos) {
    out.faults.push_back(fmt::format("{}: refused without being named: {}", NameOf(dimension), key.error().message()));
  }
}

void CheckDimensionVectors(const CheckInput& input, Dimension dimension, Obligation& out) {
  const Circumstances base = WitnessBase(input);
  const auto key_of = [&](const std::string& value) -> std::optional<std::string> {
    const auto canonical = input.run.canonical(With(base, dimension, value));
    if (!canonical) return std::nullopt;
    const auto key = input.run.partition_key(*canonical);
    return key ? std::optional(*key) : std::nullopt;
  };
  for (const auto& [name, value] : RefusedValues()) {
    if (key_of(value))
      out.faults.push_back(fmt::format("{}: a value is taken that is none ({})", NameOf(dimension), name));
  }
  std::map<std::string, std::string> seen;
  std::vector<std::string> apart = ApartValues();
  if (dimension == Dimension::kEffectiveDate) {
    for (const char* bad : {"2026-02-30", "2026-13-01", "20260101", "2026-1-1", "26-01-01", "2026-01-01T00:00:00Z",
                            "value"}) {
      if (key_of(bad)) out.faults.push_back(fmt::format("effective_date: '{}' is taken for a date", bad));
    }
    apart = {"2026-01-01", "2026-01-02", "2026-02-01", "2025-01-01", "2024-02-29"};
  }
  for (const std::string& value : apart) {
    const auto key = key_of(value);
    if (!key) {
      out.faults.push_back(fmt::format("{}: the good value '{}' is refused", NameOf(dimension), value));
      continue;
    }
    const auto [at, is_new] = seen.emplace(*key, value);
    if (!is_new) {
      out.faults.push_back(fmt::format("{}: '{}' and '{}' have one key", NameOf(dimension), at->second, value));
    }
  }
}

void CheckPermissionSets(const CheckInput& input, Obligation& out) {
  const auto key_of = [&](std::vector<std::string> set) {
    Circumstances values = WitnessBase(input);
    values.permissions = std::move(set);
    const auto canonical = input.run.canonical(values);
    return canonical ? input.run.partition_key(*canonical).value_or("") : std::string();
  };
  const std::string key = key_of({"a", "b", "c"});
  for (const auto& same : {std::vector<std::string>{"c", "b", "a"}, {"b", "a", "c"}, {"a", "a", "b", "c", "b"}}) {
    if (key.empty() || key_of(same) != key) out.faults.emplace_back("permissions: order or repetition changes the key");
  }
  for (const auto& other :
       {std::vector<std::string>{}, {"a", "b"}, {"a", "b", "c", "d"}, {"abc"}, {"a b c"}, {"a,b,c"}}) {
    if (key_of(other) == key) out.faults.emplace_back("permissions: two sets have one key");
    if (key_of(other).empty()) out.faults.emplace_back("permissions: a good set is refused");
  }
}

void CheckDeclaredValues(const CheckInput& input, Obligation& out) {
  for (size_t d = 0; d < kDimensions; ++d) {
    const auto dimension = static_cast<Dimension>(d);
    const DimensionSource& source = input.policy.identity[d];
    std::vector<std::string> values = source.values;
    if (source.from == DimensionSource::From::kConstant) values.push_back(source.name);
    if (dimension == Dimension::kPolicyVersion) values.push_back(input.policy.version);
    for (const std::string& value : values) {
      const Circumstances with = With(WitnessBase(input), dimension, value);
      const auto canonical = input.run.canonical(with);
      if (canonical && *canonical == with) continue;
      out.faults.push_back(fmt::format("{}: the policy's value '{}' can never be one: {}", NameOf(dimension), value,
                                       canonical ? "it changes its form" : canonical.error().message()));
    }
  }
}

}  // namespace

Obligation CheckKeyInjectivity(const CheckInput& input) {
  Obligation out{1, "key injectivity", {}, {}, {}};
  std::map<std::string, Circumstances> by_key;
  std::vector<std::string> shared, unread;
  size_t n_values = 0;
  for (const Circumstances& raw : ConfusableValues(input)) {
    const auto canonical = input.run.canonical(raw);
    if (!canonical) continue;   // obligation 4 judges what is refused
    const auto key = input.run.partition_key(*canonical);
    if (!key) {
      out.faults.push_back(fmt::format("no key for {}: {}", Quoted(*canonical), key.error().message()));
      continue;
    }
    const auto [at, is_new] = by_key.emplace(*key, *canonical);
    n_values += is_new ? 1 : 0;
    if (!is_new && !(at->second == *canonical)) {
      shared.push_back(fmt::format("one key for two: {} and {}", Quoted(at->second), Quoted(*canonical)));
    }
    if (CircumstancesOf(*key) != *canonical) {
      unread.push_back(fmt::format("the key of {} cannot be read back", Quoted(*canonical)));
    }
  }
  // A few examples say it all.
  for (std::vector<std::string>* faults : {&shared, &unread}) {
    if (faults->size() > 3) faults->resize(3);
    out.faults.insert(out.faults.end(), faults->begin(), faults->end());
  }
  out.details.push_back(
      fmt::format("each of {} keys reads back as what it was made of (tag, length, bytes by dimension), "
                  "so no two circumstances share one; {} pairs compared",
                  n_values, n_values * (n_values - (n_values > 0 ? 1 : 0)) / 2));
  return out;
}

Obligation CheckKeyCompleteness(const CheckInput& input) {
  Obligation out{2, "key completeness", {}, {}, {}};
  for (int i = 0; i < kDimensionCount; ++i) {
    const auto dimension = static_cast<Dimension>(i);
    if (std::ranges::find(input.policy.required_dimensions, dimension) != input.policy.required_dimensions.end())
      continue;
    out.faults.push_back(fmt::format("cache.required_dimensions lacks '{}'", NameOf(dimension)));
  }
  if (input.policy.digest.empty()) out.faults.emplace_back("the policy has no digest");
  int n_routes = 0;
  for (const RouteSpec& route : input.policy.routes) {
    if (!Caches(route)) continue;
    ++n_routes;
    for (size_t d = 0; d < kDimensions; ++d) {
      if (input.policy.identity[d].from != DimensionSource::From::kUnset) continue;
      out.faults.push_back(fmt::format("route '{}' caches, but identity.{} has no source: nothing could ever be found "
                                       "again", route.name, NameOf(static_cast<Dimension>(d))));
    }
    if (Generates(route) && WitnessBasis(input.policy, route).model_revision.empty()) {
      out.faults.push_back(fmt::format("route '{}' caches answers of a model without a revision", route.name));
    }
    CheckBasis(input, route, out);
  }
  out.details.push_back(n_routes == 0 ? "no route caches"
                                      : fmt::format("{} routes that cache: 8 dimensions and {} parts of the basis in "
                                                    "each key", n_routes, std::size(kBasisFields) + 1));
  return out;
}

Obligation CheckNoSilentDefault(const CheckInput& input) {
  Obligation out{4, "no silent default", {}, {}, {}};
  for (int i = 0; i < kDimensionCount; ++i) {
    CheckMissing(input, static_cast<Dimension>(i), out);
    CheckDimensionVectors(input, static_cast<Dimension>(i), out);
  }
  CheckPermissionSets(input, out);
  CheckDeclaredValues(input, out);
  if (out.faults.size() > 10) out.faults.resize(10);
  out.details.push_back(
      fmt::format("by dimension: no value gives no key; {} texts that are no value are refused; {} that "
                  "look alike stay apart; order and repetition of permissions do not matter",
                  RefusedValues().size(), ApartValues().size()));
  return out;
}

Obligation CheckWitnesses(const CheckInput& input) {
  Obligation out{5, "differential witnesses", {}, {}, {}};
  const AnswerBasis basis =
      WitnessBasis(input.policy, input.policy.routes.empty() ? RouteSpec{} : input.policy.routes[0]);
  const auto key_of = [&](const Circumstances& values) {
    const auto canonical = input.run.canonical(values);
    return canonical ? input.run.answer_key(*canonical, basis, "question").value_or("") : std::string();
  };
  const Circumstances base = WitnessBase(input);
  const std::string key = key_of(base);
  const bool same = !key.empty() && key == key_of(WitnessBase(input));
  out.details.push_back(fmt::format("nothing changed: {} {}", ShortDigest(key), same ? "same" : "differs"));
  if (!same) out.faults.emplace_back("equal requests have no equal keys: nothing would ever be found");
  for (int i = 0; i < kDimensionCount; ++i) {
    const auto dimension = static_cast<Dimension>(i);
    const Circumstances sibling = WitnessSibling(input, dimension);
    const std::string other = key_of(sibling);
    const bool differs = !other.empty() && other != key;
    out.details.push_back(fmt::format("{}: {} {} | {} {} {}", NameOf(dimension), TextOf(base, dimension),
                                      ShortDigest(key), TextOf(sibling, dimension), ShortDigest(other),
                                      differs ? "differs" : "same"));
    if (!differs) out.faults.push_back(fmt::format("requests that differ in {} share an answer", NameOf(dimension)));
  }
  // Dates are good values of every dimension, so any two can be swapped.
  Circumstances dates;
  for (int i = 0; i < kDimensionCount; ++i) {
    dates = With(dates, static_cast<Dimension>(i), fmt::format("2026-03-{:02}", i + 1));
  }
  std::set<std::string> keys{key_of(dates)};
  int n_swaps = 0;
  for (int i = 0; i < kDimensionCount; ++i) {
    for (int j = i + 1; j < kDimensionCount; ++j, ++n_swaps) {
      const auto one = static_cast<Dimension>(i), other = static_cast<Dimension>(j);
      const Circumstances swapped = With(With(dates, one, fmt::format("2026-03-{:02}", j + 1)), other,
                                         fmt::format("2026-03-{:02}", i + 1));
      const std::string swapped_key = key_of(swapped);
      if (!swapped_key.empty() && keys.insert(swapped_key).second) continue;
      out.faults.push_back(fmt::format("the values of {} and {} can be exchanged without a change of the key",
                                       NameOf(one), NameOf(other)));
    }
  }
  out.details.push_back(fmt::format("{} exchanges of two dimensions' values: {} differ", n_swaps, keys.size() - 1));
  return out;
}

}  // namespace surety::gateway
