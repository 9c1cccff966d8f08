// Machines that the tests do not run on, as folders that look like their /sys.
#include "base/topology.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

#include "base/thread_pool.h"

namespace surety {
namespace {

class TopologyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "topology_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::string whole = root_ + "/sys/devices/system/" + path;
    std::filesystem::create_directories(std::filesystem::path(whole).parent_path());
    std::ofstream(whole) << text << "\n";
  }
  // `sharing`: the processors of its core, as the system lists them.
  void Core(int id, const std::string& sharing, const std::string& frequency = "") {
    const std::string folder = "cpu/cpu" + std::to_string(id) + "/";
    Write(folder + "topology/core_cpus_list", sharing);
    if (!frequency.empty()) Write(folder + "cpufreq/cpuinfo_max_freq", frequency);
  }
  void Pair(int id, const std::string& frequency = "") {  // neighbours in number share a core
    Core(id, std::to_string(id / 2 * 2) + "-" + std::to_string(id / 2 * 2 + 1), frequency);
  }
  Topology Read(int n) const {
    std::vector<int> allowed(static_cast<size_t>(n));
    std::iota(allowed.begin(), allowed.end(), 0);
    return ReadTopology(root_, allowed);
  }

  std::string root_;
};

std::vector<int> Range(int begin, int end, int step = 1) {
  std::vector<int> ids;
  for (int i = begin; i < end; i += step) ids.push_back(i);
  return ids;
}

std::vector<int> Workers(const WorkerPlan& plan) {
  return {plan.processors.begin(), plan.processors.begin() + plan.n_workers};
}

TEST_F(TopologyTest, AMachineThatSaysNothingUsesAllProcessors) {
  const WorkerPlan plan = PlanWorkers(Read(6), 0);
  EXPECT_EQ(Workers(plan), Range(0, 6));
  EXPECT_EQ(PlanWorkers({}, 0).n_workers, 1);
}

// An EPYC with SMT: the second processor of core i is 64 + i.
TEST_F(TopologyTest, SixtyFourCoresWithTwoProcessorsEachGetSixtyFourWorkers) {
  for (int i = 0; i < 128; ++i) Core(i, std::to_string(i % 64) + "," + std::to_string(i % 64 + 64));
  const WorkerPlan plan = PlanWorkers(Read(128), 0);
  EXPECT_EQ(Workers(plan), Range(0, 64));
  EXPECT_EQ(plan.processors.size(), 128u);
  EXPECT_EQ(plan.processors[64], 64) << "whoever asks for more workers gets the second processors";
}

// Neighbours in number alternate between the nodes.
TEST_F(TopologyTest, TwoNodesAreFilledOneAfterTheOther) {
  for (int i = 0; i < 16; ++i) Core(i, std::to_string(i));
  Write("node/online", "0-1");
  Write("node/node0/cpulist", "0,2,4,6,8,10,12,14");
  Write("node/node1/cpulist", "1,3,5,7,9,11,13,15");
  const Topology topology = Read(16);
  EXPECT_EQ(topology.n_nodes(), 2);
  std::vector<int> wanted = Range(0, 16, 2);
  for (const int id : Range(1, 16, 2)) wanted.push_back(id);
  EXPECT_EQ(Workers(PlanWorkers(topology, 0)), wanted);
  EXPECT_EQ(Workers(PlanWorkers(topology, 7.2)), Range(0, 16, 2)) << "eight workers for 7.2: all beside one memory";
  EXPECT_EQ(PlanWorkers(topology, 0.5).n_workers, 1);
}

// A Core i9: eight fast cores of two processors, sixteen slower ones. They take what they can manage.
TEST_F(TopologyTest, SlowerCoresWorkAlongAndMuchSlowerOnesDoNot) {
  for (int i = 0; i < 16; ++i) Pair(i, "5600000");
  for (int i = 16; i < 32; ++i) Core(i, std::to_string(i), "4300000");
  std::vector<int> wanted = Range(0, 16, 2);
  for (const int id : Range(16, 32)) wanted.push_back(id);
  EXPECT_EQ(Workers(PlanWorkers(Read(32), 0)), wanted);
  EXPECT_EQ(Workers(PlanWorkers(Read(32), 4)), Range(0, 8, 2)) << "the fast ones first";
}

// An RK3588: four small cores, first in number, and two clusters of two big ones, by the capacity the scheduler says.
TEST_F(TopologyTest, SmallCoresOfAnArmStayOut) {
  for (int i = 0; i < 8; ++i) {
    Core(i, std::to_string(i), "2000000");
    Write("cpu/cpu" + std::to_string(i) + "/cpu_capacity", i < 4 ? "280" : "1024");
    // Each of the three clusters counts its cores from 0, and all are one package.
    Write("cpu/cpu" + std::to_string(i) + "/topology/core_id", std::to_string(i < 4 ? i : i % 2));
    Write("cpu/cpu" + std::to_string(i) + "/topology/physical_package_id", "0");
  }
  const WorkerPlan plan = PlanWorkers(Read(8), 0);
  EXPECT_EQ(Workers(plan), Range(4, 8));
  EXPECT_EQ(plan.processors.size(), 8u);
}

TEST_F(TopologyTest, OnlyAllowedProcessorsAreUsed) {
  for (int i = 0; i < 16; ++i) Pair(i);
  const std::vector<int> allowed = {3, 6, 7, 8, 9, 14};
  EXPECT_EQ(Workers(PlanWorkers(ReadTopology(root_, allowed), 0)), (std::vector<int>{3, 6, 8, 14}));
}

TEST_F(TopologyTest, OfFewCoresAllProcessorsWork) {
  for (int i = 0; i < 6; ++i) Pair(i);
  EXPECT_EQ(Workers(PlanWorkers(Read(6), 0)), (std::vector<int>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(Workers(PlanWorkers(Read(6), 2)), (std::vector<int>{0, 2})) << "fewer do not share a core";
}

// Before Linux 5.2 the list has another name.
TEST_F(TopologyTest, OlderSystemsSayItByAnotherName) {
  for (int i = 0; i < 8; ++i) {
    Write("cpu/cpu" + std::to_string(i) + "/topology/thread_siblings_list",
          std::to_string(i % 4) + "," + std::to_string(i % 4 + 4));
  }
  EXPECT_EQ(Workers(PlanWorkers(Read(8), 0)), Range(0, 4));
}

TEST_F(TopologyTest, ProcessorsThatShareTheirCoreWithNobodySaidAreCoresOfTheirOwn) {
  for (int i = 0; i < 8; ++i) Core(i, "");
  EXPECT_EQ(Workers(PlanWorkers(Read(8), 0)), Range(0, 8));
}

TEST_F(TopologyTest, FilesThatAreBrokenSayNothing) {
  for (const char* list : {"", "-", "0-", "3-1", "0-99999999999", "a", "0,,1", "0;1", "2147483647", "0-2147483647",
                           "2147483640-2147483647", "-1"}) {
    for (int i = 0; i < 4; ++i) Core(i, list, list);
    Write("node/online", list);
    const Topology topology = Read(4);
    EXPECT_EQ(topology.n_nodes(), 1) << list;
    EXPECT_EQ(PlanWorkers(topology, 0).n_workers, 4) << list;
  }
  for (const char* speed : {"-1", "-9223372036854775808", "9223372036854775807"}) {
    for (int i = 0; i < 4; ++i) Core(i, std::to_string(i), speed);
    EXPECT_EQ(Workers(PlanWorkers(Read(4), 0)), Range(0, 4)) << speed;
  }
}

TEST(InterleavedMemoryTest, TouchesOfAllWorkersAreInterleavedAndAPolicyOfTheirOwnStays) {
  constexpr int kBound = 2, kInterleaved = 3;  // as linux/mempolicy.h numbers them
  const Topology here = ThisTopology();
  EXPECT_FALSE(here.processors.empty());
  auto pool = TryMakeThreadPool({.n_workers = 3});
  ASSERT_TRUE(pool.has_value());
  const auto policies = [&] {
    std::vector<int> of(3, -1);
    (*pool)->Run([&](int worker) {
      ::syscall(SYS_get_mempolicy, &of[static_cast<size_t>(worker)], nullptr, 0, nullptr, 0);
    });
    return of;
  };
  const std::vector<int> before = policies();
  const unsigned long nodes = 3;  // NOLINT(google-runtime-int): the call's type
  if (before != std::vector<int>(3, 0) || ::syscall(SYS_set_mempolicy, kInterleaved, &nodes, 64) != 0) {
    GTEST_SKIP() << "the system has no memory policies, or the tests run under one";
  }
  ASSERT_EQ(::syscall(SYS_set_mempolicy, 0, nullptr, 0), 0);
  Topology two;  // on a machine of one node the kernel leaves the other out
  two.processors = {{.id = 0, .node = 0}, {.id = 1, .node = 1}};
  Topology one;
  one.processors = {{.id = 0, .node = 0}, {.id = 1, .node = 0}};
  {
    const InterleavedMemory nothing(one, **pool);
    EXPECT_EQ(policies(), before);
    const InterleavedMemory outer(two, **pool);
    EXPECT_EQ(policies(), std::vector<int>(3, kInterleaved));
    { const InterleavedMemory inner(two, **pool); }
    EXPECT_EQ(policies(), std::vector<int>(3, kInterleaved)) << "what is loaded inside ends no more than its own";
  }
  EXPECT_EQ(policies(), before);
  const unsigned long node_0 = 1;  // NOLINT(google-runtime-int): the call's type
  (*pool)->Run([&](int worker) {
    if (worker == 1) ::syscall(SYS_set_mempolicy, kBound, &node_0, 64);
  });
  const std::vector<int> own = policies();
  EXPECT_EQ(own, (std::vector<int>{0, kBound, 0}));
  {
    const InterleavedMemory around(two, **pool);
    EXPECT_EQ(policies(), (std::vector<int>{kInterleaved, kBound, kInterleaved}));
  }
  EXPECT_EQ(policies(), own);
}

}  // namespace
}  // namespace surety
