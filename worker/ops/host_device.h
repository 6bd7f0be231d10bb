// What marks a function as one for the processor and for the GPU: the same formulas compiled by
// either compiler.
#pragma once

#ifdef __CUDACC__
#define PARACORD_HD __host__ __device__
#else
#define PARACORD_HD
#endif
