// Chat templates: the part of Jinja that models' templates use, evaluated in a sandbox.
//
// The result is a list of segments: what the template itself says is trusted, what came out of message contents, tool
// results and other caller data is untrusted, so that control-token text inside a user's message stays text.
// A message's role is trusted if it is a word that chat formats know as a role: templates make control tokens of it.
// Limits on steps, nesting depth and output bytes; no access to anything but the given values.
// Threads: a ChatTemplate is immutable after Parse; any thread may Render.
// Errors: kInvalidArgument with "line L, column C: what"; raise_exception() in a template gives kInvalidArgument with
// the template's own message; kResourceExhausted names the limit.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

#include "base/status.h"
#include "model/tokenizer/tokenizer.h"

namespace surety::model {

struct TemplateLimits {
  int64_t max_steps = 2'000'000;
  int max_depth = 100;
  int64_t max_output_bytes = 16 << 20;
  int64_t max_source_bytes = 1 << 20;
};

// What a template may read. `values` holds messages, tools, add_generation_prompt and any further keyword arguments;
// bos_token and eos_token are trusted strings.
struct TemplateInput {
  boost::json::object values;
  std::string bos_token, eos_token;
  int64_t now_unix_seconds = 0;  // for strftime_now
};

class ChatTemplate {
 public:
  ~ChatTemplate();
  static Result<std::unique_ptr<ChatTemplate>> Parse(std::string_view source, const TemplateLimits& limits = {});
  Result<std::vector<TextSegment>> Render(const TemplateInput& input) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace surety::model
