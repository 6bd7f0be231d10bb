// A model in stages on devices of the CUDA engine: numbers, memory, and failures of any call.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "keras/build.h"
#include "keras/stage_program.h"
#include "tensor/cuda/cuda_ops.h"
#include "tests/cuda_host/host_runtime.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using Floats = std::vector<float>;
using nlohmann::json;

// A device of its own for each stage, with its own order of streams. `set` may change the options.
class StagedGpus {
 public:
  using Set = std::function<void(size_t device, cuda::HostOptions& options)>;

  StagedGpus(const Job& job, const Batch& schema, uint64_t seed, const Set& set = {})
      : calls(job.guarantees.stages.count), wrong_(job.guarantees.stages.count) {
    std::vector<StageDevice> devices;
    for (size_t i = 0; i < wrong_.size(); ++i) {
      cuda::HostOptions options;
      options.seed = seed * 100 + i;
      options.rank = i;
      options.at_end = [this, i](int64_t all, const std::string& what) {
        calls[i] = all;
        wrong_[i] = what;
      };
      if (set) set(i, options);
      auto ops = cuda::MakeOps(cuda::MakeHostRuntime(std::move(options)));
      built = ops.status();
      if (!built.ok()) return;
      devices.push_back({absl::StrCat("cuda:", i), *std::move(ops)});
    }
    auto made = BuildStages(job, schema, std::move(devices));
    built = made.status();
    if (built.ok()) program = *std::move(made);
  }
  // Ends everything and returns the errors of all devices.
  std::string Wrong() {
    program.reset();
    std::string all;
    for (const std::string& each : wrong_) all += each;
    return all;
  }

  std::vector<int64_t> calls;  // of each device, when it ends
  absl::Status built;

 private:
  std::vector<std::string> wrong_;

 public:
  std::unique_ptr<GradientProgram> program;
};

Job StagedJob(json model, const std::string& loss, uint32_t batch, uint32_t accumulate,
              uint32_t stages) {
  Job job = JobFor(std::move(model), loss, batch);
  job.accumulate = accumulate;
  job.guarantees.stages.count = stages;
  return job;
}

// The same job on one device.
std::unique_ptr<GradientProgram> OnOneGpu(Job job, const Batch& schema,
                                          const cuda::HostOptions& options = {}) {
  job.guarantees.stages = {};
  auto ops = cuda::MakeOps(cuda::MakeHostRuntime(options)).value();
  return BuildKerasProgram(job, schema, std::move(ops)).value();
}

absl::StatusOr<Floats> StepOf(GradientProgram& program, Variables& variables, const Batch& batch,
                              uint64_t key) {
  for (Floats& gradient : variables.gradients) std::ranges::fill(gradient, 9.f);
  const auto loss =
      program.ComputeGradients(batch, key, variables.value_spans(), variables.gradient_spans());
  if (!loss.ok()) return loss.status();
  Floats all{static_cast<float>(*loss)};
  for (const Floats& g : variables.gradients) all.insert(all.end(), g.begin(), g.end());
  return all;
}

absl::StatusOr<std::string> ScoreOf(GradientProgram& program, const Variables& variables,
                                    const Batch& batch) {
  std::vector<MetricState> states;
  const absl::Status status = program.Evaluate(batch, variables.value_spans(), states);
  if (!status.ok()) return status;
  std::string text;
  for (const MetricState& state : states) text += state.SerializeAsString() + "|";
  return text;
}

// Equal kernels on equal shapes in an equal order have equal bits.
void CheckBitsOfOneGpu(const Job& job, const Batch& schema, uint32_t classes) {
  const auto one = OnOneGpu(job, schema);
  Variables variables(*one);
  variables.Randomise(3);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    StagedGpus gpus(job, schema, seed);
    INFO(job.guarantees.stages.count << " stages, seed " << seed << ": " << gpus.built);
    REQUIRE(gpus.built.ok());
    for (const uint32_t examples : {job.batch, job.batch - 3, job.batch, 1u, job.batch}) {
      INFO(examples << " examples");
      const Batch batch = RandomBatch(schema, examples, classes, examples);
      const auto wanted = StepOf(*one, variables, batch, examples);
      const auto got = StepOf(*gpus.program, variables, batch, examples);
      INFO(got.status());
      REQUIRE(got.ok());
      CHECK(*got == wanted.value());
      CHECK(ScoreOf(*gpus.program, variables, batch).value() ==
            ScoreOf(*one, variables, batch).value());
    }
    CHECK(gpus.Wrong() == "");
  }
}

json WithDropout() {
  return SequentialJson({LayerJson("Dense", {{"units", 12}, {"activation", "tanh"}}),
                         LayerJson("Dropout", {{"rate", 0.4}}),
                         LayerJson("LayerNormalization", json::object()),
                         LayerJson("Dense", {{"units", 9}, {"activation", "relu"}}),
                         LayerJson("Dense", {{"units", 4}, {"activation", "softmax"}})});
}

constexpr char kOfClasses[] = "sparse_categorical_crossentropy";

TEST_CASE("stages on two and four GPUs have the bits of one") {
  for (const uint32_t stages : {2u, 4u}) {
    Job job = StagedJob(WithDropout(), kOfClasses, 12, 5, stages);
    job.metrics = {{"accuracy"}};
    CheckBitsOfOneGpu(job, SchemaOf({6}, {}), 4);
  }
}

// The bytes of the layers' outputs in what a program says of its memory, for each stage.
std::vector<std::string> BytesOfOutputs(const GradientProgram& program) {
  std::vector<std::string> found;
  const std::string text = program.Memory(), title = "outputs of layers ";
  for (size_t at = 0; (at = text.find(title, at)) != std::string::npos;) {
    at += title.size();
    found.push_back(text.substr(at, text.find_first_of(",)", at) - at));
  }
  return found;
}

// Of an odd number of 16-bit numbers half a float is left over.
TEST_CASE("stages hand bfloat16 tensors on, also of odd sizes") {
  const auto conv = [](const char* name, int filters) {
    return LayerJson(
        "Conv2D",
        {{"name", name}, {"filters", filters}, {"kernel_size", {3, 3}}, {"padding", "same"}});
  };
  const json model =
      SequentialJson({conv("one", 5), conv("two", 3), conv("three", 5),
                      LayerJson("Flatten", json::object()), LayerJson("Dense", {{"units", 3}})});
  const Batch schema = SchemaOf({3, 3, 2}, {3});
  Job job = StagedJob(model, "mse", 9, 3, 3);
  job.guarantees.stages.begins = {"two", "three"};
  const StagedGpus whole(job, schema, 1);
  job.precision = "bf16";
  const StagedGpus halved(job, schema, 1);
  REQUIRE((whole.built.ok() && halved.built.ok()));
  CHECK(BytesOfOutputs(*whole.program)[0] != BytesOfOutputs(*halved.program)[0]);
  CheckBitsOfOneGpu(job, schema, 0);
}

TEST_CASE("a GPU holds values of as many slices as stages begin with its own, however many") {
  const Batch schema = SchemaOf({6}, {});
  std::vector<std::string> first;
  for (const uint32_t slices : {3u, 6u, 24u}) {
    INFO(slices << " slices");
    std::vector<int> allocations(3);
    const uint32_t examples = 2 * slices - 1;  // one of the slices is smaller
    StagedGpus gpus(StagedJob(WithDropout(), kOfClasses, examples, slices, 3), schema, 1,
                    [&](size_t device, cuda::HostOptions& options) {
                      options.called = [&allocations, device](const char* name) {
                        allocations[device] += std::string(name) == "cudaMalloc" ? 1 : 0;
                      };
                    });
    REQUIRE(gpus.built.ok());
    CHECK(allocations == std::vector<int>(3, 1));  // the plan
    const std::vector<std::string> bytes = BytesOfOutputs(*gpus.program);
    REQUIRE(bytes.size() == 3);
    if (first.empty()) first = bytes;
    CHECK(bytes == first);
    Variables variables(*gpus.program);
    variables.Randomise(3);
    for (uint64_t key = 0; key < 3; ++key) {
      const Batch batch = RandomBatch(schema, examples, 4, 1);
      REQUIRE(StepOf(*gpus.program, variables, batch, key).ok());
    }
    CHECK(allocations == std::vector<int>(3, 1));  // it has room for every step
    CHECK(gpus.Wrong() == "");
  }
}

// Four layers of 1 MiB, each with a gradient.
TEST_CASE("a model that is too large for a GPU is trained by two, and one too large is named") {
  const json layer = LayerJson("Dense", {{"units", 512}, {"use_bias", false}});
  const Job job = StagedJob(SequentialJson({layer, layer, layer, layer}), "mse", 4, 2, 2);
  const Batch schema = SchemaOf({512}, {512});
  const auto of_bytes = [](size_t first, size_t second) {
    return [=](size_t device, cuda::HostOptions& options) {
      options.memory_bytes_max = device == 0 ? first : second;
    };
  };
  constexpr size_t kSix = 6 << 20, kThree = 3 << 20;
  Job whole = job;
  whole.guarantees.stages = {};
  cuda::HostOptions options;
  options.memory_bytes_max = kSix;
  auto one = cuda::MakeOps(cuda::MakeHostRuntime(options)).value();
  CHECK(absl::IsResourceExhausted(BuildKerasProgram(whole, schema, std::move(one)).status()));
  StagedGpus gpus(job, schema, 1, of_bytes(kSix, kSix));
  INFO(gpus.built);
  REQUIRE(gpus.built.ok());
  Variables variables(*gpus.program);
  variables.Randomise(3, 0.05f);
  const Batch batch = RandomBatch(schema, 4, 0, 1);
  CHECK(StepOf(*gpus.program, variables, batch, 1).value() ==
        StepOf(*OnOneGpu(job, schema), variables, batch, 1).value());
  CHECK(gpus.Wrong() == "");
  const StagedGpus small(job, schema, 1, of_bytes(kSix, kThree));
  CHECK(absl::IsResourceExhausted(small.built));
  CHECK(absl::StartsWith(small.built.message(),
                         "stages: stage 2 on cuda:1: the model does not fit into the GPU's memory: "
                         "batches of 2 need "));
}

// The steps of a run with a failure, before an evaluation.
constexpr uint64_t kStepsOfEach = 4;

// Makes new devices for each call of a whole run (kFailedCallStep), and fails the call once or for
// good.
template <class Body>
void WithEachFailureOf(const Job& job, const Batch& schema, const std::vector<int64_t>& calls,
                       const Body& body) {
  for (const bool sticky : {false, true}) {
    for (size_t failing = 0; failing < calls.size(); ++failing) {
      for (int64_t call = 0; call < calls[failing]; call += cuda::kFailedCallStep) {
        INFO("call " << call << " of " << failing << (sticky ? ", sticky" : ""));
        StagedGpus gpus(job, schema, 1, [&](size_t device, cuda::HostOptions& options) {
          if (device != failing) return;
          options.fail_call = call;
          options.sticky = sticky;
        });
        if (!gpus.built.ok()) continue;
        body(gpus, failing, sticky);
        CHECK(gpus.Wrong() == "");
      }
    }
  }
}

// No stage may wait for ever, and no step may be wrong.
TEST_CASE("an error of any call of a stage's GPU names the stage, and ends the step of all") {
  const json model = SequentialJson(
      {LayerJson("Conv2D", {{"filters", 2}, {"kernel_size", {2, 2}}, {"activation", "tanh"}}),
       LayerJson("Flatten", json::object()), LayerJson("Dropout", {{"rate", 0.3}}),
       LayerJson("Dense", {{"units", 4}})});
  Job job = StagedJob(model, kOfClasses, 4, 3, 2);
  job.loss.options["from_logits"] = true;
  const Batch schema = SchemaOf({3, 3, 1}, {});
  const auto batch = [&](uint64_t step) {
    return RandomBatch(schema, 4, 4, static_cast<uint32_t>(step));
  };
  StagedGpus whole(job, schema, 1);
  Variables variables(*whole.program);
  variables.Randomise(3);
  std::vector<Floats> wanted;
  for (uint64_t step = 0; step < kStepsOfEach; ++step) {
    wanted.push_back(StepOf(*whole.program, variables, batch(step), step).value());
  }
  const std::string score = ScoreOf(*whole.program, variables, batch(0)).value();
  REQUIRE(whole.Wrong() == "");
  int lost = 0, again = 0;
  // Runs once more after an error; false if the device is lost.
  const auto runs = [&](size_t failing, bool sticky, const std::function<absl::Status()>& run) {
    const absl::Status status = run();
    if (status.ok()) return true;
    INFO(status);
    CHECK(absl::StartsWith(status.message(),
                           absl::StrCat("stage ", failing + 1, " on cuda:", failing, ": ")));
    CHECK(absl::StrContains(status.message(), "failed as asked"));
    CHECK(absl::IsDataLoss(status) == sticky);
    ++(sticky ? lost : again);
    if (!sticky) CHECK(run() == absl::OkStatus());
    return !sticky;
  };
  WithEachFailureOf(job, schema, whole.calls, [&](StagedGpus& gpus, size_t failing, bool sticky) {
    std::map<size_t, Floats> early;
    gpus.program->OnGradient([&](size_t v) { early[v] = variables.gradients[v]; });
    for (uint64_t step = 0; step < kStepsOfEach; ++step) {
      const bool there = runs(failing, sticky, [&] {
        early.clear();
        const auto got = StepOf(*gpus.program, variables, batch(step), step);
        if (got.ok()) CHECK(*got == wanted[step]);
        return got.status();
      });
      if (!there) return;
      CHECK(early.size() == variables.gradients.size());
      for (const auto& [v, gradient] : early) CHECK(gradient == variables.gradients[v]);
    }
    runs(failing, sticky, [&] {
      const auto got = ScoreOf(*gpus.program, variables, batch(0));
      if (got.ok()) CHECK(*got == score);
      return got.status();
    });
  });
  CHECK(lost > 10);
  CHECK(again > 10);
}

}  // namespace
}  // namespace paracord
