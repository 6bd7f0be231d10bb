// Makes every call of the engine fail once, alone and for good.
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/metric.h"
#include "keras/build.h"
#include "spdlog/spdlog.h"
#include "tensor/cuda/cuda_ops.h"
#include "tests/cuda_host/host_runtime.h"
#include "tests/cuda_host/page_floats.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using Floats = std::vector<float>;

constexpr char kFaultAsked[] = "failed as asked";

nlohmann::json FaultModel() {
  return SequentialJson(
      {LayerJson("Conv2D", {{"filters", 2}, {"kernel_size", {2, 2}}, {"activation", "relu"}}),
       LayerJson("Conv2D", {{"filters", 2}, {"kernel_size", {2, 2}}}),
       LayerJson("Flatten", nlohmann::json::object()), LayerJson("Dropout", {{"rate", 0.3}}),
       LayerJson("Dense", {{"units", 3}, {"activation", "softmax"}})});
}

// Everything that a worker does with a device, from start to end.
class Life {
 public:
  Life(int64_t fail_call, bool sticky) {
    cuda::HostOptions options;
    options.fail_call = fail_call;
    options.sticky = sticky;
    options.called = [this](const char* name) { names.insert(name); };
    options.at_end = [this](int64_t all, const std::string& what) {
      calls = all;
      wrong = what;
    };
    auto ops = cuda::MakeOps(cuda::MakeHostRuntime(std::move(options)));
    started = ops.status();
    if (!started.ok()) return;
    Ops& device = **ops;
    auto program = BuildKerasProgram(JobFor(FaultModel(), "sparse_categorical_crossentropy", 4),
                                     schema_, *std::move(ops));
    started = program.status();
    if (!started.ok()) return;
    Variables variables(**program);
    variables.Randomise(3);
    // Memory in whole pages, like memory shared by a worker and a ps.
    std::vector<PageFloats> memory;
    for (const Floats& value : variables.values) memory.emplace_back(value.begin(), value.end());
    const std::vector<std::span<const float>> values(memory.begin(), memory.end());
    for (const auto& value : values) device.PageLock(value.data(), value.size_bytes());
    std::map<size_t, Floats> early;
    (*program)->OnGradient([&](size_t v) { early[v] = variables.gradients[v]; });
    for (uint32_t step = 0; step < 5; ++step) {  // a graph from the third step on
      if (step == 4) (void)device.TakeSpans(true);
      Twice([&]() -> absl::StatusOr<Floats> {
        early.clear();
        const auto loss = (*program)->ComputeGradients(
            RandomBatch(schema_, 4, 3, step % 2), step % 2, values, variables.gradient_spans());
        if (!loss.ok()) return loss.status();
        reported += early.size();
        for (const auto& [v, gradient] : early) {
          if (gradient != variables.gradients[v]) ++reported_wrong;
        }
        Floats all{static_cast<float>(*loss)};
        for (const Floats& g : variables.gradients) all.insert(all.end(), g.begin(), g.end());
        return all;
      });
    }
    const Batch batch = RandomBatch(schema_, 3, 3, 7);
    for (int i = 0; i < 3; ++i) {
      Twice([&]() -> absl::StatusOr<Floats> {
        std::vector<MetricState> states;
        const absl::Status status = (*program)->Evaluate(batch, values, states);
        if (!status.ok()) return status;
        return Floats{static_cast<float>(MetricValue(states.at(0)))};
      });
    }
    Twice([&]() -> absl::StatusOr<Floats> {
      auto columns = (*program)->Predict(batch, values);
      if (!columns.ok()) return columns.status();
      return std::move(columns->at(0).values);
    });
  }

  absl::Status started;
  std::vector<absl::StatusOr<Floats>> results;
  std::vector<absl::Status> failed;  // failed, and then done once more
  std::set<std::string> names;
  int64_t calls = 0;
  size_t reported = 0, reported_wrong = 0;  // gradients of steps that succeeded
  std::string wrong;

 private:
  // Repeats a failed step once, as the trainer does.
  template <class Work>
  void Twice(const Work& work) {
    absl::StatusOr<Floats> result = work();
    if (!result.ok()) {
      failed.push_back(result.status());
      result = work();
    }
    results.push_back(std::move(result));
  }

  const Batch schema_ = SchemaOf({5, 5, 1}, {});
};

// Silences the many warnings about steps that are no graphs.
struct Quiet {
  Quiet() { spdlog::set_level(spdlog::level::off); }
  ~Quiet() { spdlog::set_level(before); }
  const spdlog::level::level_enum before = spdlog::get_level();
};

const char* const kCalls[] = {"cudaSetDevice",
                              "cudaMalloc",
                              "cudaFree",
                              "cudaMemGetInfo",
                              "cudaMemcpyAsync",
                              "cudaHostAlloc",
                              "cudaFreeHost",
                              "cudaHostRegister",
                              "cudaHostUnregister",
                              "cudaStreamCreate",
                              "cudaStreamDestroy",
                              "cudaStreamSynchronize",
                              "cudaEventCreate",
                              "cudaEventElapsedTime",
                              "cudaEventDestroy",
                              "cudaEventRecord",
                              "cudaEventSynchronize",
                              "cudaStreamWaitEvent",
                              "cudaStreamBeginCapture",
                              "cudaStreamEndCapture",
                              "cudaGraphLaunch",
                              "cudaGraphExecDestroy",
                              "cudaLaunchKernel",
                              "cublasLtMatmul",
                              "cudnnBackendFinalize",
                              "cudnnConvolutionForward",
                              "cudnnConvolutionBackwardData",
                              "cudnnConvolutionBackwardFilter"};

TEST_CASE("whichever call fails once, it is said or does not matter, and what follows is right") {
  const Quiet quiet;
  const Life whole(-1, false);
  REQUIRE(whole.started.ok());
  REQUIRE(whole.failed.empty());
  REQUIRE(whole.wrong == "");
  REQUIRE(whole.reported == 5 * 6);
  for (const char* name : kCalls) {
    INFO(name);
    CHECK(whole.names.count(name) == 1);
  }
  int refused = 0, said = 0, unnoticed = 0;
  for (int64_t call = 0; call < whole.calls; ++call) {
    INFO("call " << call);
    const Life life(call, false);
    CHECK(life.wrong == "");
    if (!life.started.ok()) {
      CHECK(life.started.message().find(kFaultAsked) != std::string::npos);
      ++refused;
      continue;
    }
    CHECK(life.failed.size() <= 1);
    for (const absl::Status& status : life.failed) {
      CHECK(status.message().find(kFaultAsked) != std::string::npos);
    }
    ++(life.failed.empty() ? unnoticed : said);
    REQUIRE(life.results.size() == whole.results.size());
    for (size_t i = 0; i < life.results.size(); ++i) {
      INFO("result " << i << " " << life.results[i].status());
      REQUIRE(life.results[i].ok());
      CHECK(*life.results[i] == *whole.results[i]);
    }
    CHECK(life.reported == whole.reported);
    CHECK(life.reported_wrong == 0);
  }
  CHECK(refused > 10);
  CHECK(said > 100);
  CHECK(unnoticed > 20);  // the call only matters for speed, or at the end
}

TEST_CASE("whichever call is the first of a lost device, the worker learns that it is lost") {
  const Quiet quiet;
  const Life whole(-1, false);
  int lost = 0;
  for (int64_t call = 0; call < whole.calls; ++call) {
    INFO("call " << call);
    const Life life(call, true);
    CHECK(life.wrong == "");
    if (!life.started.ok()) continue;
    bool gone = false;
    for (size_t i = 0; i < life.results.size(); ++i) {
      INFO("result " << i << " " << life.results[i].status());
      gone = gone || !life.results[i].ok();
      REQUIRE(life.results[i].ok() != gone);
      if (!gone) CHECK(*life.results[i] == *whole.results[i]);
    }
    CHECK(life.reported_wrong == 0);
    for (const absl::Status& status : life.failed) {
      INFO(status);
      CHECK(absl::IsDataLoss(status));
    }
    lost += gone ? 1 : 0;
  }
  CHECK(lost > 200);
}

}  // namespace
}  // namespace paracord
