// Training's arithmetic; see math_eigen.inc. cmake/modules.cmake says for which instructions it is compiled.
#if defined(__x86_64__)
#define SURETY_MATH_SET math_avx512
#define SURETY_MATH_EIGEN EigenFor_avx512
#include "train/math_eigen.inc"
#endif
