#include "engine/kept_states.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace surety::engine {
namespace {

// Writes that the compiler may not leave out, though nobody reads the memory any more.
void OverwriteFloats(float* at, size_t n) {
  volatile float* memory = at;
  for (size_t i = 0; i < n; ++i) memory[i] = 0;
}

}  // namespace

void KeptStates::Release(std::unique_ptr<float[]> rows, size_t capacity) const {
  if (zero_ && rows != nullptr) OverwriteFloats(rows.get(), capacity * width_);
}

void KeptStates::Move(size_t capacity, size_t first) {
  auto moved = std::make_unique<float[]>(capacity * width_);
  if (size_ > first) std::memcpy(moved.get(), rows_.get() + first * width_, (size_ - first) * width_ * sizeof(float));
  Release(std::exchange(rows_, std::move(moved)), std::exchange(capacity_, capacity));
  size_ -= first;
}

void KeptStates::Append(const float* row) {
  if (size_ == capacity_) Move(size_ == 0 ? 1 : std::min(2 * size_, size_ + kSpare), 0);
  std::memcpy(rows_.get() + size_ * width_, row, width_ * sizeof(float));
  ++size_;
}

void KeptStates::Trim(int n_left) {
  const auto left = static_cast<size_t>(n_left);
  if (size_ <= left) return;
  if (left == 0) return Clear();
  const size_t first = size_ - left;
  if (capacity_ > left + kSpare) return Move(left, first);
  std::memmove(rows_.get(), rows_.get() + first * width_, left * width_ * sizeof(float));
  if (zero_) OverwriteFloats(rows_.get() + left * width_, first * width_);
  size_ = left;
}

void KeptStates::Clear() {
  Release(std::exchange(rows_, nullptr), std::exchange(capacity_, 0));
  size_ = 0;
}

}  // namespace surety::engine
