// Calls each case of the instruction counts once under each instruction set, for tools/kernel_counts.py, which runs it
// under callgrind. Prints what it was built with, then a line a case in the order of the calls: name, instruction set,
// units, unit.
#include <cstdio>

#include "base/check.h"
#include "hwy/highway.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/testing/counted_cases.h"

#if defined(__clang__)
#define SURETY_COMPILER "Clang"
#define SURETY_COMPILER_VERSION __clang_major__
#else
#define SURETY_COMPILER "GNU"
#define SURETY_COMPILER_VERSION __GNUC__
#endif

#if defined(__x86_64__)
#define SURETY_PROCESSOR "x86_64"
#else
#define SURETY_PROCESSOR "another processor"
#endif

namespace surety::kernels::cpu::testing {

// Callgrind counts from its entry to its return, by its name; so it must be a function, and not end in a jump.
extern "C" [[gnu::noinline]] void SuretyCountedCall(const CountedCase& counted) {
  counted.call();
  asm volatile("");
}

namespace {

void CallAll(const CountedCases& cases, std::string_view isa, bool plain) {
  for (const CountedCase& counted : cases.all()) {
    if (counted.every_isa == plain) continue;
    counted.call();
    SuretyCountedCall(counted);
    std::printf("%s\t%.*s\t%lld\t%.*s\n", counted.name.c_str(), static_cast<int>(isa.size()), isa.data(),
                static_cast<long long>(counted.n_units), static_cast<int>(counted.unit.size()), counted.unit.data());
  }
}

void Main() {
  std::printf(SURETY_COMPILER " %d, Highway %d.%d, " SURETY_PROCESSOR "\n", SURETY_COMPILER_VERSION, HWY_MAJOR,
              HWY_MINOR);
  CountedCases cases;
  AddMatMulCases(cases);
  AddAttentionCases(cases);
  AddKvCases(cases);
  AddElementwiseCases(cases);
  AddLogitsScanCases(cases);
  CallAll(cases, "all", true);
  for (Isa isa : SupportedIsas()) {
    SURETY_CHECK(SetIsa(isa).ok());
    CallAll(cases, NameOf(isa), false);
  }
}

}  // namespace
}  // namespace surety::kernels::cpu::testing

int main() { surety::kernels::cpu::testing::Main(); }
