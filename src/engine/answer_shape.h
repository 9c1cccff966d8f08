// What an answer must or may look like beyond plain text: the compiled constraint, and how tool calls are read out.
//
// Threads: ShapeMaker: any. AnswerShape: immutable. Owns: the token trees, made when the first request needs them.
// Errors: kInvalidArgument (a schema, grammar or tool, with its place; two constraints at once), kFailedPrecondition (a
// call is required of a model that has no form for calls).
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/request.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/matcher.h"
#include "engine/grammar/token_trie.h"
#include "engine/tool_calls.h"
#include "model/tokenizer/tokenizer.h"
#include "spec/draft_tree.h"

namespace surety::engine {

struct AnswerShape {
  GrammarPtr grammar;                          // null: any text
  std::shared_ptr<const TokenTrie> trie;       // with a grammar
  ToolFamily family = ToolFamily::kNone;       // kNone: no tool calls are read out
  std::vector<std::string> tool_names;
  std::vector<std::string> markers;            // texts of control tokens that belong to the answer's text
};

class ShapeMaker {
 public:
  // `chat_template`: its source; empty if the model has none. The tokenizer outlives the maker.
  ShapeMaker(const model::Tokenizer& tokenizer, std::string_view chat_template)
      : tokenizer_(tokenizer), family_(ToolFamilyOf(chat_template)) {}
  // Null for a request whose answer is plain text.
  Result<std::shared_ptr<const AnswerShape>> Make(const api::GenerationRequest& request);

 private:
  std::shared_ptr<const TokenTrie> Trie(bool with_markers);

  const model::Tokenizer& tokenizer_;
  ToolFamily family_;
  std::mutex mutex_;
  std::shared_ptr<const TokenTrie> plain_, with_markers_;
};

// One choice's way through its shape.
class ShapedAnswer {
 public:
  // `shape` may be null. The shape has been tried out by ShapeMaker, so this does not fail.
  explicit ShapedAnswer(std::shared_ptr<const AnswerShape> shape);

  bool constrained() const { return matcher_.has_value(); }
  // The same place in the constraint, to go on from apart from this one. It reads no tool calls.
  ShapedAnswer Fork() const;
  // Minus infinity for every token that may not follow. The reason if none may.
  Status Mask(std::span<float> logits);
  void Accept(int32_t token);
  // Of the nodes of a tree below the text so far that are wanted (bit n, none without its parent), those that the
  // constraint allows, the root too; all that are wanted without one. Takes a walk of the grammar for each.
  uint64_t AllowedNodes(const spec::DraftTree& tree, uint64_t wanted) const;
  // What must come next whatever the answer is, at most `limit` bytes; empty where there is a choice.
  std::string ForcedBytes(size_t limit) const { return matcher_ ? matcher_->ForcedBytes(limit) : std::string(); }
  // What a control token adds to the text; empty for most.
  std::string_view MarkerText(const model::Tokenizer& tokenizer, int32_t token) const;
  // Reads tool calls out of a piece of text.
  ToolCallText Push(std::string text);
  ToolCallText Finish();

 private:
  std::shared_ptr<const AnswerShape> shape_;
  std::optional<GrammarMatcher> matcher_;
  std::vector<uint64_t> mask_;
  std::optional<ToolCallParser> parser_;
};

}  // namespace surety::engine
