// A layer with different weights in each call, on a device that refuses memory in between.
#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <vector>

#include "keras/graph.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/cuda/cuda_ops.h"
#include "tests/cuda_host/host_runtime.h"
#include "tests/keras/graph_json.h"

namespace paracord {
namespace {

using nlohmann::json;

// A model that calls "norm" twice, with a layer in between that needs scratch memory.
json NormModel() {
  return {{"class_name", "Functional"},
          {"config",
           {{"name", "m"},
            {"layers",
             {Named("InputLayer", "in", {{"batch_shape", {nullptr, 4}}}, json::array()),
              Named("BatchNormalization", "norm", {{"momentum", 0.5}},
                    {Call("in", 0), Call("wide", 0)}),
              Named("Dense", "wide", {{"units", 4}}, {Call("norm", 0)}),
              Named("Dense", "head", {{"units", 3}}, {Call("norm", 1)})}},
            {"input_layers", {{"in", 0, 0}}},
            {"output_layers", {{"head", 0, 0}}}}}};
}

// The observation for the moving mean of "norm" in a step; empty if the device had no memory.
std::vector<float> Observed(Ops& ops, int& refused) {
  const ModelSpec spec = ReadKerasModel(NormModel()).value();
  const std::vector<std::optional<Shape>> shapes = {Shape{4}};
  Problems problems;
  const auto graph = Graph::Build(ops, spec, shapes, problems);
  REQUIRE(graph != nullptr);
  const Graph::Value loss = graph->outputs()[0];
  graph->PlanTraining({&loss, 1}, /*add=*/false, {});
  constexpr int64_t kBatch = 5;
  std::vector<DeviceArray> arrays;
  const auto device = [&](int64_t n, uint32_t seed) -> float* {
    std::mt19937 random(seed);
    std::vector<float> host(static_cast<size_t>(n));
    for (float& x : host) x = std::uniform_real_distribution<float>(0.1f, 1)(random);
    auto array = ops.Allocate(n);
    if (!array.ok()) return nullptr;
    ops.Upload(n, host.data(), array->get());
    arrays.push_back(*std::move(array));
    return ops.Finish().ok() ? arrays.back().get() : nullptr;
  };
  const float* const x = device(kBatch * 4, 1);
  std::vector<const float*> parameters;
  std::vector<float*> d_parameters;
  size_t mean = 0;
  for (const VariableSpec& variable : graph->variables()) {
    if (variable.name() == "norm/moving_mean") mean = parameters.size();
    parameters.push_back(device(VariableElements(variable), 2));
    d_parameters.push_back(device(VariableElements(variable), 3));
    if (parameters.back() == nullptr || d_parameters.back() == nullptr) return {};
  }
  if (x == nullptr) return {};
  bool ready = graph->Prepare(kBatch).ok();
  if (!ready) {
    ++refused;
    ready = graph->Prepare(kBatch).ok();
  }
  if (!ready) return {};
  const GraphCall call{.batch = kBatch, .inputs = {&x, 1}, .parameters = parameters};
  graph->Forward(call, /*training=*/true);
  ops.Fill(kBatch * 3, 1, graph->loss_gradient(loss));
  PendingSum total;
  graph->Backward(call, d_parameters, /*add=*/false, total);
  std::vector<float> observed(4);
  ops.Download(4, d_parameters[mean], observed.data());
  return ops.Finish().ok() ? observed : std::vector<float>();
}

TEST_CASE("a shared normalization weighs its calls the same after a device refused memory") {
  int refused = 0, repaired = 0;
  const std::vector<float> expected = Observed(*MakeCpuOps(1), refused);
  REQUIRE(expected.size() == 4);
  int64_t calls = 1;
  for (int64_t fail = 0; fail < calls; ++fail) {
    INFO("call " << fail << " fails");
    cuda::HostOptions options;
    options.fail_call = fail;
    options.at_end = [&](int64_t made, const std::string&) { calls = std::max(calls, made); };
    const auto ops = cuda::MakeOps(cuda::MakeHostRuntime(std::move(options)));
    if (!ops.ok()) continue;
    const int before = refused;
    const std::vector<float> observed = Observed(**ops, refused);
    if (refused > before && !observed.empty()) ++repaired;
    for (size_t i = 0; i < observed.size(); ++i) CHECK(observed[i] == Approx(expected[i]));
  }
  CHECK(repaired > 2);
}

}  // namespace
}  // namespace paracord
