#include "base/status.h"

#include <memory>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace surety {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return Error(InvalidArgumentError(std::to_string(n) + " is odd"));
  return n / 2;
}
Status CheckQuarter(int n, int* out) {
  SURETY_ASSIGN_OR_RETURN(const int half, Half(n));
  SURETY_ASSIGN_OR_RETURN(*out, Half(half));
  return OkStatus();
}
Result<std::unique_ptr<int>> QuarterBox(int n) {
  int quarter = 0;
  SURETY_RETURN_IF_ERROR(CheckQuarter(n, &quarter));
  return std::make_unique<int>(quarter);
}

TEST(StatusTest, MacrosPassValuesAndErrorsThroughBothKindsOfFunction) {
  int out = -1;
  EXPECT_TRUE(CheckQuarter(12, &out).ok());
  EXPECT_EQ(out, 3);
  EXPECT_EQ(CheckQuarter(6, &out).ToString(), "INVALID_ARGUMENT: 3 is odd");
  EXPECT_EQ(out, 3);  // an error assigns nothing
  EXPECT_EQ(**QuarterBox(8), 2);
  EXPECT_EQ(QuarterBox(7).error().message(), "7 is odd");
}

TEST(StatusTest, AMacroIsOneStatement) {
  const auto f = [](bool fail) -> Status {
    if (fail) SURETY_RETURN_IF_ERROR(InternalError("yes"));
    else return OkStatus();
    return InternalError("not reached");
  };
  EXPECT_TRUE(f(false).ok());
  EXPECT_EQ(f(true).message(), "yes");
}

TEST(StatusTest, ContextComesBeforeTheMessageAndKeepsTheCode) {
  const Status status = DataLossError("bad magic").WithContext("model.gguf").WithContext("load");
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(status.ToString(), "DATA_LOSS: load: model.gguf: bad magic");
  EXPECT_TRUE(OkStatus().WithContext("load").ok());
  EXPECT_EQ(OkStatus().WithContext("load").ToString(), "OK");
}

TEST(StatusTest, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(StatusCode::kIoError); ++code) {
    names.insert(StatusCodeName(static_cast<StatusCode>(code)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(StatusCode::kIoError) + 1);
  EXPECT_FALSE(names.contains("UNKNOWN"));
}

}  // namespace
}  // namespace surety
