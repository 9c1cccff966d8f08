#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "kv/disk_tier.h"
#include "kv/host_store.h"
#include "kv/testing/cache_fixture.h"

namespace surety::kv {
namespace {

using namespace surety::kv::testing;  // NOLINT: the fixture of these tests

// A file in memory that can be looked into, changed behind the tier's back, and failed.
class MemoryTierFile final : public TierFile {
 public:
  enum class Fault { kNone, kError, kShortError, kShortSilent };

  Status WriteAt(int64_t offset, std::span<const std::byte> data) override {
    if (Fails(n_writes++)) {
      if (fault != Fault::kError) Store(offset, data.first(data.size() / 2));
      if (fault != Fault::kShortSilent) return IoError("no space left");
      return OkStatus();
    }
    Store(offset, data);
    return OkStatus();
  }
  Status ReadAt(int64_t offset, std::span<std::byte> data) override {
    if (fail_reads) return IoError("bad sector");
    if (bytes.size() < static_cast<size_t>(offset) + data.size()) return OutOfRangeError("past the end");
    std::memcpy(data.data(), bytes.data() + offset, data.size());
    return OkStatus();
  }
  void Store(int64_t offset, std::span<const std::byte> data) {
    bytes.resize(std::max(bytes.size(), static_cast<size_t>(offset) + data.size()));
    std::memcpy(bytes.data() + offset, data.data(), data.size());
  }
  bool Fails(int n) const { return fault != Fault::kNone && n >= fail_from && n < fail_to; }

  std::vector<std::byte> bytes;
  Fault fault = Fault::kNone;
  int fail_from = 0, fail_to = 1 << 30, n_writes = 0;
  bool fail_reads = false;
};

class TierTest : public ::testing::Test {
 protected:
  TierTest() : pool_(*PagePool::Make(TinyLayout(), 8)), page_bytes_(pool_->layout().PageBytes()) {
    auto file = std::make_unique<MemoryTierFile>();
    file_ = file.get();
    disk_ = *DiskTier::Make(std::move(file), page_bytes_, 4 * 4096);
    host_ = *HostStore::Make(*pool_, 3 * page_bytes_, disk_.get());
  }
  void TearDown() override {
    EXPECT_TRUE(host_->Audit().ok()) << host_->Audit().ToString();
    EXPECT_TRUE(disk_->Audit().ok()) << disk_->Audit().ToString();
  }

  TierEntry Entry(const std::string& tenant, int page, TierPolicy policy = {}) {
    const ScopeKey scope = MakeScope(tenant);
    const auto tokens = TokensOf({page});
    return {.key = TierKey::Root(scope).Next(tokens), .scope = scope, .tokens = tokens, .created_ns = 100,
            .policy = policy};
  }
  std::vector<std::byte> Contents(const std::string& tenant, int page) {
    return ContentsFor(tenant, TokensOf({page}), page_bytes_);
  }
  void Put(PageTier& tier, const std::string& tenant, int page, TierPolicy policy = {}) {
    tier.Put(Entry(tenant, page, policy), Contents(tenant, page), 100);
  }
  // Empty on a miss, and where contents are wrong a failure.
  std::optional<TierHit> Take(PageTier& tier, const std::string& tenant, int page, int64_t now_ns = 100) {
    const TierEntry entry = Entry(tenant, page);
    std::vector<std::byte> bytes(static_cast<size_t>(page_bytes_));
    const auto hit = tier.Take(entry.key, entry.tokens, now_ns, bytes);
    EXPECT_TRUE(!hit || bytes == Contents(tenant, page));
    return hit;
  }
  bool FileHolds(std::span<const std::byte> needle) {
    return std::search(file_->bytes.begin(), file_->bytes.end(), needle.begin(), needle.end()) != file_->bytes.end();
  }

  std::unique_ptr<PagePool> pool_;
  int64_t page_bytes_;
  MemoryTierFile* file_;
  std::unique_ptr<DiskTier> disk_;
  std::unique_ptr<HostStore> host_;
};

TEST_F(TierTest, KeysDifferByScopeAndByEveryTokenOfThePrefix) {
  const ScopeKey a = MakeScope("a"), b = MakeScope("b");
  const auto one = TokensOf({1}), two = TokensOf({2});
  const std::vector<TierKey> keys = {TierKey::Root(a), TierKey::Root(b), TierKey::Root(a).Next(one),
                                     TierKey::Root(b).Next(one), TierKey::Root(a).Next(two),
                                     TierKey::Root(a).Next(one).Next(two), TierKey::Root(a).Next(two).Next(two),
                                     TierKey::Root(a).Next(TokensOf({1, 2})), TierKey::Root(MakeScope("a", "salt"))};
  for (size_t i = 0; i < keys.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(keys[i] == keys[j]) << i << " and " << j;
  }
  EXPECT_EQ(TierKey::Root(a).Next(one), TierKey::Root(MakeScope("a")).Next(TokensOf({1})));
  std::vector<int32_t> large(4096, 7);  // beyond the buffer on the stack
  EXPECT_EQ(TierKey::Root(a).Next(large), TierKey::Root(a).Next(large));
  const TierKey before = TierKey::Root(a).Next(large);
  large.back() = 8;
  EXPECT_FALSE(TierKey::Root(a).Next(large) == before);
}

TEST_F(TierTest, TakeGivesBackTheBytesOnce) {
  for (PageTier* tier : {static_cast<PageTier*>(host_.get()), static_cast<PageTier*>(disk_.get())}) {
    Put(*tier, "a", 1);
    EXPECT_FALSE(Take(*tier, "a", 2));
    EXPECT_FALSE(Take(*tier, "b", 1));
    const auto hit = Take(*tier, "a", 1);
    ASSERT_TRUE(hit);
    EXPECT_EQ(hit->created_ns, 100);
    EXPECT_EQ(hit->level, tier->level());
    EXPECT_FALSE(Take(*tier, "a", 1));
    EXPECT_EQ(tier->stats().used_pages, 0);
  }
}

TEST_F(TierTest, TokensAreComparedThoughTheKeyIsFound) {
  Put(*host_, "a", 1);
  std::vector<std::byte> bytes(static_cast<size_t>(page_bytes_));
  EXPECT_FALSE(host_->Take(Entry("a", 1).key, TokensOf({2}), 100, bytes));
}

TEST_F(TierTest, FullHostPushesItsOldestDownAndDiskDropsItsOwn) {
  for (int page = 1; page <= 9; ++page) Put(*host_, "a", page);
  EXPECT_EQ(host_->stats().used_pages, 3);
  EXPECT_EQ(disk_->stats().used_pages, 4);
  EXPECT_EQ(disk_->stats().dropped_pages, 2);
  for (int page = 1; page <= 2; ++page) EXPECT_FALSE(Take(*disk_, "a", page));
  for (int page = 3; page <= 6; ++page) EXPECT_TRUE(Take(*disk_, "a", page));
  for (int page = 7; page <= 9; ++page) EXPECT_TRUE(Take(*host_, "a", page));
}

TEST_F(TierTest, PagesGoNoLowerThanPolicySays) {
  Put(*disk_, "a", 1, {.lowest = TierLevel::kHost});
  Put(*host_, "a", 2, {.lowest = TierLevel::kPool});
  EXPECT_EQ(host_->stats().used_pages + disk_->stats().used_pages, 0);
  for (int page = 1; page <= 4; ++page) Put(*host_, "a", page, {.lowest = TierLevel::kHost});
  EXPECT_EQ(disk_->stats().used_pages, 0);
  Put(*disk_, "a", 9);
  disk_->SetPolicy(MakeScope("a").family(), {.lowest = TierLevel::kHost});
  EXPECT_EQ(disk_->stats().used_pages, 0);
}

TEST_F(TierTest, NothingIsAnsweredPastItsExpiryAndSweepRemovesIt) {
  for (PageTier* tier : {static_cast<PageTier*>(host_.get()), static_cast<PageTier*>(disk_.get())}) {
    Put(*tier, "a", 1, {.ttl_ns = 50});
    Put(*tier, "b", 1);
    EXPECT_TRUE(tier->Contains(Entry("a", 1).key, 149));
    EXPECT_FALSE(tier->Contains(Entry("a", 1).key, 150));
    EXPECT_FALSE(Take(*tier, "a", 1, 150));
    tier->Sweep(150, 1000);
    EXPECT_EQ(tier->stats().used_pages, 1);
    EXPECT_EQ(tier->stats().expired_pages, 1);
    tier->SetPolicy(MakeScope("b").family(), {.ttl_ns = 10});
    EXPECT_FALSE(Take(*tier, "b", 1, 150));
  }
}

TEST_F(TierTest, ForgetOverwritesHostAndDisk) {
  Put(*host_, "a", 1);
  Put(*host_, "b", 1);
  EXPECT_EQ(host_->Forget(MakeScope("a").family()).bytes, page_bytes_);
  EXPECT_TRUE(IsZero(host_->memory().first(static_cast<size_t>(page_bytes_))));
  EXPECT_FALSE(Take(*host_, "a", 1));
  EXPECT_TRUE(Take(*host_, "b", 1));

  Put(*disk_, "a", 1);
  Put(*disk_, "b", 1);
  const auto slot = std::span<const std::byte>(file_->bytes).first(static_cast<size_t>(page_bytes_));
  EXPECT_FALSE(IsZero(slot));
  const ForgetReceipt receipt = disk_->Forget(MakeScope("a"));
  EXPECT_EQ(receipt.pages, 1);
  EXPECT_EQ(receipt.bytes, page_bytes_);
  EXPECT_TRUE(IsZero(std::span<const std::byte>(file_->bytes).first(static_cast<size_t>(page_bytes_))));
  EXPECT_FALSE(Take(*disk_, "a", 1));
  EXPECT_TRUE(Take(*disk_, "b", 1));
}

TEST_F(TierTest, ReceiptSaysWhatTheDiskDidNotOverwrite) {
  Put(*disk_, "a", 1);
  Put(*disk_, "a", 2);
  file_->fault = MemoryTierFile::Fault::kError;
  file_->fail_from = file_->n_writes + 1;
  const ForgetReceipt receipt = disk_->Forget(MakeScope("a"));
  EXPECT_EQ(receipt.pages, 2);
  EXPECT_EQ(receipt.pages_unwritten, 1);
  EXPECT_EQ(receipt.bytes, page_bytes_);
  EXPECT_FALSE(Take(*disk_, "a", 2));
}

TEST_F(TierTest, ZeroPolicyOverwritesWhateverTheWayOut) {
  const TierPolicy zero{.ttl_ns = 50, .zero_on_release = true};
  for (int page = 1; page <= 3; ++page) Put(*host_, "a", page, zero);
  EXPECT_TRUE(Take(*host_, "a", 1));         // taken
  Put(*host_, "b", 7);
  Put(*host_, "b", 8);                       // pushes page 2 down
  host_->Sweep(200, 1000);                   // page 3 expires
  EXPECT_EQ(host_->stats().zeroed_bytes, 3 * page_bytes_);
  EXPECT_EQ(host_->stats().used_pages, 2);
  EXPECT_TRUE(Take(*disk_, "a", 2));
  EXPECT_TRUE(IsZero(file_->bytes));
}

TEST_F(TierTest, DiskHoldsNoPlainContents) {
  Put(*disk_, "a", 1);
  auto contents = Contents("a", 1);
  contents.resize(16);
  EXPECT_FALSE(FileHolds(contents));
}

TEST_F(TierTest, BytesOfAnotherGenerationSlotOrEntryAreAMiss) {
  const auto slot_bytes = disk_->slot_bytes();
  Put(*disk_, "a", 1);
  const std::vector<std::byte> old(file_->bytes.begin(), file_->bytes.begin() + page_bytes_);
  ASSERT_TRUE(Take(*disk_, "a", 1));
  Put(*disk_, "a", 1);  // the same page, entry and slot, a new generation
  file_->Store(0, old);
  EXPECT_FALSE(Take(*disk_, "a", 1));

  Put(*disk_, "a", 1);
  Put(*disk_, "a", 2);
  std::swap_ranges(file_->bytes.begin(), file_->bytes.begin() + page_bytes_, file_->bytes.begin() + slot_bytes);
  EXPECT_FALSE(Take(*disk_, "a", 1));
  EXPECT_FALSE(Take(*disk_, "a", 2));
  EXPECT_EQ(disk_->stats().io_errors, 3);
}

TEST_F(TierTest, EveryFlippedByteIsAMiss) {
  for (int64_t at = 0; at < page_bytes_; ++at) {
    auto file = std::make_unique<MemoryTierFile>();
    MemoryTierFile* raw = file.get();
    auto disk = *DiskTier::Make(std::move(file), page_bytes_, 4096);
    Put(*disk, "a", 1);
    raw->bytes[static_cast<size_t>(at)] ^= std::byte{1};
    EXPECT_FALSE(Take(*disk, "a", 1)) << at;
    EXPECT_EQ(disk->stats().used_pages, 0);
  }
}

TEST_F(TierTest, ShortAndFailingWritesAreMisses) {
  for (auto fault : {MemoryTierFile::Fault::kError, MemoryTierFile::Fault::kShortError,
                     MemoryTierFile::Fault::kShortSilent}) {
    file_->fault = fault;
    file_->fail_from = file_->n_writes;
    file_->fail_to = file_->n_writes + 1;
    Put(*disk_, "a", 1);
    EXPECT_FALSE(Take(*disk_, "a", 1));
    Put(*disk_, "a", 1);  // the next one works again
    EXPECT_TRUE(Take(*disk_, "a", 1));
  }
}

TEST_F(TierTest, FailingReadIsAMissAndSuchADiskGoesOutOfService) {
  file_->fail_reads = true;
  for (int i = 0; i < DiskTier::kMostErrors; ++i) {
    EXPECT_TRUE(disk_->in_service());
    Put(*disk_, "a", 1);  // that writing works does not make reading trustworthy
    EXPECT_FALSE(Take(*disk_, "a", 1));
  }
  EXPECT_FALSE(disk_->in_service());
  file_->fail_reads = false;
  Put(*disk_, "a", 1);
  EXPECT_FALSE(disk_->Contains(Entry("a", 1).key, 100));
  EXPECT_FALSE(Take(*disk_, "a", 1));
}

TEST_F(TierTest, ADiskThatRefusesWritesGoesOutOfService) {
  file_->fault = MemoryTierFile::Fault::kError;
  for (int i = 0; i < DiskTier::kMostErrors; ++i) {
    EXPECT_TRUE(disk_->in_service());
    Put(*disk_, "a", 1);
  }
  EXPECT_FALSE(disk_->in_service());
  EXPECT_EQ(disk_->stats().io_errors, DiskTier::kMostErrors);
  EXPECT_EQ(disk_->stats().used_pages, 0);
}

TEST_F(TierTest, RealFileIsPrivateNamelessAndReadsBack) {
  std::string folder = ::testing::TempDir() + "/surety-tier-" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  folder = std::filesystem::canonical(folder).string();  // as links under /proc spell it
  {
    auto file = OpenTierFile(folder);
    ASSERT_TRUE(file.has_value()) << file.error().ToString();
    EXPECT_TRUE(std::filesystem::is_empty(folder));
    bool found = false;
    for (const auto& link : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code ignored;
      if (!std::filesystem::read_symlink(link, ignored).string().starts_with(folder + "/surety-kv-")) continue;
      struct stat info {};
      ASSERT_EQ(::stat(link.path().c_str(), &info), 0);
      EXPECT_EQ(info.st_mode & 07777, 0600u);
      EXPECT_EQ(info.st_nlink, 0u);
      found = true;
    }
    EXPECT_TRUE(found);
    std::byte few[10];
    EXPECT_EQ((*file)->ReadAt(0, few).code(), StatusCode::kOutOfRange);
    auto disk = *DiskTier::Make(*std::move(file), page_bytes_, 100 * 4096);
    for (int page = 0; page < 100; ++page) Put(*disk, "a", page);
    for (int page = 99; page >= 0; --page) EXPECT_TRUE(Take(*disk, "a", page));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
  const auto missing = OpenTierFile(folder);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.error().message().find(folder), std::string::npos);
}

TEST_F(TierTest, SwappedPagesComeBackBitEqualAndPushCachedOnesOut) {
  for (int page = 1; page <= 3; ++page) Put(*host_, "cached", page);
  const ScopeKey scope = MakeScope("a");
  std::vector<SwappedPage> swapped;
  for (int page = 1; page <= 3; ++page) {
    PageHandle handle = pool_->Allocate();
    WritePage(*pool_, handle.page(), Contents("a", page));
    auto out = host_->SwapOut(handle, scope, 100);
    ASSERT_TRUE(out.has_value());
    swapped.push_back(*std::move(out));
  }
  EXPECT_EQ(host_->SwapRoom(), 0);
  EXPECT_EQ(disk_->stats().used_pages, 3);
  PageHandle fourth = pool_->Allocate();
  EXPECT_EQ(host_->SwapOut(fourth, scope, 100).error().code(), StatusCode::kResourceExhausted);
  Put(*host_, "cached", 9);  // does not push a sequence out
  EXPECT_FALSE(host_->Contains(Entry("cached", 9).key, 100));
  for (int page = 3; page >= 1; --page) {
    PageHandle handle = pool_->Allocate();
    host_->SwapIn(std::move(swapped.back()), handle);
    swapped.pop_back();
    EXPECT_TRUE(PageHolds(*pool_, handle.page(), Contents("a", page)));
    EXPECT_FALSE(pool_->ZeroOnRelease(handle.page()));
  }
  EXPECT_EQ(host_->stats().used_pages, 0);
}

TEST_F(TierTest, SwappedPagesKeepTheirMarkAndObeyForget) {
  const ScopeKey scope = MakeScope("a");
  PageHandle marked = pool_->Allocate(), plain = pool_->Allocate();
  for (const PageHandle* page : {&marked, &plain}) WritePage(*pool_, page->page(), Contents("a", 1));
  marked.MarkZeroOnRelease();
  SwappedPage one = *host_->SwapOut(marked, scope, 100);
  SwappedPage two = *host_->SwapOut(plain, scope, 100);
  const ForgetReceipt receipt = host_->Forget(scope.family());
  EXPECT_EQ(receipt.pages_in_use, 2);
  PageHandle back_one = pool_->Allocate(), back_two = pool_->Allocate();
  host_->SwapIn(std::move(one), back_one);
  host_->SwapIn(std::move(two), back_two);
  EXPECT_TRUE(pool_->ZeroOnRelease(back_one.page()));
  EXPECT_TRUE(pool_->ZeroOnRelease(back_two.page()));
  EXPECT_TRUE(PageHolds(*pool_, back_two.page(), Contents("a", 1)));
  EXPECT_TRUE(IsZero(host_->memory()));
  SwappedPage dropped = *host_->SwapOut(marked, scope, 100);
  dropped.Reset();  // a cancelled sequence never comes back
  EXPECT_TRUE(IsZero(host_->memory()));
}

TEST_F(TierTest, MakeRefusesWhatHasNoRoom) {
  EXPECT_EQ(HostStore::Make(*pool_, page_bytes_ - 1).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(HostStore::Make(*pool_, int64_t{1} << 62).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(HostStore::Make(*pool_, page_bytes_ << 30).error().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(DiskTier::Make(std::make_unique<MemoryTierFile>(), page_bytes_, 4095).error().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace surety::kv
