#include "train/math_table.h"

#include "kernels/cpu/isa.h"
#include "train/math_sets.h"

namespace surety::train {

const MathTable& CurrentMath() {
#if defined(__x86_64__)
  using kernels::cpu::Isa;
  switch (kernels::cpu::CurrentIsa()) {
    case Isa::kAvx512:
    case Isa::kAvx512Vnni:
      return math_avx512::Table();
    case Isa::kAvx2:
      return math_avx2::Table();
    default:
      break;
  }
#endif
  return math_base::Table();
}

}  // namespace surety::train
