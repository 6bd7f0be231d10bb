// The same training as on the CPU.
#include <catch2/catch.hpp>

#include "tests/worker/model_testing.h"
#include "worker/ops/cpu/cpu_ops.h"

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

}  // namespace
}  // namespace paracord
