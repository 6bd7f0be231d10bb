// Mixed policies: what is rounded, and what is not.
#include <bit>
#include <catch2/catch.hpp>
#include <limits>

#include "tests/worker/model_testing.h"
#include "worker/ops/cpu/cpu_ops.h"

namespace paracord {
namespace {

using nlohmann::json;

float Rounded(Precision precision, float x) {
  MakeCpuOps(1)->Round(precision, 1, &x);
  return x;
}

TEST_CASE("numbers are rounded to the nearest of the type, ties to even") {
  const float kInf = std::numeric_limits<float>::infinity();
  CHECK(Rounded(Precision::kFloat32, 0.1f) == 0.1f);
  CHECK(Rounded(Precision::kBfloat16, 1.00390625f) == 1.f);        // 1 + 2^-8: a tie
  CHECK(Rounded(Precision::kBfloat16, 1.01171875f) == 1.015625f);  // 1 + 3 x 2^-8: a tie
  CHECK(Rounded(Precision::kBfloat16, 3.14159265f) == 3.140625f);
  CHECK(Rounded(Precision::kBfloat16, -3.4e38f) == -kInf);
  CHECK(Rounded(Precision::kFloat16, 3.14159265f) == 3.140625f);
  CHECK(Rounded(Precision::kFloat16, 1 + 1.f / 2048) == 1.f);
  CHECK(Rounded(Precision::kFloat16, 65519.f) == 65504.f);
  CHECK(Rounded(Precision::kFloat16, -65520.f) == -kInf);
  CHECK(Rounded(Precision::kFloat16, 5.9604645e-8f) == 5.9604645e-8f);  // the least
  CHECK(Rounded(Precision::kFloat16, 2.9e-8f) == 0.f);
  CHECK(Rounded(Precision::kFloat16Digits, 2.9e-20f) == Approx(2.9e-20).epsilon(1.0 / 2048));
  for (const Precision p : {Precision::kBfloat16, Precision::kFloat16, Precision::kFloat16Digits}) {
    CHECK(Rounded(p, kInf) == kInf);
    CHECK(std::isnan(Rounded(p, std::numeric_limits<float>::quiet_NaN())));
  }
}

TEST_CASE("a mixed policy rounds what layers give and their gradients, in both dialects' words") {
  const json policies[] = {
      "mixed_bfloat16",
      {{"class_name", "Policy"}, {"config", {{"name", "mixed_bfloat16"}}}},
      {{"class_name", "DTypePolicy"}, {"config", {{"name", "mixed_bfloat16"}}}}};
  for (const json& policy : policies) {
    const json model =
        SequentialJson({LayerJson("Dense", {{"units", 3}, {"dtype", policy}}),
                        LayerJson("Dense", {{"units", 2}, {"name", "last"}, {"dtype", policy}})});
    const Batch schema = SchemaOf({4}, {2});
    auto program = BuildKerasProgram(JobFor(model, "mse"), schema, TestOps());
    INFO(program.status());
    REQUIRE(program.ok());
    const Batch batch = RandomBatch(schema, 5, 0, 1);
    Variables variables(**program);
    variables.Randomise(1);
    const auto whole = [](float x) { return (std::bit_cast<uint32_t>(x) & 0xffff) == 0; };
    const auto outputs = (*program)->Predict(batch, variables.value_spans());
    REQUIRE(outputs.ok());
    for (const float x : (*outputs)[0].values) CHECK(whole(x));
    REQUIRE((*program)
                ->ComputeGradients(batch, 1, variables.value_spans(), variables.gradient_spans())
                .ok());
    for (const auto& gradient : variables.gradients) {
      for (const float x : gradient) CHECK(whole(x));
    }
  }
}

// A step's loss and gradients.
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
    CHECK(Step(by_job, precision, schema) != Step(by_job, "float32", schema));
    // A GPU's.
    CHECK(Step(by_job, "tf32", schema, MakeCpuOps(1)) ==
          Step(by_job, "float32", schema, MakeCpuOps(1)));
  }
}

}  // namespace
}  // namespace paracord
