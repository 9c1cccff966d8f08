// The thirteen obligations: what must be true of a policy before it may serve anybody, each proved over the policy as
// it was read, by walking its routes and by running the real functions that make cache keys and reservations.
//
// Threads: any. Errors: none by status: what cannot be shown is a fault of its obligation. Units: nanoseconds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <boost/json/object.hpp>

#include "base/file.h"
#include "gateway/partition.h"
#include "gateway/policy.h"
#include "gateway/quota.h"
#include "gateway/route_space.h"

namespace surety::gateway {

struct Obligation {
  int number = 0;
  std::string name;
  bool holds() const { return faults.empty(); }
  std::vector<std::string> details;    // what was looked at
  std::vector<std::string> faults;     // what breaks it
  std::vector<std::string> warnings;   // what deserves a look though it holds
};

// The functions that the obligations run. Real(): those of the gateway; tests give faulty ones to see them reported.
struct CheckedFunctions {
  std::function<Result<Circumstances>(Circumstances)> canonical;
  std::function<Result<std::string>(const Circumstances&)> partition_key;
  std::function<Result<api::Scope>(const Circumstances&)> scope;
  std::function<Result<std::string>(const Circumstances&, const AnswerBasis&, const std::string& question)> answer_key;
  std::function<Validity(const Validity&, const Validity&)> intersect;
  std::function<QuotaAmount(const Policy&, const RouteSpec&, int input_tokens, int max_output_tokens)> worst_case;

  static CheckedFunctions Real();
};

struct CheckInput {
  const Policy& policy;
  FileSystem& files;                   // tables lie beside the policy's file
  int64_t now_ns = 0;                  // wall
  CheckedFunctions run = CheckedFunctions::Real();
  RouteSpace space;                    // of SpaceOf(policy)
};

std::vector<Obligation> CheckPolicy(const Policy& policy, FileSystem& files, int64_t now_ns);
std::vector<Obligation> CheckPolicy(const CheckInput& input);

Obligation CheckKeyInjectivity(const CheckInput& input);       // 1
Obligation CheckKeyCompleteness(const CheckInput& input);      // 2
Obligation CheckProvenance(const CheckInput& input);           // 3
Obligation CheckNoSilentDefault(const CheckInput& input);      // 4
Obligation CheckWitnesses(const CheckInput& input);            // 5
Obligation CheckTime(const CheckInput& input);                 // 6
Obligation CheckPrefixSharing(const CheckInput& input);        // 7
Obligation CheckReleaseSafety(const CheckInput& input);        // 8
Obligation CheckRouting(const CheckInput& input);              // 9
Obligation CheckRetryBound(const CheckInput& input);           // 10
Obligation CheckReservations(const CheckInput& input);         // 11
Obligation CheckTables(const CheckInput& input);               // 12
Obligation CheckHitRate(const CheckInput& input);              // 13

// Route by dimension: source, canonical form, and the digests of two keys that differ in it alone.
boost::json::array ExplainCache(const CheckInput& input);
// {obligations: [{number, name, holds, details, faults, warnings}], holds}
boost::json::object ObligationsToJson(const std::vector<Obligation>& obligations);

// Helpers that several obligations share.
std::string DescribeSource(const DimensionSource& source);
bool Caches(const RouteSpec& route);
bool Generates(const RouteSpec& route);           // a model writes the answer
// What the witnesses start from: the policy's own values where they are canonical, and one that differs in `dimension`.
Circumstances WitnessBase(const CheckInput& input);
Circumstances WitnessSibling(const CheckInput& input, Dimension dimension);
AnswerBasis WitnessBasis(const Policy& policy, const RouteSpec& route);
std::string ShortDigest(const std::string& key);  // 16 hexadecimal digits of its SHA-256

}  // namespace surety::gateway
