// A transcript as a sample: the tokens of all that the template made of it, and which of them are an assistant's. Its
// turns are found by their bytes in the text, not by encoding them alone: what stands before a text decides its first
// token in vocabularies that mark spaces.
//
// Threads: any. A turn that is not found is read, not learned, and counted: a template that shows earlier turns
// otherwise than they were said, or a vocabulary whose tokens do not give back the text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/tokenizer/tokenizer.h"
#include "train/samples.h"

namespace surety::train {

struct TranscriptTurn {
  std::string_view content;
  bool assistants = false;
};

// `segments`: the template's text of all turns, in which those that are not trusted hold the contents. The last turn's
// end is learned; what the template puts behind it is left out. `n_lost`: assistant's turns not found. kCancelled
// between two turns when `stop` says so.
Result<Sample> TranscriptSample(const model::Tokenizer& tokenizer, std::span<const model::TextSegment> segments,
                                std::span<const TranscriptTurn> turns, const std::function<bool()>& stop,
                                int64_t& n_lost);

}  // namespace surety::train
