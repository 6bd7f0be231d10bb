// Convolutions of 1x1 with strides and few channels: vector code for many channels must neither be
// wrong nor write beyond the tensors.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "worker/ops/cpu/cpu_ops.h"

namespace paracord {
namespace {

// A tensor with numbers around it that nobody may change.
class Guarded {
 public:
  explicit Guarded(size_t size, float value = 0) : memory_(size + 2 * kGuard, kCanary) {
    for (size_t i = 0; i < size; ++i) data()[i] = value;
  }
  float* data() { return memory_.data() + kGuard; }
  size_t size() const { return memory_.size() - 2 * kGuard; }
  bool Untouched() const {
    for (size_t i = 0; i < kGuard; ++i) {
      if (memory_[i] != kCanary || memory_[memory_.size() - 1 - i] != kCanary) return false;
    }
    return true;
  }
  float& operator[](size_t i) { return data()[i]; }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr float kCanary = 12345.0f;
  std::vector<float> memory_;
};

void CheckConv(int64_t in, int64_t out, int64_t side, int64_t stride_h, int64_t stride_w) {
  CAPTURE(in, out, side, stride_h, stride_w);
  ConvShape shape;
  shape.batch = 2;
  shape.in_channels = in;
  shape.out_channels = out;
  const auto axis = [&](int64_t stride) {
    WindowAxis made;
    made.in = side;
    made.size = 1;
    made.stride = stride;
    made.out = (side - 1) / stride + 1;
    return made;
  };
  shape.height = axis(stride_h);
  shape.width = axis(stride_w);
  // What "valid" leaves over on the right.
  shape.height.pad_after = (shape.height.out - 1) * stride_h + 1 - side;
  shape.width.pad_after = (shape.width.out - 1) * stride_w + 1 - side;
  const auto ops = MakeCpuOps(1);
  auto conv = ops->MakeConv2D(shape);
  REQUIRE(conv.ok());
  const auto count = [&](int64_t h, int64_t w, int64_t channels) {
    return static_cast<size_t>(2 * h * w * channels);
  };
  Guarded x(count(side, side, in)), dx(x.size(), 77);
  Guarded y(count(shape.height.out, shape.width.out, out), 77), dy(y.size());
  Guarded w(static_cast<size_t>(in * out)), dw(w.size(), 77);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> value(-1, 1);
  for (Guarded* tensor : {&x, &dy, &w}) {
    for (size_t i = 0; i < tensor->size(); ++i) (*tensor)[i] = value(random);
  }
  (*conv)->Forward(x.data(), w.data(), nullptr, y.data());
  (*conv)->BackwardInput(dy.data(), w.data(), dx.data());
  (*conv)->BackwardKernel(x.data(), dy.data(), dw.data(), nullptr);

  std::vector<double> want_dx(x.size(), 0.0), want_dw(w.size(), 0.0);
  double worst = 0;
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t i = 0; i < shape.height.out; ++i) {
      for (int64_t j = 0; j < shape.width.out; ++j) {
        const auto from =
            static_cast<size_t>(((b * side + i * stride_h) * side + j * stride_w) * in);
        const auto to =
            static_cast<size_t>(((b * shape.height.out + i) * shape.width.out + j) * out);
        for (size_t o = 0; o < static_cast<size_t>(out); ++o) {
          double sum = 0;
          for (size_t c = 0; c < static_cast<size_t>(in); ++c) {
            const size_t at = c * static_cast<size_t>(out) + o;
            sum += static_cast<double>(x[from + c]) * static_cast<double>(w[at]);
            want_dx[from + c] += static_cast<double>(dy[to + o]) * static_cast<double>(w[at]);
            want_dw[at] += static_cast<double>(dy[to + o]) * static_cast<double>(x[from + c]);
          }
          worst = std::max(worst, std::abs(sum - static_cast<double>(y[to + o])));
        }
      }
    }
  }
  for (size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, std::abs(want_dx[i] - static_cast<double>(dx[i])));
  }
  for (size_t i = 0; i < w.size(); ++i) {
    worst = std::max(worst, std::abs(want_dw[i] - static_cast<double>(dw[i])));
  }
  CHECK(worst < 1e-4);
  for (Guarded* tensor : {&x, &dx, &y, &dy, &w, &dw}) CHECK(tensor->Untouched());
}

TEST_CASE("convolutions of one pixel with strides are right with any number of channels") {
  for (const int64_t in : {1, 2, 3, 7, 8, 9, 16, 17}) {
    for (const int64_t out : {1, 2, 5, 8, 16, 24}) {
      for (const int64_t side : {4, 7, 8}) {
        CheckConv(in, out, side, 2, 2);
        CheckConv(in, out, side, 1, 3);
      }
    }
  }
}

}  // namespace
}  // namespace paracord
