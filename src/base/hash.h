// SHA-256, for digests of models and evidence. Threads: one hasher belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace surety {

using Sha256Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::span<const std::byte> bytes);
  Sha256Digest Finish();  // once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Sha256Digest Sha256Of(std::span<const std::byte> bytes);
std::string HexOf(std::span<const uint8_t> bytes);  // lower case
int HexDigitValue(char c);                           // of both cases; -1: no hexadecimal digit

}  // namespace surety
