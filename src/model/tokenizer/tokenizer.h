// Text to token ids and back.
//
// Threads: a Tokenizer is immutable; any thread may use it. IncrementalDecoder belongs to one stream.
// Errors: Make returns kInvalidArgument naming what in the specification does not fit. Encode never fails on text:
// bytes that are not UTF-8 are encoded as bytes by byte-level vocabularies, as U+FFFD by the others.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace surety::model {

// A piece of prompt. Trusted text comes from the template or the operator: control-token text in it becomes control
// tokens. Untrusted text comes from users, tools and documents: it stays text.
struct TextSegment {
  std::string text;
  bool trusted = true;
};

struct EncodeOptions {
  bool add_special = false;  // BOS/EOS or CLS/SEP as the tokenizer itself would
  bool continues = false;    // other text stands before: no space is put in front of the first word
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  static Result<std::unique_ptr<Tokenizer>> Make(TokenizerSpec spec);

  // The ids of the segments' concatenation, except that a special token is recognised only where all of its text lies
  // in trusted segments. Ordinary tokens may span a border, so that ids equal those of the plain rendered string
  // whenever no untrusted text contains a special token's text.
  virtual std::vector<TokenId> Encode(std::span<const TextSegment> segments, const EncodeOptions& options) const = 0;
  std::vector<TokenId> Encode(std::string_view text, bool trusted = true, const EncodeOptions& options = {}) const;

  // The bytes that a token stands for (byte-level and byte tokens decoded, U+2581 as space, WordPiece's joining applied
  // as inside a text). Empty for control tokens. id must be in range.
  virtual std::string_view TokenBytes(TokenId id) const = 0;
  // The token as it would be shown in a list, control tokens included.
  virtual std::string_view TokenText(TokenId id) const = 0;
  virtual bool IsControl(TokenId id) const = 0;
  // What is dropped from the very start of a decoded text: the one space that encoding had put there, or that WordPiece
  // would.
  virtual bool StripsLeadingSpace() const = 0;

  // Whole decode: all bytes joined, the kind's joining rules applied, invalid UTF-8 replaced by U+FFFD.
  std::string Decode(std::span<const TokenId> ids, bool show_control = false) const;

  virtual const TokenizerSpec& spec() const = 0;
  int vocab_size() const { return static_cast<int>(spec().tokens.size()); }
  // Ends an answer: EOS and the end-of-turn ids.
  virtual bool IsEndOfText(TokenId id) const = 0;
};

// Turns a stream of ids into text that is valid UTF-8 at every moment: holds back at most 3 bytes of an unfinished
// character; Finish() gives U+FFFD for what was left. The pieces joined equal Decode of the ids.
class IncrementalDecoder {
 public:
  explicit IncrementalDecoder(const Tokenizer& tokenizer, bool show_control = false)
      : tokenizer_(tokenizer), show_control_(show_control) {}
  std::string Push(TokenId id);
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  bool show_control_;
  bool first_ = true;
  std::string held_;
};

}  // namespace surety::model
