#include "engine/sequence.h"

namespace surety::engine {

Sequence::Sequence(RequestState& owner, int choice_index, std::vector<int32_t> prompt,
                   const model::Tokenizer& tokenizer, kv::PagePool& pool)
    : state(&owner), choice(choice_index), sampling(owner.request().sampling), tokens(std::move(prompt)),
      n_prompt(owner.n_prompt()), pages(pool), decoder(tokenizer), stops(owner.request().stop),
      shaped(owner.prepared.shape) {
  sampling.lane += static_cast<uint32_t>(choice_index);
  history.AddPrompt(tokens);
}

int Sequence::tokens_left() const { return state->prepared.max_tokens - n_output(); }

}  // namespace surety::engine
