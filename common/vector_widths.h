// Compiles a loop for vectors of 128, 256 and 512 bits on x86-64, and picks the widest that the
// processor supports at run time. On other processors the loop has a single version. Used in .cc
// files only:
//   PARACORD_KERNEL float SumOf(...) { a plain loop }
//   PARACORD_WIDTHS(float, SumWide, (std::span<const float> x), SumOf(x))
//   static const auto sum = PICK_WIDTH(SumWide);
// The build allows no fused multiply-add, so the bits of the result are the same in all versions if
// the loop itself does not depend on the width.
#pragma once

// Makes the compiler inline the loop into each version. A loop that is called instead would be
// compiled only once, for the narrowest vectors.
#define PARACORD_KERNEL [[gnu::always_inline]] inline

// Precedes a loop that gcc and clang must both vectorise for every width (a test checks that).
// Promises that no iteration reads or writes an element that another iteration writes. An iteration
// may read the element that it writes itself: input and output arrays are identical or disjoint.
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
