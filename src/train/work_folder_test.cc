#include "train/work_folder.h"

#include <sys/stat.h>

#include <filesystem>
#include <optional>

#include <gtest/gtest.h>

#include "base/file.h"
#include "train/append_file.h"
#include "train/testing/temporary_folder.h"

namespace surety::train {
namespace {

using Use = WorkFolder::Use;

int WorkModeOf(const std::string& path) {
  struct stat info = {};
  return lstat(path.c_str(), &info) == 0 ? static_cast<int>(info.st_mode & 0777) : -1;
}

TEST(WorkFolderTest, OnlyAFolderThatItMadeIsClosedToOthers) {
  const TemporaryFolder base;
  const std::string made = base.Path("a/states/"), found = base.Path("found");
  {
    const auto folder = WorkFolder::Open(made, Use::kBegin);
    ASSERT_TRUE(folder) << folder.error().message();
    EXPECT_TRUE(folder->made());
    EXPECT_EQ(WorkModeOf(base.Path("a/states")), 0700);
    ASSERT_TRUE(ReplacePrivately(folder->Path("run.json"), "{}").ok());
    EXPECT_EQ(WorkModeOf(folder->Path("run.json")), 0600);
  }
  ASSERT_EQ(mkdir(found.c_str(), 0755), 0);
  ASSERT_EQ(chmod(found.c_str(), 0755), 0);
  const auto folder = WorkFolder::Open(found, Use::kBegin);
  ASSERT_TRUE(folder);
  EXPECT_FALSE(folder->made());
  EXPECT_EQ(WorkModeOf(found), 0755);
}

TEST(WorkFolderTest, WhatIsAnothersIsRefusedAndKept) {
  const TemporaryFolder base;
  const std::string path = base.Path("work");
  ASSERT_TRUE(std::filesystem::create_directory(path));
  for (const char* name : {"samples.jsonl", "features.bin", "checkpoint.bin", "letter.txt"}) {
    base.Write(std::string("work/") + name, "mine");
    const auto folder = WorkFolder::Open(path, Use::kBegin);
    ASSERT_FALSE(folder) << name;
    EXPECT_NE(folder.error().message().find(name), std::string::npos) << folder.error().message();
    EXPECT_EQ(WorkFolder::Open(path, Use::kContinue).error().code(), StatusCode::kNotFound);
    EXPECT_EQ(*FileSystem::Real().ReadAll(path + "/" + name, 100), "mine");
    std::filesystem::remove(path + "/" + name);
  }
  base.Write("work/run.json", "{}");
  const auto folder = WorkFolder::Open(path, Use::kBegin);
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().message().find("--resume"), std::string::npos);
  EXPECT_TRUE(WorkFolder::Open(path, Use::kContinue));
  EXPECT_EQ(WorkFolder::Open(base.Path("none"), Use::kContinue).error().code(), StatusCode::kNotFound);
}

TEST(WorkFolderTest, LinksAreNotFollowed) {
  const TemporaryFolder base;
  ASSERT_TRUE(std::filesystem::create_directory(base.Path("real")));
  std::filesystem::create_directory_symlink(base.Path("real"), base.Path("link"));
  EXPECT_FALSE(WorkFolder::Open(base.Path("link"), Use::kBegin));
  EXPECT_FALSE(WorkFolder::Open(base.Path("link/"), Use::kBegin));
  std::filesystem::create_symlink(base.Write("kept", "mine"), base.Path("real/run.json"));
  EXPECT_FALSE(WorkFolder::Open(base.Path("real"), Use::kContinue));
  ASSERT_TRUE(ReplacePrivately(base.Path("real/run.json"), "ours").ok());
  EXPECT_EQ(*FileSystem::Real().ReadAll(base.Path("kept"), 100), "mine");
}

TEST(WorkFolderTest, OneProcessAtATime) {
  const TemporaryFolder base;
  std::optional<Result<WorkFolder>> first(WorkFolder::Open(base.Path("work"), Use::kBegin));
  ASSERT_TRUE(*first);
  const auto second = WorkFolder::Open(base.Path("work"), Use::kBegin);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message().find("another train-draft"), std::string::npos);
  first.reset();
  EXPECT_TRUE(WorkFolder::Open(base.Path("work"), Use::kBegin));
}

TEST(WorkFolderTest, RemovesItsOwnOnly) {
  const TemporaryFolder base;
  const auto folder = WorkFolder::Open(base.Path("work"), Use::kBegin);
  ASSERT_TRUE(folder);
  for (const char* name : WorkFolder::kFiles) base.Write(std::string("work/") + name, "x");
  base.Write("work/letter.txt", "mine");
  ASSERT_TRUE(folder->RemoveAll(/*folder_too=*/true).ok());
  EXPECT_EQ(*FileSystem::Real().List(base.Path("work")), std::vector<std::string>{"letter.txt"});
  std::filesystem::remove(base.Path("work/letter.txt"));
  ASSERT_TRUE(folder->RemoveAll(true).ok());
  EXPECT_FALSE(FileSystem::Real().Exists(base.Path("work")));
}

}  // namespace
}  // namespace surety::train
