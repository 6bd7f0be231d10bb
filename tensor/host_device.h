// Marks functions compiled for both the processor and the GPU: formulas are written once.
#pragma once

#ifdef __CUDACC__
#define PARACORD_HD __host__ __device__
#define PARACORD_CALLED __noinline__  // a real call, where inlining would repeat a large body
#else
#define PARACORD_HD
#define PARACORD_CALLED
#endif
