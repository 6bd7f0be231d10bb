// Mixed policies and the job's precision round the operands of products as specified, and nothing
// else.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "keras/build.h"
#include "tensor/cpu/cpu_ops.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

// Returns a step's loss and gradients.
std::vector<float> Step(const json& model, const std::string& precision, const Batch& schema,
                        std::unique_ptr<Ops> ops = TestOps()) {
  Job job = JobFor(model, "mse");
  job.precision = precision;
  const auto program = BuildKerasProgram(job, schema, std::move(ops));
  INFO(program.status());
  REQUIRE(program.ok());
  Variables variables(**program);
  variables.Randomise(1);
  const auto loss = (*program)->ComputeGradients(
      RandomBatch(schema, 5, 0, 1), 1, variables.value_spans(), variables.gradient_spans());
  INFO(loss.status());
  REQUIRE(loss.ok());
  std::vector<float> all{static_cast<float>(*loss)};
  for (const auto& gradient : variables.gradients) {
    all.insert(all.end(), gradient.begin(), gradient.end());
  }
  return all;
}

// Returns the largest difference between two elements, as a share of the largest element.
double Apart(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  float furthest = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    furthest = std::max(furthest, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return static_cast<double>(furthest / largest);
}

TEST_CASE("a mixed policy is that of products where the device has them, in both dialects' words") {
  const auto model = [](const json& policy) {
    const auto dense = [&](int units, const char* name) {
      return LayerJson("Dense", {{"units", units}, {"name", name}, {"dtype", policy}});
    };
    return SequentialJson(
        {LayerJson(
             "Conv2D",
             {{"filters", 32}, {"kernel_size", {3, 3}}, {"padding", "same"}, {"dtype", policy}}),
         LayerJson(
             "Conv2D",
             {{"name", "again"}, {"filters", 32}, {"kernel_size", {3, 3}}, {"dtype", policy}}),
         LayerJson("Flatten", {{"dtype", policy}}), dense(96, "first"), dense(64, "last")});
  };
  const Batch schema = SchemaOf({6, 6, 32}, {64});
  const std::vector<float> exact = Step(model("float32"), "float32", schema);
  const bool on_cpu = TestOps()->host_memory();
  for (const char* name : {"mixed_bfloat16", "mixed_float16"}) {
    for (const json& policy :
         {json(name), json{{"class_name", "Policy"}, {"config", {{"name", name}}}},
          json{{"class_name", "DTypePolicy"}, {"config", {{"name", name}}}}}) {
      const double apart = Apart(Step(model(policy), "float32", schema), exact);
      CAPTURE(name, apart);
      const bool bfloat16 = std::string(name) == "mixed_bfloat16";
      CHECK(apart < (bfloat16 ? 0.03 : 0.004));
      // On a GPU without bfloat16 and TF32, float16 does not pay for small products.
      CHECK((apart > 1e-5) == (TestOps()->has_bfloat16() && (bfloat16 || !on_cpu)));
    }
  }
}

TEST_CASE("the job's precision is the policy of all layers but the last, unless they have one") {
  struct Case {
    const char *precision, *policy;
  };
  for (const auto& [precision, policy] :
       {Case{"bf16", "mixed_bfloat16"}, Case{"fp16", "mixed_float16"}}) {
    const auto model = [](const json& inner, const json& outer, const json& own) {
      const json lstm =
          LayerJson("LSTM", {{"units", 3}, {"return_sequences", true}, {"dtype", inner}});
      return SequentialJson(
          {LayerJson("Bidirectional", {{"layer", lstm}, {"dtype", outer}}),
           LayerJson("TimeDistributed",
                     {{"layer", LayerJson("Dense", {{"units", 4}, {"dtype", inner}})}}),
           LayerJson("Flatten", {{"dtype", outer}}),
           LayerJson("Dense", {{"units", 3}, {"name", "own"}, {"dtype", own}}),
           LayerJson("Dense", {{"units", 2}, {"name", "last"}, {"dtype", "float32"}})});
    };
    const json plain = {{"class_name", "DTypePolicy"}, {"config", {{"name", "float32"}}}};
    const Batch schema = SchemaOf({4, 2}, {2});
    json by_file = model(policy, policy, "mixed_bfloat16");
    by_file["config"]["layers"][1]["config"]["dtype"] = policy;
    const json by_job = model("float32", plain, "mixed_bfloat16");
    CHECK(Step(by_job, precision, schema) == Step(by_file, "float32", schema));
    if (!TestOps()->host_memory() && TestOps()->has_bfloat16()) {
      CHECK(Step(by_job, precision, schema) != Step(by_job, "float32", schema));
    }
    // TF32 exists on GPUs only, so the CPU computes in float32.
    CHECK(Step(by_job, "tf32", schema, MakeCpuOps(1)) ==
          Step(by_job, "float32", schema, MakeCpuOps(1)));
  }
}

// A recurrent layer rounds an operand of several products once per step.
TEST_CASE("recurrent layers of a mixed policy are near those without, batch after batch") {
  struct Case {
    const char* layer;
    json config;
  };
  for (const Case& one : std::vector<Case>{
           {"SimpleRNN", json::object()},
           {"SimpleRNN", {{"recurrent_dropout", 0.25}, {"return_sequences", true}}},
           {"LSTM", {{"return_sequences", true}}},
           {"LSTM", {{"go_backwards", true}, {"dropout", 0.25}, {"recurrent_dropout", 0.25}}},
           {"GRU", {{"return_sequences", true}}},
           {"GRU", {{"recurrent_dropout", 0.25}}},
           {"GRU", {{"reset_after", false}, {"recurrent_dropout", 0.25}}}}) {
    CAPTURE(one.layer, one.config);
    const auto gradients = [&](const char* policy) {
      json config = one.config;
      config.update({{"units", 32}, {"dtype", policy}});
      const json model =
          SequentialJson({LayerJson("Masking", {{"mask_value", 0}}), LayerJson(one.layer, config),
                          LayerJson("Flatten", json::object()),
                          LayerJson("Dense", {{"units", 2}, {"name", "last"}})});
      const Batch schema = SchemaOf({4, 32}, {2});
      const auto program = BuildKerasProgram(JobFor(model, "mse"), schema, TestOps());
      INFO(program.status());
      REQUIRE(program.ok());
      Variables variables(**program);
      variables.Randomise(1, 0.2f);
      std::vector<std::vector<float>> all;
      for (uint32_t batch = 1; batch < 4; ++batch) {
        REQUIRE((*program)
                    ->ComputeGradients(RandomBatch(schema, 16, 0, batch), batch,
                                       variables.value_spans(), variables.gradient_spans())
                    .ok());
        all.insert(all.end(), variables.gradients.begin(), variables.gradients.end());
      }
      return all;
    };
    const auto exact = gradients("float32"), rounded = gradients("mixed_bfloat16");
    REQUIRE(exact.size() == rounded.size());
    for (size_t i = 0; i < exact.size(); ++i) CHECK(Apart(rounded[i], exact[i]) < 0.03);
    CHECK((rounded != exact) == TestOps()->has_bfloat16());
  }
}

}  // namespace
}  // namespace paracord
