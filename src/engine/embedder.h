// Text to vectors with an encoder model: tokens, hidden states, pooling, normalisation as the model's files say.
//
// Threads: one. Owns: KV memory for one pass. Borrows the model.
// Errors: Make: kFailedPrecondition for a decoder, kResourceExhausted. Embed: kOutOfRange when a text has more tokens
// than the model's context, with both numbers (never cut in silence).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/local_model.h"
#include "kv/page_pool.h"

namespace surety::engine {

struct Embedding {
  std::vector<float> values;  // d_model
  int n_tokens = 0;
};

class Embedder {
 public:
  static Result<std::unique_ptr<Embedder>> Make(LocalModel& model);
  // Texts are packed into passes of as many rows as fit; a vector does not depend on its neighbours.
  Result<std::vector<Embedding>> Embed(std::span<const std::string> texts);
  // The same for token ids, special tokens included.
  Result<std::vector<Embedding>> EmbedTokens(std::span<const std::vector<int32_t>> sequences);

 private:
  explicit Embedder(LocalModel& model) : model_(model) {}
  void RunPass(std::span<const std::vector<int32_t>> sequences, std::vector<Embedding>& out);
  Embedding Pool(ConstMatrixF hidden) const;

  LocalModel& model_;
  int max_rows_ = 0;
  std::unique_ptr<kv::PagePool> pool_;
  AlignedBuffer hidden_;
};

}  // namespace surety::engine
