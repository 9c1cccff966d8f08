// Hidden states of consecutive positions of one sequence that wait for being read by a head.
//
// They are as good as the text, so a sequence whose memory must be overwritten when it is given back (KV policies with
// zero_on_release, forgotten scopes) has them overwritten too, wherever they have lain. No more memory is held than for
// a few states beyond those there are.
//
// Shape: rows of `width` floats. Threads: one. Owns: the states.
#pragma once

#include <cstddef>
#include <memory>

namespace surety::engine {

class KeptStates {
 public:
  explicit KeptStates(size_t width) : width_(width) {}
  KeptStates(const KeptStates&) = delete;
  KeptStates& operator=(const KeptStates&) = delete;
  ~KeptStates() { Clear(); }

  int size() const { return static_cast<int>(size_); }
  bool empty() const { return size_ == 0; }
  size_t capacity_bytes() const { return capacity_ * width_ * sizeof(float); }
  const float* Row(int i) const { return rows_.get() + static_cast<size_t>(i) * width_; }
  const float* Last() const { return Row(size() - 1); }

  // From now on what goes is overwritten; never taken back.
  void MarkZeroOnRelease() { zero_ = true; }
  void Append(const float* row);
  // The last `n_left` are left, at most.
  void Trim(int n_left);
  void Clear();
  // Overwrites even what is not marked.
  void Wipe() {
    zero_ = true;
    Clear();
  }

 private:
  static constexpr size_t kSpare = 8;  // rows that are held for the next ones
  void Move(size_t capacity, size_t first);  // rows from `first` on into memory for so many
  void Release(std::unique_ptr<float[]> rows, size_t capacity) const;

  size_t width_, size_ = 0, capacity_ = 0;
  bool zero_ = false;
  std::unique_ptr<float[]> rows_;
};

}  // namespace surety::engine
