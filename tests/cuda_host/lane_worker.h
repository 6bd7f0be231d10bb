// A worker whose devices are those of the CUDA engine on the processor, or the processor, and the
// lanes that it computes, for tests of sums that the devices make themselves.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "exchange/lane_sum.h"
#include "keras/build.h"
#include "keras/lane_group.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/cuda/cuda_ops.h"
#include "tests/cuda_host/host_runtime.h"
#include "tests/keras/model_testing.h"
#include "worker/computation.h"

namespace paracord {

using Computations = std::vector<std::shared_ptr<Computation>>;

inline constexpr float kUntouched = 77;

// The arrays of a lane, with the rows of its batch.
class LaneArrays : public StepArrays {
 public:
  LaneArrays(const std::vector<VariableSpec>& variables, const Variables& all, SharedRows rows)
      : variables_(variables) {
    for (size_t v = 0; v < variables.size(); ++v) {
      values_.push_back(all.values[v]);
      gradients_.emplace_back(all.gradients[v].size(), kUntouched);
      if (!variables[v].has_table()) continue;
      const size_t width = RowFloats(v);
      values_[v].clear();
      for (const uint64_t id : rows->ids[v]) {
        const auto row = all.values[v].begin() + static_cast<std::ptrdiff_t>(id * width);
        values_[v].insert(values_[v].end(), row, row + static_cast<std::ptrdiff_t>(width));
      }
    }
    value_spans_.assign(values_.begin(), values_.end());
    UseRows(std::move(rows));
  }
  void Prepare() override {}
  ConstTensors values() const override { return value_spans_; }
  MutableTensors gradients() const override { return gradient_spans_; }
  bool GradientFinite(size_t v) const override {
    return std::ranges::all_of(gradients_[v], [](float x) { return std::isfinite(x); });
  }
  bool Encode(size_t v) override {
    encoded[v] = gradients_[v];
    return GradientFinite(v);
  }
  void UseRows(SharedRows rows) override {
    for (size_t v = 0; v < variables_.size(); ++v) {
      if (variables_[v].has_table()) gradients_[v].assign(rows->ids[v].size() * RowFloats(v), 0);
    }
    gradient_spans_.assign(gradients_.begin(), gradients_.end());
    of = std::move(rows);
  }

  SharedRows of;                                 // of the gradients of tables
  std::map<size_t, std::vector<float>> encoded;  // by variable

 private:
  size_t RowFloats(size_t v) const {
    size_t floats = 1;
    for (int i = 1; i < variables_[v].shape_size(); ++i) floats *= variables_[v].shape(i);
    return floats;
  }

  const std::vector<VariableSpec>& variables_;
  std::vector<std::vector<float>> values_, gradients_;
  std::vector<std::span<const float>> value_spans_;
  std::vector<std::span<float>> gradient_spans_;
};

// Has the batch of each lane.
class LaneFeed : public BatchFeed {
 public:
  void Start(const DataPlan&) override {}
  absl::StatusOr<const Batch*> Get(const BatchId& id, std::span<const BatchId>) override {
    return &batches.at(id.split());
  }
  std::map<uint64_t, Batch> batches;
};

// A worker that computes lanes on its devices.
class DeviceWorker {
 public:
  void Take(const Job& job, std::vector<std::unique_ptr<GradientProgram>> programs,
            std::shared_ptr<DeviceSum> sum) {
    batch_ = job.batch;
    auto feed = std::make_unique<LaneFeed>();
    feed_ = feed.get();
    workload_.feed = std::move(feed);
    workload_.program = std::move(programs[0]);
    programs.erase(programs.begin());
    workload_.devices = std::make_unique<LaneDevices>(
        *workload_.program, std::move(programs), CrossDeviceOps::kHierarchicalCopy, std::move(sum));
  }
  // Computes lanes from `first` on, with a batch each. `round` seeds dropout.
  Computations Run(const std::vector<Batch>& batches, const Variables& variables, uint64_t round,
                   bool sums = true, uint64_t first = 0) {
    Computations lanes;
    for (size_t i = 0; i < batches.size(); ++i) {
      const uint64_t lane = first + i;
      feed_->batches[lane] = batches[i];
      const auto one = lanes.emplace_back(std::make_shared<Computation>());
      one->batch.set_split(lane);
      one->key = 100 * round + lane;
      one->factor = LaneFactor(batches[i].examples, batch_);
      one->rows = program().RowsOf(batches[i]).value();
      one->step = std::make_shared<LaneArrays>(program().variables(), variables, one->rows);
    }
    RunLanes(lanes, sums, workload_);
    return lanes;
  }
  GradientProgram& program() { return *workload_.program; }
  void End() {
    workload_.devices.reset();
    workload_.program.reset();
  }

 private:
  uint32_t batch_ = 0;
  LaneFeed* feed_ = nullptr;
  Workload workload_;
};

// With devices of the processor, which add up nothing themselves.
inline std::unique_ptr<DeviceWorker> OnProcessor(const Job& job, const Batch& schema,
                                                 size_t devices) {
  std::vector<std::unique_ptr<GradientProgram>> programs;
  while (programs.size() < devices) {
    programs.push_back(BuildKerasProgram(job, schema, MakeCpuOps(1)).value());
  }
  auto worker = std::make_unique<DeviceWorker>();
  worker->Take(job, std::move(programs), nullptr);
  return worker;
}

// With devices of the CUDA engine: those of a group, and then `alone` devices without one.
struct OnGroup {
  using Set = std::function<void(size_t device, cuda::HostOptions& options)>;

  OnGroup(const Job& job, const Batch& schema, size_t ranks, uint64_t seed, const Set& set = {},
          size_t alone = 0)
      : nccl(std::make_shared<cuda::HostGroup>(ranks)), calls(ranks + alone), wrong(ranks + alone) {
    const auto options_of = [&](size_t device) {
      cuda::HostOptions options;
      options.seed = seed * 100 + device;
      options.at_end = [this, device](int64_t all, const std::string& what) {
        calls[device] = all;
        wrong[device] = what;
      };
      if (set) set(device, options);
      return options;
    };
    std::vector<Replica> replicas;
    std::vector<std::string> names;
    for (size_t rank = 0; rank < ranks; ++rank) {
      cuda::HostOptions options = options_of(rank);
      options.group = nccl;
      options.rank = rank;
      auto replica = cuda::MakeReplica(cuda::MakeHostRuntime(std::move(options)));
      built = replica.status();
      if (!built.ok()) return;
      replicas.push_back(*std::move(replica));
      names.push_back(absl::StrCat("cuda:", rank));
    }
    auto lanes = BuildLanes(job, schema, std::move(replicas), names);
    built = lanes.status();
    if (!built.ok()) return;
    for (size_t device = ranks; device < ranks + alone; ++device) {
      auto ops = cuda::MakeOps(cuda::MakeHostRuntime(options_of(device))).value();
      lanes->programs.push_back(BuildKerasProgram(job, schema, std::move(ops)).value());
    }
    worker.Take(job, std::move(lanes->programs), std::move(lanes->sum));
  }
  // Ends everything and returns the errors of all devices.
  std::string Wrong() {
    worker.End();
    std::string all;
    for (const std::string& each : wrong) all += each;
    return all;
  }

  const std::shared_ptr<cuda::HostGroup> nccl;
  std::vector<int64_t> calls;  // of each device, when it ends
  std::vector<std::string> wrong;
  absl::Status built;
  DeviceWorker worker;
};

inline const std::map<size_t, std::vector<float>>& EncodedOf(const Computation& lane) {
  return static_cast<const LaneArrays&>(*lane.step).encoded;
}

inline std::string ProblemOf(const Computation& lane) {
  std::string message;
  const Problem problem = lane.problem(message);
  return problem == PROBLEM_NONE ? "" : absl::StrCat(Problem_Name(problem), ": ", message);
}

// Compares what would be pushed, and what is told of each lane.
inline void CheckLanes(const Computations& got, const Computations& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("lane " << i);
    REQUIRE(ProblemOf(*got[i]) == "");
    CHECK(got[i]->run.size() == wanted[i]->run.size());
    CHECK_FALSE(got[i]->sum_failed);
    CHECK(got[i]->examples == wanted[i]->examples);
    CHECK(got[i]->loss == Approx(wanted[i]->loss).epsilon(1e-4));
    REQUIRE(got[i]->metrics.size() == wanted[i]->metrics.size());
    for (size_t m = 1; m < got[i]->metrics.size(); ++m) {
      CHECK(got[i]->metrics[m].values(0) == wanted[i]->metrics[m].values(0));
    }
    const auto &ours = EncodedOf(*got[i]), &theirs = EncodedOf(*wanted[i]);
    REQUIRE(ours.size() == theirs.size());
    for (const auto& [v, gradient] : theirs) {
      INFO("variable " << v);
      CHECK(std::ranges::equal(ours.at(v), gradient, [](float a, float b) {
        return a == Approx(b).epsilon(1e-4).margin(1e-5);
      }));
    }
    const SharedRows &rows = static_cast<LaneArrays&>(*got[i]->step).of,
                     &others = static_cast<LaneArrays&>(*wanted[i]->step).of;
    REQUIRE((rows == nullptr) == (others == nullptr));
    if (rows != nullptr) CHECK(rows->ids == others->ids);
  }
}

inline Job LaneJob() {
  const nlohmann::json l2 = {{"class_name", "L2"}, {"config", {{"l2", 0.01}}}};
  const nlohmann::json model = SequentialJson(
      {LayerJson("Conv2D", {{"filters", 3}, {"kernel_size", {3, 3}}, {"activation", "relu"}}),
       LayerJson("BatchNormalization", nlohmann::json::object()),
       LayerJson("Flatten", nlohmann::json::object()), LayerJson("Dropout", {{"rate", 0.3}}),
       LayerJson("Dense", {{"units", 6}, {"activation", "tanh"}, {"kernel_regularizer", l2}}),
       LayerJson("Dense", {{"units", 4}, {"activation", "softmax"}})});
  Job job = JobFor(model, "sparse_categorical_crossentropy", 8);
  job.metrics = {{"accuracy"}};
  return job;
}

inline const Batch& LaneSchema() {
  static const Batch schema = SchemaOf({5, 5, 2}, {});
  return schema;
}

inline std::vector<Batch> LaneBatches(const std::vector<uint32_t>& examples, uint64_t round) {
  std::vector<Batch> batches;
  for (const uint32_t each : examples) {
    const auto seed = static_cast<uint32_t>(10 * round + batches.size());
    batches.push_back(RandomBatch(LaneSchema(), each, 4, seed));
  }
  return batches;
}

struct LaneVariables : Variables {
  explicit LaneVariables(const GradientProgram& program) : Variables(program) {
    Randomise(3);
    for (size_t v = 0; v < names.size(); ++v) {
      const bool variance = absl::StrContains(names[v], "variance");
      for (float& x : values[v]) x += variance ? 1.f : 0.f;
    }
    Bind();
  }
};

}  // namespace paracord
