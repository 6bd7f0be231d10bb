// The engine as a whole: its handling of errors, and of the requested precision.
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "common/metric.h"
#include "keras/build.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/cuda/cuda_ops.h"
#include "tests/cuda_host/host_runtime.h"
#include "tests/cuda_host/log_text.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

// A small model with all calls that can fail: copies, masks, and a convolution padded at one end.
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

const char* const kLoss = "sparse_categorical_crossentropy";

struct Outcome {
  bool trained = false;  // false: it failed before the first step
  absl::StatusOr<double> loss = absl::UnknownError("not run");
  absl::Status evaluated = absl::UnknownError("not run"), predicted = evaluated;
  double score = 0;  // the loss of the evaluation
  std::string wrong;
  int64_t calls = 0;
};

// Builds the small model, takes a step, evaluates and predicts. With `again`, does everything
// twice; unless the error is sticky, the second time must succeed.
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
  const auto program = BuildKerasProgram(JobFor(SmallModel(), kLoss), schema, *std::move(ops));
  if (!program.ok()) {
    outcome.loss = program.status();
    return outcome;
  }
  Variables variables(**program);
  variables.Randomise(3);
  for (size_t i = 0; i < variables.names.size(); ++i) {
    const bool variance = variables.names[i].find("moving_variance") != std::string::npos;
    for (float& x : variables.values[i]) x = variance ? 1.f : x;
  }
  const Batch batch = RandomBatch(schema, 4, 4, 5);
  outcome.trained = true;
  for (int run = 0; run < (again ? 2 : 1); ++run) {
    outcome.loss =
        (*program)->ComputeGradients(batch, 1, variables.value_spans(), variables.gradient_spans());
    std::vector<MetricState> states;
    outcome.evaluated = (*program)->Evaluate(batch, variables.value_spans(), states);
    if (outcome.evaluated.ok()) outcome.score = MetricValue(states.at(0));
    outcome.predicted = (*program)->Predict(batch, variables.value_spans()).status();
  }
  return outcome;
}

TEST_CASE("an error of any call is reported, and the next step is right") {
  const Outcome whole = Train({}, false);
  REQUIRE(whole.loss.ok());
  REQUIRE(whole.evaluated.ok());
  REQUIRE(whole.wrong.empty());
  REQUIRE(whole.calls > 100);
  int steps = 0, evaluations = 0, predictions = 0;  // numbers of failures
  for (int64_t call = 0; call < whole.calls; ++call) {
    INFO("call " << call);
    cuda::HostOptions options;
    options.fail_call = call;
    const Outcome once = Train(options, false);
    CHECK(once.wrong.empty());
    if (once.trained) {
      for (const absl::Status& status : {once.loss.status(), once.evaluated, once.predicted}) {
        if (!status.ok()) CHECK(status.message().find("failed as asked") != std::string::npos);
      }
      steps += once.loss.ok() ? 0 : 1;
      evaluations += once.evaluated.ok() ? 0 : 1;
      predictions += once.predicted.ok() ? 0 : 1;
      // Results without an error are right.
      if (once.loss.ok()) CHECK(*once.loss == Approx(*whole.loss).epsilon(1e-6));
      if (once.evaluated.ok()) CHECK(once.score == Approx(whole.score).epsilon(1e-6));
    }
    const Outcome later = Train(options, true);
    CHECK(later.wrong.empty());
    // A failed build or second run has reported an error.
    if (later.loss.ok()) CHECK(*later.loss == Approx(*whole.loss).epsilon(1e-6));
    if (later.evaluated.ok()) CHECK(later.score == Approx(whole.score).epsilon(1e-6));
  }
  CHECK(steps > 50);
  CHECK(evaluations > 20);
  CHECK(predictions > 20);
}

// The worker must end, whichever library noticed the loss first.
TEST_CASE("a device that is lost is known as that at once") {
  const Outcome whole = Train({}, false);
  int64_t steps = 0, evaluations = 0;
  for (int64_t call = 0; call < whole.calls; ++call) {
    INFO("call " << call);
    cuda::HostOptions options;
    options.fail_call = call;
    options.sticky = true;
    const Outcome lost = Train(options, false);
    CHECK(lost.wrong.empty());
    if (!lost.trained) continue;
    if (!lost.loss.ok()) CHECK(absl::IsDataLoss(lost.loss.status()));
    if (!lost.evaluated.ok()) CHECK(absl::IsDataLoss(lost.evaluated));
    if (!lost.predicted.ok()) CHECK(absl::IsDataLoss(lost.predicted));
    steps += lost.loss.ok() ? 0 : 1;
    evaluations += lost.evaluated.ok() ? 0 : 1;
    CHECK_FALSE(Train(options, true).loss.ok());
  }
  CHECK(steps > 50);
  CHECK(evaluations > steps + 20);
}

TEST_CASE("a model fits into exactly the memory that its plan needs") {
  cuda::HostOptions options;
  options.memory_bytes_max = 700;
  const Outcome refused = Train(options, false);
  const std::string text(refused.loss.status().message());
  INFO(text);
  REQUIRE(absl::IsResourceExhausted(refused.loss.status()));
  CHECK(text.find("layer \"conv2d\" (Conv2D): its output, 4 examples of shape (4, 4, 3): 768 "
                  "bytes") != std::string::npos);
  CHECK(text.find(" 700 of 700 are free") != std::string::npos);
  const size_t need = text.find("batches of 4 need ");
  REQUIRE(need != std::string::npos);
  const size_t bytes = std::stoul(text.substr(need + 18));

  options.code_bytes = 1;  // reserved for code that is loaded later
  options.memory_bytes_max = bytes;
  CHECK(absl::IsResourceExhausted(Train(options, false).loss.status()));
  options.memory_bytes_max = bytes + 1;
  CHECK(Train(options, true).loss.ok());
  options.code_bytes = 0;
  options.memory_bytes_max = bytes;
  const Outcome fits = Train(options, true);
  INFO(fits.loss.status());
  CHECK(fits.loss.ok());
  CHECK(fits.predicted.ok());
  CHECK(fits.wrong.empty());
  for (size_t less = bytes - 1; less > 0; less -= std::min<size_t>(less, 977)) {
    options.memory_bytes_max = less;
    const Outcome outcome = Train(options, false);
    CHECK(outcome.wrong.empty());
    CHECK_FALSE(outcome.trained);
    CHECK(absl::IsResourceExhausted(outcome.loss.status()));
  }
}

// Layers with scratch memory in proportion to the batch, and others.
nlohmann::json LayersWithMemory() {
  const nlohmann::json none = nlohmann::json::object();
  return SequentialJson(
      {LayerJson(
           "Conv2D",
           {{"filters", 4}, {"kernel_size", {3, 3}}, {"padding", "same"}, {"activation", "relu"}}),
       LayerJson("BatchNormalization", none), LayerJson("MaxPooling2D", {{"pool_size", {2, 2}}}),
       LayerJson("Reshape", {{"target_shape", {9, 4}}}),
       LayerJson("LSTM", {{"units", 5}, {"return_sequences", true}}),
       LayerJson("LayerNormalization", none), LayerJson("Flatten", none),
       LayerJson("Dropout", {{"rate", 0.25}}),
       LayerJson("Dense", {{"units", 4}, {"activation", "softmax"}})});
}

TEST_CASE("batches of every size have their place in the plan") {
  for (const auto& [accumulate, precision] :
       {std::pair(1u, "float32"), std::pair(3u, "float32"), std::pair(1u, "bf16")}) {
    const Batch schema = SchemaOf({6, 6, 2}, {});
    Job job = JobFor(LayersWithMemory(), kLoss, 8);
    job.accumulate = accumulate;
    job.precision = precision;
    const bool exact = job.precision == "float32";
    int mallocs = 0;
    size_t bytes = SIZE_MAX;
    const auto build = [&] {
      cuda::HostOptions options;
      options.memory_bytes_max = bytes;
      // With smaller batches, the fastest algorithms ask for more workspace.
      options.workspace = [](int64_t batch) { return static_cast<size_t>(4000 - 100 * batch); };
      options.called = [&mallocs](const char* name) {
        if (std::string(name) == "cudaMalloc") ++mallocs;
      };
      options.at_end = [](int64_t, const std::string& wrong) { CHECK(wrong.empty()); };
      return BuildKerasProgram(job, schema, cuda::MakeOps(cuda::MakeHostRuntime(options)).value());
    };
    bytes = 1;
    const std::string text(build().status().message());
    INFO(text);
    const size_t need = text.find(" need ");
    REQUIRE(need != std::string::npos);
    bytes = std::stoul(text.substr(need + 6));
    const auto program = build().value();
    job.precision = "float32";
    const auto cpu = BuildKerasProgram(job, schema, MakeCpuOps(1)).value();
    Variables variables(*program);
    variables.Initialise(3);
    mallocs = 0;
    const uint32_t sizes[] = {8, 3, 8, 8, 1, 7, 2, 8, 5, 4, 6, 1, 8, 3};
    for (uint32_t step = 0; step < std::size(sizes); ++step) {
      INFO("accumulate " << accumulate << " " << precision << " step " << step);
      const Batch batch = RandomBatch(schema, sizes[step], 4, step);
      const auto got = program->ComputeGradients(batch, step, variables.value_spans(),
                                                 variables.gradient_spans());
      INFO(got.status());
      REQUIRE(got.ok());
      Variables wanted(*cpu);
      const auto loss =
          cpu->ComputeGradients(batch, step, variables.value_spans(), wanted.gradient_spans());
      CHECK(*got == Approx(*loss).epsilon(exact ? 1e-4 : 0.02));
      for (size_t v = 0; exact && v < wanted.gradients.size(); ++v) {
        for (size_t i = 0; i < wanted.gradients[v].size(); ++i) {
          REQUIRE(variables.gradients[v][i] ==
                  Approx(wanted.gradients[v][i]).epsilon(1e-4).margin(1e-5));
        }
      }
      std::vector<MetricState> states;
      CHECK(program->Evaluate(batch, variables.value_spans(), states).ok());
    }
    CHECK(mallocs == 0);
  }
}

// There are 2^31 elements and more; the twin refuses what cuDNN refuses.
TEST_CASE("what cuDNN's descriptors cannot hold goes to our own bodies") {
  std::set<std::string> called;
  cuda::HostOptions options;
  options.called = [&called](const char* name) { called.insert(name); };
  const auto ops = cuda::MakeOps(cuda::MakeHostRuntime(std::move(options))).value();
  ops->Enter();
  ops->BeginPlan();
  ConvShape s;
  s.batch = 1 << 20;
  s.in_channels = 1;
  s.out_channels = 64;
  s.height = s.width = {.in = 6, .out = 6, .size = 3, .pad_before = 1, .pad_after = 1};
  CHECK(ops->MakeConv2D(s).ok());  // 2.4e9 outputs
  CHECK(called.count("cudnnBackendFinalize") == 0);
  s.batch = 1 << 19;
  CHECK(ops->MakeConv2D(s).ok());
  CHECK(called.count("cudnnBackendFinalize") == 1);
  MemoryPlan plan;
  CHECK(ops->EndPlan(plan).ok());
  CHECK(ops->Finish().ok());
}

TEST_CASE("a convolution that cuDNN has no engine for is a line of the log, once") {
  const LogText log;
  for (const bool convolutions : {true, false}) {
    cuda::HostOptions options;
    options.convolutions = convolutions;
    const Outcome outcome = Train(std::move(options), true);
    CHECK(outcome.loss.ok());
    CHECK(log.lines() == (convolutions ? 0 : 1));
  }
  CHECK(log.text().find("a convolution of 2 to 3 channels by 3x3 is computed without cuDNN") !=
        std::string::npos);
}

// On a lost device cuDNN may only report that no engine is found.
TEST_CASE("a convolution that cuDNN refuses because the device is lost says that it is lost") {
  ConvShape s;
  s.batch = s.in_channels = s.out_channels = 1;
  s.height = s.width = {.in = 4, .out = 2, .size = 3};
  const auto make = [&](int64_t fail_call) {
    int64_t calls = 0, asked = 0;
    cuda::HostOptions options;
    options.convolutions = false;
    options.fail_call = fail_call;
    options.sticky = true;
    options.called = [&](const char* name) {
      if (std::string(name) == "cudnnBackendFinalize") asked = calls;
      ++calls;
    };
    const auto ops = cuda::MakeOps(cuda::MakeHostRuntime(std::move(options))).value();
    ops->Enter();
    return std::make_pair(ops->MakeConv2D(s).status(), asked);
  };
  const LogText log;
  const auto [made, asked] = make(-1);
  CHECK(made.ok());
  CHECK(log.lines() == 1);
  CHECK(absl::IsDataLoss(make(asked).first));
  CHECK(log.lines() == 1);
}

// A set of directions, one bit for each.
cuda::Directions DirectionsOf(int bits) {
  return {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) == 0};
}

// Checks that the loss is right although cuDNN does not compute every direction of a convolution.
void CheckTrains(cuda::HostOptions options) {
  static const double wanted = *Train({}, true).loss;
  const Outcome outcome = Train(std::move(options), true);
  INFO(outcome.loss.status());
  REQUIRE(outcome.loss.ok());
  CHECK(*outcome.loss == Approx(wanted).epsilon(1e-5));
  CHECK(outcome.wrong.empty());
}

TEST_CASE("a direction of a convolution that cuDNN has no engine for is computed without it") {
  for (int directions : {0, 1, 2, 3, 4, 5, 6, 8 + 1, 8 + 6}) {  // not all combinations
    const LogText log;
    cuda::HostOptions options;
    options.directions = DirectionsOf(directions);
    std::set<std::string> called;
    options.called = [&](const char* name) { called.insert(name); };
    CheckTrains(std::move(options));
    CHECK(log.lines() == 1);
    CHECK(called.count("cudnnConvolutionForward") == ((directions & 1) != 0 ? 1 : 0));
    CHECK(called.count("cudnnConvolutionBackwardFilter") == ((directions & 4) != 0 ? 1 : 0));
    CHECK((log.text().find("(output") != std::string::npos) == ((directions & 1) == 0));
  }
}

TEST_CASE("a direction that cuDNN refuses when it is to compute it is computed without it") {
  for (int computed = 0; computed < 7; ++computed) {  // not all combinations
    const LogText log;
    cuda::HostOptions options;
    options.computes = DirectionsOf(computed);
    CheckTrains(std::move(options));
    const bool refused = (computed & 5) != 5;  // the gradient of the model's input is not used
    CHECK(log.lines() == (refused ? 1 : 0));
    CHECK((log.text().find("not of this size") != std::string::npos) == refused);
  }
}

// On a GPU cuBLAS chooses how small products are computed.
TEST_CASE("where short operands are allowed, products take 11 bits of them") {
  const float a[] = {1 + 1.f / 4096, 3}, b[] = {1, 1 / 1024.f};
  for (const Operands operands : {Operands::kFloat32, Operands::kTf32, Operands::kFloat32}) {
    const bool allow = operands == Operands::kTf32;
    const auto ops = TestOps();
    ops->Enter();
    const auto device = [&](const float* values, int64_t n) {
      DeviceArray array = ops->Allocate(n).value();
      if (values != nullptr) ops->Upload(n, values, array.get());
      return array;
    };
    const DeviceArray x = device(a, 2), y = device(b, 2), c = device(nullptr, 1);
    MatmulShape shape;
    shape.m = shape.n = 1;
    shape.k = 2;
    ops->AllowOperands(operands);
    const auto matmul = ops->MakeMatmul(shape).value();
    // Affects only products made later.
    ops->AllowOperands(allow ? Operands::kFloat32 : Operands::kTf32);
    matmul->Run(x.get(), y.get(), nullptr, c.get());
    float result = 0;
    ops->Download(1, c.get(), &result);
    REQUIRE(ops->Finish().ok());
    CHECK(result == (allow ? 1.f : a[0]) + 3 / 1024.f);
  }
}

// 1 + 2^-10 rounds to 1 in bfloat16 and is kept by TF32.
TEST_CASE(
    "products take bfloat16 where an operand is that already, or where rounding is worth it") {
  struct Case {
    int64_t side;
    bool given, bfloat16, taken;
  };
  for (const auto& [side, given, bfloat16, taken] : {Case{8, false, true, false},
                                                     {8, true, true, true},
                                                     {1024, false, true, true},
                                                     {8, true, false, false},
                                                     {1024, false, false, false}}) {
    CAPTURE(side, given, bfloat16);
    cuda::HostOptions options;
    options.bfloat16 = bfloat16;
    const auto ops = cuda::MakeOps(cuda::MakeHostRuntime(std::move(options))).value();
    ops->Enter();
    CHECK(ops->has_bfloat16() == bfloat16);
    MatmulShape shape;
    shape.m = shape.n = side;
    shape.k = 2;
    const int64_t n = side * shape.k;
    const DeviceArray a = ops->Allocate(n).value(), b = ops->Allocate(n).value();
    const DeviceArray c = ops->Allocate(side * side).value(), half = ops->Allocate(n).value();
    auto* const rounded = reinterpret_cast<uint16_t*>(half.get());
    ops->Fill(n, 1 + 1.f / 1024, a.get());
    ops->Fill(n, 1, b.get());
    ops->Convert(n, b.get(), Tensor(rounded));
    ops->AllowOperands(Operands::kBfloat16);
    const auto product = ops->MakeMatmul(shape).value();
    product->Run(a.get(), {b.get(), given ? rounded : nullptr}, nullptr, c.get());
    std::vector<float> result(static_cast<size_t>(side * side));
    ops->Download(side * side, c.get(), result.data());
    REQUIRE(ops->Finish().ok());
    CHECK(result.front() == (taken ? 2.f : 2 + 2.f / 1024));
    CHECK(result.back() == result.front());
  }
}

TEST_CASE("on GPUs without TF32 products take float16 where it is worth it, else all bits") {
  constexpr float kLong = 1 + 1.f / 4096;  // 13 bits
  for (const auto& [side, taken] : {std::pair(300, false), std::pair(320, true)}) {
    cuda::HostOptions options;
    options.bfloat16 = false;
    const auto ops = cuda::MakeOps(cuda::MakeHostRuntime(std::move(options))).value();
    ops->Enter();
    const DeviceArray a = ops->Allocate(side).value(), c = ops->Allocate(side * side).value();
    ops->Fill(side, kLong, a.get());
    ops->AllowOperands(Operands::kFloat16);
    const auto product = ops->MakeMatmul({.m = side, .k = 1, .n = side}).value();
    product->Run(a.get(), a.get(), nullptr, c.get());
    std::vector<float> result(static_cast<size_t>(side * side));
    ops->Download(side * side, c.get(), result.data());
    REQUIRE(ops->Finish().ok());
    CHECK(result.front() == (taken ? 1.f : kLong * kLong));
    CHECK(result.back() == result.front());
  }
}

TEST_CASE("the job's precision reaches the products of the device") {
  const nlohmann::json model =
      SequentialJson({LayerJson("Dense", {{"units", 8}, {"activation", "relu"}}),
                      LayerJson("Dense", {{"units", 4}})});
  const Batch schema = SchemaOf({6}, {4});
  const auto loss = [&](const std::string& precision, std::unique_ptr<Ops> ops) {
    Job job = JobFor(model, "mse", 8);
    job.precision = precision;
    const auto program = BuildKerasProgram(job, schema, std::move(ops)).value();
    Variables variables(*program);
    variables.Randomise(3);
    return program
        ->ComputeGradients(RandomBatch(schema, 8, 0, 1), 1, variables.value_spans(),
                           variables.gradient_spans())
        .value();
  };
  const double exact = loss("float32", MakeCpuOps(1));
  CHECK(loss("float32", TestOps()) == Approx(exact).epsilon(1e-6));
  CHECK(loss("tf32", TestOps()) != Approx(exact).epsilon(1e-6));
  CHECK(loss("tf32", TestOps()) == Approx(exact).epsilon(5e-3));
  for (const char* mixed : {"bf16", "fp16"}) {
    CHECK(loss(mixed, TestOps()) != Approx(exact).epsilon(1e-6));
    CHECK(loss(mixed, TestOps()) == Approx(exact).epsilon(1e-2));
  }
}

}  // namespace
}  // namespace paracord
