#include "base/secure_random.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>

namespace surety {
namespace {

std::atomic<uint64_t>& ForksOfThisProcess() {
  static std::atomic<uint64_t> forks = 0;
  return forks;
}

uint64_t ProcessGeneration() {
  // Without the handler a child would go on with its parent's store.
  static const bool watched = pthread_atfork(nullptr, nullptr, [] { ++ForksOfThisProcess(); }) == 0;
  return watched ? ForksOfThisProcess().load(std::memory_order_relaxed) + 1 : 0;
}

thread_local bool store_gone = false;   // outlives the store: what runs later in a thread's end draws for itself

struct RandomStore {
  std::array<uint8_t, 512> bytes;
  size_t n_left = 0;          // at the front
  uint64_t generation = 0;
  ~RandomStore() {
    store_gone = true;
    OPENSSL_cleanse(bytes.data(), bytes.size());
  }
};

bool DrawRandom(std::span<uint8_t> out) { return RAND_bytes(out.data(), static_cast<int>(out.size())) == 1; }

}  // namespace

bool SecureRandom(std::span<uint8_t> out) {
  if (store_gone) return DrawRandom(out);
  thread_local RandomStore store;
  const uint64_t generation = ProcessGeneration();
  if (generation == 0 || out.size() > store.bytes.size() / 4) return DrawRandom(out);
  if (store.generation != generation || out.size() > store.n_left) {
    store.n_left = 0;
    if (!DrawRandom(store.bytes)) return false;
    store.n_left = store.bytes.size();
    store.generation = generation;
  }
  store.n_left -= out.size();
  uint8_t* const taken = store.bytes.data() + store.n_left;
  std::copy_n(taken, out.size(), out.data());
  OPENSSL_cleanse(taken, out.size());
  return true;
}

}  // namespace surety
