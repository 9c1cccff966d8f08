// What was erased from the cache is in none of the process's memory: read through the system, not through the cache.
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gateway/response_cache.h"
#include "gateway/testing/partition_fixture.h"

namespace surety::gateway {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their shadow is too large to read

constexpr size_t kMarkBytes = 12;

// A mark of `kind` as it is never written down: by byte, so that no literal of it exists.
char MemoryMarkByte(int kind, size_t i) {
  return static_cast<char>('A' + (i * 7 + static_cast<size_t>(kind) * 5) % 26);
}

std::string MemoryMark(int kind, size_t repeats) {
  std::string text;
  text.reserve(kMarkBytes * repeats + 2);  // for what the test appends: it must not leave a copy itself
  for (size_t i = 0; i < kMarkBytes * repeats; ++i) text += MemoryMarkByte(kind, i % kMarkBytes);
  return text;
}

// How often marks of `kind` stand in writable memory.
int MemoryMarks(int kind) {
  std::ifstream maps("/proc/self/maps");
  const int memory = open("/proc/self/mem", O_RDONLY);
  // Not of the heap, where what lies beside it would be passed over below.
  static std::array<char, 1 << 20> buffer;
  int n = 0;
  for (std::string line; std::getline(maps, line);) {
    // Entries lie on the heap. On the stack stand registers that the loader saves, with the last bytes that were moved.
    if (line.ends_with("[stack]")) continue;
    uint64_t begin = 0, end = 0;
    char rights[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, rights) != 3 || rights[0] != 'r' || rights[1] != 'w') {
      continue;
    }
    const auto own = reinterpret_cast<uint64_t>(buffer.data());
    for (uint64_t at = begin; at < end; at += buffer.size() - kMarkBytes) {
      if (at < own + buffer.size() && own < at + buffer.size()) continue;  // around the buffer: nothing else is large
      const size_t size = std::min<uint64_t>(buffer.size(), end - at);
      const ssize_t got = pread(memory, buffer.data(), size, static_cast<off_t>(at));
      for (ssize_t i = 0; i + static_cast<ssize_t>(kMarkBytes) <= got; ++i) {
        size_t same = 0;
        while (same < kMarkBytes && buffer[static_cast<size_t>(i) + same] == MemoryMarkByte(kind, same)) ++same;
        n += same == kMarkBytes;
      }
    }
  }
  close(memory);
  std::ranges::fill(buffer, 0);
  return n;
}

void MemoryWipe(std::string& text) {
  text.resize(text.capacity());
  for (volatile char& c : text) c = 0;
}

TEST(ResponseCacheMemoryTest, ErasedEntriesAreOverwritten) {
  PartitionTestClock clock;
  const auto cache = ResponseCache::Make(1 << 20, clock);
  const std::vector<float> vector = {0.6f, 0.8f};
  // 0: the answer, 1: the question, 2: the history, 3: arguments, 4: the subject.
  for (int i = 0; i < 3; ++i) {
    AnswerBasis basis = SomeBasis();
    basis.conversation = MemoryMark(2, 20) + std::to_string(i);
    std::string question = MemoryMark(1, 20) + std::to_string(i);
    CachedAnswer answer;
    answer.answer.text = MemoryMark(0, 30);
    answer.answer.calls.push_back({"pay", MemoryMark(3, 10)});
    answer.subject = MemoryMark(4, 4);
    answer.decision = "d";
    ASSERT_TRUE(cache->Store(SiblingPartition(-1), basis, question, vector, std::move(answer), 1000).ok());
    ASSERT_FALSE(cache->Find(SiblingPartition(0), basis, question, 0).has_value());
    MemoryWipe(basis.conversation);
    MemoryWipe(question);
  }
  for (int kind = 0; kind < 5; ++kind) EXPECT_GE(MemoryMarks(kind), 3) << kind;  // the control: it is seen
  std::string subject = MemoryMark(4, 4);
  EXPECT_EQ(cache->ForgetSubject("bank-a", subject).entries, 3);
  MemoryWipe(subject);
  for (int kind = 0; kind < 5; ++kind) EXPECT_EQ(MemoryMarks(kind), 0) << kind;
}

#endif

}  // namespace
}  // namespace surety::gateway
