// Texts to train on, as JSONL: a prompt or a conversation that the target will answer, or a served transcript.
//
//   {"prompt": "..."}                                     the target writes the answer
//   {"messages": [{"role": "user", "content": "..."}]}    the target writes the answer
//   {"messages": [... an assistant's too], "consent": true}  taken as it is; answered where the last one is a user's
//
// A line with an assistant's message was served to somebody: without "consent": true it is refused, as is any line with
// "consent": false. Refused lines are counted, or an error with `strict`. A key that stands twice in its object is an
// error.
//
// Threads: values. Errors: ReadCorpus: kInvalidArgument with file and line; the file system's. Empty lines are passed
// over.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/array.hpp>

#include "base/file.h"
#include "base/status.h"

namespace surety::train {

struct CorpusText {
  std::string where;              // "file:line"
  std::string prompt;             // where `messages` is empty
  boost::json::array messages;
  bool answered = false;          // the last message is an assistant's
};

struct Corpus {
  std::vector<CorpusText> texts;
  int64_t n_refused = 0;          // without consent
  std::string digest;             // SHA-256 of all bytes that were read, hex
};

// One line; `refused` is set where consent is missing. Exposed for tests.
Result<CorpusText> ParseCorpusLine(std::string_view line, bool& refused);

Result<Corpus> ReadCorpus(FileSystem& files, const std::vector<std::string>& paths, bool strict);

}  // namespace surety::train
