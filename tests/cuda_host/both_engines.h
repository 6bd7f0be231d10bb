// Runs operations on the CPU engine and on the engine under test, and compares the results.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tensor/cpu/cpu_ops.h"
#include "tests/cuda_host/cuda_under_test.h"

namespace paracord {

using Floats = std::vector<float>;

// An engine under an operation: uploads tensors, and downloads results for comparison.
class ComparedEngine {
 public:
  explicit ComparedEngine(std::unique_ptr<Ops> ops) : ops_(std::move(ops)) { ops_->Enter(); }
  ~ComparedEngine() { arrays_.clear(); }
  Ops& ops() { return *ops_; }
  // `before` is the offset in floats from the begin of an allocation.
  float* Put(const Floats& values, size_t before = 0) {
    float* at = New(values.size(), before);
    ops_->Upload(static_cast<int64_t>(values.size()), values.data(), at);
    return at;
  }
  float* New(size_t floats, size_t before = 0) {
    arrays_.push_back({ops_->Allocate(static_cast<int64_t>(floats + before)).value(), floats});
    return arrays_.back().data.get() + before;
  }
  // Puts a float32 tensor, or rounds it to bfloat16. `before`: offset in elements.
  Tensor PutTensor(const Floats& values, bool bfloat16, int64_t before = 0) {
    float* const wide = Put(values);
    if (!bfloat16) return wide;
    const Tensor at = NewTensor(values.size(), true, before);
    ops_->Convert(static_cast<int64_t>(values.size()), wide, at);
    return at;
  }
  Tensor NewTensor(size_t elements, bool bfloat16, int64_t before = 0) {
    if (!bfloat16) return New(elements);
    auto* const at = New((elements + static_cast<size_t>(before) + 1) / 2);
    return Tensor(reinterpret_cast<uint16_t*>(at) + before);
  }
  void TakeTensor(ConstTensor at, int64_t elements) {
    float* const wide = New(static_cast<size_t>(elements));
    ops_->Convert(elements, at, wide);
    Take(wide, elements);
  }
  // Downloads a result.
  void Take(const float* at, int64_t floats) {
    Floats& result = results_.emplace_back(static_cast<size_t>(floats));
    ops_->Download(floats, at, result.data());
    CHECK(ops_->Finish() == absl::OkStatus());
  }
  // Takes the number that the operation writes to the host.
  template <class Leave>
  void TakeNumber(const Leave& leave) {
    double number = std::nan("");
    leave(&number);
    CHECK(ops_->Finish() == absl::OkStatus());
    results_.push_back({static_cast<float>(number)});
  }
  const std::vector<Floats>& results() const { return results_; }

 private:
  struct Array {
    DeviceArray data;
    size_t floats;
  };
  const std::unique_ptr<Ops> ops_;
  std::vector<Array> arrays_;
  std::vector<Floats> results_;
};

using Operation = std::function<void(ComparedEngine&)>;

// The allowed difference of results: relative, and as a share of the largest result, because of
// cancellation.
struct Tolerance {
  double relative = 1e-4, of_largest = 5e-6;
};
// The tolerance for close numbers that are then rounded to bfloat16.
constexpr Tolerance kOneRounding = {1.0 / 128, 5e-6};

// Runs `operation` on both engines. A failure does not keep later operations from being tried.
inline void Compare(const Operation& operation, bool convolutions = true,
                    const Tolerance& off = {}) try {
  ComparedEngine cpu(MakeCpuOps(1));
  operation(cpu);
  ComparedEngine cuda(CudaUnderTest(convolutions));
  operation(cuda);
  REQUIRE(cpu.results().size() == cuda.results().size());
  for (size_t r = 0; r < cpu.results().size(); ++r) {
    const Floats &wanted = cpu.results()[r], &got = cuda.results()[r];
    double largest = 1;  // the magnitude of the operands
    for (const float v : wanted) {
      if (std::isfinite(v)) largest = std::max(largest, std::abs(static_cast<double>(v)));
    }
    int64_t wrong = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (std::abs(got[i] - wanted[i]) <= 1e-5f * std::abs(wanted[i])) continue;
      if (std::isnan(wanted[i])
              ? std::isnan(got[i])
              : got[i] == Approx(wanted[i]).epsilon(off.relative).margin(off.of_largest * largest))
        continue;
      if (++wrong > 3) continue;
      UNSCOPED_INFO("element " << i << " is " << got[i] << " instead of " << wanted[i]);
    }
    INFO("result " << r << " of " << wanted.size() << " elements, the largest " << largest);
    CHECK(wrong == 0);
  }
} catch (const absl::BadStatusOrAccess& error) {
  FAIL_CHECK(error.status());
}

class RandomInputs {
 public:
  explicit RandomInputs(uint32_t seed) : random_(seed) {}
  int64_t Size(int64_t most) {
    return 1 + static_cast<int64_t>(random_() % static_cast<uint64_t>(most));
  }
  bool Coin() { return random_() % 2 == 0; }
  Floats Numbers(int64_t n, float low = -2, float high = 2) {
    std::uniform_real_distribution<float> draw(low, high);
    Floats numbers(static_cast<size_t>(n));
    for (float& v : numbers) v = draw(random_);
    return numbers;
  }
  // Whole numbers from 0 to below `below`.
  Floats Ids(int64_t n, int64_t below) {
    Floats ids(static_cast<size_t>(n));
    for (float& v : ids) v = static_cast<float>(random_() % static_cast<uint64_t>(below));
    return ids;
  }
  // Strides of a row-major tensor whose axes are permuted; some are 0 if `still` allows it.
  std::vector<int64_t> Steps(const std::vector<int64_t>& dims, bool still) {
    std::vector<size_t> order(dims.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    std::vector<int64_t> steps(dims.size());
    int64_t step = 1;
    for (const size_t axis : order) {
      if (still && Coin()) continue;
      steps[axis] = step;
      step *= dims[axis];
    }
    return steps;
  }
  MatmulShape Product() {
    MatmulShape s{Size(20), Size(30), Size(25)};
    s.transpose_a = Coin();
    s.transpose_b = Coin();
    s.bias = Coin();
    s.relu = Coin();
    s.batch = Coin() ? 1 : Size(4);
    return s;
  }
  std::mt19937& engine() { return random_; }

 private:
  std::mt19937 random_;
};

inline constexpr uint32_t kRounds = 6;  // random shapes for each operation

}  // namespace paracord
