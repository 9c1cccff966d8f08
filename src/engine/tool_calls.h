// Tool calls in a model's answer: which form a model writes them in, reading them out of a stream of text, and the
// grammar that makes an answer a call.
//
// Threads: ToolCallParser belongs to one answer. Errors: ToolCallGrammar answers kInvalidArgument naming the tool and
// the JSON pointer in its parameters, kFailedPrecondition if the model has no form for calls.
// Invariants of the parser: (1) the joined text, the calls and their order do not depend on how the stream was cut into
// pieces. (2) only well-formed calls of offered tools become calls; everything else stays text, nothing is lost but the
// markers of calls and the white space around them. (3) a call's arguments are the very JSON text that the model wrote.
// (4) what is held back is at most kMaxHeldBytes; a longer call is text.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/request.h"
#include "engine/grammar/grammar.h"

namespace surety::engine {

enum class ToolFamily : uint8_t {
  kNone,         // no form that is known
  kHermes,       // <tool_call>{"name": ..., "arguments": {...}}</tool_call>: Hermes, Qwen 2.5 and 3, QwQ
  kLlama,        // {"name": ..., "parameters": {...}}, also after <|python_tag|>: Llama 3.1 and later
  kMistral,      // [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]
  kMistralArgs,  // [TOOL_CALLS]name[ARGS]{...}, with or without [CALL_ID]: Mistral Small 3.2 and later
};
std::string_view NameOf(ToolFamily family);

// From the source text of the model's chat template.
ToolFamily ToolFamilyOf(std::string_view chat_template);

// Texts that begin or divide calls. Where one is a control token of the vocabulary, its text belongs to the text that
// the parser reads, and to the TokenTrie that a required call's grammar runs on.
std::vector<std::string> ToolMarkers(ToolFamily family);

struct ToolCallText {
  std::string text;
  std::vector<api::ToolCallDelta> calls;
};

class ToolCallParser {
 public:
  static constexpr size_t kMaxHeldBytes = 256 << 10;

  // `tool_names`: those that may be called. kNone: all is text.
  ToolCallParser(ToolFamily family, std::vector<std::string> tool_names);
  ~ToolCallParser();
  ToolCallParser(ToolCallParser&&) noexcept;
  ToolCallParser& operator=(ToolCallParser&&) noexcept;

  // Valid UTF-8. What has become certain.
  ToolCallText Push(std::string_view piece);
  // The rest, at the end of the answer.
  ToolCallText Finish();
  int n_calls() const { return n_calls_; }

 private:
  enum class Outcome : uint8_t { kMore, kCall, kText };
  struct Json;
  struct Call {
    std::string name, arguments;
  };
  void Run(bool last, ToolCallText& out);
  bool RunText(bool last, ToolCallText& out);
  bool RunCall(bool last, ToolCallText& out);
  void Emit(size_t n, ToolCallText& out);
  void BeginCall(size_t body);
  Outcome ReadCall(bool last, size_t& end, std::vector<Call>& calls);
  Outcome ReadJson(char open, size_t begin, size_t& end);
  Outcome ReadClosing(bool last, size_t json_end, size_t& end) const;
  Outcome ReadMistralHead(size_t& begin, std::string& name) const;
  bool TakeCall(std::string_view text, std::vector<Call>& calls) const;
  bool TakeArguments(std::string_view raw, Call& call) const;

  ToolFamily family_;
  std::vector<std::string> names_;
  std::vector<std::string> markers_;  // that begin a call
  std::string held_;
  bool in_call_ = false;
  bool at_start_ = true;  // nothing but white space so far
  bool after_call_ = false;
  size_t body_ = 0;  // in a call: where it begins behind its marker
  std::unique_ptr<Json> json_;
  int n_calls_ = 0;
};

// The answers that are calls of the offered tools and nothing else: one, or with `parallel` up to 16 where the form
// allows several. `tools` in OpenAI's form; the choice must be kRequired or kNamed.
Result<GrammarPtr> ToolCallGrammar(ToolFamily family, const boost::json::array& tools, const api::ToolUse& use,
                                   const GrammarLimits& limits = {});
// The names of the offered tools. kInvalidArgument naming the tool that is not in OpenAI's form.
Result<std::vector<std::string>> ToolNames(const boost::json::array& tools);

}  // namespace surety::engine
