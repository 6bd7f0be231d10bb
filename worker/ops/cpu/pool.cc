// Pooling by loops over the channels: oneDNN's takes several times as long on images whose
// channels lie last, and a NaN does not get through it.
#include <algorithm>
#include <utility>
#include <vector>

#include "worker/ops/cpu/cpu_ops_internal.h"
#include "worker/ops/cpu/ranges.h"

namespace paracord::cpu {
namespace {

// Which indices of the other side meet an index of this one along an axis, and at which tap.
class Meetings {
 public:
  struct Meeting {
    int64_t other, tap;
  };
  Meetings(const WindowAxis& axis, bool of_outputs)
      : of_(static_cast<size_t>(of_outputs ? axis.out : axis.in)) {
    for (int64_t out = 0; out < axis.out; ++out) {
      for (int64_t tap = 0; tap < axis.size; ++tap) {
        const int64_t in = out * axis.stride + tap * axis.dilation - axis.pad_before;
        if (in < 0 || in >= axis.in) continue;
        if (of_outputs) of_[static_cast<size_t>(out)].push_back({in, tap});
        if (!of_outputs) of_[static_cast<size_t>(in)].push_back({out, tap});
      }
    }
  }
  const std::vector<Meeting>& operator[](int64_t index) const {
    return of_[static_cast<size_t>(index)];
  }

 private:
  std::vector<std::vector<Meeting>> of_;
};

// A NaN is the largest, the first of equal maxima the one.
void TakeLarger(int64_t channels, int32_t tap, const float* x, float* y, int32_t* taps) {
  for (int64_t c = 0; c < channels; ++c) {
    const bool take = (x[c] > y[c]) | (x[c] != x[c]);
    y[c] = take ? x[c] : y[c];
    taps[c] = take ? tap : taps[c];
  }
}
void TakeFirst(int64_t channels, int32_t tap, const float* x, float* y, int32_t* taps) {
  std::copy_n(x, channels, y);
  std::fill_n(taps, channels, tap);
}
void GiveToMaximum(int64_t channels, int32_t tap, const float* dy, const int32_t* taps, bool add,
                   float* dx) {
  for (int64_t c = 0; c < channels; ++c) {
    const float all = dy[c];  // read in any case, or the loop is no vector's
    const float d = taps[c] == tap ? all : 0.f;
    dx[c] = add ? dx[c] + d : d;
  }
}
void GiveShare(int64_t channels, float count, const float* dy, bool add, float* dx) {
  for (int64_t c = 0; c < channels; ++c) dx[c] = (add ? dx[c] : 0.f) + dy[c] / count;
}

class CpuPool2D : public Pool2D {
 public:
  CpuPool2D(int threads, const PoolShape& s, DeviceArray taps)
      : threads_(threads),
        s_(s),
        rows_in_(s.height, true),
        columns_in_(s.width, true),
        rows_out_(s.height, false),
        columns_out_(s.width, false),
        memory_(std::move(taps)) {}

  void Forward(const float* x, float* y) override {
    const int64_t width = s_.width.out * s_.channels;
    Rows(s_.height.out, width, [&](int64_t image, int64_t row, int64_t index) {
      for (int64_t column = 0; column < s_.width.out; ++column) {
        const int64_t at = index * width + column * s_.channels;
        const float* from = x + image * s_.height.in * s_.width.in * s_.channels;
        s_.max ? Maximum(row, column, from, y + at, taps() + at)
               : Average(row, column, from, y + at);
      }
    });
  }
  void Backward(const float* dy, float* dx) override {
    const int64_t width = s_.width.in * s_.channels;
    Rows(s_.height.in, width, [&](int64_t image, int64_t row, int64_t index) {
      for (int64_t column = 0; column < s_.width.in; ++column) {
        Gather(image, row, column, dy, dx + index * width + column * s_.channels);
      }
    });
  }

 private:
  // body(image, row, index of the row among all) for each row of all images.
  template <class Body>
  void Rows(int64_t height, int64_t width, const Body& body) const {
    InRanges(threads_, s_.batch * height, kRange / std::max<int64_t>(width, 1),
             [&](int64_t first, int64_t count) {
               for (int64_t i = first; i < first + count; ++i) body(i / height, i % height, i);
             });
  }

  void Maximum(int64_t row, int64_t column, const float* x, float* y, int32_t* taps) const {
    auto take = TakeFirst;
    for (const auto& v : rows_in_[row]) {
      for (const auto& u : columns_in_[column]) {
        const auto tap = static_cast<int32_t>(v.tap * s_.width.size + u.tap);
        take(s_.channels, tap, x + (v.other * s_.width.in + u.other) * s_.channels, y, taps);
        take = TakeLarger;
      }
    }
  }
  // Of what lies inside the image.
  void Average(int64_t row, int64_t column, const float* x, float* y) const {
    std::fill_n(y, s_.channels, 0.f);
    for (const auto& v : rows_in_[row]) {
      for (const auto& u : columns_in_[column]) {
        Add(s_.channels, x + (v.other * s_.width.in + u.other) * s_.channels, y);
      }
    }
    const float count = Inside(row, column);
    for (int64_t c = 0; c < s_.channels; ++c) y[c] /= count;
  }
  float Inside(int64_t row, int64_t column) const {
    return static_cast<float>(rows_in_[row].size() * columns_in_[column].size());
  }

  // The gradient of a pixel, from the windows over it.
  void Gather(int64_t image, int64_t row, int64_t column, const float* dy, float* dx) const {
    bool add = false;
    for (const auto& v : rows_out_[row]) {
      for (const auto& u : columns_out_[column]) {
        const int64_t at =
            ((image * s_.height.out + v.other) * s_.width.out + u.other) * s_.channels;
        const auto tap = static_cast<int32_t>(v.tap * s_.width.size + u.tap);
        s_.max ? GiveToMaximum(s_.channels, tap, dy + at, taps() + at, add, dx)
               : GiveShare(s_.channels, Inside(v.other, u.other), dy + at, add, dx);
        add = true;
      }
    }
    if (!add) std::fill_n(dx, s_.channels, 0.f);
  }

  int32_t* taps() const { return reinterpret_cast<int32_t*>(memory_.get()); }

  const int threads_;
  const PoolShape s_;
  const Meetings rows_in_, columns_in_, rows_out_, columns_out_;
  const DeviceArray memory_;  // of a maximum: which tap it was, a number an output
};

}  // namespace

std::unique_ptr<Pool2D> MakePool2D(int threads, const PoolShape& shape, DeviceArray taps) {
  static_assert(sizeof(int32_t) == sizeof(float));
  return std::make_unique<CpuPool2D>(threads, shape, std::move(taps));
}

}  // namespace paracord::cpu
