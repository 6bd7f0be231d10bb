// Lanes whose gradients the program adds up itself (GradientProgram::ComputeSum), or the devices
// among themselves (DeviceSum).
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "tests/worker/plain_parts.h"
#include "worker/computation.h"

namespace paracord {
namespace {

// The gradient of a batch is its key, and the loss half of that; both as `told` says.
class SummingProgram : public NoVariables {
 public:
  explicit SummingProgram(size_t replicas) : replicas_(replicas), variables_(1) {}
  const std::vector<VariableSpec>& variables() const override { return variables_; }
  absl::StatusOr<double> ComputeGradients(const Batch&, uint64_t key, ConstTensors,
                                          MutableTensors gradients) override {
    ++alone;
    gradients[0][0] = static_cast<float>(key);
    return static_cast<double>(key) / 2;
  }
  size_t replicas() const override { return replicas_; }
  absl::StatusOr<std::vector<double>> ComputeSum(std::span<const KeyedBatch> batches, ConstTensors,
                                                 MutableTensors sum) override {
    ++together;
    if (!told.ok()) return told;
    std::vector<double> losses;
    sum[0][0] = gradient;
    for (const KeyedBatch& batch : batches) {
      CHECK(batch.batch->examples == 1);
      sum[0][0] += static_cast<float>(batch.key);
      losses.push_back(static_cast<double>(batch.key) / 2);
    }
    losses[0] += loss;
    return losses;
  }

  absl::Status told;
  float gradient = 0;  // added to the sum
  double loss = 0;     // added to the loss of the first batch
  int alone = 0, together = 0;

 private:
  const size_t replicas_;
  std::vector<VariableSpec> variables_;
};

class OneGradient : public NoArrays {
 public:
  MutableTensors gradients() const override { return spans_; }
  bool GradientFinite(size_t) const override { return std::isfinite(array_); }
  bool Encode(size_t) override {
    encoded.push_back(array_);
    return std::isfinite(array_);
  }
  std::vector<float> encoded;

 private:
  float array_ = 0;
  std::vector<std::span<float>> spans_ = {{&array_, 1}};
};

// Four devices and as many lanes; lane i has the key 10 i.
struct SumRig {
  explicit SumRig(size_t replicas = 4, uint64_t first = 0) {
    auto own = std::make_unique<SummingProgram>(replicas);
    program = own.get();
    workload.program = std::move(own);
    std::vector<std::unique_ptr<GradientProgram>> others;
    for (int i = 0; i < 3; ++i) {
      others.push_back(std::make_unique<SummingProgram>(0));
      each.push_back(static_cast<SummingProgram*>(others.back().get()));
    }
    workload.devices =
        std::make_unique<LaneDevices>(*workload.program, std::move(others), CrossDeviceOps::kAuto);
    workload.feed = std::make_unique<OneExample>();
    for (uint64_t lane = first; lane < first + 4; ++lane) {
      auto one = std::make_shared<Computation>();
      one->batch.set_split(lane);
      one->key = 10 * lane;
      one->step = steps.emplace_back(std::make_shared<OneGradient>());
      lanes.push_back(std::move(one));
    }
  }
  void Run(bool sums = true) { RunLanes(lanes, sums, workload); }
  std::vector<double> Losses() const {
    std::vector<double> losses;
    for (const auto& lane : lanes) losses.push_back(lane->loss);
    return losses;
  }
  int Alone() const {
    int alone = program->alone;
    for (const SummingProgram* const one : each) alone += one->alone;
    return alone;
  }

  Workload workload;
  SummingProgram* program = nullptr;
  std::vector<SummingProgram*> each;  // of the other devices
  std::vector<std::shared_ptr<OneGradient>> steps;
  std::vector<std::shared_ptr<Computation>> lanes;
};

TEST_CASE("a program adds up the lanes of a run itself, with the losses of each") {
  SumRig rig(4, GENERATE(uint64_t{0}, uint64_t{8}));
  const auto first = static_cast<float>(10 * rig.lanes[0]->batch.split());
  const float factor = GENERATE(1.f, 0.5f);
  for (const auto& lane : rig.lanes) lane->factor = factor;
  rig.Run();
  CHECK(rig.program->together == 1);
  CHECK(rig.Alone() == 0);
  CHECK(rig.lanes[0]->run.size() == 3);
  CHECK(rig.lanes[0]->run[2] == rig.lanes[3]);
  CHECK_FALSE(rig.lanes[0]->sum_failed);
  CHECK(rig.steps[0]->encoded == std::vector<float>{factor * (4 * first + 60)});
  CHECK(rig.steps[1]->encoded.empty());
  CHECK(rig.Losses() ==
        std::vector<double>{first / 2, first / 2 + 5, first / 2 + 10, first / 2 + 15});
}

TEST_CASE("lanes that a program cannot add up are computed one by one, and added up as ever") {
  struct Case {
    const char* what;
    std::function<void(SumRig&)> change;
    std::vector<size_t> runs = {3, 0, 0, 0};  // lanes in each run, beside its first
    size_t replicas = 4;
    uint64_t first = 0;
  };
  const auto each = GENERATE(values<Case>({
      {"the lanes are no run", [](SumRig&) {}, {1, 0, 1, 0}, 4, 2},
      {"the lanes are more than replicas", [](SumRig&) {}, {3, 0, 0, 0}, 2},
      {"the program adds up nothing", [](SumRig&) {}, {3, 0, 0, 0}, 0},
      {"a lane has fewer examples", [](SumRig& rig) { rig.lanes[3]->factor = 0.25f; }},
      {"the sum is not finite", [](SumRig& rig) { rig.program->gradient = INFINITY; }},
      {"a loss is not finite", [](SumRig& rig) { rig.program->loss = NAN; }},
      {"a batch does not fit",
       [](SumRig& rig) { rig.program->told = absl::InvalidArgumentError("a shape"); }},
      {"memory lacks",
       [](SumRig& rig) { rig.program->told = absl::ResourceExhaustedError("memory"); }},
  }));
  INFO(each.what);
  SumRig rig(each.replicas, each.first);
  each.change(rig);
  rig.Run();
  CHECK(rig.Alone() == 4);
  std::vector<size_t> runs;
  for (const auto& lane : rig.lanes) {
    runs.push_back(lane->run.size());
    std::string message;
    CHECK(lane->problem(message) == PROBLEM_NONE);
  }
  CHECK(runs == each.runs);
}

TEST_CASE("a program adds up nothing where each lane is pushed by itself") {
  SumRig rig;
  rig.Run(/*sums=*/false);
  CHECK(rig.program->together == 0);
  CHECK(rig.Alone() == 4);
  for (size_t lane = 0; lane < 4; ++lane) {
    CHECK(rig.lanes[lane]->run.empty());
    CHECK(rig.steps[lane]->encoded == std::vector<float>{static_cast<float>(10 * lane)});
  }
}

TEST_CASE("a program whose devices are lost as they add up has no lane computed") {
  SumRig rig;
  rig.program->told = absl::DataLossError("gone");
  rig.Run();
  CHECK(rig.Alone() == 0);
  for (size_t lane = 0; lane < 4; ++lane) {
    CHECK(rig.lanes[lane]->model.message() == "gone");
    CHECK(rig.lanes[lane]->run.empty());
    CHECK(rig.steps[lane]->encoded.empty());
  }
}

// Devices that add up: the gradient of each lane is its key.
class AddingDevices : public DeviceSum {
 public:
  explicit AddingDevices(size_t devices) : completed(devices) {}
  size_t devices() const override { return completed.size(); }
  void Begin(std::span<const LaneShare> lanes) override {
    shares.assign(lanes.begin(), lanes.end());
  }
  absl::Status Complete(size_t device) override {
    ++completed[device];
    return device + 1 == devices() ? last : absl::OkStatus();
  }

  std::vector<LaneShare> shares;
  std::vector<int> completed;  // calls for each device
  absl::Status last;           // what the last device says
};

// A device of such; the first one gets the sum.
class AddingProgram : public NoVariables {
 public:
  AddingProgram(std::shared_ptr<AddingDevices> sum, size_t device)
      : sum_(std::move(sum)), device_(device), variables_(1) {}
  const std::vector<VariableSpec>& variables() const override { return variables_; }
  absl::StatusOr<double> ComputeGradients(const Batch&, uint64_t key, ConstTensors,
                                          MutableTensors gradients) override {
    ++computed;
    if (!told.ok()) return told;
    const bool adds = device_ < sum_->shares.size();
    if (!adds) gradients[0][0] = static_cast<float>(key);
    if (adds && device_ == 0) {
      for (size_t i = 0; i < sum_->shares.size(); ++i) {
        gradients[0][0] += sum_->shares[i].factor * static_cast<float>(key + 10 * i);
      }
    }
    return static_cast<double>(key) / 2;
  }

  absl::Status told;
  int computed = 0;

 private:
  const std::shared_ptr<AddingDevices> sum_;
  const size_t device_;
  std::vector<VariableSpec> variables_;
};

struct AddingRig {
  AddingRig(size_t adding, size_t all, size_t count, uint64_t first)
      : sum(std::make_shared<AddingDevices>(adding)) {
    std::vector<std::unique_ptr<GradientProgram>> programs;
    for (size_t device = 0; device < all; ++device) {
      auto one = std::make_unique<AddingProgram>(sum, device);
      each.push_back(one.get());
      programs.push_back(std::move(one));
    }
    workload.program = std::move(programs[0]);
    programs.erase(programs.begin());
    workload.devices = std::make_unique<LaneDevices>(*workload.program, std::move(programs),
                                                     CrossDeviceOps::kNccl, sum);
    workload.feed = std::make_unique<OneExample>();
    for (uint64_t lane = first; lane < first + count; ++lane) {
      auto one = std::make_shared<Computation>();
      one->batch.set_split(lane);
      one->key = 10 * lane;
      one->step = steps.emplace_back(std::make_shared<OneGradient>());
      lanes.push_back(std::move(one));
    }
  }
  // The number of lanes of each push.
  std::vector<size_t> Pushes() const {
    std::vector<size_t> pushes;
    for (size_t i = 0; i < lanes.size(); i += 1 + lanes[i]->run.size()) {
      pushes.push_back(1 + lanes[i]->run.size());
    }
    return pushes;
  }

  std::shared_ptr<AddingDevices> sum;
  Workload workload;
  std::vector<AddingProgram*> each;
  std::vector<std::shared_ptr<OneGradient>> steps;
  std::vector<std::shared_ptr<Computation>> lanes;
};

TEST_CASE("devices add up a run that has them to itself, and all of them take part") {
  struct Case {
    size_t adding, all, lanes;
    uint64_t first;
    size_t added;  // lanes, by the devices
    std::vector<size_t> pushes;
  };
  const auto each = GENERATE(values<Case>({{4, 4, 4, 0, 4, {4}},
                                           {4, 4, 4, 8, 4, {4}},
                                           {4, 4, 2, 0, 2, {2}},        // two devices have no lane
                                           {4, 4, 3, 0, 0, {2, 1}},     // the third lane has one
                                           {4, 4, 4, 2, 0, {2, 2}},     //
                                           {4, 4, 1, 0, 0, {1}},        //
                                           {2, 3, 3, 0, 2, {2, 1}},     // a device beside the sum
                                           {4, 6, 6, 0, 4, {4, 2}},     //
                                           {4, 6, 6, 2, 0, {2, 4}}}));  //
  CAPTURE(each.adding, each.all, each.lanes, each.first);
  AddingRig rig(each.adding, each.all, each.lanes, each.first);
  RunLanes(rig.lanes, /*sums=*/true, rig.workload);
  CHECK(rig.sum->shares.size() == each.added);
  CHECK(rig.sum->completed == std::vector<int>(each.adding, each.added > 0 ? 1 : 0));
  CHECK(rig.Pushes() == each.pushes);
  size_t lane = 0;
  for (const size_t push : each.pushes) {
    const auto key = static_cast<float>(rig.lanes[lane]->key), n = static_cast<float>(push);
    CHECK(rig.steps[lane]->encoded == std::vector<float>{n * key + 5 * n * (n - 1)});
    lane += push;
  }
}

TEST_CASE("the devices multiply a lane by its share of a whole batch before they add it") {
  AddingRig rig(2, 2, 2, 0);
  rig.lanes[0]->key = 30;
  rig.lanes[1]->key = 40;
  rig.lanes[1]->factor = 0.25f;
  RunLanes(rig.lanes, /*sums=*/true, rig.workload);
  CHECK(rig.steps[0]->encoded == std::vector<float>{30 + 0.25f * 40});
  CHECK(rig.sum->shares[1].examples == 1);
}

TEST_CASE("devices add up nothing where each lane is pushed by itself") {
  AddingRig rig(2, 2, 2, 0);
  RunLanes(rig.lanes, /*sums=*/false, rig.workload);
  CHECK(rig.sum->completed == std::vector<int>{0, 0});
  CHECK(rig.Pushes() == std::vector<size_t>{1, 1});
}

TEST_CASE("where a lane or a device fails in a sum, its lanes come one by one, and others go on") {
  AddingRig rig(2, 3, 3, 0);
  const bool of_lane = GENERATE(true, false);
  if (of_lane) rig.each[1]->told = absl::InvalidArgumentError("a label");
  if (!of_lane) rig.sum->last = absl::InternalError("no zeros");
  RunLanes(rig.lanes, /*sums=*/true, rig.workload);
  CHECK(rig.sum->completed == std::vector<int>{1, 1});
  CHECK(rig.lanes[0]->sum_failed);
  CHECK(rig.Pushes() == std::vector<size_t>{2, 1});
  CHECK(rig.steps[0]->encoded.empty());
  CHECK(rig.steps[1]->encoded.empty());
  CHECK(rig.steps[2]->encoded == std::vector<float>{20});
}

TEST_CASE("devices that are lost in a sum have no lane of it computed") {
  AddingRig rig(2, 3, 3, 0);
  rig.each[1]->told = absl::DataLossError("gone");
  RunLanes(rig.lanes, /*sums=*/true, rig.workload);
  CHECK(rig.Pushes() == std::vector<size_t>{1, 1, 1});
  for (const size_t lane : {0, 1}) {
    CHECK(rig.lanes[lane]->model.message() == "gone");
    CHECK(rig.steps[lane]->encoded.empty());
  }
  CHECK(rig.steps[2]->encoded == std::vector<float>{20});
}

}  // namespace
}  // namespace paracord
