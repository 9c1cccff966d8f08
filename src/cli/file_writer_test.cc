#include "cli/file_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <span>
#include <string_view>

#include <gtest/gtest.h>

#include "base/file.h"

namespace surety::cli {
namespace {

namespace fs = std::filesystem;

class FileWriterTest : public ::testing::Test {
 protected:
  FileWriterTest() {
    char name[] = "/tmp/surety-writer-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~FileWriterTest() override { fs::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  static Status Write(const std::string& path, std::string_view text) {
    SURETY_ASSIGN_OR_RETURN(auto writer, FileWriter::Create(path));
    SURETY_RETURN_IF_ERROR(writer->Append(std::as_bytes(std::span(text))));
    return writer->Commit();
  }
  static std::string Read(const std::string& path) {
    return FileSystem::Real().ReadAll(path, 1 << 20).value_or("(unreadable)");
  }
  size_t FileCount() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  std::string folder_;
};

TEST_F(FileWriterTest, SymbolicLinkStaysALinkAndTheFileBehindItIsReplaced) {
  for (const bool whole : {true, false}) {
    const std::string target = whole ? "whole" : "all";
    ASSERT_TRUE(FileSystem::Real().WriteAll(Path(target), "old").ok());
    fs::create_symlink(target, Path(target + ".inner"));
    fs::create_symlink(Path(target + ".inner"), Path(target + ".link"));
    const std::string link = Path(target + ".link");
    EXPECT_TRUE((whole ? Write(link, "new") : FileSystem::Real().WriteAll(link, "new")).ok());
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_TRUE(fs::is_symlink(Path(target + ".inner")));
    EXPECT_EQ(Read(Path(target)), "new");
  }
  EXPECT_EQ(FileCount(), 6u) << "temporary files stayed";
}

TEST_F(FileWriterTest, LinkToAFileThatIsAbsentMakesThatFile) {
  fs::create_symlink("absent", Path("link"));
  EXPECT_TRUE(Write(Path("link"), "text").ok());
  EXPECT_TRUE(fs::is_symlink(Path("link")));
  EXPECT_EQ(Read(Path("absent")), "text");
}

TEST_F(FileWriterTest, PipeIsWrittenToAndStaysAPipe) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  const int reader = open(Path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_TRUE(Write(Path("pipe"), "through ").ok());
  EXPECT_TRUE(FileSystem::Real().WriteAll(Path("pipe"), "the pipe").ok());
  char text[64] = {};
  EXPECT_EQ(read(reader, text, sizeof(text)), 16);
  EXPECT_STREQ(text, "through the pipe");
  close(reader);
  EXPECT_EQ(fs::status(Path("pipe")).type(), fs::file_type::fifo);
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(FileWriterTest, DeviceStaysADevice) {
  EXPECT_TRUE(Write("/dev/null", "x").ok());
  EXPECT_TRUE(FileSystem::Real().WriteAll("/dev/null", "x").ok());
  EXPECT_EQ(fs::status("/dev/null").type(), fs::file_type::character);
}

TEST_F(FileWriterTest, DirectoryAndCircleOfLinksAreRefused) {
  EXPECT_EQ(Write(folder_, "x").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(FileSystem::Real().WriteAll(folder_, "x").code(), StatusCode::kInvalidArgument);
  fs::create_symlink("b", Path("a"));
  fs::create_symlink("a", Path("b"));
  EXPECT_EQ(Write(Path("a"), "x").code(), StatusCode::kIoError);
}

TEST_F(FileWriterTest, TwoWritersOfOneFileDoNotMeet) {
  auto first = FileWriter::Create(Path("f"));
  auto second = FileWriter::Create(Path("f"));
  ASSERT_TRUE(first && second);
  EXPECT_TRUE((*first)->Append(std::as_bytes(std::span(std::string_view("first")))).ok());
  EXPECT_TRUE((*second)->Append(std::as_bytes(std::span(std::string_view("second")))).ok());
  EXPECT_TRUE((*second)->Commit().ok());
  EXPECT_TRUE((*first)->Commit().ok());
  EXPECT_EQ(Read(Path("f")), "first");
}

TEST_F(FileWriterTest, WhatIsNotCommittedLeavesNothing) {
  {
    auto writer = FileWriter::Create(Path("f"));
    ASSERT_TRUE(writer);
  }
  EXPECT_EQ(FileCount(), 0u);
}

}  // namespace
}  // namespace surety::cli
