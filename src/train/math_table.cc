#include "train/math_table.h"

#include "kernels/cpu/isa.h"
#include "train/math_sets.h"

namespace surety::train {

// Without a default, so that the compiler asks for a set where an instruction set is added.
const MathTable& MathFor(kernels::cpu::Isa isa) {
  using kernels::cpu::Isa;
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAvx512:
    case Isa::kAvx512Vnni:
    case Isa::kAvx512Amx:
      return math_avx512::Table();
    case Isa::kAvx2:
      return math_avx2::Table();
#else
    case Isa::kAvx512:
    case Isa::kAvx512Vnni:
    case Isa::kAvx512Amx:
    case Isa::kAvx2:
#endif
    case Isa::kSse4:
    case Isa::kNeon:
      break;
  }
  return math_base::Table();
}

const MathTable& CurrentMath() { return MathFor(kernels::cpu::CurrentIsa()); }

}  // namespace surety::train
