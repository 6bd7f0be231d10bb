// Properties that a device promises besides numbers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "keras/build.h"
#include "tensor/cpu/cpu_ops.h"
#include "tests/cuda_host/cuda_under_test.h"
#include "tests/cuda_host/log_text.h"
#include "tests/cuda_host/page_floats.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using Floats = std::vector<float>;

Floats Numbers(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(-1, 1);
  Floats numbers(static_cast<size_t>(n));
  for (float& x : numbers) x = draw(random);
  return numbers;
}

struct Results {
  Floats product, convolution;
};

Results Compute(std::unique_ptr<Ops> ops, Operands operands) {
  constexpr int64_t kSize = 128, kImages = 2, kSide = 16, kChannels = 32;
  ops->Enter();
  ops->AllowOperands(operands);
  const auto put = [&](const Floats& values) {
    const auto n = static_cast<int64_t>(values.size());
    DeviceArray array = ops->Allocate(n).value();
    ops->Upload(n, values.data(), array.get());
    return array;
  };
  const auto product = ops->MakeMatmul({.m = kSize, .k = kSize, .n = kSize}).value();
  WindowAxis axis{.in = kSide, .out = kSide, .size = 3};
  axis.pad_before = axis.pad_after = 1;
  ConvShape s;
  s.batch = kImages;
  s.in_channels = s.out_channels = kChannels;
  s.height = s.width = axis;
  const auto convolution = ops->MakeConv2D(s).value();
  Results results{Floats(kSize * kSize), Floats(kImages * kSide * kSide * kChannels)};
  const DeviceArray a = put(Numbers(kSize * kSize, 1)), b = put(Numbers(kSize * kSize, 2)),
                    c = put(results.product),
                    x = put(Numbers(kImages * kSide * kSide * kChannels, 3)),
                    kernel = put(Numbers(9 * kChannels * kChannels, 4)),
                    y = put(results.convolution);
  product->Run(a.get(), b.get(), nullptr, c.get());
  convolution->Forward(x.get(), kernel.get(), nullptr, y.get());
  ops->Download(static_cast<int64_t>(results.product.size()), c.get(), results.product.data());
  ops->Download(static_cast<int64_t>(results.convolution.size()), y.get(),
                results.convolution.data());
  CHECK(ops->Finish() == absl::OkStatus());
  return results;
}

// The largest difference, as a share of the largest number.
double Off(const Floats& got, const Floats& wanted) {
  double off = 0, largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return INFINITY;
    off = std::max(off, std::abs(static_cast<double>(got[i]) - wanted[i]));
    largest = std::max(largest, std::abs(static_cast<double>(wanted[i])));
  }
  return off / largest;
}

// On a GPU cuDNN chooses how a convolution is computed.
TEST_CASE("TF32 is near float32, and is not the same") {
  const Results wanted = Compute(MakeCpuOps(1), Operands::kFloat32);
  const Results whole = Compute(CudaUnderTest(true), Operands::kFloat32);
  const Results rounded = Compute(CudaUnderTest(true), Operands::kTf32);
  CHECK(Off(whole.product, wanted.product) < 5e-6);
  CHECK(Off(whole.convolution, wanted.convolution) < 5e-6);
  // GPUs whose tensor cores have bfloat16 also have TF32.
  if (CudaUnderTest(true)->has_bfloat16()) CHECK(Off(rounded.product, wanted.product) > 2e-5);
  CHECK(Off(rounded.product, wanted.product) < 5e-3);
  CHECK(Off(rounded.convolution, wanted.convolution) < 5e-3);
}

void CheckRefused(const absl::Status& status, int64_t floats) {
  INFO(status);
  CHECK(absl::IsResourceExhausted(status));
  CHECK(status.message().find(absl::StrCat("no memory for ", floats * 4, " bytes")) !=
        std::string::npos);
  if (OnGpu()) CHECK(status.message().find(" are free") != std::string::npos);
}

TEST_CASE("memory that the device has not is refused with its size, and the engine goes on") {
  constexpr int64_t kTooMuch = int64_t{1} << 42, kBlock = int64_t{1} << 28;
  const auto ops = CudaUnderTest(true);
  ops->Enter();
  CheckRefused(ops->Allocate(kTooMuch).status(), kTooMuch);
  std::vector<DeviceArray> blocks;  // fill the device; the processor's memory is not filled
  while (OnGpu()) {
    absl::StatusOr<DeviceArray> block = ops->Allocate(kBlock);
    if (!block.ok()) {
      CheckRefused(block.status(), kBlock);
      break;
    }
    blocks.push_back(*std::move(block));
  }
  if (OnGpu()) blocks.pop_back();
  Floats numbers(1000);
  const DeviceArray x = ops->Allocate(1000).value();
  ops->Fill(1000, 3, x.get());
  ops->Affine(1000, 2, 1, x.get(), x.get());
  ops->Download(1000, x.get(), numbers.data());
  CHECK(ops->Finish() == absl::OkStatus());
  CHECK(std::count(numbers.begin(), numbers.end(), 7.f) == 1000);
}

TEST_CASE(
    "a model that the device cannot hold is refused with what it needs, and the next is not") {
  const auto build = [](uint64_t steps) {  // each gives 256 KB
    const nlohmann::json model =
        SequentialJson({LayerJson("Dense", {{"units", 1 << 16}}),
                        LayerJson("GlobalAveragePooling1D", nlohmann::json::object())});
    return BuildKerasProgram(JobFor(model, "mse", 4), SchemaOf({steps, 1}, {1 << 16}), TestOps());
  };
  const absl::Status refused = build(1 << 20).status();
  INFO(refused);
  CHECK(absl::IsResourceExhausted(refused));
  CHECK(refused.message().find("the most is taken by layer \"dense\"") != std::string::npos);
  CHECK(build(10).status() == absl::OkStatus());
}

// Trains as a worker does: from page-locked memory, with a smaller last batch in each epoch.
TEST_CASE("steps that repeat are graphs, and nothing is done in a slower way") {
  constexpr uint32_t kSteps = 40;
  const Batch schema = SchemaOf({8, 8, 3}, {});
  const nlohmann::json model = SequentialJson(
      {LayerJson("Conv2D", {{"filters", 8}, {"kernel_size", {3, 3}}, {"activation", "relu"}}),
       LayerJson("BatchNormalization", nlohmann::json::object()),
       LayerJson("MaxPooling2D", {{"pool_size", {2, 2}}}),
       LayerJson("Flatten", nlohmann::json::object()), LayerJson("Dropout", {{"rate", 0.2}}),
       LayerJson("Dense", {{"units", 4}, {"activation", "softmax"}})});
  const LogText log;
  const std::optional<int64_t> before = GraphLaunches();
  std::unique_ptr<Ops> ops = TestOps();
  Ops& device = *ops;
  const auto program =
      BuildKerasProgram(JobFor(model, "sparse_categorical_crossentropy", 8), schema, std::move(ops))
          .value();
  Variables variables(*program);
  variables.Initialise(1);
  std::vector<PageFloats> values, gradients;
  for (const Floats& each : variables.values) values.emplace_back(each.begin(), each.end());
  for (const Floats& each : variables.gradients) gradients.emplace_back(each.begin(), each.end());
  for (const auto* const all : {&values, &gradients}) {
    for (const PageFloats& each : *all) {
      if (!each.empty()) device.PageLock(each.data(), each.size() * sizeof(float));
    }
  }
  for (uint32_t step = 0; step < kSteps; ++step) {
    INFO("step " << step);
    const auto loss = program->ComputeGradients(
        RandomBatch(schema, step % 10 == 9 ? 5 : 8, 4, step), step,
        std::vector<std::span<const float>>(values.begin(), values.end()),
        std::vector<std::span<float>>(gradients.begin(), gradients.end()));
    REQUIRE(loss.status() == absl::OkStatus());
  }
  CHECK(log.text() == "");
  // Steps of each kind are graphs from the third on.
  if (before.has_value()) CHECK(*GraphLaunches() - *before == kSteps - 2 - 2);
}

}  // namespace
}  // namespace paracord
