// Devices that sum their arrays: all devices there are, and a single one.
#include <catch2/catch.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "keras/build.h"
#include "keras/replicas.h"
#include "tensor/cpu/cpu_ops.h"
#include "tests/cuda_host/cuda_under_test.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using Floats = std::vector<float>;

constexpr size_t kDevicesMax = 8;
constexpr int kRounds = 3;

// Destroyed last, so that the thread's device is the first one again.
struct FirstDevice {
  const std::unique_ptr<Ops> ops = CudaUnderTest(true);
};

// A rank in a separate thread: fills arrays, sums them repeatedly, and downloads the sums.
absl::Status AddUp(Replica& replica, float value, Floats& many, Floats& few) {
  Ops& ops = *replica.ops;
  ops.Enter();
  const auto n = static_cast<int64_t>(many.size()), m = static_cast<int64_t>(few.size());
  const DeviceArray x = ops.Allocate(n).value(), y = ops.Allocate(m).value();
  ops.Fill(n, value, x.get());
  ops.Fill(m, 2 * value, y.get());
  for (int round = 0; round < kRounds; ++round) {
    const DeviceFloats arrays[] = {{x.get(), n}, {y.get(), m}};
    replica.group->AllReduce(arrays);
  }
  ops.Download(n, x.get(), many.data());
  ops.Download(m, y.get(), few.data());
  return ops.Finish();
}

TEST_CASE("each device of a group has the sum of all, and one alone what it had") {
  const FirstDevice first;
  for (size_t devices = 1; devices <= kDevicesMax; ++devices) {
    INFO(devices << " devices");
    std::vector<Replica> group = GroupUnderTest(devices);
    if (group.empty()) break;
    std::vector<Floats> many(devices, Floats(100000)), few(devices, Floats(3));
    std::vector<absl::Status> done(devices);
    {
      std::vector<std::jthread> threads;
      for (size_t rank = 0; rank < devices; ++rank) {
        threads.emplace_back([&, rank] {
          done[rank] = AddUp(group[rank], static_cast<float>(rank + 1), many[rank], few[rank]);
        });
      }
    }
    const size_t once = devices * (devices + 1) / 2;  // 1 + 2 + ...
    auto sum = static_cast<float>(once);
    for (int round = 1; round < kRounds; ++round) sum *= static_cast<float>(devices);
    for (size_t rank = 0; rank < devices; ++rank) {
      INFO("device " << rank);
      CHECK(done[rank] == absl::OkStatus());
      CHECK(many[rank] == Floats(100000, sum));
      CHECK(few[rank] == Floats(3, 2 * sum));
    }
  }
}

TEST_CASE("a group trains as one processor does, with as many devices as there are") {
  const FirstDevice first;
  const nlohmann::json model = SequentialJson(
      {LayerJson("Conv2D", {{"filters", 3}, {"kernel_size", {3, 3}}, {"activation", "relu"}}),
       LayerJson("Flatten", nlohmann::json::object()), LayerJson("Dropout", {{"rate", 0.3}}),
       LayerJson("Dense", {{"units", 4}, {"activation", "softmax"}})});
  const Batch schema = SchemaOf({6, 6, 2}, {});
  const Job job = JobFor(model, "sparse_categorical_crossentropy", 16);
  for (size_t devices = 1; devices <= kDevicesMax; ++devices) {
    INFO(devices << " devices");
    std::vector<Replica> group = GroupUnderTest(devices);
    if (group.empty()) break;
    const auto program = BuildReplicas(job, schema, std::move(group)).value();
    const auto cpu = BuildKerasProgram(job, schema, MakeCpuOps(1)).value();
    Variables ours(*program), theirs(*cpu);
    ours.Initialise(1);
    theirs.Initialise(1);
    for (uint32_t step = 0; step < 10; ++step) {
      INFO("step " << step);
      const Batch batch = RandomBatch(schema, step % 4 == 3 ? 9 : 16, 4, step);
      const auto got =
          program->ComputeGradients(batch, step, ours.value_spans(), ours.gradient_spans());
      const auto wanted =
          cpu->ComputeGradients(batch, step, theirs.value_spans(), theirs.gradient_spans());
      INFO(got.status() << wanted.status());
      REQUIRE(got.ok());
      CHECK(*got == Approx(*wanted).epsilon(1e-4));
      ours.Descend(0.02f);
      theirs.Descend(0.02f);
    }
  }
}

}  // namespace
}  // namespace paracord
