#include "cli/prompt_input.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "cli/interrupt.h"

namespace surety::cli {
namespace {

// A pipe in place of standard input.
class LineReaderTest : public ::testing::Test {
 protected:
  LineReaderTest() {
    int ends[2] = {};
    EXPECT_EQ(pipe(ends), 0);
    saved_ = dup(STDIN_FILENO);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    writer_ = ends[1];
    InstallInterruptHandlers();
    ClearInterrupt();
  }
  ~LineReaderTest() override {
    ClearInterrupt();
    dup2(saved_, STDIN_FILENO);
    close(saved_);
    if (writer_ >= 0) close(writer_);
  }
  void Write(std::string_view text) const { EXPECT_EQ(write(writer_, text.data(), text.size()), ssize_t(text.size())); }

  LineReader reader_;
  int saved_ = -1, writer_ = -1;
};

TEST_F(LineReaderTest, LinesComeOneByOneAndTheLastNeedsNoNewline) {
  Write("one\r\n\ntwo");
  close(std::exchange(writer_, -1));
  std::string line;
  EXPECT_EQ(reader_.Next(line), LineOutcome::kLine);
  EXPECT_EQ(line, "one");
  EXPECT_EQ(reader_.Next(line), LineOutcome::kLine);
  EXPECT_EQ(line, "");
  EXPECT_EQ(reader_.Next(line), LineOutcome::kLine);
  EXPECT_EQ(line, "two");
  EXPECT_EQ(reader_.Next(line), LineOutcome::kEnd);
}

TEST_F(LineReaderTest, SilentInputIsATimeout) {
  std::string line;
  EXPECT_EQ(reader_.Next(line, 20), LineOutcome::kTimeout);
}

// The signal goes to another thread, so the wait in this one is not interrupted by it, and the moment does not matter.
TEST_F(LineReaderTest, InterruptThatAnotherThreadTakesEndsTheWait) {
  for (int i = 0; i < 20; ++i) {
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    std::thread other([i] {
      std::this_thread::sleep_for(std::chrono::microseconds(i * 100));
      raise(SIGINT);
    });
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    std::string line;
    EXPECT_EQ(reader_.Next(line, 60'000), LineOutcome::kInterrupted);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    other.join();
    ClearInterrupt();
  }
}

TEST_F(LineReaderTest, WakeUpOfAnAnsweredInterruptEndsNoWait) {
  raise(SIGINT);
  ClearInterrupt();
  std::string line;
  EXPECT_EQ(reader_.Next(line, 20), LineOutcome::kTimeout);
}

}  // namespace
}  // namespace surety::cli
