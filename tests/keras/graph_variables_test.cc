// Tests the callbacks with which a graph reports when it needs a variable and when a gradient is
// final.
#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <vector>

#include "keras/graph.h"
#include "tensor/cpu/cpu_ops.h"
#include "tests/keras/graph_json.h"

namespace paracord {
namespace {

using nlohmann::json;

// A model that calls "shared" twice, with a regularizer. No loss depends on "aside".
json Model() {
  json twice = {Call("in"), Call("between")};
  const json second = Call("shared", 1);
  return {{"class_name", "Functional"},
          {"config",
           {{"name", "m"},
            {"layers",
             {Named("InputLayer", "in", {{"batch_shape", {nullptr, 4}}}, json::array()),
              Named("Dense", "aside", {{"units", 2}}, {Call("in")}),
              Named("Dense", "shared",
                    {{"units", 4},
                     {"kernel_regularizer", {{"class_name", "L2"}, {"config", {{"l2", 0.01}}}}}},
                    twice),
              Named("BatchNormalization", "between", json::object(), {Call("shared")}),
              Named("Dense", "head", {{"units", 3}}, {second})}},
            {"input_layers", {{"in", 0, 0}}},
            {"output_layers", {{"head", 0, 0}, {"aside", 0, 0}}}}}};
}

struct Run {
  explicit Run(const json& model = Model()) : ops(MakeCpuOps(1)) {
    const ModelSpec spec = ReadKerasModel(model).value();
    const std::vector<std::optional<Shape>> shapes = {Shape{4}};
    Problems problems;
    graph = Graph::Build(*ops, spec, shapes, problems);
    INFO(problems.ToStatus());
    REQUIRE(graph != nullptr);
    const Graph::Value loss = graph->outputs()[0];
    graph->PlanTraining({&loss, 1}, /*add=*/false, {});
    REQUIRE(graph->Prepare(kBatch).ok());
    std::mt19937 random(7);
    std::uniform_real_distribution<float> draw(-1, 1);
    for (const VariableSpec& variable : graph->variables()) {
      const auto n = static_cast<size_t>(VariableElements(variable));
      for (float& x : values.emplace_back(n)) x = std::abs(draw(random));
      gradients.emplace_back(n, 0.f);
      names.push_back(variable.name());
    }
    for (size_t v = 0; v < values.size(); ++v) {
      parameters.push_back(values[v].data());
      const VariableSpec& variable = graph->variables()[v];
      d_parameters.push_back(variable.trainable() ? gradients[v].data() : nullptr);
    }
    for (float& x : input) x = draw(random);
    callbacks.needed = [this](size_t v) { needed.push_back(names[v]); };
    callbacks.final = [this](size_t v) {
      final.push_back(names[v]);
      then[v] = gradients[v];
    };
    then.resize(values.size());
  }
  PendingSum Train(bool last) {
    const float* const in = input.data();
    GraphCall call{.batch = kBatch, .inputs = {&in, 1}, .parameters = parameters};
    call.last = last;
    call.callbacks = &callbacks;
    graph->Forward(call, /*training=*/true);
    std::fill_n(graph->loss_gradient(graph->outputs()[0]), kBatch * 3, 1.f);
    PendingSum loss;
    graph->Backward(call, d_parameters, /*add=*/false, loss);
    return loss;
  }

  static constexpr int64_t kBatch = 5;
  const std::unique_ptr<Ops> ops;
  std::unique_ptr<Graph> graph;
  std::vector<std::vector<float>> values, gradients, then;
  std::vector<const float*> parameters;
  std::vector<float*> d_parameters;
  std::vector<float> input = std::vector<float>(kBatch * 4);
  VariableCallbacks callbacks;
  std::vector<std::string> names, needed, final;
};

using Names = std::vector<std::string>;

TEST_CASE("a variable is needed once a run, before the first layer that reads it") {
  Run run;
  run.Train(true);
  CHECK(run.needed == Names{"shared/kernel", "shared/bias", "between/gamma", "between/beta",
                            "between/moving_mean", "between/moving_variance", "head/kernel",
                            "head/bias", "aside/kernel", "aside/bias"});
}

TEST_CASE("a gradient is final once, after the last that adds to it, and in backward order") {
  Run run;
  const PendingSum penalty = run.Train(true);
  // The observation for a moving average is final, like a gradient.
  CHECK(run.final == Names{"head/kernel", "head/bias", "between/gamma", "between/beta",
                           "between/moving_mean", "between/moving_variance", "shared/kernel",
                           "shared/bias", "aside/kernel", "aside/bias"});
  for (size_t v = 0; v < run.names.size(); ++v) {
    INFO(run.names[v]);
    if (run.d_parameters[v] != nullptr) CHECK(run.then[v] == run.gradients[v]);
  }
  // The final gradient contains both calls and the regularizer.
  double squares = 0;
  const size_t kernel = static_cast<size_t>(
      std::find(run.names.begin(), run.names.end(), "shared/kernel") - run.names.begin());
  for (const float x : run.values[kernel])
    squares += static_cast<double>(x) * static_cast<double>(x);
  CHECK(penalty.Total() == Approx(0.01 * squares));
  Run other;
  other.Train(false);  // equal except for the regularizer
  for (size_t i = 0; i < run.values[kernel].size(); ++i) {
    CHECK(run.then[kernel][i] - other.gradients[kernel][i] ==
          Approx(0.02f * run.values[kernel][i]).margin(1e-4));
  }
}

TEST_CASE("with another slice to come no gradient is final, and no regularizer's part is there") {
  Run run;
  CHECK(run.Train(false).Total() == 0);
  CHECK(run.final.empty());
  CHECK(run.needed.size() == run.names.size());
}

// A model that calls "norm" twice: on the input, towards the loss, and, after "aside", on its own
// output, towards an output without a loss. "other" is called once, towards the output without a
// loss.
json NormsAside() {
  json wide = json::array({Call("in"), Call("aside")});
  return {{"class_name", "Functional"},
          {"config",
           {{"name", "m"},
            {"layers",
             {Named("InputLayer", "in", {{"batch_shape", {nullptr, 4}}}, json::array()),
              Named("BatchNormalization", "norm", {{"momentum", 0.5}}, wide),
              Named("Dense", "aside", {{"units", 4}}, {Call("norm")}),
              Named("BatchNormalization", "other", {{"momentum", 0.9}}, {Call("norm", 1)}),
              Named("Dense", "head", {{"units", 3}}, {Call("norm")})}},
            {"input_layers", {{"in", 0, 0}}},
            {"output_layers", {{"head", 0, 0}, {"other", 0, 0}}}}}};
}

// Means of 4 channels.
std::vector<double> MeanOf(const std::vector<double>& x) {
  std::vector<double> mean(4);
  for (size_t i = 0; i < x.size(); ++i) mean[i % 4] += x[i] / Run::kBatch;
  return mean;
}

std::vector<double> VarianceOf(const std::vector<double>& x) {
  std::vector<double> squares, mean = MeanOf(x);
  for (size_t i = 0; i < x.size(); ++i) squares.push_back(std::pow(x[i] - mean[i % 4], 2));
  return MeanOf(squares);
}

TEST_CASE("a moving average sees every call in training, also those that no loss depends on") {
  Run run(NormsAside());
  run.Train(true);
  const auto at = [&](const std::string& name) {
    return static_cast<size_t>(std::find(run.names.begin(), run.names.end(), name) -
                               run.names.begin());
  };
  const auto norm = [&](const std::vector<double>& x) {
    std::vector<double> y, mean = MeanOf(x), variance = VarianceOf(x);
    for (size_t i = 0; i < x.size(); ++i) {
      y.push_back((x[i] - mean[i % 4]) / std::sqrt(variance[i % 4] + 1e-3) *
                      static_cast<double>(run.values[at("norm/gamma")][i % 4]) +
                  static_cast<double>(run.values[at("norm/beta")][i % 4]));
    }
    return y;
  };
  const std::vector<double> x(run.input.begin(), run.input.end());
  std::vector<double> aside;
  const std::vector<double> once = norm(x);
  for (size_t i = 0; i < once.size(); ++i) {
    double sum = static_cast<double>(run.values[at("aside/bias")][i % 4]);
    for (size_t k = 0; k < 4; ++k) {
      sum +=
          once[i / 4 * 4 + k] * static_cast<double>(run.values[at("aside/kernel")][k * 4 + i % 4]);
    }
    aside.push_back(sum);
  }
  // m becomes m / 2 + a / 2, and then, with b, m / 4 + 3 / 4 (a + 2 b) / 3.
  for (size_t c = 0; c < 4; ++c) {
    const auto both = [&](const std::vector<double>& a, const std::vector<double>& b) {
      return Approx((a[c] + 2 * b[c]) / 3).margin(1e-4);
    };
    CHECK(run.gradients[at("norm/moving_mean")][c] == both(MeanOf(x), MeanOf(aside)));
    CHECK(run.gradients[at("norm/moving_variance")][c] == both(VarianceOf(x), VarianceOf(aside)));
    const std::vector<double> last = norm(aside);
    CHECK(run.gradients[at("other/moving_mean")][c] == Approx(MeanOf(last)[c]).margin(1e-4));
    CHECK(run.gradients[at("other/moving_variance")][c] ==
          Approx(VarianceOf(last)[c]).margin(1e-4));
    CHECK(run.gradients[at("other/gamma")][c] == 0);
    CHECK(run.gradients[at("aside/bias")][c] == 0);
  }
  CHECK(std::count(run.final.begin(), run.final.end(), "other/moving_mean") == 1);
  CHECK(run.final.size() == run.names.size());
  // The loss has the gradients of a model without the other output.
  json alone = NormsAside();
  alone["config"]["output_layers"] = {{"head", 0, 0}};
  Run other(alone);
  other.values = run.values;
  for (size_t v = 0; v < other.values.size(); ++v) other.parameters[v] = other.values[v].data();
  other.Train(true);
  CHECK(other.gradients[at("norm/gamma")] == run.gradients[at("norm/gamma")]);
  CHECK(other.gradients[at("head/kernel")] == run.gradients[at("head/kernel")]);
}

}  // namespace
}  // namespace paracord
