// From a corpus to samples: prompts are answered by the target, many at a time, and transcripts are tokenized as the
// target would see them. Done work is in the sample file, so an interrupted run goes on with the next text.
//
// Threads: the engine's. Errors: kInvalidArgument with a text's file and line; kCancelled on an interrupt; the
// engine's.
#pragma once

#include <cstdint>

#include "cli/train_draft_options.h"
#include "engine/local_model.h"
#include "train/corpus.h"
#include "train/samples.h"

namespace surety::cli {

struct TextCounts {
  int64_t n_answered = 0;      // by the target, in this run
  int64_t n_answer_tokens = 0; // in this run
  int64_t n_cut = 0;           // longer than the context, in this run
  int64_t n_lost_turns = 0;    // an assistant's, not found in what the template made; in this run
};

// Appends a sample for each text that has none yet. A text whose prompt fills the context gives a sample without
// tokens.
Result<TextCounts> MakeSamples(engine::LocalModel& model, const TrainDraftOptions& options,
                               const train::Corpus& corpus, train::SampleFile& file);

}  // namespace surety::cli
