// Sums of lanes in which a batch, a device or NCCL fails: no device waits for ever, and no lane is
// counted wrongly.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/cuda_host/lane_worker.h"

namespace paracord {
namespace {

// None of them may keep the other devices waiting.
TEST_CASE("a lane that fails makes the sum void, and its own error is found lane by lane") {
  const Job job = LaneJob();
  OnGroup group(job, LaneSchema(), 4, 1);
  REQUIRE(group.built.ok());
  const LaneVariables variables(group.worker.program());
  const auto cpu = OnProcessor(job, LaneSchema(), 4);
  for (uint64_t round = 0; round < 8; ++round) {  // of which the later ones hold no sums back
    std::vector<Batch> batches = LaneBatches({8, 8, 8, 8}, round);
    const size_t bad = round % 4;
    if (round == 1 || round >= 5) batches[bad].targets[0].values[3] = 17;
    const bool fails = round == 1 || round >= 5;
    INFO("round " << round);
    const Computations lanes = group.worker.Run(batches, variables, round);
    if (!fails) {
      CheckLanes(lanes, cpu->Run(batches, variables, round));
      continue;
    }
    CHECK(lanes[0]->sum_failed);
    CHECK(lanes[0]->run.size() == 3);
    for (const auto& lane : lanes) CHECK(EncodedOf(*lane).empty());
    const Computations alone = group.worker.Run(batches, variables, round, /*sums=*/false);
    for (size_t i = 0; i < 4; ++i) {
      CHECK(absl::StrContains(ProblemOf(*alone[i]), "PROBLEM_SHAPE") == (i == bad));
      CHECK(EncodedOf(*alone[i]).empty() == (i == bad));
    }
  }
  CHECK_FALSE(group.nccl->aborted());
  CHECK(group.Wrong().empty());
}

TEST_CASE("a sum that is not finite is not pushed") {
  OnGroup group(LaneJob(), LaneSchema(), 2, 1);
  REQUIRE(group.built.ok());
  const LaneVariables variables(group.worker.program());
  std::vector<Batch> batches = LaneBatches({8, 8}, 1);
  batches[1].inputs[0].values[7] = INFINITY;
  const Computations lanes = group.worker.Run(batches, variables, 1);
  CHECK(lanes[0]->sum_failed);
  CHECK(EncodedOf(*lanes[0]).empty());
  const Computations alone = group.worker.Run(batches, variables, 1, /*sums=*/false);
  CHECK(ProblemOf(*alone[0]) == "");
  CHECK(absl::StrContains(ProblemOf(*alone[1]), "PROBLEM_NONFINITE"));
}

constexpr char kLostGroup[] = "NCCL cannot add up the gradients of cuda:0, cuda:1: ";

// Of lanes whose devices were lost nothing is pushed, and all say which device failed.
void CheckLost(const Computations& lanes, const std::string& message) {
  for (const auto& lane : lanes) {
    CHECK(absl::IsDataLoss(lane->model));
    CHECK(absl::StartsWith(lane->model.message(), message));
    CHECK(lane->run.empty());
    CHECK(EncodedOf(*lane).empty());
  }
}

TEST_CASE("an error of NCCL ends the sum on all devices, and names NCCL and the devices") {
  const Job job = LaneJob();
  const size_t failing = GENERATE(0u, 1u);
  const int failing_sum = GENERATE(0, 2, 5);  // held back, and not
  std::vector<int64_t> sums;                  // the numbers of the calls
  const auto run = [&](int64_t fail_call) {
    int64_t calls = 0;
    OnGroup group(job, LaneSchema(), 2, 1, [&](size_t device, cuda::HostOptions& options) {
      if (device != failing) return;
      options.fail_call = fail_call;
      options.called = [&](const char* name) {
        if (std::string(name) == "ncclAllReduce") sums.push_back(calls);
        ++calls;
      };
    });
    REQUIRE(group.built.ok());
    const LaneVariables variables(group.worker.program());
    const auto cpu = OnProcessor(job, LaneSchema(), 2);
    for (int round = 0; round < 6; ++round) {
      const std::vector<Batch> batches = LaneBatches({8, 8}, static_cast<uint64_t>(round));
      const auto number = static_cast<uint64_t>(round);
      const Computations lanes = group.worker.Run(batches, variables, number);
      if (fail_call >= 0 && round == failing_sum) {
        CheckLost(lanes, absl::StrCat(kLostGroup, "cuda:", failing,
                                      ": all-reduce: ncclAllReduce: failed as asked"));
        CheckLost(group.worker.Run(batches, variables, number), kLostGroup);  // for good
        break;
      }
      CheckLanes(lanes, cpu->Run(batches, variables, number));
    }
    CHECK(group.Wrong() == "");
  };
  run(-1);
  REQUIRE(sums.size() == 6);
  run(std::exchange(sums, {})[static_cast<size_t>(failing_sum)]);
}

// Every round is right, or is computed again lane by lane, or has no lane that counts.
TEST_CASE("an error of any call of any device keeps no lane waiting, and counts no lane wrongly") {
  const nlohmann::json model =
      SequentialJson({LayerJson("Flatten", nlohmann::json::object()),
                      LayerJson("Dense", {{"units", 4}, {"activation", "softmax"}})});
  const Job job = JobFor(model, "sparse_categorical_crossentropy", 8);
  const auto cpu = OnProcessor(job, LaneSchema(), 2);
  const LaneVariables variables(cpu->program());
  constexpr uint64_t kRounds = 4;  // the last one holds no sums back
  std::vector<Computations> sums, each;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const std::vector<Batch> batches = LaneBatches({8, 8}, round);
    sums.push_back(cpu->Run(batches, variables, round));
    each.push_back(cpu->Run(batches, variables, round, /*sums=*/false));
  }
  OnGroup whole(job, LaneSchema(), 2, 1);
  for (uint64_t round = 0; round < kRounds; ++round) {
    CheckLanes(whole.worker.Run(LaneBatches({8, 8}, round), variables, round), sums[round]);
  }
  REQUIRE(whole.Wrong() == "");
  int lost = 0, again = 0;
  const auto check = [&](OnGroup& group) {
    for (uint64_t round = 0; round < kRounds; ++round) {
      const std::vector<Batch> batches = LaneBatches({8, 8}, round);
      Computations lanes = group.worker.Run(batches, variables, round);
      if (absl::IsDataLoss(lanes[0]->model)) {
        ++lost;
        return CheckLost(lanes, kLostGroup);
      }
      if (!lanes[0]->sum_failed) {
        CheckLanes(lanes, sums[round]);
        continue;
      }
      ++again;
      for (const auto& lane : lanes) CHECK(EncodedOf(*lane).empty());
      lanes = group.worker.Run(batches, variables, round, /*sums=*/false);
      for (const auto& lane : lanes) {
        if (absl::IsDataLoss(lane->model)) return;
      }
      CheckLanes(lanes, each[round]);
    }
  };
  for (const bool sticky : {false, true}) {
    for (size_t failing = 0; failing < 2; ++failing) {
      for (int64_t call = 0; call < whole.calls[failing]; ++call) {
        INFO("call " << call << " of " << failing << (sticky ? ", sticky" : ""));
        OnGroup group(job, LaneSchema(), 2, 1, [&](size_t device, cuda::HostOptions& options) {
          if (device != failing) return;
          options.fail_call = call;
          options.sticky = sticky;
        });
        if (!group.built.ok()) continue;
        check(group);
        CHECK(group.Wrong() == "");
      }
    }
  }
  CHECK(lost > 10);
  CHECK(again > 10);
}

}  // namespace
}  // namespace paracord
