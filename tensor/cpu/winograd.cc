// Convolutions of 3 x 3 without strides by Winograd's F(2 x 2, 3 x 3) (Lavin and Gray, "Fast
// algorithms for convolutional neural networks", 2015): a tile of 2 x 2 outputs takes 16 products
// for each pair of channels, the plain sum 36,
//   y = A' [(G g G') (B' d B)] A
// with d the 4 x 4 inputs of a tile and g the kernel. The products at each of the 16 places, the
// taps, over all tiles and channels are a matrix product, computed by oneDNN. Gradients follow the
// formula. Errors are no larger than those of plain sums. The result does not depend on the number
// of threads. A non-finite number spreads over whole tiles.
#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "common/vector_widths.h"
#include "tensor/cpu/cpu_ops_internal.h"
#include "tensor/cpu/ranges.h"

namespace paracord::cpu {
namespace {

constexpr int64_t kTaps = 16;
// Tiles computed together by a thread, few enough to stay in its cache from step to step.
// kTilesOfSums is the number of tiles in a partial sum of a kernel's gradient.
constexpr int64_t kTilesMin = 32, kTilesMax = 256, kTilesOfSums = 512;
// The work is cut for at least this many threads, if there are enough tiles.
constexpr int64_t kParts = 8;
// The gap in floats between the rows of a matrix, and between the matrices of two taps, to keep a
// column from falling into a few sets of the cache.
constexpr int64_t kTapGap = 16;
// With fewer channels or smaller images the transforms cost more than the saved products.
constexpr int64_t kChannelsMin = 32;
constexpr int64_t kSideMin = 4;

// The matrices of all taps, each (rows, columns).
struct Taps {
  Taps(int64_t rows, int64_t columns) : row(columns + kTapGap), tap(rows * row + 5 * kTapGap) {}
  int64_t floats() const { return kTaps * tap; }
  int64_t row, tap;  // strides in floats
};

// The pixels of an image: a pointer, and the strides to the next row and column of pixels.
template <class T>
struct Pixels {
  T* at;
  int64_t row, column;
};

struct Four {
  float a, b, c, d;
};
struct Three {
  float a, b, c;
};
struct Two {
  float a, b;
};

PARACORD_KERNEL Four InputTaps(float a, float b, float c, float d) {  // B'
  return {a - c, b + c, c - b, b - d};
}
PARACORD_KERNEL Four KernelTaps(float a, float b, float c) {  // G
  const float outer = 0.5f * (a + c), inner = 0.5f * b;
  return {a, outer + inner, outer - inner, c};
}
PARACORD_KERNEL Two Outputs(const Four& m) {  // A'
  return {m.a + m.b + m.c, m.b - m.c - m.d};
}
PARACORD_KERNEL Four OutputTaps(float a, float b) {  // A, of gradients
  return {a, a + b, a - b, -b};
}
PARACORD_KERNEL Three KernelSums(const Four& u) {  // G', of gradients
  const float sum = 0.5f * (u.b + u.c);
  return {u.a + sum, 0.5f * (u.b - u.c), sum + u.d};
}

PARACORD_KERNEL void Store(const Four& row, float* v, int64_t tap) {
  v[0] = row.a;
  v[tap] = row.b;
  v[2 * tap] = row.c;
  v[3 * tap] = row.d;
}
PARACORD_KERNEL Four Load(const float* v, int64_t tap) {
  return {v[0], v[tap], v[2 * tap], v[3 * tap]};
}

PARACORD_KERNEL void TransformInputs(int64_t channels, Pixels<const float> d, float* v,
                                     int64_t tap) {
  const int64_t r1 = d.row, r2 = 2 * d.row, r3 = 3 * d.row;
  const float *const at0 = d.at, *const at1 = at0 + d.column, *const at2 = at1 + d.column,
                     *const at3 = at2 + d.column;
  PARACORD_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c) {
    const Four p = InputTaps(at0[c], at0[c + r1], at0[c + r2], at0[c + r3]);
    const Four q = InputTaps(at1[c], at1[c + r1], at1[c + r2], at1[c + r3]);
    const Four r = InputTaps(at2[c], at2[c + r1], at2[c + r2], at2[c + r3]);
    const Four s = InputTaps(at3[c], at3[c + r1], at3[c + r2], at3[c + r3]);
    Store(InputTaps(p.a, q.a, r.a, s.a), v + c, tap);
    Store(InputTaps(p.b, q.b, r.b, s.b), v + c + 4 * tap, tap);
    Store(InputTaps(p.c, q.c, r.c, s.c), v + c + 8 * tap, tap);
    Store(InputTaps(p.d, q.d, r.d, s.d), v + c + 12 * tap, tap);
  }
}
PARACORD_WIDTHS(void, TransformInputsWide,
                (int64_t channels, Pixels<const float> d, float* v, int64_t tap),
                TransformInputs(channels, d, v, tap))

PARACORD_KERNEL void TransformOutputGradients(int64_t channels, Pixels<const float> dy, float* m,
                                              int64_t tap) {
  PARACORD_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c) {
    const float* const p = dy.at + c;
    const Four left = OutputTaps(p[0], p[dy.row]);
    const Four right = OutputTaps(p[dy.column], p[dy.row + dy.column]);
    Store(OutputTaps(left.a, right.a), m + c, tap);
    Store(OutputTaps(left.b, right.b), m + c + 4 * tap, tap);
    Store(OutputTaps(left.c, right.c), m + c + 8 * tap, tap);
    Store(OutputTaps(left.d, right.d), m + c + 12 * tap, tap);
  }
}
PARACORD_WIDTHS(void, TransformOutputGradientsWide,
                (int64_t channels, Pixels<const float> dy, float* m, int64_t tap),
                TransformOutputGradients(channels, dy, m, tap))

// Adds the bias and clips below at `least`.
PARACORD_KERNEL void TransformOutputs(int64_t channels, const float* m, int64_t tap,
                                      const float* bias, float least, Pixels<float> y) {
  PARACORD_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c) {
    const Two p = Outputs(Load(m + c, tap)), q = Outputs(Load(m + c + 4 * tap, tap)),
              r = Outputs(Load(m + c + 8 * tap, tap)), s = Outputs(Load(m + c + 12 * tap, tap));
    const Two left = Outputs({p.a, q.a, r.a, s.a}), right = Outputs({p.b, q.b, r.b, s.b});
    const float b = bias[c];
    const auto bounded = [=](float value) { return value < least ? least : value; };
    float* const to = y.at + c;
    to[0] = bounded(left.a + b);
    to[y.row] = bounded(left.b + b);
    to[y.column] = bounded(right.a + b);
    to[y.row + y.column] = bounded(right.b + b);
  }
}
PARACORD_WIDTHS(void, TransformOutputsWide,
                (int64_t channels, const float* m, int64_t tap, const float* bias, float least,
                 Pixels<float> y),
                TransformOutputs(channels, m, tap, bias, least, y))

// `pixel` is the stride in floats between the kernel's pixels.
PARACORD_KERNEL void TransformKernel(int64_t n, const float* g, int64_t pixel, float* u,
                                     int64_t tap) {
  const int64_t r1 = 3 * pixel, r2 = 6 * pixel;
  const float *const g0 = g, *const g1 = g0 + pixel, *const g2 = g1 + pixel;
  PARACORD_INDEPENDENT
  for (int64_t c = 0; c < n; ++c) {
    const Four p = KernelTaps(g0[c], g0[c + r1], g0[c + r2]);
    const Four q = KernelTaps(g1[c], g1[c + r1], g1[c + r2]);
    const Four r = KernelTaps(g2[c], g2[c + r1], g2[c + r2]);
    Store(KernelTaps(p.a, q.a, r.a), u + c, tap);
    Store(KernelTaps(p.b, q.b, r.b), u + c + 4 * tap, tap);
    Store(KernelTaps(p.c, q.c, r.c), u + c + 8 * tap, tap);
    Store(KernelTaps(p.d, q.d, r.d), u + c + 12 * tap, tap);
  }
}
PARACORD_WIDTHS(void, TransformKernelWide,
                (int64_t n, const float* g, int64_t pixel, float* u, int64_t tap),
                TransformKernel(n, g, pixel, u, tap))

PARACORD_KERNEL void TransformKernelGradients(int64_t n, const float* u, int64_t tap, float* g,
                                              int64_t pixel) {
  PARACORD_INDEPENDENT
  for (int64_t c = 0; c < n; ++c) {
    const Three p = KernelSums(Load(u + c, tap)), q = KernelSums(Load(u + c + 4 * tap, tap)),
                r = KernelSums(Load(u + c + 8 * tap, tap)),
                s = KernelSums(Load(u + c + 12 * tap, tap));
    const Three left = KernelSums({p.a, q.a, r.a, s.a}), middle = KernelSums({p.b, q.b, r.b, s.b}),
                right = KernelSums({p.c, q.c, r.c, s.c});
    float* const to = g + c;
    to[0] = left.a;
    to[pixel] = middle.a;
    to[2 * pixel] = right.a;
    to[3 * pixel] = left.b;
    to[4 * pixel] = middle.b;
    to[5 * pixel] = right.b;
    to[6 * pixel] = left.c;
    to[7 * pixel] = middle.c;
    to[8 * pixel] = right.c;
  }
}
PARACORD_WIDTHS(void, TransformKernelGradientsWide,
                (int64_t n, const float* u, int64_t tap, float* g, int64_t pixel),
                TransformKernelGradients(n, u, tap, g, pixel))

// The number of tiles of two outputs along an axis.
int64_t TilesOf(const WindowAxis& axis) { return (axis.out + 1) / 2; }

int64_t TilesOf(const ConvShape& s) { return s.batch * TilesOf(s.height) * TilesOf(s.width); }

// The shape of the convolution from dy to dx.
ConvShape Reversed(ConvShape s) {
  std::swap(s.in_channels, s.out_channels);
  for (WindowAxis* axis : {&s.height, &s.width}) {
    std::swap(axis->in, axis->out);
    axis->pad_before = 2 - axis->pad_before;
  }
  s.bias = s.relu = false;
  return s;
}

int64_t TilesAtOnce(int64_t all) {
  return std::clamp((all + kParts - 1) / kParts, kTilesMin, kTilesMax);
}

class Winograd : public Conv2D {
 public:
  Winograd(Device& device, int threads, const ConvShape& s)
      : device_(device),
        threads_(threads),
        shape_(s),
        reversed_(Reversed(s)),
        kernels_(s.in_channels, s.out_channels),
        zeros_(static_cast<size_t>(std::max(s.in_channels, s.out_channels))) {}

  void Forward(ConstTensor x, const float* kernel, const float* bias, Tensor y) override {
    TransformKernels(kernel, shape_.in_channels * shape_.out_channels);
    Convolve(shape_, false, x, bias, y);
  }
  void Backward(const ConvGradients& g) override {
    if (g.dkernel != nullptr) BackwardKernel(g.x, g.dy, g.dkernel, g.dbias);
    if (g.dx != nullptr) BackwardInput(g.dy, g.kernel, g.dx);
  }

 private:
  enum Scratch : size_t { kInputs, kOutputs, kKernels };

  void BackwardInput(const float* dy, const float* kernel, float* dx) {
    const int64_t pixel = shape_.in_channels * shape_.out_channels;
    TransformKernels(kernel + 8 * pixel, -pixel);  // rotated by 180 degrees
    Convolve(reversed_, true, dy, nullptr, dx);
  }
  void BackwardKernel(const float* x, const float* dy, float* dkernel, float* dbias) {
    const int64_t in = shape_.in_channels, out = shape_.out_channels, all = TilesOf(shape_);
    float* const v = device_.scratch[kInputs].get();
    float* const m = device_.scratch[kOutputs].get();
    for (int64_t first = 0; first < all; first += kTilesOfSums) {
      const int64_t tiles = std::min(kTilesOfSums, all - first);
      const Taps inputs(tiles, in), outputs(tiles, out);
      InRanges(threads_, tiles, 1, [&](int64_t begin, int64_t count) {
        InputsToTaps(shape_, first + begin, count, x, v + begin * inputs.row, inputs);
        GradientsToTaps(first + begin, count, dy, m + begin * outputs.row, outputs);
      });
      InRanges(threads_, kTaps, 1, [&](int64_t begin, int64_t count) {
        for (int64_t tap = begin; tap < begin + count; ++tap) {
          Product('T', 'N', in, out, tiles, v + tap * inputs.tap, inputs.row, m + tap * outputs.tap,
                  outputs.row, first == 0 ? 0.f : 1.f, kernels() + tap * kernels_.tap,
                  kernels_.row);
        }
      });
    }
    Report();
    static const auto transform = PICK_WIDTH(TransformKernelGradientsWide);
    InRanges(threads_, in, kRange / (kTaps * out), [&](int64_t begin, int64_t count) {
      for (int64_t i = begin; i < begin + count; ++i) {
        transform(out, kernels() + i * kernels_.row, kernels_.tap, dkernel + i * out, in * out);
      }
    });
    if (!shape_.bias) return;
    const int64_t pixels = shape_.batch * shape_.height.out * shape_.width.out;
    InRanges(threads_, out, kRange / pixels, [&](int64_t begin, int64_t count) {
      SumRows(pixels, out, count, dy + begin, dbias + begin);
    });
  }

  float* kernels() const { return device_.scratch[kKernels].get(); }

  void TransformKernels(const float* kernel, int64_t pixel) {
    static const auto transform = PICK_WIDTH(TransformKernelWide);
    const int64_t in = shape_.in_channels, out = shape_.out_channels;
    InRanges(threads_, in, kRange / (kTaps * out), [&](int64_t begin, int64_t count) {
      for (int64_t i = begin; i < begin + count; ++i) {
        transform(out, kernel + i * out, pixel, kernels() + i * kernels_.row, kernels_.tap);
      }
    });
  }

  // With `transposed`, the rows of the kernels' matrices are the outputs.
  void Convolve(const ConvShape& s, bool transposed, const float* x, const float* bias, float* y) {
    const int64_t all = TilesOf(s), most = TilesAtOnce(all);
    const int64_t parts = (all + most - 1) / most;
    InRanges(threads_, parts, 1, [&](int64_t begin, int64_t count) {
      const Taps inputs(most, s.in_channels), outputs(most, s.out_channels);
      const int thread = omp_get_thread_num();
      float* const v = device_.scratch[kInputs].get() + thread * inputs.floats();
      float* const m = device_.scratch[kOutputs].get() + thread * outputs.floats();
      for (int64_t first = begin * most; first < std::min(all, (begin + count) * most);
           first += most) {
        const int64_t tiles = std::min(most, all - first);
        InputsToTaps(s, first, tiles, x, v, inputs);
        for (int64_t tap = 0; tap < kTaps; ++tap) {
          Product('N', transposed ? 'T' : 'N', tiles, s.out_channels, s.in_channels,
                  v + tap * inputs.tap, inputs.row, kernels() + tap * kernels_.tap, kernels_.row,
                  0.f, m + tap * outputs.tap, outputs.row);
        }
        TapsToOutputs(s, first, tiles, m, outputs, bias == nullptr ? zeros_.data() : bias, y);
      }
    });
    Report();
  }

  // Computes c = a b + beta c, in the calling thread.
  void Product(char transpose_a, char transpose_b, int64_t rows, int64_t columns, int64_t inner,
               const float* a, int64_t a_row, const float* b, int64_t b_row, float beta, float* c,
               int64_t c_row) {
    if (dnnl_sgemm(transpose_a, transpose_b, rows, columns, inner, 1.f, a, a_row, b, b_row, beta, c,
                   c_row) != dnnl_success) {
      failed_ = true;
    }
  }
  void Report() {
    if (failed_.exchange(false) && device_.error.ok()) {
      device_.error = absl::InternalError("convolution: oneDNN could not compute a product");
    }
  }

  // Calls body(i, image, row, column) for the tiles [first, first + tiles), with the output pixel
  // at the corner of tile i.
  template <class Body>
  static void EachTile(const ConvShape& s, int64_t first, int64_t tiles, const Body& body) {
    const int64_t rows = TilesOf(s.height), columns = TilesOf(s.width);
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t tile = first + i;
      body(i, tile / (rows * columns), 2 * (tile / columns % rows), 2 * (tile % columns));
    }
  }

  // Returns `side` x `side` pixels of an image from (row, column) on, with 0 outside of the image.
  static Pixels<const float> Window(const float* image, int64_t high, int64_t wide,
                                    int64_t channels, int64_t row, int64_t column, int64_t side) {
    const int64_t step = wide * channels;
    if (row >= 0 && column >= 0 && row + side <= high && column + side <= wide) {
      return {image + row * step + column * channels, step, channels};
    }
    thread_local std::vector<float> edge;
    edge.assign(static_cast<size_t>(side * side * channels), 0.f);
    const int64_t left = std::max<int64_t>(0, -column), right = std::min(side, wide - column);
    for (int64_t r = std::max<int64_t>(0, -row); r < std::min(side, high - row); ++r) {
      if (left >= right) break;
      std::copy_n(image + (row + r) * step + (column + left) * channels, (right - left) * channels,
                  edge.data() + (side * r + left) * channels);
    }
    return {edge.data(), side * channels, channels};
  }

  static void InputsToTaps(const ConvShape& s, int64_t first, int64_t tiles, const float* x,
                           float* v, const Taps& taps) {
    const int64_t channels = s.in_channels, high = s.height.in, wide = s.width.in;
    static const auto transform = PICK_WIDTH(TransformInputsWide);
    EachTile(s, first, tiles, [&](int64_t i, int64_t image, int64_t row, int64_t column) {
      transform(channels,
                Window(x + image * high * wide * channels, high, wide, channels,
                       row - s.height.pad_before, column - s.width.pad_before, 4),
                v + i * taps.row, taps.tap);
    });
  }

  void GradientsToTaps(int64_t first, int64_t tiles, const float* dy, float* m,
                       const Taps& taps) const {
    const ConvShape& s = shape_;
    const int64_t channels = s.out_channels, high = s.height.out, wide = s.width.out;
    static const auto transform = PICK_WIDTH(TransformOutputGradientsWide);
    EachTile(s, first, tiles, [&](int64_t i, int64_t image, int64_t row, int64_t column) {
      transform(channels,
                Window(dy + image * high * wide * channels, high, wide, channels, row, column, 2),
                m + i * taps.row, taps.tap);
    });
  }

  static void TapsToOutputs(const ConvShape& s, int64_t first, int64_t tiles, const float* m,
                            const Taps& taps, const float* bias, float* y) {
    const int64_t channels = s.out_channels, high = s.height.out, wide = s.width.out;
    const float least = s.relu ? 0.f : -std::numeric_limits<float>::infinity();
    static const auto transform = PICK_WIDTH(TransformOutputsWide);
    EachTile(s, first, tiles, [&](int64_t i, int64_t image, int64_t row, int64_t column) {
      const Pixels<float> to{y + ((image * high + row) * wide + column) * channels, wide * channels,
                             channels};
      const float* const from = m + i * taps.row;
      if (row + 2 <= high && column + 2 <= wide) {
        return transform(channels, from, taps.tap, bias, least, to);
      }
      thread_local std::vector<float> edge;
      edge.resize(static_cast<size_t>(4 * channels));
      transform(channels, from, taps.tap, bias, least, {edge.data(), 2 * channels, channels});
      for (int64_t r = 0; r < std::min<int64_t>(2, high - row); ++r) {
        std::copy_n(edge.data() + 2 * r * channels, std::min<int64_t>(2, wide - column) * channels,
                    to.at + r * to.row);
      }
    });
  }

  Device& device_;
  const int threads_;
  const ConvShape shape_, reversed_;
  const Taps kernels_;
  const std::vector<float> zeros_;  // the bias of a convolution without one
  std::atomic<bool> failed_ = false;
};

}  // namespace

std::array<int64_t, 3> WinogradFloats(int threads, const ConvShape& s) {
  const auto suits = [](const WindowAxis& axis) {
    return axis.size == 3 && axis.stride == 1 && axis.dilation == 1 && axis.pad_before <= 2 &&
           axis.pad_after <= 2 && axis.out >= kSideMin;
  };
  if (!suits(s.height) || !suits(s.width) || s.groups != 1) return {};
  if (std::min(s.in_channels, s.out_channels) < kChannelsMin) return {};
  const int64_t all = std::max(TilesOf(s), TilesOf(Reversed(s)));
  const int64_t channels = std::max(s.in_channels, s.out_channels);
  const int64_t taps = std::max(threads * Taps(TilesAtOnce(all), channels).floats(),
                                Taps(std::min(all, kTilesOfSums), channels).floats());
  return {taps, taps, Taps(s.in_channels, s.out_channels).floats()};
}

std::unique_ptr<Conv2D> MakeWinograd(Device& device, int threads, const ConvShape& shape) {
  return std::make_unique<Winograd>(device, threads, shape);
}

}  // namespace paracord::cpu
