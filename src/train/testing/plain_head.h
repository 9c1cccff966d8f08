// An EAGLE-3 head in plain loops and double precision, written from its description and not from the training pass: it
// drafts from one position as a server would, one token after the other over a list of keys and values. And random
// batches for tests.
//
// Threads: any. Shapes: see head_shape.h.
#pragma once

#include <cstdint>
#include <vector>

#include "train/head_batch.h"
#include "train/head_shape.h"

namespace surety::train {

// A text for the reference: the token of each position as its embedding, the target's hidden states of each position.
struct PlainText {
  std::vector<std::vector<double>> embeddings, taps;
};

// Logits at depths 0 to unroll - 1 for drafting from `root`, when the text's own tokens are read.
std::vector<std::vector<double>> PlainDraft(const HeadShape& shape, const std::vector<double>& weights,
                                            const PlainText& text, int root, int unroll);

struct RandomTexts {
  HeadBatch<double> batch;
  std::vector<PlainText> texts;
};
// Texts of these lengths with random states and targets. Roots before `prompt` are not active, and some rows are
// measured alone.
RandomTexts MakeRandomTexts(const HeadShape& shape, const std::vector<int>& lengths, int prompt, int unroll, int n_top,
                            uint64_t seed);
std::vector<double> RandomWeights(const HeadShape& shape, uint64_t seed);

// The same batch in float.
HeadBatch<float> ToFloat(const HeadBatch<double>& batch);

}  // namespace surety::train
