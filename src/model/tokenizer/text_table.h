// Texts by number in one block of memory: four bytes each above their length.
// Threads: immutable after the last Add. Owns: the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace surety::model {

class TextTable {
 public:
  // Up to 4 GiB of bytes in all.
  void Add(std::string_view text) {
    bytes_ += text;
    ends_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
  // After the last Add: gives memory kept for growth back.
  void Finish() {
    bytes_.shrink_to_fit();
    ends_.shrink_to_fit();
  }
  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string bytes_;
  std::vector<uint32_t> ends_;
};

}  // namespace surety::model
