#include "cli/exit_codes.h"

#include <exception>
#include <new>
#include <string>

#include <gtest/gtest.h>

namespace surety::cli {
namespace {

TEST(ExitCodesTest, ExceptionOfACommandIsAFailureThatIsReported) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(Guarded([] { return std::stoi("no number"); }), kExitFailure);
  const auto no_memory = [] {
    std::rethrow_exception(std::make_exception_ptr(std::bad_alloc()));
    return kExitOk;
  };
  EXPECT_EQ(Guarded(no_memory), kExitFailure);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("surety: error: internal error: stoi"), std::string::npos) << said;
  EXPECT_NE(said.find("surety: error: out of memory"), std::string::npos) << said;
  EXPECT_EQ(Guarded([] { return kExitInterrupted; }), kExitInterrupted);
}

TEST(ExitCodesTest, FlagFaultIsUsageOnlyWhereTheValueIsWrong) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(ReportFlagFault(InvalidArgumentError("--x: 3")), kExitUsage);
  EXPECT_EQ(ReportFlagFault(DataLossError("the file")), kExitFailure);
  testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace surety::cli
