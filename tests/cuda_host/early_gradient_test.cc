// OnGradient on a device: gradients are reported while others are computed.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "keras/build.h"
#include "tensor/cpu/cpu_ops.h"
#include "tests/cuda_host/cuda_under_test.h"
#include "tests/cuda_host/page_floats.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using Floats = std::vector<float>;

const nlohmann::json kNoConfig = nlohmann::json::object();

// A model with every kind of gradient: of a kernel, a bias, an embedding, and moving averages.
nlohmann::json EarlyModel() {
  return SequentialJson(
      {LayerJson("Conv2D", {{"filters", 3}, {"kernel_size", {3, 3}}, {"activation", "relu"}}),
       LayerJson("Flatten", kNoConfig), LayerJson("Dropout", {{"rate", 0.3}}),
       LayerJson("BatchNormalization", kNoConfig),
       LayerJson("Dense", {{"units", 8}, {"activation", "tanh"}}),
       LayerJson("Dense", {{"units", 4}, {"activation", "softmax"}})});
}

// Steps of a program, with and without a listener.
struct Steps {
  Steps(std::unique_ptr<Ops> of, uint32_t accumulate) : ops(of.get()) {
    Job job = JobFor(EarlyModel(), "sparse_categorical_crossentropy");
    job.accumulate = accumulate;
    program = BuildKerasProgram(job, schema, std::move(of)).value();
    variables.emplace(*program);
    variables->Randomise(3);
    for (size_t i = 0; i < variables->names.size(); ++i) {
      const bool variance = variables->names[i].find("moving_variance") != std::string::npos;
      for (float& x : variables->values[i]) x = variance ? 1.f : x;
    }
    variables->Bind();
    for (const Floats& g : variables->gradients) gradients.emplace_back(g.begin(), g.end());
  }
  Floats Step(uint32_t step) {
    const auto loss = program->ComputeGradients(
        RandomBatch(schema, step % 3 == 2 ? 3 : 4, 4, step), step, variables->value_spans(),
        std::vector<std::span<float>>(gradients.begin(), gradients.end()));
    INFO(loss.status());
    REQUIRE(loss.ok());
    Floats all{static_cast<float>(*loss)};
    for (const PageFloats& g : gradients) all.insert(all.end(), g.begin(), g.end());
    return all;
  }
  const Batch schema = SchemaOf({6, 6, 2}, {});
  std::vector<PageFloats> gradients;  // stay page-locked as long as the program lives
  Ops* ops;
  std::unique_ptr<GradientProgram> program;
  std::optional<Variables> variables;
};

// `page_locked` says that the gradients are in page-locked memory.
void CheckReported(uint32_t accumulate, bool page_locked) {
  INFO("accumulate " << accumulate << (page_locked ? ", page-locked" : ""));
  Steps listens(CudaUnderTest(true), accumulate), plain(CudaUnderTest(true), accumulate);
  const std::vector<std::string>& names = listens.variables->names;
  size_t trained = 0;
  for (PageFloats& gradient : listens.gradients) {
    trained += gradient.empty() ? 0 : 1;
    if (page_locked) listens.ops->PageLock(gradient.data(), gradient.size() * sizeof(float));
  }
  std::vector<size_t> order;
  std::map<size_t, PageFloats> reported;
  const auto caller = std::this_thread::get_id();
  bool within = false;
  const std::function<void(size_t)> there = [&](size_t v) {
    CHECK(within);
    CHECK(std::this_thread::get_id() == caller);
    CHECK(reported.emplace(v, listens.gradients[v]).second);
    order.push_back(v);
  };
  for (uint32_t step = 0; step < 12; ++step) {  // some of them as a graph
    INFO("step " << step);
    const bool listened = step != 5;
    listens.program->OnGradient(listened ? there : nullptr);
    reported.clear();
    order.clear();
    within = true;
    const Floats got = listens.Step(step);
    within = false;
    CHECK(got == plain.Step(step));
    CHECK(reported.size() == (listened ? trained : 0));
    for (const auto& [v, values] : reported) {
      INFO(names[v]);
      CHECK(values == listens.gradients[v]);
    }
    if (!listened) continue;
    CHECK(names[order.front()].find("dense_1") == 0);
    CHECK(names[order.back()].find("conv2d") == 0);
  }
}

TEST_CASE("a device's gradients are reported when they are there, and are those of the end") {
  const std::optional<int64_t> launched = GraphLaunches();
  for (const uint32_t accumulate : {1u, 2u}) {
    for (const bool page_locked : {false, true}) CheckReported(accumulate, page_locked);
  }
  // Both steps of each pair are graphs from the third pair on.
  if (launched.has_value()) CHECK(*GraphLaunches() - *launched >= 4 * 8);
}

TEST_CASE("downloads are awaited one by one, and those that are not are there at the end") {
  for (int turn = 0; turn < 8; ++turn) {
    PageFloats second(100);
    std::vector<std::unique_ptr<Ops>> both;
    both.push_back(MakeCpuOps(1));
    both.push_back(CudaUnderTest(true));
    for (const auto& ops : both) {
      ops->Enter();
      CHECK_FALSE(ops->AwaitDownload().has_value());
      const DeviceArray x = ops->Allocate(100).value(), y = ops->Allocate(100).value();
      Floats first(100), third(100), fourth(100);
      if (turn % 2 == 1) ops->PageLock(second.data(), second.size() * sizeof(float));
      for (int round = 0; round < 4; ++round) {
        ops->Fill(100, 1, x.get());
        ops->DownloadAwaited(100, x.get(), first.data(), 7);
        ops->Fill(100, 2, y.get());
        ops->Download(100, y.get(), third.data());
        ops->DownloadAwaited(100, y.get(), second.data(), 3);
        CHECK(ops->AwaitDownload() == std::optional<size_t>(7));
        CHECK(first == Floats(100, 1.f));
        first[0] = 5;  // the memory belongs to the listener
        CHECK(ops->AwaitDownload() == std::optional<size_t>(3));
        CHECK(second == PageFloats(100, 2.f));
        CHECK_FALSE(ops->AwaitDownload().has_value());
        ops->DownloadAwaited(100, y.get(), fourth.data(), 4);
        REQUIRE(ops->Finish().ok());
        CHECK_FALSE(ops->AwaitDownload().has_value());
        CHECK(first[0] == 5);
        CHECK(third == Floats(100, 2.f));
        CHECK(fourth == Floats(100, 2.f));
        fourth.assign(100, 0.f);
      }
    }
  }
}

TEST_CASE("an awaited download of a graph is of that launch, however long it computes") {
  const int64_t n = OnGpu() ? 2048 : 4;
  const int products = OnGpu() ? 40 : 4;  // about 15 ms
  const std::optional<int64_t> launched = GraphLaunches();
  const auto ops = CudaUnderTest(true);
  ops->Enter();
  const DeviceArray row = ops->Allocate(n).value(), w = ops->Allocate(n * n).value();
  DeviceArray x = ops->Allocate(n * n).value(), y = ops->Allocate(n * n).value();
  const auto product = ops->MakeMatmul({.m = n, .k = n, .n = n}).value();
  PageFloats first(static_cast<size_t>(n));
  ops->PageLock(first.data(), first.size() * sizeof(float));
  for (int step = 1; step <= 8; ++step) {
    const Floats number(static_cast<size_t>(n), static_cast<float>(step));
    ops->Upload(n, number.data(), row.get());
    ops->Copy({{n, n}, {0, 1}, {}, {n, 1}}, false, row.get(), x.get());
    ops->Fill(n * n, 1.f / static_cast<float>(n), w.get());
    for (int i = 0; i < products; i += 2) {
      product->Run(x.get(), w.get(), nullptr, y.get());
      product->Run(y.get(), w.get(), nullptr, x.get());
    }
    ops->DownloadAwaited(n, x.get(), first.data(), 1);
    REQUIRE(ops->AwaitDownload() == std::optional<size_t>(1));
    CHECK(first.front() == Approx(step).epsilon(1e-3));
    CHECK(first.back() == Approx(step).epsilon(1e-3));
    REQUIRE(ops->Finish().ok());
  }
  if (launched.has_value()) CHECK(*GraphLaunches() > *launched);
}

}  // namespace
}  // namespace paracord
