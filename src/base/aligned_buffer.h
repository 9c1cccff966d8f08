// A block of memory at a 64-byte aligned address. Large blocks ask for huge pages, and take physical memory where they
// are first touched.
// Owns: the memory. Threads: as its contents. Contents start as zero bytes.
// Errors: TryAllocate answers kResourceExhausted where the constructor would stop the process.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/status.h"

namespace surety {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t size_bytes);
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)),
        mapped_bytes_(std::exchange(other.mapped_bytes_, 0)), chunk_(std::move(other.chunk_)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    std::swap(chunk_, other.chunk_);
    return *this;
  }

  static Result<AlignedBuffer> TryAllocate(size_t size_bytes);

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }
  template <typename T>
  T* as() { return reinterpret_cast<T*>(data_); }
  template <typename T>
  const T* as() const { return reinterpret_cast<const T*>(data_); }

 private:
  friend class BufferArena;
  bool Allocate(size_t size_bytes);

  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
  size_t mapped_bytes_ = 0;  // > 0: an anonymous mapping, 0: the heap, or a part of chunk_
  std::shared_ptr<const AlignedBuffer> chunk_;
};

// Blocks that live about as long as each other, such as a model's matrices, side by side in chunks of huge pages:
// alone, one smaller than a huge page lies in small pages, and reading many waits for the tables of pages (decode of a
// 135M model is a seventh faster). A chunk goes back when the last block in it does; the arena holds the one it fills.
// Threads: one at a time; blocks may be released by any. Errors: as AlignedBuffer::TryAllocate.
class BufferArena {
 public:
  static constexpr size_t kChunkBytes = size_t{16} << 20;

  Result<AlignedBuffer> TryAllocate(size_t size_bytes);

 private:
  std::shared_ptr<AlignedBuffer> chunk_;
  size_t used_ = 0;  // of it
};

}  // namespace surety
