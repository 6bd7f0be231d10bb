#include "tensor/cpu/dnnl_defects.h"

#include <algorithm>
#include <cstdint>

namespace paracord::cpu {
namespace {

constexpr int64_t kVector = 16;  // channels

// True if a tap of the kernel meets no pixel for any output. The tap's gradient is zero, but oneDNN
// leaves uninitialised memory there.
bool HasIdleTap(const WindowAxis& axis) {
  for (int64_t tap = 0; tap < axis.size; ++tap) {
    bool idle = true;
    for (int64_t out = 0; idle && out < axis.out; ++out) {
      const int64_t at = out * axis.stride + tap * axis.dilation - axis.pad_before;
      idle = at < 0 || at >= axis.in;
    }
    if (idle) return true;
  }
  return false;
}

}  // namespace

bool IsWrong(std::string_view implementation, const ConvShape& s) {
  const auto has = [&](const char* part) {
    return implementation.find(part) != std::string_view::npos;
  };
  // The implementations by blocks of rows, as 2.6 and 3.7 name them. 2.6 reads beyond the image if
  // the padding is wider than the last block and that block is not full; a block has at least four
  // columns. 3.7 is wrong in some results that have one column with a stride. With AMX, 2.6 reads
  // one number beyond a table of rows, which only glibc's malloc forgives, and 3.7 is wrong in more
  // cases: one column, kernels of eight, dilations of three.
  const bool rows = has("brgconv:") || has("brg_conv_fwd:");
  constexpr int64_t kBlockLeast = 4;
  const bool far = std::max(s.width.pad_before, s.width.pad_after) >= kBlockLeast;
  const bool column = s.width.out == 1 && s.width.stride > 1;
  if (rows && (has("amx") || far || column)) return true;
  // The code for kernels of one pixel with strides writes whole vectors of channels, even after a
  // last pixel with fewer channels.
  const bool pixel = s.height.size == 1 && s.width.size == 1;
  const bool strided = s.height.stride > 1 || s.width.stride > 1;
  const bool whole = s.in_channels % kVector == 0 && s.out_channels % kVector == 0;
  return has("1x1") && pixel && strided && (!whole || s.groups > 1);
}

bool IsWrongByAmx(const ConvShape& s) {
  if (HasIdleTap(s.height) || HasIdleTap(s.width)) return true;
  // The gradient of a kernel with dilated rows is wrong in all blocks of channels before the last
  // two if the last block is not full: the rows between are stepped over twice.
  const int64_t in = s.in_channels / s.groups;
  return s.height.dilation > 1 && in > kVector && in % kVector != 0;
}

// A sum whose last block lacks one number is rounded up to a whole block. Where sums also have no
// whole blocks, the code for whole and for partial blocks is mixed up, which ends with SIGILL (for
// k = 63, and for 31 more than a multiple of 1024, with some m and n).
bool IsWrongByAmx(const MatmulShape& s) {
  constexpr int64_t kBlock = 32;
  return s.k > kBlock && s.k % kBlock == kBlock - 1;
}

}  // namespace paracord::cpu
