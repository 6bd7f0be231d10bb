// Convolutions against plain sums: vectorised code must neither be wrong nor write beyond the
// tensors.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tensor/cpu/cpu_ops.h"

namespace paracord {
namespace {

// A tensor between guards that must not change.
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
  bool operator==(const Guarded& other) const { return memory_ == other.memory_; }
  float& operator[](size_t i) { return data()[i]; }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr float kCanary = 12345.0f;
  std::vector<float> memory_;
};

WindowAxis Axis(int64_t in, int64_t size, int64_t stride, int64_t before, int64_t after) {
  WindowAxis axis;
  axis.in = in;
  axis.size = size;
  axis.stride = stride;
  axis.pad_before = before;
  axis.out = (in + before + after - size) / stride + 1;
  // The last window needs this padding.
  axis.pad_after = (axis.out - 1) * stride + size - in - before;
  return axis;
}

struct Results {
  Guarded y, dx, dw, db;
};

// The greatest error as a share of the largest sum of products of numbers up to 1.
double Worst(const std::vector<double>& want, Guarded& got) {
  double error = 0, largest = 1;
  for (size_t i = 0; i < want.size(); ++i) {
    error = std::max(error, std::abs(want[i] - static_cast<double>(got[i])));
    largest = std::max(largest, std::abs(want[i]));
  }
  return error / largest;
}

// A convolution and its gradients as plain sums in double.
struct PlainSums {
  PlainSums(const ConvShape& shape, Guarded& x, Guarded& w, Guarded& b, Guarded& dy)
      : y(dy.size()), dx(x.size()), dw(w.size()), db(b.size()) {
    const WindowAxis &high = shape.height, &wide = shape.width;
    const int64_t in = shape.in_channels, out = shape.out_channels;
    std::vector<double> xs(x.data(), x.data() + x.size()), ws(w.data(), w.data() + w.size());
    for (int64_t n = 0; n < shape.batch; ++n) {
      for (int64_t i = 0; i < high.out; ++i) {
        for (int64_t j = 0; j < wide.out; ++j) {
          const auto to = static_cast<size_t>(((n * high.out + i) * wide.out + j) * out);
          for (size_t o = 0; o < b.size(); ++o) {
            y[to + o] = shape.bias ? static_cast<double>(b[o]) : 0;
            db[o] += static_cast<double>(dy[to + o]);
          }
          for (int64_t k = 0; k < high.size * wide.size; ++k) {
            const int64_t row = i * high.stride - high.pad_before + k / wide.size;
            const int64_t column = j * wide.stride - wide.pad_before + k % wide.size;
            if (row < 0 || row >= high.in || column < 0 || column >= wide.in) continue;
            const auto from = static_cast<size_t>(((n * high.in + row) * wide.in + column) * in);
            for (size_t c = 0; c < static_cast<size_t>(in); ++c) {
              const size_t at = (static_cast<size_t>(k * in) + c) * b.size();
              for (size_t o = 0; o < b.size(); ++o) {
                const auto d = static_cast<double>(dy[to + o]);
                y[to + o] += xs[from + c] * ws[at + o];
                dx[from + c] += d * ws[at + o];
                dw[at + o] += d * xs[from + c];
              }
            }
          }
        }
      }
    }
    if (shape.relu) {
      for (double& each : y) each = std::max(each, 0.0);
    }
  }
  std::vector<double> y, dx, dw, db;
};

// Convolves two images, compares with plain sums in double, and checks that nothing beyond the
// tensors is touched.
Results CheckConv(const ConvShape& shape, int threads = 1) {
  const WindowAxis &high = shape.height, &wide = shape.width;
  const int64_t in = shape.in_channels, out = shape.out_channels;
  CAPTURE(in, out, high.in, wide.in, high.size, high.stride, wide.stride, high.pad_before,
          high.pad_after, wide.pad_before, wide.pad_after, shape.bias, shape.relu);
  const auto ops = MakeCpuOps(threads);
  auto conv = ops->MakeConv2D(shape);
  REQUIRE(conv.ok());
  const auto count = [&](int64_t h, int64_t w, int64_t channels) {
    return static_cast<size_t>(shape.batch * h * w * channels);
  };
  Guarded x(count(high.in, wide.in, in)), dy(count(high.out, wide.out, out));
  Guarded w(static_cast<size_t>(high.size * wide.size * in * out)), b(static_cast<size_t>(out));
  Results results{Guarded(dy.size(), 77), Guarded(x.size(), 77), Guarded(w.size(), 77),
                  Guarded(b.size(), 77)};
  std::mt19937 random(1);
  std::uniform_real_distribution<float> value(-1, 1);
  for (Guarded* tensor : {&x, &dy, &w, &b}) {
    for (size_t i = 0; i < tensor->size(); ++i) (*tensor)[i] = value(random);
  }
  (*conv)->Forward(x.data(), w.data(), shape.bias ? b.data() : nullptr, results.y.data());
  (*conv)->Backward({.dy = dy.data(),
                     .dkernel = results.dw.data(),
                     .dbias = shape.bias ? results.db.data() : nullptr,
                     .x = x.data(),
                     .dx = results.dx.data(),
                     .kernel = w.data()});
  REQUIRE(ops->Finish().ok());

  const PlainSums plain(shape, x, w, b, dy);
  CHECK(Worst(plain.y, results.y) < 2e-6);
  CHECK(Worst(plain.dx, results.dx) < 2e-6);
  CHECK(Worst(plain.dw, results.dw) < 2e-6);
  if (shape.bias) CHECK(Worst(plain.db, results.db) < 2e-6);
  for (Guarded* tensor : {&x, &dy, &w, &b, &results.y, &results.dx, &results.dw, &results.db}) {
    CHECK(tensor->Untouched());
  }
  return results;
}

ConvShape Shape(int64_t in, int64_t out, const WindowAxis& height, const WindowAxis& width) {
  ConvShape shape;
  shape.batch = 2;
  shape.in_channels = in;
  shape.out_channels = out;
  shape.height = height;
  shape.width = width;
  return shape;
}

TEST_CASE("convolutions of one pixel with strides are right with any number of channels") {
  for (const int64_t in : {1, 2, 3, 7, 8, 9, 16, 17}) {
    for (const int64_t out : {1, 2, 5, 8, 16, 24}) {
      for (const int64_t side : {4, 7, 8}) {
        CheckConv(Shape(in, out, Axis(side, 1, 2, 0, 0), Axis(side, 1, 2, 0, 0)));
        CheckConv(Shape(in, out, Axis(side, 1, 1, 0, 0), Axis(side, 1, 3, 0, 0)));
      }
    }
  }
}

TEST_CASE("convolutions of 3 x 3 are right with any padding, size and number of channels") {
  for (const auto& [in, out] : {std::pair{31, 40}, {32, 32}, {33, 47}, {64, 32}, {40, 97}}) {
    for (const auto& [before, after] : {std::pair{0, 0}, {1, 1}, {0, 1}, {2, 2}, {2, 0}}) {
      ConvShape shape = Shape(in, out, Axis(6, 3, 1, before, after), Axis(9, 3, 1, after, before));
      CheckConv(shape);
      shape.bias = shape.relu = true;
      CheckConv(shape);
    }
  }
  // Images of one tile, and of more tiles than are computed together.
  CheckConv(Shape(32, 32, Axis(4, 3, 1, 1, 1), Axis(4, 3, 1, 1, 1)));
  CheckConv(Shape(32, 32, Axis(2, 3, 1, 2, 2), Axis(2, 3, 1, 2, 2)));
  CheckConv(Shape(36, 32, Axis(37, 3, 1, 1, 1), Axis(33, 3, 1, 1, 1)));
}

TEST_CASE("convolutions whose kernel is wider than the image are right, and those of half of it") {
  for (const auto& [in, size] : {std::pair{7, 8}, {7, 9}, {9, 11}, {11, 13}, {15, 17}, {30, 17}}) {
    for (const int64_t out : {32, 48, 64, 96, 128}) {
      CheckConv(Shape(16, out, Axis(1, 1, 1, 0, 0), Axis(in, size, 1, (size - 1) / 2, size / 2)));
    }
  }
}

// TensorFlow's ReLU keeps a NaN; the one fused into oneDNN's products and convolutions gives 0.
TEST_CASE("a NaN goes through the ReLU of our own code") {
  const auto ops = MakeCpuOps(1);
  std::vector<float> x(37, -1), y(37);
  x[3] = x[20] = x[36] = NAN;
  ops->Activate({ActivationKind::kRelu}, 1, 37, x.data(), y.data());
  for (size_t i = 0; i < x.size(); ++i) CHECK(std::isnan(y[i]) == std::isnan(x[i]));

  ConvShape shape = Shape(32, 40, Axis(6, 3, 1, 1, 1), Axis(9, 3, 1, 1, 1));
  std::vector<float> image(size_t{2} * 6 * 9 * 32, -1), kernel(size_t{9} * 32 * 40, 0.1f);
  image[0] = NAN;
  std::vector<float> results[2];
  for (const bool relu : {false, true}) {
    std::vector<float>& result = results[relu ? 1 : 0];
    result.resize(size_t{2} * 6 * 9 * 40);
    shape.relu = relu;
    const auto conv = ops->MakeConv2D(shape);
    REQUIRE(conv.ok());
    (*conv)->Forward(image.data(), kernel.data(), nullptr, result.data());
    REQUIRE(ops->Finish().ok());
  }
  CHECK(std::isnan(results[1][0]));
  for (size_t i = 0; i < results[0].size(); ++i) {
    REQUIRE(std::isnan(results[0][i]) == std::isnan(results[1][i]));
    if (!std::isnan(results[0][i])) REQUIRE(results[1][i] == 0);
  }
}

#ifdef __SANITIZE_THREAD__
constexpr int kThreads[] = {1};  // TSan does not understand how libgomp's threads synchronise
#else
constexpr int kThreads[] = {2, 3};
#endif

TEST_CASE("a convolution of 3 x 3 has the same bits with any number of threads") {
  ConvShape shape = Shape(36, 32, Axis(37, 3, 1, 1, 1), Axis(33, 3, 1, 1, 1));
  shape.bias = true;
  Results one = CheckConv(shape, 1);
  for (const int threads : kThreads) {
    Results more = CheckConv(shape, threads);
    CHECK(one.y == more.y);
    CHECK(one.dx == more.dx);
    CHECK(one.dw == more.dw);
    CHECK(one.db == more.db);
  }
}

TEST_CASE("a convolution may be computed by another thread than it was made by") {
  const Operands operands = GENERATE(Operands::kFloat32, Operands::kBfloat16);
  for (const int64_t channels : {3, 32, 40}) {
    const ConvShape shape = Shape(channels, 48, Axis(9, 3, 1, 1, 1), Axis(9, 3, 1, 1, 1));
    CAPTURE(operands, channels);
    const auto ops = MakeCpuOps(1);
    ops->AllowOperands(operands);
    const auto conv = ops->MakeConv2D(shape);
    REQUIRE(conv.ok());
    const std::vector<float> x(static_cast<size_t>(shape.inputs()), 1);
    const std::vector<float> kernel(static_cast<size_t>(9 * channels * 48), 1);
    const std::vector<float> dy(static_cast<size_t>(shape.outputs()), 1);
    struct Computed {
      std::vector<float> y, dx, dkernel;
      bool operator==(const Computed&) const = default;
    };
    const auto compute = [&](Computed& to) {
      ops->Enter();
      to = {std::vector<float>(dy.size()), std::vector<float>(x.size()),
            std::vector<float>(kernel.size())};
      (*conv)->Forward(x.data(), kernel.data(), nullptr, to.y.data());
      (*conv)->Backward({.dy = dy.data(),
                         .dkernel = to.dkernel.data(),
                         .x = x.data(),
                         .dx = to.dx.data(),
                         .kernel = kernel.data()});
    };
    Computed here, elsewhere;
    std::thread([&] { compute(elsewhere); }).join();
    REQUIRE(ops->Finish().ok());
    compute(here);
    REQUIRE(ops->Finish().ok());
    CHECK(here == elsewhere);
  }
}

}  // namespace
}  // namespace paracord
