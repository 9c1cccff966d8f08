#include "gateway/policy_diff.h"

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file.h"
#include "gateway/policy_check.h"
#include "gateway/policy_json.h"

namespace surety::gateway {
namespace {

using boost::json::array;
using boost::json::object;
using boost::json::value;

std::vector<std::string> ChangedKeys(const value& before, const value& after) {
  std::vector<std::string> keys;
  if (!before.is_object() || !after.is_object()) return keys;
  for (const auto& member : after.get_object()) {
    const value* old = before.get_object().if_contains(member.key());
    if (old == nullptr || *old != member.value()) keys.emplace_back(member.key());
  }
  for (const auto& member : before.get_object()) {
    if (!after.get_object().contains(member.key())) keys.emplace_back(member.key());
  }
  return keys;
}

array DiffTexts(const std::vector<std::string>& texts) {
  array out;
  for (const std::string& text : texts) out.push_back(boost::json::string(text));
  return out;
}

object DiffPart(std::string_view part, const object& before, const object& after, array& lines) {
  array added, removed;
  object changed;
  for (const auto& member : after) {
    const value* old = before.if_contains(member.key());
    if (old == nullptr) {
      added.push_back(boost::json::string(member.key()));
      lines.push_back(boost::json::string(fmt::format("{}.{}: added", part, std::string_view(member.key()))));
    } else if (*old != member.value()) {
      const auto keys = ChangedKeys(*old, member.value());
      changed[member.key()] = DiffTexts(keys);
      lines.push_back(boost::json::string(fmt::format("{}.{}: changed{}{}", part, std::string_view(member.key()),
                                                      keys.empty() ? "" : ": ", fmt::join(keys, ", "))));
    }
  }
  for (const auto& member : before) {
    if (after.contains(member.key())) continue;
    removed.push_back(boost::json::string(member.key()));
    lines.push_back(boost::json::string(fmt::format("{}.{}: removed", part, std::string_view(member.key()))));
  }
  return {{"added", added}, {"removed", removed}, {"changed", changed}};
}

// The parts of a key that differ, by name.
std::vector<std::string> KeyChanges(const Policy& old_policy, const RouteSpec& before, const Policy& new_policy,
                                    const RouteSpec& after) {
  const AnswerBasis one = WitnessBasis(old_policy, before), two = WitnessBasis(new_policy, after);
  std::vector<std::string> out;
  if (old_policy.version != new_policy.version) out.emplace_back("policy version");
  if (one.policy_digest != two.policy_digest) out.emplace_back("policy digest");
  if (one.model_revision != two.model_revision) out.emplace_back("model");
  if (one.prompt_template != two.prompt_template) out.emplace_back("prompt template");
  if (one.decoding != two.decoding) out.emplace_back("decoding parameters");
  if (one.tools != two.tools) out.emplace_back("tools");
  if (one.verifiers != two.verifiers) out.emplace_back("verifiers");
  if (one.retrieval_snapshot != two.retrieval_snapshot) out.emplace_back("retriever");
  if (one.audience != two.audience) out.emplace_back("audience");
  if (one.subject != two.subject) out.emplace_back("whether entries are bound to a subject");
  return out;
}

// Whether an entry of the old policy can be found under the new one, for the same caller and question.
bool Survives(const CheckInput& old_input, const RouteSpec& before, const CheckInput& new_input, const RouteSpec& after) {
  Circumstances values = WitnessBase(old_input), same = values;
  same.text[static_cast<size_t>(Dimension::kPolicyVersion)] = new_input.policy.version;
  const auto one = old_input.run.answer_key(values, WitnessBasis(old_input.policy, before), "question");
  const auto two = new_input.run.answer_key(same, WitnessBasis(new_input.policy, after), "question");
  return one && two && *one == *two;
}

}  // namespace

object DiffPolicies(const Policy& old_policy, const Policy& new_policy) {
  const object before = PolicyJson(old_policy), after = PolicyJson(new_policy);
  object out{{"old_version", old_policy.version}, {"new_version", new_policy.version}};
  array lines, caches, dying;
  object parts;
  for (const auto& member : after) {
    if (!member.value().is_object()) continue;
    parts[member.key()] = DiffPart(member.key(), before.at(member.key()).get_object(), member.value().get_object(), lines);
  }
  if (before.at("route_order") != after.at("route_order")) lines.emplace_back("routes: another order");
  if (old_policy.version == new_policy.version && old_policy.digest != new_policy.digest) {
    lines.emplace_back("policy.version is the same though the files differ: decisions cannot be told apart by it");
  }
  FileSystem& files = FileSystem::Real();
  const CheckInput old_input{.policy = old_policy, .files = files, .space = {}};
  const CheckInput new_input{.policy = new_policy, .files = files, .space = {}};
  for (const RouteSpec& route : old_policy.routes) {
    if (!Caches(route)) continue;
    const RouteSpec* now = new_policy.FindRoute(route.name);
    const bool gone = now == nullptr || !Caches(*now);
    if (!gone && Survives(old_input, route, new_input, *now)) {
      caches.push_back(boost::json::string(fmt::format("route '{}': its entries stay", route.name)));
      continue;
    }
    dying.push_back(boost::json::string(route.name));
    caches.push_back(boost::json::string(
        gone ? fmt::format("route '{}': all entries die: {}", route.name, now == nullptr ? "the route is gone"
                                                                                         : "it caches no longer")
             : fmt::format("route '{}': all entries die: {}", route.name,
                           fmt::join(KeyChanges(old_policy, route, new_policy, *now), ", "))));
  }
  out["changes"] = lines;
  out["parts"] = parts;
  out["caches"] = caches;
  out["dying"] = dying;
  return out;
}

}  // namespace surety::gateway
