// Programs for --device where a GPU exists and some part of it fails.
#include "keras/device_program.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "keras/build.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/cuda/cuda_ops.h"
#include "tests/cuda_host/host_runtime.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using Floats = std::vector<float>;

constexpr char kAsked[] = "failed as asked";
constexpr char kOnTheCpu[] = "computing on the CPU: ";

nlohmann::json DeviceModel() {
  return SequentialJson({LayerJson("Dense", {{"units", 30}, {"activation", "tanh"}}),
                         LayerJson("Dense", {{"units", 10}})});
}

const Batch& Schema() {
  static const Batch schema = SchemaOf({20}, {10});
  return schema;
}

// Makes the CUDA engine on the processor for cuda:0.
MakeOpsFn Makes(const cuda::HostOptions& options) {
  return [options](const std::string& device, int threads) -> absl::StatusOr<std::unique_ptr<Ops>> {
    if (device == "cpu") return MakeCpuOps(threads);
    CHECK(device == "cuda:0");
    return cuda::MakeOps(cuda::MakeHostRuntime(options));
  };
}

absl::StatusOr<DeviceProgram> Build(const Job& job, const cuda::HostOptions& options,
                                    bool automatic) {
  return BuildOnDevice(job, Schema(), {"cuda:0", automatic, 1}, Makes(options));
}

Floats Gradients(GradientProgram& program) {
  Variables variables(program);
  variables.Randomise(3);
  const auto loss = program.ComputeGradients(RandomBatch(Schema(), 4, 0, 1), 1,
                                             variables.value_spans(), variables.gradient_spans());
  INFO(loss.status());
  REQUIRE(loss.ok());
  Floats all{static_cast<float>(*loss)};
  for (const Floats& g : variables.gradients) all.insert(all.end(), g.begin(), g.end());
  return all;
}

bool IsLine(const std::string& text) { return text.find('\n') == std::string::npos; }

TEST_CASE("a device that less precision brings nothing to says so, and computes in float32") {
  Job job = JobFor(DeviceModel(), "mse", 4);
  const Floats exact = Gradients(*BuildKerasProgram(job, Schema(), MakeCpuOps(1)).value());
  for (const bool bfloat16 : {true, false}) {
    for (const char* precision : {"bf16", "fp16", "float32"}) {
      CAPTURE(bfloat16, precision);
      job.precision = precision;
      cuda::HostOptions options;
      options.bfloat16 = bfloat16;
      const auto built = Build(job, options, false);
      REQUIRE(built.ok());
      CHECK(Gradients(*built->program)[0] == Approx(exact[0]).epsilon(0.01));
      const auto says = [](const GradientProgram& program) {
        return absl::StrContains(program.Memory(), "; it computes in float32: ");
      };
      CHECK(says(*built->program) == (job.precision == "bf16" && !bfloat16));
      const auto cpu = BuildKerasProgram(job, Schema(), MakeCpuOps(1)).value();
      const bool amx = MakeCpuOps(1)->has_bfloat16();
      CHECK(says(*cpu) == (job.precision == "fp16" || (job.precision == "bf16" && !amx)));
    }
  }
}

// Float16 without scaling would turn these numbers into 0: the smallest is 6e-8.
void CheckTinyNumbers(const nlohmann::json& model, const Batch& schema, uint32_t examples) {
  Batch batch = RandomBatch(schema, examples, 0, 1);
  for (float& x : batch.inputs[0].values) x *= 1e-7f;
  for (float& y : batch.targets[0].values) y *= 1e-7f;
  const Job job = JobFor(model, "mse", examples);
  const auto step = [&](GradientProgram& program) {
    Variables variables(program);
    variables.Randomise(3);
    for (const size_t bias : {1u, 3u}) {
      std::fill(variables.values[bias].begin(), variables.values[bias].end(), 0.f);
    }
    const auto loss =
        program.ComputeGradients(batch, 1, variables.value_spans(), variables.gradient_spans());
    INFO(loss.status());
    REQUIRE(loss.ok());
    return variables.gradients;
  };
  cuda::HostOptions options;
  options.bfloat16 = false;
  const auto wanted = step(*BuildKerasProgram(job, schema, MakeCpuOps(1)).value());
  const auto got = step(*BuildOnDevice(job, schema, {"cuda:0", false, 1}, Makes(options))->program);
  for (size_t v = 0; v < wanted.size(); ++v) {
    const float largest = *std::max_element(wanted[v].begin(), wanted[v].end());
    CAPTURE(v, largest);
    CHECK(largest > 0);
    for (size_t i = 0; i < wanted[v].size(); ++i) {
      if (!(std::abs(got[v][i] - wanted[v][i]) < 2e-3f * largest)) FAIL_CHECK(got[v][i]);
    }
    CHECK(got[v] != wanted[v]);
  }
}

TEST_CASE("in float16 a step of tiny numbers has its gradients, in the memory that was planned") {
  constexpr int64_t kSide = 400, kChannels = 64;  // large enough that rounding pays
  const auto layer = [](const char* kind, nlohmann::json config) {
    config["dtype"] = "mixed_float16";
    return LayerJson(kind, config);
  };
  CheckTinyNumbers(SequentialJson({layer("Dense", {{"units", kSide}, {"activation", "tanh"}}),
                                   layer("Dense", {{"units", kSide}})}),
                   SchemaOf({4}, {kSide}), 400);
  const nlohmann::json filters = {
      {"filters", kChannels}, {"kernel_size", {3, 3}}, {"padding", "same"}};
  nlohmann::json first = filters;
  first["activation"] = "tanh";
  CheckTinyNumbers(SequentialJson({layer("Conv2D", first), layer("Conv2D", filters)}),
                   SchemaOf({8, 8, kChannels}, {8, 8, kChannels}), 6);
}

TEST_CASE("whatever of a GPU fails at the start, auto computes on the CPU and says why in a line") {
  const Job job = JobFor(DeviceModel(), "mse", 4);
  const Floats wanted = Gradients(*BuildKerasProgram(job, Schema(), MakeCpuOps(1)).value());
  int64_t calls = 0;
  std::string wrong;
  cuda::HostOptions options;
  options.at_end = [&](int64_t all, const std::string& what) {
    calls = all;
    wrong += what;
  };
  {
    const auto whole = Build(job, options, true);
    REQUIRE(whole.ok());
    CHECK(whole->device == "cuda:0");
    CHECK(whole->note.empty());
    CHECK_FALSE(whole->program->host_memory());
  }
  const int64_t all = calls;
  int fell = 0;
  for (const bool sticky : {false, true}) {
    for (int64_t call = 0; call < all; ++call) {
      INFO("call " << call << (sticky ? ", sticky" : ""));
      options.fail_call = call;
      options.sticky = sticky;
      const auto named = Build(job, options, false);
      const auto built = Build(job, options, true);
      REQUIRE(built.ok());
      CHECK(named.ok() == (built->device == "cuda:0"));
      CHECK(named.ok() == built->note.empty());
      if (named.ok()) continue;
      ++fell;
      CHECK(built->device == "cpu");
      CHECK(built->note == kOnTheCpu + std::string(named.status().message()));
      CHECK(built->note.find(kAsked) != std::string::npos);
      CHECK(IsLine(built->note));
      CHECK(Gradients(*built->program) == wanted);
    }
  }
  CHECK(fell > 10);
  CHECK(wrong == "");
}

TEST_CASE(
    "a model that a GPU has no memory for is computed by auto alone, and both say the sizes") {
  const Job job = JobFor(DeviceModel(), "mse", 4);
  cuda::HostOptions options;
  options.memory_bytes_max = 1000;
  const auto named = Build(job, options, false);
  CHECK(absl::IsResourceExhausted(named.status()));
  const std::string why(named.status().message());
  INFO(why);
  CHECK(why.find("1000 are free") != std::string::npos);
  const auto built = Build(job, options, true);
  REQUIRE(built.ok());
  CHECK(built->device == "cpu");
  CHECK(built->program->host_memory());
  CHECK(built->note == kOnTheCpu + why);
  CHECK(IsLine(built->note));
}

TEST_CASE("what is wrong with a model is an error on every device") {
  const Job job = JobFor(SequentialJson({LayerJson("Dense", {{"units", 3}})}), "mse", 4);
  const std::string wanted(
      BuildKerasProgram(job, Schema(), MakeCpuOps(1)).status().message());  // 3 do not match 10
  REQUIRE_FALSE(wanted.empty());
  for (const bool automatic : {false, true}) {
    CHECK(Build(job, {}, automatic).status().message() == wanted);
  }
}

TEST_CASE("operations that cannot be made name the device, and the CPU has no way back") {
  const Job job = JobFor(DeviceModel(), "mse", 4);
  const MakeOpsFn none = [](const std::string& device, int) {
    return absl::FailedPreconditionError("no " + device + " today");
  };
  for (const char* device : {"cuda:1", "cpu"}) {
    const auto built = BuildOnDevice(job, Schema(), {device, false, 1}, none);
    CHECK(built.status().message() ==
          std::string(device) + " cannot be used: no " + device + " today");
  }
  CHECK(BuildOnDevice(job, Schema(), {"cuda:1", true, 1}, none).status().message() ==
        "cpu cannot be used: no cpu today");
  CHECK_FALSE(BuildOnDevice(job, Schema(), {"cpu", true, 1}, none).ok());
}

}  // namespace
}  // namespace paracord
