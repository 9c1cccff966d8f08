// The instruction sets that training's arithmetic is compiled for; see math_table.h.
#pragma once

#include "train/math_table.h"

namespace surety::train {

namespace math_base { const MathTable& Table(); }  // what all code of the build may assume
#if defined(__x86_64__)
namespace math_avx2 { const MathTable& Table(); }
namespace math_avx512 { const MathTable& Table(); }
#endif

}  // namespace surety::train
