// A loop compiled for vectors of 128, 256 and 512 bits on x86-64; the widest that the processor
// supports is picked at run time. Other processors have a single version. Used in .cc files only:
//   PARACORD_KERNEL float SumOf(...) { a plain loop }
//   PARACORD_WIDTHS(float, SumWide, (std::span<const float> x), SumOf(x))
//   static const auto sum = PICK_WIDTH(SumWide);
// No version uses fused multiply-add: the bits are equal everywhere.
#pragma once

// Has the loop inlined into each version; a loop that is called would be compiled only once, for
// the narrowest vectors.
#define PARACORD_KERNEL [[gnu::always_inline]] inline

// Precedes a loop that both compilers must vectorise for every width (a test checks). Promises that
// no iteration reads or writes an element written by another iteration; an iteration may read its
// own output, because arrays are identical or disjoint.
#ifdef __clang__
#define PARACORD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define PARACORD_INDEPENDENT _Pragma("GCC ivdep")
#endif

#if defined(__x86_64__)
#define PARACORD_WIDTHS(result, name, parameters, call)                                            \
  result name##128 parameters { return call; }                                                     \
  __attribute__((target("avx2"))) result name##256 parameters { return call; }                     \
  __attribute__((target("avx2,avx512f,avx512vl,avx512bw,avx512dq"))) result name##512 parameters { \
    return call;                                                                                   \
  }
#define PICK_WIDTH(name)                                                            \
  (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&       \
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") \
       ? name##512                                                                  \
   : __builtin_cpu_supports("avx2") ? name##256                                     \
                                    : name##128)
#else
#define PARACORD_WIDTHS(result, name, parameters, call) \
  result name##128 parameters { return call; }
#define PICK_WIDTH(name) (name##128)
#endif
