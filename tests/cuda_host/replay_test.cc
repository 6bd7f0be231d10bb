// Repeated steps are launched as one graph.
#include "tensor/cuda/replay.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "keras/build.h"
#include "tensor/cuda/bodies.h"
#include "tensor/cuda/cuda_ops.h"
#include "tests/cuda_host/host_runtime.h"
#include "tests/cuda_host/log_text.h"
#include "tests/cuda_host/page_floats.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using Floats = std::vector<float>;

// A model with everything that varies between steps: the batch, random numbers of dropout, noise
// and image movements, and the parameters.
nlohmann::json Model() {
  return SequentialJson(
      {LayerJson("RandomRotation", {{"factor", 0.3}}),
       LayerJson("RandomContrast", {{"factor", 0.3}}),
       LayerJson("Conv2D", {{"filters", 3}, {"kernel_size", {3, 3}}, {"activation", "relu"}}),
       LayerJson("Flatten", nlohmann::json::object()),
       LayerJson("GaussianNoise", {{"stddev", 0.2}}), LayerJson("Dropout", {{"rate", 0.3}}),
       LayerJson("BatchNormalization", nlohmann::json::object()),
       LayerJson("Dense", {{"units", 4}, {"activation", "softmax"}})});
}

struct Training {
  explicit Training(cuda::HostOptions options = {}, bool graphs = true) {
    options.at_end = [this](int64_t all, const std::string& what) {
      count = all;
      wrong = what;
    };
    options.called = [this](const char* name) {
      ++calls[name];
      names.emplace_back(name);
    };
    auto ops = cuda::MakeOps(cuda::MakeHostRuntime(std::move(options)), graphs);
    if (!ops.ok()) return;
    raw = ops->get();
    auto built = BuildKerasProgram(JobFor(Model(), "sparse_categorical_crossentropy"), schema,
                                   *std::move(ops));
    if (!built.ok()) return;
    program = *std::move(built);
    variables.emplace(*program);
    variables->Randomise(3);
    for (size_t i = 0; i < variables->names.size(); ++i) {
      const bool variance = variables->names[i].find("moving_variance") != std::string::npos;
      for (float& x : variables->values[i]) x = variance ? 1.f : x;
    }
    variables->Bind();
  }
  // Loss and gradients of step `step`; empty after an error.
  Floats Step(uint32_t step, uint32_t examples = 4) {
    calls.clear();
    const auto loss =
        program->ComputeGradients(RandomBatch(schema, examples, 4, step), step,
                                  variables->value_spans(), variables->gradient_spans());
    if (!loss.ok()) return {};
    variables->Descend(0.05f);
    for (size_t i = 0; i < variables->names.size(); ++i) {
      const bool moving = program->variables()[i].moving_average() > 0;
      if (moving)
        std::copy_n(variables->gradients[i].begin(), variables->values[i].size(),
                    variables->values[i].begin());
    }
    Floats all{static_cast<float>(*loss)};
    for (const Floats& g : variables->gradients) all.insert(all.end(), g.begin(), g.end());
    return all;
  }
  bool Launched() { return calls["cudaGraphLaunch"] > 0; }

  const Batch schema = SchemaOf({6, 6, 2}, {});
  std::map<std::string, int> calls;  // calls of the last step
  std::vector<std::string> names;    // names of all calls
  int64_t count = 0;
  std::string wrong;
  Ops* raw = nullptr;
  std::unique_ptr<GradientProgram> program;
  std::optional<Variables> variables;
};

TEST_CASE("from the third time on a step is one launch, and has the numbers of its own") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    cuda::HostOptions options;
    options.seed = seed;
    Training graphs(std::move(options)), plain({}, /*graphs=*/false);
    for (uint32_t step = 0; step < 8; ++step) {
      INFO("seed " << seed << " step " << step);
      const Floats got = graphs.Step(step);
      REQUIRE_FALSE(got.empty());
      CHECK(got == plain.Step(step));
      CHECK(graphs.Launched() == (step >= 2));
      if (step >= 2) {
        CHECK(graphs.calls["cudaLaunchKernel"] == 0);
        CHECK(graphs.calls["cudaMemcpyAsync"] == 0);
        CHECK(graphs.calls["cudaEventRecord"] == 0);
      }
      CHECK(plain.calls["cudaLaunchKernel"] > 10);
      CHECK_FALSE(plain.Launched());
    }
    graphs.program.reset();
    CHECK(graphs.wrong.empty());
  }
}

TEST_CASE("batch sizes and evaluations in between take their own way") {
  Training graphs, plain({}, /*graphs=*/false);
  const std::vector<uint32_t> sizes = {4, 4, 4, 3, 4, 3, 3, 4, 3, 4, 3};
  std::vector<MetricState> states, plain_states;
  for (uint32_t step = 0; step < sizes.size(); ++step) {
    INFO("step " << step);
    CHECK(graphs.Step(step, sizes[step]) == plain.Step(step, sizes[step]));
    if (step >= 7) CHECK(graphs.Launched());
    const Batch batch = RandomBatch(graphs.schema, 4, 4, 50);
    CHECK(graphs.program->Evaluate(batch, graphs.variables->value_spans(), states).ok());
    CHECK(plain.program->Evaluate(batch, plain.variables->value_spans(), plain_states).ok());
    CHECK(states[0].values(0) == plain_states[0].values(0));
  }
  graphs.program.reset();
  CHECK(graphs.wrong.empty());
}

TEST_CASE("where nothing can be captured or page-locked, steps are done as before") {
  for (const bool page_locked : {false, true}) {
    cuda::HostOptions options;
    options.graphs = false;
    options.page_locks = page_locked;
    const LogText log;
    Training graphs(std::move(options)), plain({}, /*graphs=*/false);
    int captures = 0;
    for (uint32_t step = 0; step < 8; ++step) {
      CHECK(graphs.Step(step) == plain.Step(step));
      CHECK_FALSE(graphs.Launched());
      captures += graphs.calls["cudaStreamBeginCapture"];
    }
    CHECK(captures == (page_locked ? 1 : 0));  // and it is not tried forever
    CHECK(log.lines() == captures);
  }
}

TEST_CASE("a graph that is not made or does not start costs a line of the log, and no step") {
  Training whole;
  std::vector<Floats> wanted;
  for (uint32_t step = 0; step < 7; ++step) wanted.push_back(whole.Step(step));
  for (const char* const name :
       {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphLaunch"}) {
    const auto first = std::find(whole.names.begin(), whole.names.end(), name);
    REQUIRE(first != whole.names.end());
    cuda::HostOptions options;
    options.fail_call = first - whole.names.begin();
    const LogText log;
    Training training(std::move(options));
    for (uint32_t step = 0; step < 7; ++step) {
      INFO(name << " step " << step);
      CHECK(training.Step(step) == wanted[step]);
    }
    CHECK(log.lines() == 1);
    CHECK(log.text().find(name) != std::string::npos);
    // A step that cannot be captured is not tried again. A lost launch is.
    CHECK(training.Launched() == (std::string(name) == "cudaGraphLaunch"));
  }
}

TEST_CASE("parameters and gradients in page-locked memory that takes turns are right in graphs") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    cuda::HostOptions options;
    options.seed = seed;
    Training graphs(std::move(options)), plain({}, /*graphs=*/false);
    std::vector<PageFloats> buffers[2];
    for (auto& side : buffers) {
      for (const Floats& value : graphs.variables->values) {
        PageFloats& memory = side.emplace_back(2 * value.size());
        graphs.raw->PageLock(memory.data(), memory.size() * sizeof(float));
      }
    }
    int launched = 0;
    for (uint32_t step = 0; step < 10; ++step) {
      std::vector<std::span<const float>> values;
      std::vector<std::span<float>> gradients;
      for (size_t i = 0; i < graphs.variables->values.size(); ++i) {
        const size_t n = graphs.variables->values[i].size();
        const std::span<float> memory(buffers[step % 2][i]);
        std::copy_n(plain.variables->values[i].begin(), n, memory.begin());
        values.push_back(memory.first(n));
        gradients.push_back(memory.subspan(n, graphs.variables->gradients[i].size()));
      }
      graphs.calls.clear();
      const auto loss = graphs.program->ComputeGradients(RandomBatch(graphs.schema, 4, 4, step),
                                                         step, values, gradients);
      REQUIRE(loss.ok());
      launched += graphs.Launched() ? 1 : 0;
      Floats got{static_cast<float>(*loss)};
      for (const auto& g : gradients) got.insert(got.end(), g.begin(), g.end());
      CHECK(got == plain.Step(step));
    }
    CHECK(launched == 6);  // each side from its third time on
    graphs.program.reset();
    CHECK(graphs.wrong.empty());
  }
}

TEST_CASE("what is traced is not a graph") {
  Training graphs, plain({}, /*graphs=*/false);
  for (uint32_t step = 0; step < 9; ++step) {
    const bool traced = step >= 4 && step < 7;
    (void)graphs.raw->TakeSpans(traced);
    // The program takes the spans too and reports that no trace is on, so recording restarts.
    CHECK(graphs.Step(step) == plain.Step(step));
    CHECK(graphs.Launched() == (step >= 2 && !traced));
  }
}

TEST_CASE("an error of any call of steps in graphs is reported, and later steps are right") {
  Training whole;
  std::vector<Floats> wanted;
  for (uint32_t step = 0; step < 5; ++step) wanted.push_back(whole.Step(step));
  whole.program.reset();
  REQUIRE(whole.wrong.empty());
  const LogText log;
  int reported = 0;
  for (int64_t call = 0; call < whole.count; call += 3) {
    INFO("call " << call);
    cuda::HostOptions options;
    options.fail_call = call;
    Training training(std::move(options));
    if (training.program == nullptr) continue;
    for (uint32_t step = 0; step < 5; ++step) {
      Floats got = training.Step(step);
      if (got.empty()) {
        ++reported;
        got = training.Step(step);  // like the trainer
      }
      for (size_t i = 0; i < wanted[step].size(); ++i) {
        REQUIRE(got[i] == Approx(wanted[step][i]).epsilon(1e-6).margin(1e-7));
      }
    }
    training.program.reset();
    CHECK(training.wrong.empty());
  }
  CHECK(reported > 50);
}

// The Runtime with Replay, without an engine.
struct ReplayTable {
  explicit ReplayTable(cuda::HostOptions options = {}) {
    options.called = [this](const char* name) {
      ++calls[name];
      names.emplace_back(name);
    };
    runtime = cuda::MakeReplay(cuda::MakeHostRuntime(std::move(options)));
    stream = runtime->CreateStream().value();
    device = static_cast<float*>(runtime->Malloc(kFloats * 4).value());
  }
  void Fill(float value, int64_t n) {
    // Static, so that padding is zero and equal arguments have equal bytes.
    static cuda::MapArgs<cuda::FillBody> args;
    args.body.value = value;
    args.body.y = device;
    args.n = n;
    REQUIRE(runtime
                ->Launch({"fill", cuda::MapKernel<cuda::FillBody>(), &args, sizeof(args), 1, 1,
                          cuda::kThreads},
                         stream)
                .ok());
  }
  void Maps(int count, float first = 0) {
    for (int i = 0; i < count; ++i) Fill(first + static_cast<float>(i), 8);
  }
  int Launches() { return calls["cudaGraphLaunch"]; }
  float Value() {
    float value = 0;
    REQUIRE(runtime->Copy(cuda::CopyKind::kToHost, device, &value, 4, stream).ok());
    REQUIRE(runtime->Synchronize(stream).ok());
    return value;
  }
  static constexpr size_t kFloats = 5 << 20;
  std::map<std::string, int> calls;
  std::vector<std::string> names;  // names of all calls
  std::unique_ptr<cuda::Runtime> runtime;
  cuda::Stream stream = nullptr;
  float* device = nullptr;
};

TEST_CASE("a step that goes another way is done as far as it came, and then as asked") {
  ReplayTable table;
  for (int step = 0; step < 3; ++step) {
    table.Maps(10);
    REQUIRE(table.runtime->Synchronize(table.stream).ok());
  }
  CHECK(table.Launches() == 1);
  table.Maps(9);  // shorter
  REQUIRE(table.runtime->Synchronize(table.stream).ok());
  CHECK(table.Value() == 8);
  table.Maps(12);  // longer
  REQUIRE(table.runtime->Synchronize(table.stream).ok());
  CHECK(table.Value() == 11);
  table.Maps(5);  // a different call in the middle
  table.Maps(5, 100);
  REQUIRE(table.runtime->Synchronize(table.stream).ok());
  CHECK(table.Value() == 104);
  CHECK(table.Launches() == 1);
  table.Maps(10);
  REQUIRE(table.runtime->Synchronize(table.stream).ok());
  CHECK(table.Launches() == 2);
  CHECK(table.Value() == 9);
}

TEST_CASE("graphs go with memory that they may be about") {
  ReplayTable table;
  const auto step = [&] {
    const int before = table.Launches();
    table.Maps(10);
    REQUIRE(table.runtime->Synchronize(table.stream).ok());
    return table.Launches() > before;
  };
  for (const bool expected : {false, false, true, true}) CHECK(step() == expected);
  void* const memory = table.runtime->Malloc(100).value();
  CHECK(step());
  REQUIRE(table.runtime->Free(memory).ok());
  for (const bool expected : {false, false, true}) CHECK(step() == expected);
  void* const host = table.runtime->AllocateHost(100).value();
  table.Maps(5);  // in the middle of a step
  REQUIRE(table.runtime->FreeHost(host).ok());
  table.Maps(5, 5);
  CHECK(table.Value() == 9);
  for (const bool expected : {false, false, true}) CHECK(step() == expected);
}

TEST_CASE("a convolution may go while its calls are only compared so far") {
  constexpr char kCall[] = "cudnnConvolutionForward";
  const auto steps = [&](int64_t fail_call, bool goes, std::vector<std::string>* names) {
    cuda::HostOptions options;
    options.fail_call = fail_call;
    ReplayTable table(std::move(options));
    table.Fill(1, 300);
    ConvShape shape{.batch = 1, .in_channels = 1, .out_channels = 1};
    shape.height = shape.width = {.in = 2, .out = 2};
    auto convolution = table.runtime->MakeConvolution({.shape = shape});
    REQUIRE(convolution.ok());
    float* const at = table.device;
    const auto forward = [&] {
      return (*convolution)->Forward(at, at + 16, nullptr, at + 32, at + 48, table.stream);
    };
    for (int step = 0; step < 2; ++step) {
      REQUIRE(table.runtime->Synchronize(table.stream).ok());
      REQUIRE(forward().ok());
      table.Maps(10);
    }
    REQUIRE(table.runtime->Synchronize(table.stream).ok());
    REQUIRE(forward().ok());
    if (goes) convolution->reset();
    absl::Status asked = table.runtime->Synchronize(table.stream);  // status of a shorter step
    if (names != nullptr) *names = table.names;
    return asked;
  };
  std::vector<std::string> names;
  REQUIRE(steps(-1, /*goes=*/false, &names).ok());
  REQUIRE(std::count(names.begin(), names.end(), kCall) == 4);  // and one more in the capture
  const auto last = std::find(names.rbegin(), names.rend(), kCall);
  // The call fails, so the processor's convolution leaves no task behind.
  const absl::Status asked = steps(names.rend() - last - 1, /*goes=*/true, nullptr);
  CHECK(asked.message().find("cudnnConvolutionForward: failed as asked") == 0);
}

TEST_CASE("steps that copy much begin at once") {
  ReplayTable table;
  void* const host = table.runtime->AllocateHost(ReplayTable::kFloats * 4).value();
  std::memset(host, 0, ReplayTable::kFloats * 4);
  for (int step = 0; step < 5; ++step) {
    REQUIRE(table.runtime
                ->Copy(cuda::CopyKind::kToDevice, host, table.device, ReplayTable::kFloats * 4,
                       table.stream)
                .ok());
    table.Maps(10);
    REQUIRE(table.runtime->Synchronize(table.stream).ok());
  }
  CHECK(table.Launches() == 0);
  CHECK(table.Value() == 9);
}

TEST_CASE("more kinds of steps than there are graphs take turns") {
  ReplayTable table;
  for (int round = 0; round < 3; ++round) {
    for (int kind = 0; kind < 12; ++kind) {
      for (int step = 0; step < 3; ++step) {
        table.Maps(10, static_cast<float>(100 * kind));
        REQUIRE(table.runtime->Synchronize(table.stream).ok());
      }
      CHECK(table.Value() == static_cast<float>(100 * kind + 9));
    }
  }
  CHECK(table.Launches() >= 36);
}

TEST_CASE("where graphs go before they were worth it no more are made, and the log says so") {
  const LogText log;
  ReplayTable table;
  int made = 0;
  for (int round = 0; round < 60; ++round) {
    const int before = table.Launches();
    for (int step = 0; step < 4; ++step) {
      table.Maps(10, static_cast<float>(100 * round));
      REQUIRE(table.runtime->Synchronize(table.stream).ok());
      CHECK(table.Value() == static_cast<float>(100 * round + 9));
    }
    if (table.Launches() > before) ++made;
  }
  CHECK(made == 40);  // eight that stay, and the wasted ones
  CHECK(log.lines() == 1);
  CHECK(log.text().find("steps vary so much that graphs are not worth making") !=
        std::string::npos);
}

}  // namespace
}  // namespace paracord
