// Random bytes that nobody can guess, for ids and nonces: a store of each thread's own is filled at once, because the
// generator takes as long for a few bytes as for some hundred. Keys are not drawn from it.
//
// Threads: any. Invariants: (1) no byte is given out twice, a process that forks and its child included. (2) What was
// given out does not stay in the store.
#pragma once

#include <cstdint>
#include <span>

namespace surety {

// False: the generator failed, and `out` must not be used.
[[nodiscard]] bool SecureRandom(std::span<uint8_t> out);

}  // namespace surety
