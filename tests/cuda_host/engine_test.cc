// The engine as a whole: the same training as on the CPU, and what becomes of errors.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/cuda_host/host_runtime.h"
#include "tests/worker/model_testing.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/ops/cuda/cuda_ops.h"

namespace paracord {
namespace {

nlohmann::json FashionModel() {
  return SequentialJson(
      {LayerJson("Conv2D", {{"filters", 32}, {"kernel_size", {3, 3}}, {"activation", "relu"}}),
       LayerJson("MaxPooling2D", {{"pool_size", {2, 2}}}),
       LayerJson("Conv2D", {{"filters", 64}, {"kernel_size", {3, 3}}, {"activation", "relu"}}),
       LayerJson("MaxPooling2D", {{"pool_size", {2, 2}}}),
       LayerJson("Flatten", nlohmann::json::object()), LayerJson("Dropout", {{"rate", 0.2}}),
       LayerJson("Dense", {{"units", 64}, {"activation", "relu"}}),
       LayerJson("Dense", {{"units", 10}, {"activation", "softmax"}})});
}

// A model with all that has errors of its own: copies, masks, convolution padded at one end.
nlohmann::json SmallModel() {
  return SequentialJson({LayerJson("Conv2D", {{"filters", 3},
                                              {"kernel_size", {3, 3}},
                                              {"strides", {2, 2}},
                                              {"padding", "same"},
                                              {"activation", "relu"}}),
                         LayerJson("BatchNormalization", nlohmann::json::object()),
                         LayerJson("Flatten", nlohmann::json::object()),
                         LayerJson("Dense", {{"units", 4}, {"activation", "softmax"}})});
}

const char* const kSparse = "sparse_categorical_crossentropy";

TEST_CASE("200 steps of the Fashion-MNIST network have the losses of the CPU") {
  const Batch schema = SchemaOf({28, 28, 1}, {});
  const Job job = JobFor(FashionModel(), kSparse, 4);
  std::vector<std::vector<double>> losses(2);
  for (const bool cuda : {false, true}) {
    const auto program = BuildKerasProgram(job, schema, cuda ? TestOps() : MakeCpuOps(1)).value();
    Variables variables(*program);
    variables.Initialise(1);
    for (uint32_t step = 0; step < 200; ++step) {
      Batch batch = RandomBatch(schema, 4, 10, step % 8);
      const auto loss = program->ComputeGradients(batch, step, variables.value_spans(),
                                                  variables.gradient_spans());
      INFO(loss.status());
      REQUIRE(loss.ok());
      losses[cuda ? 1 : 0].push_back(*loss);
      variables.Descend(0.02f);
    }
  }
  CHECK(losses[0].back() < 0.7 * losses[0].front());  // it learns
  for (size_t step = 0; step < 200; ++step) {
    INFO("step " << step);
    CHECK(losses[1][step] == Approx(losses[0][step]).epsilon(step < 50 ? 1e-4 : 1e-2));
  }
}

struct Outcome {
  absl::StatusOr<double> loss = absl::UnknownError("not run");
  absl::Status predicted;
  std::string wrong;
  int64_t calls = 0;
};

// Builds the small model, takes a step and predicts; then once more, which must do what is right
// unless the error stays.
Outcome Train(cuda::HostOptions options, bool again) {
  Outcome outcome;
  options.at_end = [&outcome](int64_t calls, const std::string& wrong) {
    outcome.calls = calls;
    outcome.wrong = wrong;
  };
  auto ops = cuda::MakeOps(cuda::MakeHostRuntime(std::move(options)));
  if (!ops.ok()) {
    outcome.loss = ops.status();
    return outcome;
  }
  const Batch schema = SchemaOf({7, 7, 2}, {});
  const auto program = BuildKerasProgram(JobFor(SmallModel(), kSparse), schema, *std::move(ops));
  if (!program.ok()) {
    outcome.loss = program.status();
    return outcome;
  }
  Variables variables(**program);
  variables.Randomise(3);
  const Batch batch = RandomBatch(schema, 4, 4, 5);
  for (int run = 0; run < (again ? 2 : 1); ++run) {
    outcome.loss =
        (*program)->ComputeGradients(batch, 1, variables.value_spans(), variables.gradient_spans());
    outcome.predicted = (*program)->Predict(batch, variables.value_spans()).status();
  }
  return outcome;
}

TEST_CASE("an error of any call is reported, and the next step is right") {
  const Outcome whole = Train({}, false);
  REQUIRE(whole.loss.ok());
  REQUIRE(whole.wrong.empty());
  REQUIRE(whole.calls > 100);
  for (int64_t call = 0; call < whole.calls; ++call) {
    INFO("call " << call);
    cuda::HostOptions options;
    options.fail_call = call;
    const Outcome once = Train(options, false);
    CHECK(once.wrong.empty());
    options.sticky = true;
    const Outcome stuck = Train(options, true);
    CHECK(stuck.wrong.empty());
    options.sticky = false;
    const Outcome later = Train(options, true);
    CHECK(later.wrong.empty());
    if (!stuck.loss.ok()) {
      CHECK(std::string(stuck.loss.status().message()).find("failed as asked") !=
            std::string::npos);
    }
    // What could not even be built, or failed at the second run, says so.
    if (later.loss.ok()) CHECK(*later.loss == Approx(*whole.loss).epsilon(1e-6));
  }
}

TEST_CASE("a model that does not fit is refused, with the sizes and the layer") {
  size_t refused = 0;
  for (size_t bytes = 0; bytes < 30000; bytes += 600) {
    cuda::HostOptions options;
    options.memory_bytes_max = bytes;
    const Outcome outcome = Train(options, true);
    INFO(outcome.loss.status());
    CHECK(outcome.wrong.empty());
    if (outcome.loss.ok()) continue;
    ++refused;
    CHECK(absl::IsResourceExhausted(outcome.loss.status()));
    CHECK(std::string(outcome.loss.status().message()).find("bytes") != std::string::npos);
  }
  CHECK(refused > 3);
  cuda::HostOptions options;
  options.memory_bytes_max = 700;
  CHECK(std::string(Train(options, false).loss.status().message()).find("conv2d") !=
        std::string::npos);
}

}  // namespace
}  // namespace paracord
