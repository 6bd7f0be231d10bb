// Kernel bodies of windows over images: pooling, and convolutions for which cuDNN has no engine. A
// tap is a position in a window. Pooling is our own because cuDNN pads both ends of an axis equally
// and does not specify which of equal maxima gets the gradient.
#pragma once

#include "tensor/cuda/pointer.h"
#include "tensor/ops.h"

namespace paracord::cuda {

// The indices of an element of (batch, height, width, channels).
struct Pixel {
  int64_t batch, y, x, channel;
};
PARACORD_HD inline Pixel PixelOf(int64_t i, int64_t height, int64_t width, int64_t channels) {
  const int64_t x = i / channels, y = x / width;
  return {y / height, y % height, x % width, i % channels};
}

// The pixel of an axis under tap `at` of window `out`; -1 if the tap is outside of the image.
PARACORD_HD inline int64_t TapOf(const WindowAxis& axis, int64_t out, int64_t at) {
  const int64_t in = out * axis.stride + at * axis.dilation - axis.pad_before;
  return in >= 0 && in < axis.in ? in : -1;
}

// A range of the windows of an axis that contains all windows with a tap over pixel `in`. Windows
// and taps of an axis are counted in ints, to save registers in the loop over both axes.
struct Windows {
  int begin, end;
};
PARACORD_HD inline Windows WindowsOver(const WindowAxis& axis, int64_t in) {
  const int64_t at = in + axis.pad_before, reach = (axis.size - 1) * axis.dilation;
  const int64_t begin = at <= reach ? 0 : (at - reach + axis.stride - 1) / axis.stride;
  const int64_t end = at / axis.stride + 1;
  return {static_cast<int>(begin), static_cast<int>(end < axis.out ? end : axis.out)};
}

// The tap of window `out` that is over pixel `in` of an axis; -1 if none is.
PARACORD_HD inline int TapOn(const WindowAxis& axis, int64_t out, int64_t in) {
  const int64_t from = in + axis.pad_before - out * axis.stride;
  const int64_t tap = axis.dilation == 1 ? from : from / axis.dilation;
  return from >= 0 && tap * axis.dilation == from && tap < axis.size ? static_cast<int>(tap) : -1;
}

// How many channels of a pixel a thread handles if there are enough channels: finding the pixel and
// its windows takes longer than a channel's work. A thread's channels are `apart` from each other,
// to give neighbouring threads neighbouring channels.
constexpr int kPoolTogether = 4;
PARACORD_HD inline int PoolTogether(int64_t channels) {
  return channels % kPoolTogether == 0 && channels >= 8 * kPoolTogether ? kPoolTogether : 1;
}

struct PoolBody {
  PoolShape s;
  AnyIn x;
  AnyOut y;
  Ptr<int> taps;  // max pooling: the maximum's tap; average: the number of taps inside the image
  int64_t part;   // the length of a partial sum (PoolPart)
  PARACORD_HD void operator()(int64_t i) const {
    const int together = PoolTogether(s.channels);
    const int64_t apart = s.channels / together;
    const Pixel at = PixelOf(i, s.height.out, s.width.out, apart);
    float best[kPoolTogether] = {}, sum[kPoolTogether] = {}, parts[kPoolTogether] = {};
    int64_t left = part;
    int tap[kPoolTogether], count = 0;
    for (int c = 0; c < kPoolTogether; ++c) tap[c] = -1;
    for (int64_t v = 0; v < s.height.size; ++v) {
      const int64_t row = TapOf(s.height, at.y, v);
      for (int64_t u = 0; u < s.width.size && row >= 0; ++u) {
        const int64_t column = TapOf(s.width, at.x, u);
        if (column < 0) continue;
        const int64_t pixel =
            ((at.batch * s.height.in + row) * s.width.in + column) * s.channels + at.channel;
        Bits loaded[kPoolTogether];
        for (int c = 0; c < kPoolTogether; ++c) {
          if (c < together) loaded[c] = x.Load(pixel + c * apart);
        }
        ++count;
        for (int c = 0; c < kPoolTogether; ++c) {
          if (c >= together) continue;
          const float value = x.Of(loaded[c]);
          sum[c] += value;
          if (tap[c] >= 0 && !(value > best[c] || value != value)) continue;
          best[c] = value;
          tap[c] = static_cast<int>(v * s.width.size + u);
        }
        if (--left > 0) continue;
        left = part;
        for (int c = 0; c < kPoolTogether; ++c) {
          parts[c] += sum[c];
          sum[c] = 0;
        }
      }
    }
    const int64_t out =
        ((at.batch * s.height.out + at.y) * s.width.out + at.x) * s.channels + at.channel;
    for (int c = 0; c < kPoolTogether; ++c) {
      if (c >= together) continue;
      y.Store(out + c * apart, s.max ? best[c] : (parts[c] + sum[c]) / static_cast<float>(count));
      taps[out + c * apart] = s.max ? tap[c] : count;
    }
  }
};

struct PoolBackwardBody {
  PoolShape s;
  AnyIn dy;
  Ptr<const int> taps;
  AnyOut dx;
  PARACORD_HD void operator()(int64_t i) const {
    const int together = PoolTogether(s.channels);
    const int64_t apart = s.channels / together;
    const Pixel at = PixelOf(i, s.height.in, s.width.in, apart);
    const Windows rows = WindowsOver(s.height, at.y), columns = WindowsOver(s.width, at.x);
    float sum[kPoolTogether] = {};
    const int64_t image = at.batch * s.height.out * s.width.out * s.channels + at.channel;
    for (int row = rows.begin; row < rows.end; ++row) {
      const int v = TapOn(s.height, row, at.y);
      for (int column = columns.begin; column < columns.end && v >= 0; ++column) {
        const int u = TapOn(s.width, column, at.x);
        if (u < 0) continue;
        const int64_t out = image + (row * s.width.out + column) * s.channels;
        Bits loaded[kPoolTogether];
        int tap[kPoolTogether];
        for (int c = 0; c < kPoolTogether; ++c) {
          if (c >= together) continue;
          tap[c] = taps[out + c * apart];
          loaded[c] = dy.Load(out + c * apart);
        }
        const int own = static_cast<int>(v * s.width.size + u);
        for (int c = 0; c < kPoolTogether; ++c) {
          if (c >= together) continue;
          const float d = dy.Of(loaded[c]);
          if (!s.max) sum[c] += d / static_cast<float>(tap[c]);
          if (s.max && tap[c] == own) sum[c] += d;
        }
      }
    }
    const int64_t in =
        ((at.batch * s.height.in + at.y) * s.width.in + at.x) * s.channels + at.channel;
    for (int c = 0; c < kPoolTogether; ++c) {
      if (c < together) dx.Store(in + c * apart, sum[c]);
    }
  }
};

// Computes the output of a convolution; the kernel is (h, w, in / groups, out).
struct ConvBody {
  ConvShape s;
  AnyIn x;
  In kernel;
  AnyOut y;
  PARACORD_HD void operator()(int64_t i) const {
    const Pixel at = PixelOf(i, s.height.out, s.width.out, s.out_channels);
    const int64_t in = s.in_channels / s.groups;
    const int64_t first = at.channel / (s.out_channels / s.groups) * in;
    float sum = 0;
    for (int64_t v = 0; v < s.height.size; ++v) {
      const int64_t row = TapOf(s.height, at.y, v);
      for (int64_t u = 0; u < s.width.size && row >= 0; ++u) {
        const int64_t column = TapOf(s.width, at.x, u);
        if (column < 0) continue;
        const int64_t pixel =
            ((at.batch * s.height.in + row) * s.width.in + column) * s.in_channels + first;
        const In tap = kernel + ((v * s.width.size + u) * in * s.out_channels + at.channel);
        for (int64_t c = 0; c < in; ++c) sum += x[pixel + c] * tap[c * s.out_channels];
      }
    }
    y.Store(i, sum);
  }
};

struct ConvInputBody {
  ConvShape s;
  In kernel;
  AnyIn dy;
  AnyOut dx;
  PARACORD_HD void operator()(int64_t i) const {
    const Pixel at = PixelOf(i, s.height.in, s.width.in, s.in_channels);
    const int64_t in = s.in_channels / s.groups, out = s.out_channels / s.groups;
    const int64_t first = at.channel / in * out;
    const Windows rows = WindowsOver(s.height, at.y), columns = WindowsOver(s.width, at.x);
    float sum = 0;
    for (int row = rows.begin; row < rows.end; ++row) {
      for (int column = columns.begin; column < columns.end; ++column) {
        const int v = TapOn(s.height, row, at.y), u = TapOn(s.width, column, at.x);
        if (v < 0 || u < 0) continue;
        const int64_t pixel =
            ((at.batch * s.height.out + row) * s.width.out + column) * s.out_channels + first;
        const In tap =
            kernel + (((v * s.width.size + u) * in + at.channel % in) * s.out_channels + first);
        for (int64_t o = 0; o < out; ++o) sum += dy[pixel + o] * tap[o];
      }
    }
    dx.Store(i, sum);
  }
};

// Computes the kernel's gradient: a reduction of all windows to each element.
struct ConvKernelBody {
  using Value = float;
  static constexpr bool kMaps = false;
  ConvShape s;
  AnyIn x, dy;
  Out dkernel;
  PARACORD_HD float Start(int64_t) const { return 0; }
  PARACORD_HD void Add(int64_t i, int64_t k, float& sum) const {
    const int64_t in = s.in_channels / s.groups;
    const Pixel tap = PixelOf(i, s.width.size, in, s.out_channels);  // v, u, c, o
    const int64_t group = tap.channel / (s.out_channels / s.groups);
    const int64_t row_out = k / s.width.out, column_out = k % s.width.out;
    const int64_t batch = row_out / s.height.out;
    const int64_t row = TapOf(s.height, row_out % s.height.out, tap.batch);
    const int64_t column = TapOf(s.width, column_out, tap.y);
    if (row < 0 || column < 0) return;
    sum += x[((batch * s.height.in + row) * s.width.in + column) * s.in_channels + group * in +
             tap.x] *
           dy[k * s.out_channels + tap.channel];
  }
  PARACORD_HD void Merge(float& sum, float other) const { sum += other; }
  PARACORD_HD void Finish(int64_t i, float sum) const { dkernel[i] = sum; }
};

}  // namespace paracord::cuda
