// What a request is about: the policy's signals, and risk and complexity from them.
//
// By what a signal is read:
// - phrases: as phrase_matcher.h finds them. One unnamed label (or "true"): true or false over the whole conversation,
//   so that a right once claimed stays claimed; use these to raise control, for whoever writes a tool's result can make
//   one true. Labels: over the last user turn; "none", or "abstained" where phrases of two labels occur.
// - pattern: over the last user turn as pattern_folding.h has it. A number is the largest of its first groups
//   (amount_reader.h); no match: "none"; a group that is no number known there: "abstained".
// - amount: the largest amount of money of the last user turn, as text_numbers.h reads amounts ($12,000, 12 000 EUR,
//   $12k, twelve thousand dollars), whatever the currency; "none"; "abstained" where a currency stands at
//   what is no number.
// - metadata: a text that the policy lists, letter by letter; else "none". - length: characters of the last user turn.
// - classifier: "abstained" below min_confidence, without a word in the turn, or where anything fails.
// Conditions and levels, and what an abstention does to them: signal_conditions.h.
//
// Threads: any; Read may embed, so not on an I/O thread. Errors: Make: kInvalidArgument, kNotFound naming the signal;
// Read: never: a classifier that fails abstains, and an abstention is a label that routes can ask for.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "api/caller.h"
#include "base/status.h"
#include "gateway/document_store.h"
#include "gateway/policy.h"

namespace surety::gateway {

inline constexpr std::string_view kAbstained = "abstained";

struct SignalValue {
  std::string label;          // "true", "false", a label, "none", "abstained", or the number as text
  double number = 0;          // of kPattern with number, kLength and kAmount
  bool has_number = false;
  double confidence = 1;      // of a classifier
};

struct Signals {
  std::map<std::string, SignalValue> values;
  Level risk = Level::kHigh, complexity = Level::kHigh;
};

class SignalReader {
 public:
  static Result<std::unique_ptr<SignalReader>> Make(const Policy& policy, const std::string& directory,
                                                    EmbedTexts embed);
  virtual ~SignalReader() = default;
  // `text`: the last user turn. `all_text`: everything that users and tools said; rights phrases count in all of it.
  virtual Signals Read(std::string_view text, std::string_view all_text, const api::Caller& caller) const = 0;
};

// Whether all conditions hold. `dimensions`: canonical values by name; `permissions` apart.
struct RoutingFacts {
  const Policy* policy = nullptr;
  const Signals* signals = nullptr;
  std::map<std::string, std::string> dimensions;
  std::vector<std::string> permissions;
};
bool Holds(const When& when, const RoutingFacts& facts);
// The first route that holds; the last always does.
const RouteSpec& ChooseRoute(const RoutingFacts& facts);

}  // namespace surety::gateway
