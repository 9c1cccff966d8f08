// Training's arithmetic; see math_eigen.inc. cmake/modules.cmake says for which instructions it is compiled.
#define SURETY_MATH_SET math_base
#define SURETY_MATH_EIGEN EigenFor_base
#include "train/math_eigen.inc"
