// Devices that sum their arrays: all devices there are, and a single one.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "keras/build.h"
#include "keras/lane_group.h"
#include "keras/replicas.h"
#include "program/lane_devices.h"
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

TEST_CASE("lanes whose gradients a group adds up have the sum that processors have") {
  const FirstDevice first;
  const nlohmann::json model =
      SequentialJson({LayerJson("Dense", {{"units", 300}, {"activation", "tanh"}}),
                      LayerJson("Dropout", {{"rate", 0.3}}), LayerJson("Dense", {{"units", 3}})});
  const Batch schema = SchemaOf({20}, {3});
  const Job job = JobFor(model, "mse", 16);
  const auto cpu = BuildKerasProgram(job, schema, MakeCpuOps(1)).value();
  for (size_t devices = 2; devices <= kDevicesMax; devices *= 2) {
    INFO(devices << " devices");
    std::vector<Replica> group = GroupUnderTest(devices);
    if (group.empty()) break;
    const std::vector<std::string> names(devices, "cuda:N");
    LanePrograms lanes = BuildLanes(job, schema, std::move(group), names).value();
    const std::unique_ptr<GradientProgram> leader = std::move(lanes.programs[0]);
    lanes.programs.erase(lanes.programs.begin());
    LaneDevices all(*leader, std::move(lanes.programs), CrossDeviceOps::kNccl, lanes.sum);
    std::vector<Variables> variables(devices, Variables(*leader));
    Variables theirs(*cpu);
    theirs.Randomise(3);
    for (uint32_t step = 0; step < 8; ++step) {
      INFO("step " << step);
      const size_t count = step == 6 ? devices / 2 : devices;  // the other devices add zeros
      std::vector<Batch> batches;
      std::vector<LaneShare> shares;
      std::vector<Floats> wanted;
      for (uint32_t lane = 0; lane < count; ++lane) {
        variables[lane].Randomise(3);
        variables[lane].Bind();
        batches.push_back(RandomBatch(schema, lane == 1 && step == 2 ? 5 : 16, 0, step + lane));
        shares.push_back({batches[lane].examples, lane == 1 ? 0.5f : 1});
        REQUIRE(cpu->ComputeGradients(batches[lane], lane, theirs.value_spans(),
                                      theirs.gradient_spans())
                    .ok());
        wanted.resize(theirs.gradients.size());
        for (size_t v = 0; v < wanted.size(); ++v) {
          wanted[v].resize(theirs.gradients[v].size());
          for (size_t i = 0; i < wanted[v].size(); ++i) {
            wanted[v][i] += shares[lane].factor * theirs.gradients[v][i];
          }
        }
      }
      std::vector<absl::Status> done(devices);
      lanes.sum->Begin(shares);
      all.ForLanes(devices, [&](size_t lane, GradientProgram& program) {
        if (lane < count) {
          done[lane] = program
                           .ComputeGradients(batches[lane], lane, variables[lane].value_spans(),
                                             variables[lane].gradient_spans())
                           .status();
        }
        done[lane].Update(lanes.sum->Complete(lane));
      });
      for (const absl::Status& each : done) CHECK(each == absl::OkStatus());
      for (size_t v = 0; v < wanted.size(); ++v) {
        for (size_t i = 0; i < wanted[v].size(); ++i) {
          REQUIRE(variables[0].gradients[v][i] == Approx(wanted[v][i]).epsilon(1e-4).margin(1e-4));
        }
      }
    }
  }
}

}  // namespace
}  // namespace paracord
