// The working memory of a step: matrices cut from one buffer, sized for the largest step and viewed at its actual size.
// Owns: the buffer. Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "tensor/view.h"

namespace surety::model {

// A matrix of the workspace; an index, valid for the Workspace that gave it.
struct WorkspaceSlot {
  int index = -1;
};

class Workspace {
 public:
  // Declares a matrix of up to max_rows x cols.
  WorkspaceSlot Declare(int64_t max_rows, int64_t cols) {
    const int64_t bytes = (max_rows * cols * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
    slots_.push_back({total_bytes_, max_rows, cols});
    total_bytes_ += bytes;
    return {static_cast<int>(slots_.size()) - 1};
  }
  // After all declarations. kResourceExhausted with the size asked for.
  Status Allocate() {
    auto buffer = AlignedBuffer::TryAllocate(static_cast<size_t>(total_bytes_));
    if (!buffer) return buffer.error().WithContext("step workspace");
    buffer_ = *std::move(buffer);
    return OkStatus();
  }
  MatrixF Get(WorkspaceSlot slot, int64_t rows) {
    const Slot& s = slots_[static_cast<size_t>(slot.index)];
    return {reinterpret_cast<float*>(buffer_.data() + s.offset_bytes), rows, s.cols};
  }
  int64_t size_bytes() const { return total_bytes_; }
  void Clear() {
    slots_.clear();
    total_bytes_ = 0;
    buffer_ = AlignedBuffer();
  }

 private:
  struct Slot {
    int64_t offset_bytes, max_rows, cols;
  };
  std::vector<Slot> slots_;
  int64_t total_bytes_ = 0;
  AlignedBuffer buffer_;
};

}  // namespace surety::model
