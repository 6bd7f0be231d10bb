#include "tensor/cpu/dnnl_defects.h"

#include <algorithm>
#include <cstdint>

namespace paracord::cpu {
namespace {

constexpr int64_t kVector = 16;  // channels

// Whether a tap of the kernel meets no pixel anywhere. The gradient by it is zero, but what is
// computed is whatever the memory had.
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
  // By blocks of rows, as 2.6 and 3.7 name it. 2.6 takes what lies behind the image where that is
  // padded by more columns than the last block has, if that is not full; the first has at least
  // four. 3.7 is wrong in some results of one column with a stride. By AMX, 2.6 is made by reading
  // one number after a table of rows, which glibc's malloc always bears and other allocators do
  // not, and 3.7 is wrong in many more: one column, kernels of eight, dilations of three.
  const bool rows = has("brgconv:") || has("brg_conv_fwd:");
  constexpr int64_t kBlockLeast = 4;
  const bool far = std::max(s.width.pad_before, s.width.pad_after) >= kBlockLeast;
  const bool column = s.width.out == 1 && s.width.stride > 1;
  if (rows && (has("amx") || far || column)) return true;
  // Its own code for kernels of one pixel with strides writes whole vectors of channels, also after
  // the last pixel where there are fewer.
  const bool pixel = s.height.size == 1 && s.width.size == 1;
  const bool strided = s.height.stride > 1 || s.width.stride > 1;
  const bool whole = s.in_channels % kVector == 0 && s.out_channels % kVector == 0;
  return has("1x1") && pixel && strided && (!whole || s.groups > 1);
}

bool IsWrongByAmx(const ConvShape& s) {
  if (HasIdleTap(s.height) || HasIdleTap(s.width)) return true;
  // The gradient by a kernel whose rows are apart, in all blocks of channels before the last two if
  // the last is not full: it steps over the rows between twice.
  const int64_t in = s.in_channels / s.groups;
  return s.height.dilation > 1 && in > kVector && in % kVector != 0;
}

// The last block of each sum lacks one number and is rounded up to a whole one; where sums have no
// whole ones beside it, the code for those and for it is mixed up, which ends with SIGILL (63, and
// 31 more than a multiple of 1024; with some m and n).
bool IsWrongByAmx(const MatmulShape& s) {
  constexpr int64_t kBlock = 32;
  return s.k > kBlock && s.k % kBlock == kBlock - 1;
}

}  // namespace paracord::cpu
