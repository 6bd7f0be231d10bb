// Pooling by loops over the channels: with the channels last, oneDNN's pooling takes several times
// as long, and loses NaNs.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "tensor/cpu/cpu_ops_internal.h"
#include "tensor/cpu/elements.h"
#include "tensor/cpu/ranges.h"
#include "tensor/pool_part.h"

namespace paracord::cpu {
namespace {

// Indices from `begin` to before `end`. Windows have no dilation here.
struct Range {
  int64_t begin, end;
};

// The pixels under a window along an axis.
Range PixelsOf(const WindowAxis& axis, int64_t window) {
  const int64_t first = window * axis.stride - axis.pad_before;
  return {std::max<int64_t>(first, 0), std::min(first + axis.size, axis.in)};
}

// The windows over a pixel.
Range WindowsOver(const WindowAxis& axis, int64_t pixel) {
  const int64_t at = pixel + axis.pad_before;
  return {at < axis.size ? 0 : (at - axis.size) / axis.stride + 1,
          std::min(at / axis.stride + 1, axis.out)};
}

// Takes the maximum. A NaN counts as the largest; among equal maxima the first is remembered.
template <class X>
void TakeLarger(int64_t channels, int32_t pixel, const X* x, float* y, int32_t* pixels) {
  for (int64_t c = 0; c < channels; ++c) {
    const float own = At(x, c);
    const bool take = (own > y[c]) | (own != own);
    y[c] = take ? own : y[c];
    pixels[c] = take ? pixel : pixels[c];
  }
}
template <class X>
void TakeFirst(int64_t channels, int32_t pixel, const X* x, float* y, int32_t* pixels) {
  for (int64_t c = 0; c < channels; ++c) y[c] = At(x, c);
  std::fill_n(pixels, channels, pixel);
}
template <class X>
void AddPixel(int64_t channels, const X* x, float* y) {
  for (int64_t c = 0; c < channels; ++c) y[c] += At(x, c);
}
template <class Y>
void GiveToMaximum(int64_t channels, int32_t pixel, const Y* dy, const int32_t* pixels, bool add,
                   float* dx) {
  for (int64_t c = 0; c < channels; ++c) {
    const float all = At(dy, c);  // an unconditional read lets the compiler vectorise the loop
    const float d = pixels[c] == pixel ? all : 0.f;
    dx[c] = add ? dx[c] + d : d;
  }
}
template <class Y>
void GiveShare(int64_t channels, float count, const Y* dy, bool add, float* dx) {
  for (int64_t c = 0; c < channels; ++c) dx[c] = (add ? dx[c] : 0.f) + At(dy, c) / count;
}

class CpuPool2D : public Pool2D {
 public:
  CpuPool2D(int threads, const PoolShape& s, DeviceArray pixels)
      : threads_(threads), s_(s), part_(PoolPart(s)), memory_(std::move(pixels)) {}

  void Forward(ConstTensor x, Tensor y) override {
    With(x, [&](const auto* all) {
      Pixels(s_.height.out, s_.width.out, y,
             [&](int64_t image, int64_t row, int64_t column, int64_t at, float* to) {
               const auto* from = all + image * s_.height.in * s_.width.in * s_.channels;
               s_.max ? Maximum(row, column, from, to, pixels() + at)
                      : Average(row, column, from, to);
             });
    });
  }
  void Backward(ConstTensor dy, Tensor dx) override {
    With(dy, [&](const auto* all) {
      Pixels(s_.height.in, s_.width.in, dx,
             [&](int64_t image, int64_t row, int64_t column, int64_t, float* to) {
               Gather(image, row, column, all, to);
             });
    });
  }

 private:
  // Calls body(image, row, column, at, to) for each pixel of all images. The pixel's channels begin
  // at `at` in y; the result goes to `to`.
  template <class Body>
  void Pixels(int64_t height, int64_t width, Tensor y, const Body& body) const {
    const int64_t each = width * s_.channels;
    InRanges(threads_, s_.batch * height, kRange / std::max<int64_t>(each, 1),
             [&](int64_t first, int64_t count) {
               std::vector<float> row(y.bfloat16 == nullptr ? 0 : static_cast<size_t>(each));
               for (int64_t i = first; i < first + count; ++i) {
                 float* const to = row.empty() ? y.float32 + i * each : row.data();
                 for (int64_t column = 0; column < width; ++column) {
                   const int64_t at = column * s_.channels;
                   body(i / height, i % height, column, i * each + at, to + at);
                 }
                 if (!row.empty()) Convert(each, row.data(), y + i * each);
               }
             });
  }

  template <class X>
  void Maximum(int64_t row, int64_t column, const X* x, float* y, int32_t* pixels) const {
    auto take = TakeFirst<X>;
    const Range rows = PixelsOf(s_.height, row), columns = PixelsOf(s_.width, column);
    for (int64_t v = rows.begin; v < rows.end; ++v) {
      for (int64_t u = columns.begin; u < columns.end; ++u) {
        const int64_t pixel = v * s_.width.in + u;
        take(s_.channels, static_cast<int32_t>(pixel), x + pixel * s_.channels, y, pixels);
        take = TakeLarger<X>;
      }
    }
  }
  // Averages the pixels of a window inside the image.
  template <class X>
  void Average(int64_t row, int64_t column, const X* x, float* y) const {
    std::fill_n(y, s_.channels, 0.f);
    const Range rows = PixelsOf(s_.height, row), columns = PixelsOf(s_.width, column);
    if (part_ != std::numeric_limits<int64_t>::max()) {
      AddByParts(rows, columns, x, y);
    } else {
      for (int64_t v = rows.begin; v < rows.end; ++v) {
        for (int64_t u = columns.begin; u < columns.end; ++u) {
          AddPixel(s_.channels, x + (v * s_.width.in + u) * s_.channels, y);
        }
      }
    }
    const float count = Inside(row, column);
    for (int64_t c = 0; c < s_.channels; ++c) y[c] /= count;
  }
  template <class X>
  void AddByParts(Range rows, Range columns, const X* x, float* y) const {
    std::vector<float> sum(static_cast<size_t>(s_.channels));
    int64_t left = part_;
    for (int64_t v = rows.begin; v < rows.end; ++v) {
      for (int64_t u = columns.begin; u < columns.end; ++u) {
        AddPixel(s_.channels, x + (v * s_.width.in + u) * s_.channels, sum.data());
        if (--left > 0) continue;
        left = part_;
        Add(s_.channels, sum.data(), y);
        std::fill(sum.begin(), sum.end(), 0.f);
      }
    }
    Add(s_.channels, sum.data(), y);
  }
  float Inside(int64_t row, int64_t column) const {
    const Range rows = PixelsOf(s_.height, row), columns = PixelsOf(s_.width, column);
    return static_cast<float>((rows.end - rows.begin) * (columns.end - columns.begin));
  }

  // Adds up the gradient of a pixel from the windows over the pixel.
  template <class Y>
  void Gather(int64_t image, int64_t row, int64_t column, const Y* dy, float* dx) const {
    bool add = false;
    const Range rows = WindowsOver(s_.height, row), columns = WindowsOver(s_.width, column);
    const auto pixel = static_cast<int32_t>(row * s_.width.in + column);
    for (int64_t v = rows.begin; v < rows.end; ++v) {
      for (int64_t u = columns.begin; u < columns.end; ++u) {
        const int64_t at = ((image * s_.height.out + v) * s_.width.out + u) * s_.channels;
        s_.max ? GiveToMaximum(s_.channels, pixel, dy + at, pixels() + at, add, dx)
               : GiveShare(s_.channels, Inside(v, u), dy + at, add, dx);
        add = true;
      }
    }
    if (!add) std::fill_n(dx, s_.channels, 0.f);
  }

  int32_t* pixels() const { return reinterpret_cast<int32_t*>(memory_.get()); }

  const int threads_;
  const PoolShape s_;
  const int64_t part_;
  const DeviceArray memory_;  // for a maximum: index of each output's pixel in the image
};

}  // namespace

std::unique_ptr<Pool2D> MakePool2D(int threads, const PoolShape& shape, DeviceArray pixels) {
  static_assert(sizeof(int32_t) == sizeof(float));
  return std::make_unique<CpuPool2D>(threads, shape, std::move(pixels));
}

}  // namespace paracord::cpu
