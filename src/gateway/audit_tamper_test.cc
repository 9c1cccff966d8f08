// Every small change to a log is found, or is one that the header says a chain cannot show.
#include <set>
#include <string>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gateway/audit_log.h"
#include "gateway/audit_reader.h"
#include "gateway/audit_row.h"
#include "gateway/testing/audit_folder.h"

namespace surety::gateway {
namespace {

class AuditTamperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    {
      const auto log = AuditLog::Open({.path = path_}, Clock::Real());
      ASSERT_TRUE(log.has_value());
      for (int i = 0; i < 4; ++i) {
        ASSERT_TRUE((*log)->Append("decision", {{"id", fmt::format("dec_{}", i)}, {"n", i * 11}}).has_value());
      }
    }
    bytes_ = ReadAuditBytes(path_);
    for (size_t from = 0; from < bytes_.size();) {
      const size_t end = bytes_.find('\n', from) + 1;
      rows_.push_back(bytes_.substr(from, end - from));
      from = end;
    }
    const auto whole = VerifyAuditLog(path_);
    ASSERT_TRUE(whole.has_value());
    last_hash_ = whole->last_hash;
    ASSERT_EQ(rows_.size(), 4u);
  }

  Result<AuditVerification> Verify(std::string_view bytes, const std::string& expect = {}) {
    WriteAuditBytes(path_, bytes);
    return VerifyAuditChain(path_, {.expect = expect, .progress = {}});
  }
  static std::string Joined(const std::vector<std::string>& rows) {
    std::string out;
    for (const std::string& row : rows) out += row;
    return out;
  }

  UnsyncedAuditIo io_;
  const AuditFolder folder_;
  const std::string path_ = folder_.path("audit.log");
  std::string bytes_, last_hash_;
  std::vector<std::string> rows_;
};

TEST_F(AuditTamperTest, TheUntouchedLogVerifiesWithEveryRowAsAnAnchor) {
  for (size_t i = 0; i < rows_.size(); ++i) {
    const std::string hash = rows_[i].substr(rows_[i].size() - 67, 64);
    const auto found = Verify(bytes_, hash);
    ASSERT_TRUE(found.has_value()) << found.error().message();
    EXPECT_EQ(found->anchor_seq, static_cast<int64_t>(i));
    EXPECT_EQ(found->report.n_rows, 4);
    EXPECT_FALSE(found->report.torn_tail);
  }
  EXPECT_EQ(Verify(bytes_, AuditChainStart())->anchor_seq, -1);
  EXPECT_EQ(Verify(bytes_, std::string(64, 'a')).error().code(), StatusCode::kDataLoss);
}

TEST_F(AuditTamperTest, EveryChangedByteIsFoundInItsRow) {
  size_t row = 0, end_of_row = rows_[0].size();
  for (size_t i = 0; i < bytes_.size(); ++i) {
    if (i == end_of_row) end_of_row += rows_[++row].size();
    for (const char changed : {static_cast<char>(bytes_[i] ^ 1), static_cast<char>(bytes_[i] ^ 2),
                               static_cast<char>(bytes_[i] ^ 0x10), static_cast<char>(bytes_[i] ^ 0x20),
                               static_cast<char>(bytes_[i] ^ 0x80), '\n', '\0', '"', '}', ' ', '0'}) {
      if (changed == bytes_[i]) continue;
      std::string tampered = bytes_;
      tampered[i] = changed;
      const auto found = Verify(tampered);
      if (found.has_value()) {
        // The last line feed alone: the row before it is no complete line any more.
        ASSERT_EQ(i, bytes_.size() - 1);
        ASSERT_TRUE(found->report.torn_tail);
        ASSERT_EQ(found->report.n_rows, 3);
        continue;
      }
      ASSERT_EQ(found.error().code(), StatusCode::kDataLoss);
      // A row of which the line feed was changed is one with the next.
      ASSERT_NE(found.error().message().find(fmt::format("row {} ", row)), std::string::npos)
          << found.error().message() << " for byte " << i;
      if (i % 16 != 0) continue;
      const auto opened = OpenAuditLog({.path = path_}, Clock::Real(), io_);
      ASSERT_FALSE(opened.has_value());
      ASSERT_EQ(opened.error().code(), StatusCode::kDataLoss);
    }
  }
}

TEST_F(AuditTamperTest, EveryRemovedInsertedOrMovedByteIsFound) {
  for (size_t i = 0; i < bytes_.size(); ++i) {
    std::string removed = bytes_, twice = bytes_;
    removed.erase(i, 1);
    twice.insert(i, 1, twice[i]);
    for (const std::string& tampered : {removed, twice}) {
      const auto found = Verify(tampered);
      if (found.has_value()) {
        ASSERT_EQ(i, bytes_.size() - 1);  // the last line feed: gone
        ASSERT_TRUE(found->report.torn_tail);
      }
    }
  }
}

TEST_F(AuditTamperTest, EveryRemovedRepeatedOrSwappedRowIsFound) {
  for (size_t i = 0; i < rows_.size(); ++i) {
    std::vector<std::string> rows = rows_;
    rows.erase(rows.begin() + static_cast<long>(i));
    const auto removed = Verify(Joined(rows));
    // The last row: a shorter log that is whole. Only an anchor tells.
    ASSERT_EQ(removed.has_value(), i + 1 == rows_.size());
    EXPECT_TRUE(removed || removed.error().message().find("missing") != std::string::npos);
    EXPECT_EQ(Verify(Joined(rows), last_hash_).error().code(), StatusCode::kDataLoss);
    for (size_t at = 0; at <= rows_.size(); ++at) {
      rows = rows_;
      rows.insert(rows.begin() + static_cast<long>(at), rows_[i]);
      EXPECT_EQ(Verify(Joined(rows)).error().code(), StatusCode::kDataLoss);
    }
    for (size_t j = 0; j < i; ++j) {
      rows = rows_;
      std::swap(rows[i], rows[j]);
      EXPECT_EQ(Verify(Joined(rows)).error().code(), StatusCode::kDataLoss);
    }
  }
}

TEST_F(AuditTamperTest, EveryTruncationIsToldOrFoundWithAnAnchor) {
  std::set<size_t> borders = {0};
  for (const std::string& row : rows_) borders.insert(*borders.rbegin() + row.size());
  for (size_t length = 0; length < bytes_.size(); ++length) {
    const auto found = Verify(std::string_view(bytes_).substr(0, length));
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->report.torn_tail, !borders.contains(length)) << length;
    EXPECT_LT(found->report.n_rows, 4);
    ASSERT_EQ(Verify(std::string_view(bytes_).substr(0, length), last_hash_).error().code(), StatusCode::kDataLoss);
  }
}

TEST_F(AuditTamperTest, ATornTailIsCutAtOpenAndARowSaysSo) {
  for (size_t length = bytes_.size() - rows_[3].size() + 1; length < bytes_.size(); ++length) {
    WriteAuditBytes(path_, std::string_view(bytes_).substr(0, length));
    {
      const auto log = OpenAuditLog({.path = path_}, Clock::Real(), io_);
      ASSERT_TRUE(log.has_value()) << log.error().message();
      EXPECT_EQ((*log)->n_rows(), 4);
      ASSERT_FALSE((*log)->Find("decision", "dec_3").has_value());
      const size_t offset = bytes_.size() - rows_[3].size();
      const auto cut = (*log)->Find("cut", fmt::format("cut_{}", offset));
      ASSERT_TRUE(cut.has_value());
      EXPECT_EQ(cut->body.at("bytes").to_number<size_t>(), length - offset);
    }
    const auto report = VerifyAuditLog(path_);
    ASSERT_TRUE(report.has_value());
    EXPECT_EQ(report->n_rows, 4);
    EXPECT_FALSE(report->torn_tail);
  }
}

TEST_F(AuditTamperTest, AChainWrittenAnewIsFoundWithAnAnchorAlone) {
  std::string forged, hash = AuditChainStart();
  for (int i = 0; i < 4; ++i) {
    const std::string prev = hash, body = fmt::format(R"({{"id":"dec_{}","n":0}})", i);
    forged += AuditLine({i, 1, prev, "decision", body, {}}, hash) + "\n";
  }
  EXPECT_TRUE(Verify(forged).has_value());
  EXPECT_EQ(Verify(forged, last_hash_).error().code(), StatusCode::kDataLoss);
}

TEST_F(AuditTamperTest, ARowWrittenAnewInThePlaceOfAnotherIsFoundInTheNext) {
  std::string prev = AuditChainStart();
  for (size_t i = 0; i < rows_.size(); ++i) {
    std::vector<std::string> rows = rows_;
    std::string hash;
    rows[i] = AuditLine({static_cast<int64_t>(i), 1, prev, "decision", R"({"id":"forged"})", {}}, hash) + "\n";
    const auto found = Verify(Joined(rows));
    ASSERT_EQ(found.has_value(), i + 1 == rows.size());  // behind the last one there is none that would tell
    EXPECT_TRUE(found || found.error().message().find(fmt::format("row {} ", i + 1)) != std::string::npos);
    EXPECT_EQ(Verify(Joined(rows), last_hash_).error().code(), StatusCode::kDataLoss);
    prev = rows_[i].substr(rows_[i].size() - 67, 64);
  }
}

TEST_F(AuditTamperTest, ARowThatFollowsButHasAnotherNumberIsFound) {
  for (const int64_t seq : {int64_t{0}, int64_t{3}, int64_t{5}, int64_t{-1}}) {
    std::string hash;
    const std::string row = AuditLine({seq, 1, last_hash_, "decision", R"({"id":"forged"})", {}}, hash) + "\n";
    EXPECT_EQ(Verify(bytes_ + row).error().code(), StatusCode::kDataLoss) << seq;
  }
  std::string hash;
  EXPECT_TRUE(Verify(bytes_ + AuditLine({4, 1, last_hash_, "decision", R"({"id":"next"})", {}}, hash) + "\n"));
}

TEST_F(AuditTamperTest, VerifyingStopsWhenItIsTold) {
  WriteAuditBytes(path_, bytes_);
  int64_t last = 0;
  const auto stopped = VerifyAuditChain(path_, {.expect = {}, .progress = [&](int64_t done, int64_t total) {
                                                  EXPECT_EQ(total, static_cast<int64_t>(bytes_.size()));
                                                  last = done;
                                                  return done < total / 2;
                                                }});
  EXPECT_EQ(stopped.error().code(), StatusCode::kCancelled);
  EXPECT_LT(last, static_cast<int64_t>(bytes_.size()));
}

}  // namespace
}  // namespace surety::gateway
