#include "cli/zip_reader.h"

#include <unistd.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace surety::cli {
namespace {

namespace fs = std::filesystem;

template <typename T>
void Put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

std::string Deflated(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(text.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// An archive with one stored and one deflated member.
std::string Archive(const std::string& stored, const std::string& text) {
  std::string out, directory;
  const auto add = [&](const std::string& name, const std::string& plain, const std::string& packed, uint16_t method) {
    const auto crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(plain.data()), static_cast<uInt>(plain.size())));
    const auto offset = static_cast<uint32_t>(out.size());
    const auto common = [&](std::string& to) {
      for (const uint16_t v : {uint16_t{20}, uint16_t{0}, method, uint16_t{0}, uint16_t{0}}) Put(to, v);
      for (const size_t v : {size_t{crc}, packed.size(), plain.size()}) Put(to, static_cast<uint32_t>(v));
      Put(to, static_cast<uint16_t>(name.size()));
      Put(to, uint16_t{0});
    };
    Put(out, uint32_t{0x04034b50});
    common(out);
    out += name + packed;
    Put(directory, uint32_t{0x02014b50});
    Put(directory, uint16_t{20});
    common(directory);
    directory.append(10, '\0');
    Put(directory, offset);
    directory += name;
  };
  add("a/stored.bin", stored, stored, 0);
  add("a/b/text.txt", text, Deflated(text), 8);
  const auto start = static_cast<uint32_t>(out.size());
  out += directory;
  Put(out, uint32_t{0x06054b50});
  for (const uint16_t v : {uint16_t{0}, uint16_t{0}, uint16_t{2}, uint16_t{2}}) Put(out, v);
  Put(out, static_cast<uint32_t>(directory.size()));
  Put(out, start);
  Put(out, uint16_t{0});
  return out;
}

class ZipReaderTest : public ::testing::Test {
 protected:
  ZipReaderTest() : folder_(fs::temp_directory_path() / ("surety-zip-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    stored_ = std::string(100'000, 's');
    for (int64_t i = 0; i < 400'000; ++i) text_ += static_cast<char>('a' + i * i % 23);
    whole_ = Archive(stored_, text_);
  }
  ~ZipReaderTest() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& contents) {
    std::ofstream(folder_ / name, std::ios::binary) << contents;
    return (folder_ / name).string();
  }
  std::string Read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Opens an archive and extracts both members; the first thing that fails.
  Status ExtractAll(const std::string& archive) {
    SURETY_ASSIGN_OR_RETURN(auto zip, ZipReader::Open(FileSystem::Real(), archive));
    for (const char* name : {"a/stored.bin", "*/text.txt"}) {
      SURETY_ASSIGN_OR_RETURN(const ZipMember member, zip->Find(name));
      SURETY_RETURN_IF_ERROR(zip->Extract(member, (folder_ / "out" / fs::path(name).filename()).string()));
    }
    return OkStatus();
  }

  fs::path folder_;
  std::string stored_, text_, whole_;
};

TEST_F(ZipReaderTest, ExtractsStoredAndDeflatedMembers) {
  ASSERT_TRUE(ExtractAll(Write("x.zip", whole_)).ok());
  EXPECT_EQ(Read((folder_ / "out/stored.bin").string()), stored_);
  EXPECT_EQ(Read((folder_ / "out/text.txt").string()), text_);
}

TEST_F(ZipReaderTest, AbsentMemberIsNotFound) {
  auto zip = ZipReader::Open(FileSystem::Real(), Write("x.zip", whole_));
  ASSERT_TRUE(zip);
  EXPECT_EQ((*zip)->Find("text.txt").error().code(), StatusCode::kNotFound);
}

TEST_F(ZipReaderTest, EveryTruncationIsDataLoss) {
  for (size_t size = 0; size < whole_.size(); size += 997) {
    EXPECT_EQ(ExtractAll(Write("cut.zip", whole_.substr(0, size))).code(), StatusCode::kDataLoss) << size;
  }
}

TEST_F(ZipReaderTest, ChangedContentsFailTheChecksumAndLeaveNoFile) {
  std::string changed = whole_;
  changed[5000] ^= 1;  // inside the stored member
  const Status status = ExtractAll(Write("changed.zip", changed));
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("checksum"));
  EXPECT_FALSE(fs::exists(folder_ / "out/stored.bin"));
  EXPECT_FALSE(fs::exists(folder_ / "out/stored.bin.tmp"));
}

TEST_F(ZipReaderTest, FlippedDirectoryBytesNeverReachPastTheArchive) {
  const size_t directory = whole_.size() - 22 - 2 * 58;
  for (size_t at = directory - 50; at < whole_.size(); ++at) {
    std::string changed = whole_;
    changed[at] = static_cast<char>(~changed[at]);
    (void)ExtractAll(Write("flipped.zip", changed)).ok();  // any answer will do; sanitizers watch
  }
}

}  // namespace
}  // namespace surety::cli
