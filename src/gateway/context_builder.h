// What a model gets to see: the route's instruction, the evidence in order of its worth, as much of the conversation as
// fits, and the question. Budgets are counted with the model's own tokenizer.
//
// Classes: the question, the instruction and tool results are never cut (too many of them: kOutOfRange, and the route's
// fallback decides), nor are the caller's tools; passages are taken best first within their budget, with a cap for each
// document, whole or not at all; the conversation loses its oldest turns. Text of passages and tools cannot close the
// block that it stands in.
// Threads: pure. Errors: kOutOfRange with what is over its budget; kPermissionDenied where a forbidden kind of personal
// data is in what would be sent: in any text of it, arguments of tool calls, names and schemas included.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/request.h"
#include "base/status.h"
#include "gateway/conversation.h"
#include "gateway/evidence.h"
#include "gateway/policy.h"

namespace surety::gateway {

// Tokens of a plain text.
using CountTokens = std::function<int(std::string_view)>;
// Which kinds of personal data a text holds.
using PersonalDataFinder = std::function<std::vector<std::string>(std::string_view)>;

struct ContextRequest {
  const RouteSpec* route = nullptr;
  const ContextSpec* spec = nullptr;      // null: the model's own limit alone
  int context_tokens = 0;                 // of the model; 0: not known, and kAssumedContextTokens is taken
  const api::GenerationRequest* request = nullptr;  // what else of it goes to the model: tools, constraint, prediction
  std::string repair;                     // what the last attempt got wrong; empty: the first
};

// How much of each class went in, for the audit and for context budgets.
struct ContextUse {
  int instruction_tokens = 0, evidence_tokens = 0, history_tokens = 0, question_tokens = 0;
  int passages_offered = 0, passages_used = 0, turns_offered = 0, turns_used = 0;
};

struct BuiltContext {
  boost::json::array messages;
  std::vector<Passage> used;              // the passages that are in it
  ContextUse use;
};

Result<BuiltContext> BuildContext(const ContextRequest& request, const Conversation& conversation,
                                  const Evidence& evidence, const CountTokens& count,
                                  const PersonalDataFinder& personal);

// A passage as the model sees it: "<source id=\"doc:chunk@version\" ...>text</source>", the text escaped.
std::string PassageBlock(const Passage& passage);

// GBNF for an answer in which each sentence is followed by a citation of one of the passages' sentences, word for word:
// a model that answers under it can invent no source. Empty where no passage has a sentence that can be quoted.
std::string CitationGrammar(const std::vector<Passage>& passages, int min_quote);

}  // namespace surety::gateway
