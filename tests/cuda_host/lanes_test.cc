// Lanes on several devices of the CUDA engine: the devices add up the gradients of a run of lanes
// by NCCL, and one sum leaves them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/metric.h"
#include "keras/device_program.h"
#include "tests/cuda_host/lane_worker.h"
#include "tests/keras/table_models.h"

namespace paracord {
namespace {

// Lanes whose last batches have fewer examples, and rounds that have fewer lanes than there are
// devices. Equal rounds in a row have sums begin while gradients are still computed.
TEST_CASE("devices add up the lanes of a run as the processor does") {
  struct Case {
    size_t devices;
    std::vector<std::vector<uint32_t>> rounds;  // the examples of each lane
  };
  const std::vector<uint32_t> two = {8, 8}, four = {8, 8, 8, 8};
  const auto each = GENERATE_COPY(values<Case>({
      {2, {two, {8, 3}, two, two, two, two, {1, 8}, two}},
      {4, {four, {8, 8, 8, 1}, {8, 2}, four, four, four, four, four, {8, 8}, four}},
  }));
  const Job job = LaneJob();
  const auto cpu = OnProcessor(job, LaneSchema(), each.devices);
  const LaneVariables variables(cpu->program());
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    OnGroup group(job, LaneSchema(), each.devices, seed);
    INFO(each.devices << " devices, seed " << seed << ": " << group.built);
    REQUIRE(group.built.ok());
    int sums = 0;
    for (uint64_t round = 0; round < each.rounds.size(); ++round) {
      INFO("round " << round);
      const std::vector<Batch> batches = LaneBatches(each.rounds[round], round);
      const Computations lanes = group.worker.Run(batches, variables, round);
      CheckLanes(lanes, cpu->Run(batches, variables, round));
      CHECK(group.nccl->sums() > std::exchange(sums, group.nccl->sums()));
      for (size_t i = 1; i < lanes.size(); ++i) {
        for (const auto& gradient : lanes[i]->step->gradients()) {
          CHECK(std::ranges::all_of(gradient, [](float x) { return x == kUntouched; }));
        }
      }
    }
    CHECK(group.Wrong().empty());
  }
}

TEST_CASE("of all devices that add up one downloads gradients, once") {
  std::vector<size_t> downloaded(4);
  OnGroup group(LaneJob(), LaneSchema(), 4, 1, [&](size_t device, cuda::HostOptions& options) {
    options.done = [&downloaded, device](const char* what, size_t bytes) {
      if (std::string(what) == "copy to the host") downloaded[device] += bytes;
    };
  });
  REQUIRE(group.built.ok());
  const LaneVariables variables(group.worker.program());
  size_t gradients = 0;
  for (const auto& each : variables.gradients) gradients += each.size() * sizeof(float);
  const std::vector<Batch> batches = LaneBatches({8, 8, 8, 8}, 1);
  for (const bool sums : {true, false}) {
    std::ranges::fill(downloaded, 0);
    (void)group.worker.Run(batches, variables, 1, sums);
    const size_t more = downloaded[3] - (sums ? 0 : gradients);  // the loss, and for the metrics
    CHECK(downloaded == (sums ? std::vector<size_t>{gradients + more, more, more, more}
                              : std::vector<size_t>(4, gradients + more)));
    CHECK(more < gradients);
  }
  CHECK(group.Wrong().empty());
}

TEST_CASE("lanes that are no run of the group are added up by the processor") {
  struct Case {
    size_t ranks, alone;
    uint64_t first;
    size_t lanes;
    bool adds;  // the group does
  };
  const auto each = GENERATE(values<Case>({{2, 1, 0, 3, true},   // and the third lane alone
                                           {2, 1, 4, 2, true},   //
                                           {2, 1, 1, 3, false},  // 1, 2 to 3
                                           {4, 0, 0, 3, false},  // 0 to 1, and 2 on a rank
                                           {4, 0, 2, 4, false},  // 2 to 3, 4 to 5
                                           {4, 0, 0, 1, false}}));
  const Job job = LaneJob();
  const auto cpu = OnProcessor(job, LaneSchema(), each.ranks + each.alone);
  const LaneVariables variables(cpu->program());
  OnGroup group(job, LaneSchema(), each.ranks, 1, {}, each.alone);
  INFO(group.built);
  REQUIRE(group.built.ok());
  CAPTURE(each.ranks, each.first, each.lanes);
  for (uint64_t round = 0; round < 5; ++round) {
    const std::vector<Batch> batches = LaneBatches(std::vector<uint32_t>(each.lanes, 8), round);
    CheckLanes(group.worker.Run(batches, variables, round, true, each.first),
               cpu->Run(batches, variables, round, true, each.first));
  }
  CHECK((group.nccl->sums() > 0) == each.adds);
  CHECK(group.Wrong().empty());
}

TEST_CASE("lanes that are pushed by themselves, and evaluations, go on between sums") {
  const Job job = LaneJob();
  const auto cpu = OnProcessor(job, LaneSchema(), 2);
  const LaneVariables variables(cpu->program());
  OnGroup group(job, LaneSchema(), 2, 1);
  REQUIRE(group.built.ok());
  for (uint64_t round = 0; round < 12; ++round) {
    const bool sums = round % 6 != 4;
    const std::vector<Batch> batches = LaneBatches({8, round == 10 ? 3u : 8u}, round);
    INFO("round " << round);
    CheckLanes(group.worker.Run(batches, variables, round, sums),
               cpu->Run(batches, variables, round, sums));
    if (round % 4 != 3) continue;
    std::vector<MetricState> ours, theirs;
    REQUIRE(group.worker.program().Evaluate(batches[0], variables.value_spans(), ours).ok());
    REQUIRE(cpu->program().Evaluate(batches[0], variables.value_spans(), theirs).ok());
    CHECK(MetricValue(ours[0]) == Approx(MetricValue(theirs[0])).epsilon(1e-4));
  }
  CHECK(group.nccl->sums() > 0);
  CHECK(group.Wrong().empty());
}

TEST_CASE("rows of tables are added up by the processor, and dense variables by the devices") {
  const Job job = TablesJob(ThreeTables(), Fixed({"shared", "own"}));
  const auto batch = [](uint32_t examples, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<float> a(4 * examples), b(4 * examples);
    for (float& id : a) id = static_cast<float>(random() % 400);
    for (float& id : b) id = static_cast<float>(random() % 20);
    return IdsBatch(a, b);
  };
  const Batch schema = WithoutValues(batch(1, 1));
  const auto cpu = OnProcessor(job, schema, 2);
  Variables variables(cpu->program());
  variables.Randomise(3);
  OnGroup group(job, schema, 2, 1);
  INFO(group.built);
  REQUIRE(group.built.ok());
  for (uint32_t round = 0; round < 6; ++round) {
    const std::vector<Batch> batches = {batch(4, round), batch(round == 2 ? 1 : 4, 100 + round)};
    CheckLanes(group.worker.Run(batches, variables, round), cpu->Run(batches, variables, round));
  }
  CHECK(group.nccl->sums() == 6);
  CHECK(group.Wrong().empty());
}

TEST_CASE("the first devices add up, as many as the greatest power of two, and the others do not") {
  const Job job = LaneJob();
  std::vector<std::string> grouped, alone;
  const MakeGroupFn group = [&](const std::vector<std::string>& devices) {
    grouped = devices;
    const auto nccl = std::make_shared<cuda::HostGroup>(devices.size());
    std::vector<Replica> replicas;
    for (size_t rank = 0; rank < devices.size(); ++rank) {
      cuda::HostOptions options;
      options.group = nccl;
      options.rank = rank;
      replicas.push_back(cuda::MakeReplica(cuda::MakeHostRuntime(options)).value());
    }
    return replicas;
  };
  const MakeOpsFn ops = [&](const std::string& device, int) {
    alone.push_back(device);
    return cuda::MakeOps(cuda::MakeHostRuntime({}));
  };
  using Names = std::vector<std::string>;
  const auto three =
      BuildLanesOnDevices(job, LaneSchema(), {"cuda:2", "cuda:0", "cuda:1"}, ops, group).value();
  CHECK(three.sum->devices() == 2);
  CHECK(grouped == Names{"cuda:2", "cuda:0"});
  CHECK(alone == Names{"cuda:1"});
  REQUIRE(three.programs.size() == 3);
  CHECK(three.programs[0].device == "cuda:2");
  const Names four = {"cuda:0", "cuda:1", "cuda:2", "cuda:3"};
  CHECK(BuildLanesOnDevices(job, LaneSchema(), four, ops, group)->sum->devices() == 4);
  CHECK(grouped == four);
  CHECK(alone.size() == 1);
}

TEST_CASE("devices that cannot be a group are named, with the key and the cause") {
  const MakeGroupFn none = [](const std::vector<std::string>&) {
    return absl::FailedPreconditionError("GPU 3: cudaSetDevice: invalid device ordinal");
  };
  const auto built =
      BuildLanesOnDevices(LaneJob(), LaneSchema(), {"cuda:0", "cuda:3"}, MakeOps, none);
  CHECK(built.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(built.status().message() ==
        "cross_device_ops: \"nccl\" cannot add up the gradients of cuda:0, cuda:3: GPU 3: "
        "cudaSetDevice: invalid device ordinal");
}

}  // namespace
}  // namespace paracord
