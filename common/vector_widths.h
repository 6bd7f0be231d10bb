// One loop, compiled for every width of vectors that x86-64 processors have; the widest that this
// one has is picked at run time. On other processors there is one version. Private to .cc files of
// kernels:
//   PARACORD_KERNEL float SumOf(...) { a plain loop }
//   PARACORD_WIDTHS(float, SumWide, (std::span<const float> x), SumOf(x))
//   static const auto sum = PICK_WIDTH(SumWide);
// Wider vectors alone, no fused multiply-add: the bits are the same everywhere.
#pragma once

// Inlined into each version, because it would otherwise be compiled for the narrowest vectors.
#define PARACORD_KERNEL [[gnu::always_inline]] inline

// Precedes a loop that must be vectorised for every width by both compilers (a test checks that).
// It promises that no iteration reads or writes what another one writes. (An iteration may read
// what it writes itself: arrays are identical or disjoint.)
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
