#include "base/file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace surety {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "surety-file-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  static std::string Text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  FileSystem& files_ = FileSystem::Real();
  std::string folder_;
};

TEST_F(FileTest, WhatIsWrittenIsReadAndMapped) {
  const std::string contents("a\0b\n", 4);
  ASSERT_TRUE(files_.WriteAll(Path("f"), contents).ok());
  EXPECT_EQ(*files_.ReadAll(Path("f"), 100), contents);
  const auto mapped = files_.Map(Path("f"));
  ASSERT_TRUE(mapped.has_value());
  EXPECT_EQ(Text((*mapped)->bytes()), contents);
  (*mapped)->Release((*mapped)->bytes());
  EXPECT_EQ(Text((*mapped)->bytes()), contents);
  ASSERT_TRUE(files_.WriteAll(Path("f"), "").ok());
  EXPECT_EQ(*files_.ReadAll(Path("f"), 0), "");
  EXPECT_EQ((*files_.Map(Path("f")))->bytes().size(), 0u);
  EXPECT_EQ(Text((*mapped)->bytes()), contents);  // the old file lives while it is mapped
}

TEST_F(FileTest, ErrorsHaveTheirCodeAndNameThePath) {
  const auto expect = [&](const Status& status, StatusCode code, const std::string& path) {
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr(path));
  };
  ASSERT_TRUE(files_.WriteAll(Path("f"), "12345").ok());
  expect(files_.Map(Path("absent")).error(), StatusCode::kNotFound, Path("absent"));
  expect(files_.ReadAll(Path("absent"), 9).error(), StatusCode::kNotFound, Path("absent"));
  expect(files_.List(Path("absent")).error(), StatusCode::kNotFound, Path("absent"));
  expect(files_.Map(Path("f/under")).error(), StatusCode::kNotFound, Path("f/under"));
  expect(files_.Map(folder_).error(), StatusCode::kInvalidArgument, folder_);
  expect(files_.ReadAll(folder_, 9).error(), StatusCode::kInvalidArgument, folder_);
  expect(files_.ReadAll(Path("f"), 4).error(), StatusCode::kInvalidArgument, Path("f"));
  expect(files_.WriteAll(Path("absent/f"), "x"), StatusCode::kNotFound, Path("absent/f"));
  expect(files_.ReadAll("/dev/null", 9).error(), StatusCode::kInvalidArgument, "/dev/null");
}

TEST_F(FileTest, ANamedPipeIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(files_.ReadAll(Path("pipe"), 9).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(files_.Map(Path("pipe")).error().code(), StatusCode::kInvalidArgument);
}

TEST_F(FileTest, AFileThatMayNotBeReadIsPermissionDenied) {
  ASSERT_TRUE(files_.WriteAll(Path("f"), "secret").ok());
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(Path("f").c_str(), 0), 0);
  const bool root = ::geteuid() == 0;
  if (root) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const auto read = files_.ReadAll(Path("f"), 100);
  const Status written = files_.WriteAll(Path("g"), "x");
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(written.code(), root ? StatusCode::kPermissionDenied : StatusCode::kOk);
}

TEST_F(FileTest, AFailedWriteLeavesTheOldContentsAndNothingBeside) {
  ASSERT_TRUE(files_.WriteAll(Path("f"), "old").ok());
  struct rlimit old_limit {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  struct rlimit limit = old_limit;
  limit.rlim_cur = 10;  // the disk is full after ten bytes
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const Status status = files_.WriteAll(Path("f"), std::string(100, 'n'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(status.code(), StatusCode::kIoError) << status.ToString();
  EXPECT_EQ(*files_.ReadAll(Path("f"), 100), "old");
  EXPECT_THAT(*files_.List(folder_), ElementsAre("f"));
}

TEST_F(FileTest, AFileCannotReplaceAFolder) {
  ASSERT_EQ(::mkdir(Path("d").c_str(), 0700), 0);
  EXPECT_FALSE(files_.WriteAll(Path("d"), "x").ok());
  EXPECT_TRUE(files_.IsDirectory(Path("d")));
  EXPECT_THAT(*files_.List(folder_), ElementsAre("d"));
}

TEST_F(FileTest, ConcurrentWritersLeaveOneWholeVersion) {
  std::vector<std::thread> writers;
  for (char c : {'a', 'b', 'c', 'd'}) {
    writers.emplace_back([&, c] {
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(files_.WriteAll(Path("f"), std::string(5000, c)).ok());
    });
  }
  for (auto& writer : writers) writer.join();
  const auto contents = files_.ReadAll(Path("f"), 10'000);
  ASSERT_TRUE(contents.has_value());
  EXPECT_EQ(*contents, std::string(5000, contents->at(0)));
  EXPECT_THAT(*files_.List(folder_), ElementsAre("f"));
}

TEST_F(FileTest, ListsNamesInOrder) {
  for (const char* name : {"b", "a", ".hidden"}) ASSERT_TRUE(files_.WriteAll(Path(name), "").ok());
  EXPECT_THAT(*files_.List(folder_), ElementsAre(".hidden", "a", "b"));
  EXPECT_TRUE(files_.Exists(Path("a")));
  EXPECT_FALSE(files_.Exists(Path("c")));
  EXPECT_TRUE(files_.IsDirectory(folder_));
  EXPECT_FALSE(files_.IsDirectory(Path("a")));
}

TEST(MemoryFileTest, HoldsACopyAtAnAlignedAddress) {
  std::string text = "bytes";
  const auto file = MakeMemoryFile("m", std::as_bytes(std::span(text.data(), text.size())));
  text = "other";
  EXPECT_EQ(std::memcmp(file->bytes().data(), "bytes", 5), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file->bytes().data()) % 64, 0u);
  EXPECT_EQ(MakeMemoryFile("empty", {})->bytes().size(), 0u);
}

}  // namespace
}  // namespace surety
