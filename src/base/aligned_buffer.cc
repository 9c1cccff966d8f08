#include "base/aligned_buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"

namespace surety {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMapFrom = size_t{1} << 20;  // from here on a mapping of its own: zeroed lazily, returned on release

}  // namespace

bool AlignedBuffer::Allocate(size_t size_bytes) {
  if (size_bytes == 0) return true;
  if (size_bytes > (size_t{1} << 47)) return false;
  if (size_bytes >= kMapFrom) {
    // Map one huge page more than needed, then cut the ends so that the block starts on a huge-page border. The rest
    // under a huge page stays in small ones: rounding up there would cost models of small matrices a third more.
    const size_t wanted = (size_bytes + kPage - 1) / kPage * kPage;
    void* raw = ::mmap(nullptr, wanted + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return false;
    auto address = reinterpret_cast<uintptr_t>(raw);
    const uintptr_t start = (address + kHugePage - 1) / kHugePage * kHugePage;
    if (start > address) ::munmap(raw, start - address);
    if (address + kHugePage > start) {
      ::munmap(reinterpret_cast<void*>(start + wanted), address + kHugePage - start);
    }
    data_ = reinterpret_cast<std::byte*>(start);
    mapped_bytes_ = wanted;
    ::madvise(data_, wanted, MADV_HUGEPAGE);
  } else {
    const size_t wanted = (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
    data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, wanted));
    if (data_ == nullptr) return false;
    std::memset(data_, 0, wanted);
  }
  size_bytes_ = size_bytes;
  return true;
}

AlignedBuffer::AlignedBuffer(size_t size_bytes) {
  SURETY_CHECK_MSG(Allocate(size_bytes), "out of memory: " + std::to_string(size_bytes) + " bytes");
}

AlignedBuffer::~AlignedBuffer() {
  if (chunk_ != nullptr) return;
  if (mapped_bytes_ > 0) {
    ::munmap(data_, mapped_bytes_);
  } else {
    std::free(data_);
  }
}

Result<AlignedBuffer> AlignedBuffer::TryAllocate(size_t size_bytes) {
  AlignedBuffer buffer;
  if (!buffer.Allocate(size_bytes)) {
    return Error(ResourceExhaustedError("cannot allocate " + std::to_string(size_bytes) + " bytes of memory"));
  }
  return buffer;
}

Result<AlignedBuffer> BufferArena::TryAllocate(size_t size_bytes) {
  if (size_bytes == 0 || size_bytes > kChunkBytes / 2) return AlignedBuffer::TryAllocate(size_bytes);
  const size_t wanted = (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (chunk_ == nullptr || used_ + wanted > kChunkBytes) {
    SURETY_ASSIGN_OR_RETURN(AlignedBuffer chunk, AlignedBuffer::TryAllocate(kChunkBytes));
    chunk_ = std::make_shared<AlignedBuffer>(std::move(chunk));
    used_ = 0;
  }
  AlignedBuffer buffer;
  buffer.data_ = chunk_->data() + used_;
  buffer.size_bytes_ = size_bytes;
  buffer.chunk_ = chunk_;
  used_ += wanted;
  return buffer;
}

}  // namespace surety
