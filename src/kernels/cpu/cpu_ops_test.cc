// The assembled table: it passes its own check on every instruction set, says which one it runs, and a failing check
// falls back and says so.
#include "kernels/cpu/cpu_ops.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "kernels/cpu/isa.h"

namespace surety::kernels::cpu {
namespace {

class CpuOpsTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(SetIsa(BestIsa()).ok()); }
  SerialExecutor serial_;
};

TEST_F(CpuOpsTest, PassesItsSelfCheckOnEveryInstructionSet) {
  for (Isa isa : SupportedIsas()) {
    ASSERT_TRUE(SetIsa(isa).ok());
    std::string warning;
    const auto ops = MakeCpuOps(serial_, &warning);
    EXPECT_EQ(warning, "");
    EXPECT_EQ(ops->name(), "cpu/" + std::string(NameOf(isa)));
    const auto start = std::chrono::steady_clock::now();
    const Status status = SelfCheck(*ops);
    EXPECT_TRUE(status.ok()) << status.ToString();
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
    RecordProperty(std::string(NameOf(isa)) + "_micros", std::to_string(micros.count()));
  }
}

TEST_F(CpuOpsTest, FallsBackToTheNextWeakerSetAndSaysSo) {
  const std::vector<Isa> isas = SupportedIsas();
  if (isas.size() < 2) GTEST_SKIP() << "one instruction set only";
  std::string warning;
  const auto ops = MakeCpuOps(serial_, &warning, [](Ops& probe) {
    return probe.name() == "cpu/" + std::string(NameOf(BestIsa())) ? InternalError("rope: wrong") : OkStatus();
  });
  EXPECT_EQ(CurrentIsa(), isas[isas.size() - 2]);
  EXPECT_EQ(ops->name(), "cpu/" + std::string(NameOf(isas[isas.size() - 2])));
  EXPECT_NE(warning.find("rope: wrong"), std::string::npos);
}

TEST_F(CpuOpsTest, ReserveCountsItsMemory) {
  const auto ops = MakeCpuOps(serial_);
  EXPECT_EQ(ops->reserved_bytes(), 0);
  ASSERT_TRUE(ops->Reserve(32, 1024, 4096).ok());
  EXPECT_GT(ops->reserved_bytes(), 1 << 20);
}

}  // namespace
}  // namespace surety::kernels::cpu
