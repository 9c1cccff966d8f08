// Machines that the tests do not run on, as folders that look like their /sys.
#include "base/topology.h"

#include <filesystem>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

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
  void Core(int id, int package, int core, const std::string& frequency = "") {
    const std::string folder = "cpu/cpu" + std::to_string(id) + "/";
    Write(folder + "topology/core_id", std::to_string(core));
    Write(folder + "topology/physical_package_id", std::to_string(package));
    if (!frequency.empty()) Write(folder + "cpufreq/cpuinfo_max_freq", frequency);
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
  for (int i = 0; i < 128; ++i) Core(i, 0, i % 64);
  const WorkerPlan plan = PlanWorkers(Read(128), 0);
  EXPECT_EQ(Workers(plan), Range(0, 64));
  EXPECT_EQ(plan.processors.size(), 128u);
  EXPECT_EQ(plan.processors[64], 64) << "whoever asks for more workers gets the second processors";
}

// Core numbers repeat from package to package, and neighbours in number alternate between the nodes.
TEST_F(TopologyTest, TwoNodesAreFilledOneAfterTheOther) {
  for (int i = 0; i < 16; ++i) Core(i, i % 2, i / 2);
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
  for (int i = 0; i < 16; ++i) Core(i, 0, i / 2, "5600000");
  for (int i = 16; i < 32; ++i) Core(i, 0, i, "4300000");
  std::vector<int> wanted = Range(0, 16, 2);
  for (const int id : Range(16, 32)) wanted.push_back(id);
  EXPECT_EQ(Workers(PlanWorkers(Read(32), 0)), wanted);
  EXPECT_EQ(Workers(PlanWorkers(Read(32), 4)), Range(0, 8, 2)) << "the fast ones first";
}

// An Arm of four small cores and four big ones, by the scheduler's capacity; the small ones come first in number.
TEST_F(TopologyTest, SmallCoresOfAnArmStayOut) {
  for (int i = 0; i < 8; ++i) {
    Core(i, 0, i, "2000000");
    Write("cpu/cpu" + std::to_string(i) + "/cpu_capacity", i < 4 ? "280" : "1024");
  }
  const WorkerPlan plan = PlanWorkers(Read(8), 0);
  EXPECT_EQ(Workers(plan), Range(4, 8));
  EXPECT_EQ(plan.processors.size(), 8u);
}

TEST_F(TopologyTest, OnlyAllowedProcessorsAreUsed) {
  for (int i = 0; i < 16; ++i) Core(i, 0, i / 2);
  const std::vector<int> allowed = {3, 6, 7, 8, 9, 14};
  EXPECT_EQ(Workers(PlanWorkers(ReadTopology(root_, allowed), 0)), (std::vector<int>{3, 6, 8, 14}));
}

TEST_F(TopologyTest, OfFewCoresAllProcessorsWork) {
  for (int i = 0; i < 6; ++i) Core(i, 0, i / 2);
  EXPECT_EQ(Workers(PlanWorkers(Read(6), 0)), Range(0, 6));
}

TEST_F(TopologyTest, CoresOfNoNumberAreOnesOfTheirOwn) {
  for (int i = 0; i < 8; ++i) Core(i, -1, -1);
  EXPECT_EQ(Workers(PlanWorkers(Read(8), 0)), Range(0, 8));
}

TEST_F(TopologyTest, FilesThatAreBrokenSayNothing) {
  for (int i = 0; i < 4; ++i) Core(i, 0, i);
  Write("cpu/cpu0/topology/core_id", "x");
  for (const char* list : {"", "-", "0-", "3-1", "0-99999999999", "a", "0,,1", "0;1"}) {
    Write("node/online", list);
    const Topology topology = Read(4);
    EXPECT_EQ(topology.n_nodes(), 1) << list;
    EXPECT_EQ(Workers(PlanWorkers(topology, 0)), Range(0, 4)) << list;
  }
}

TEST_F(TopologyTest, OneNodeIsNotInterleaved) {
  EXPECT_FALSE(InterleavedMemory(Read(4)).active());
  const Topology here = ThisTopology();
  EXPECT_FALSE(here.processors.empty());
  EXPECT_GE(PlanWorkers(here, 0).n_workers, 1);
}

}  // namespace
}  // namespace surety
