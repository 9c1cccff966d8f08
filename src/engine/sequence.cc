#include "engine/sequence.h"

#include <cstring>

#include "base/hash.h"

namespace surety::engine {
namespace {

// The random numbers that verify by rejection must not have had a part in what is drafted. A caller may give an answer
// back as prompt or prediction, with the seed that made it; so the seed's stream is this text's own.
uint64_t RejectionSeed(const PreparedRequest& prepared) {
  Sha256 hash;
  const uint64_t sizes[] = {prepared.request.sampling.seed, prepared.prompt.size()};
  hash.Update(std::as_bytes(std::span(sizes)));
  hash.Update(std::as_bytes(std::span(prepared.prompt)));
  hash.Update(std::as_bytes(std::span(prepared.request.prediction)));
  const Sha256Digest digest = hash.Finish();
  uint64_t seed;
  std::memcpy(&seed, digest.data(), sizeof(seed));
  return seed;
}

}  // namespace

Sequence::Sequence(RequestState& owner, int choice_index, std::vector<int32_t> prompt,
                   const model::Tokenizer& tokenizer, kv::PagePool& pool)
    : state(&owner), choice(choice_index), sampling(owner.request().sampling), tokens(std::move(prompt)),
      n_prompt(owner.n_prompt()), pages(pool), decoder(tokenizer), stops(owner.request().stop),
      shaped(owner.prepared.shape) {
  if (owner.request().verification == api::Verification::kRejection) sampling.seed = RejectionSeed(owner.prepared);
  sampling.lane += static_cast<uint32_t>(choice_index);
  history.AddPrompt(tokens);
}

int Sequence::tokens_left() const { return state->prepared.max_tokens - n_output(); }

}  // namespace surety::engine
