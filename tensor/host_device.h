// What marks a function as one for the processor and for the GPU: the same formulas compiled by
// either compiler.
#pragma once

#ifdef __CUDACC__
#define PARACORD_HD __host__ __device__
#define PARACORD_CALLED __noinline__  // called, where it would be inlined too often
#else
#define PARACORD_HD
#define PARACORD_CALLED
#endif
