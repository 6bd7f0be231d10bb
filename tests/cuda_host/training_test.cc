// Trains like the CPU.
#include <catch2/catch.hpp>

#include "keras/build.h"
#include "tensor/cpu/cpu_ops.h"
#include "tests/cuda_host/cuda_under_test.h"
#include "tests/cuda_host/log_text.h"
#include "tests/keras/model_testing.h"

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

// The engine trains alone for 20 steps. Later a choice may differ (which of two nearly equal values
// is the maximum; with some orders of summation at step 38), and training, which is chaotic,
// diverges. From step 20 on, each step begins with the CPU's values.
TEST_CASE("200 steps of the Fashion-MNIST network have the losses of the CPU") {
  constexpr uint32_t kAlone = 20;
  const Batch schema = SchemaOf({28, 28, 1}, {});
  const Job job = JobFor(FashionModel(), "sparse_categorical_crossentropy", 4);
  const LogText log;
  const auto cpu = BuildKerasProgram(job, schema, MakeCpuOps(1)).value();
  const auto cuda = BuildKerasProgram(job, schema, TestOps()).value();
  Variables ours(*cpu), theirs(*cuda);
  ours.Initialise(1);
  theirs.Initialise(1);
  double first = 0, last = 0;
  const std::optional<int64_t> before = GraphLaunches();
  for (uint32_t step = 0; step < 200; ++step) {
    INFO("step " << step);
    const Batch batch = RandomBatch(schema, 4, 10, step % 8);
    if (step >= kAlone) theirs.values = ours.values;
    theirs.Bind();
    const auto wanted =
        cpu->ComputeGradients(batch, step, ours.value_spans(), ours.gradient_spans());
    const auto got =
        cuda->ComputeGradients(batch, step, theirs.value_spans(), theirs.gradient_spans());
    INFO(wanted.status() << got.status());
    REQUIRE(wanted.ok());
    REQUIRE(got.ok());
    CHECK(*got == Approx(*wanted).epsilon(1e-4));
    (step == 0 ? first : last) = *wanted;
    ours.Descend(0.02f);
    theirs.Descend(0.02f);
  }
  CHECK(last < 0.7 * first);  // the model learns
  // A refusal would have been worked around more slowly, with a warning.
  CHECK(log.text() == "");
  // The steps are graphs from the third on, as for users.
  if (before.has_value()) CHECK(*GraphLaunches() - *before == 198);
}

}  // namespace
}  // namespace paracord
