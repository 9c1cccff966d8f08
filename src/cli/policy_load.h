// What `surety bench policy` asks: questions, and callers whom the policy lets in.
//
// A file of questions has one a line: plain text, or a JSON object {"question", "share", "claims", "metadata"}. "{n}"
// in a question is a number that no other request has, so no cache holds its answer. Lines without text are passed
// over.
// Threads: values. Errors: kInvalidArgument with path and line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>

#include "api/request.h"
#include "base/status.h"
#include "cli/load_random.h"
#include "gateway/document_store.h"
#include "gateway/policy.h"

namespace surety::cli {

struct PolicyQuestion {
  std::string text;
  double share = 1;                        // how often, beside the others
  boost::json::object claims, metadata;    // over the caller's
};

Result<std::vector<PolicyQuestion>> ParsePolicyQuestions(std::string_view contents, const std::string& path);
// Without a file: each phrase of the policy's signals, and one question without any.
std::vector<PolicyQuestion> QuestionsOf(const gateway::Policy& policy);

// A caller whom `policy` lets in: of each claim and metadata key that it reads, the first value that it lists; the
// permissions of all documents; else "bench".
api::Caller CallerFor(const gateway::Policy& policy, const std::vector<gateway::Document>& documents);

// Parts that a measurement must not reach: services, databases and commands outside; one line each.
std::vector<std::string> OutsideParts(const gateway::Policy& policy);

// Requests by a seed: which question, which of `subjects` asks.
class PolicyLoad {
 public:
  PolicyLoad(std::vector<PolicyQuestion> questions, api::Caller caller, int subjects, uint64_t seed);
  api::GenerationRequest Next();

 private:
  std::vector<PolicyQuestion> questions_;
  std::vector<double> up_to_;    // sums of shares
  api::Caller caller_;
  int subjects_;
  RandomStream random_;
  int64_t n_made_ = 0;
};

}  // namespace surety::cli
