// Gradients against central differences of the loss, over random shapes from a seed.
#include <catch2/catch.hpp>
#include <random>

#include "model_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr uint64_t kKey = 99;

double LossOf(GradientProgram& program, const Batch& batch, Variables& variables) {
  std::vector<std::vector<float>> aside = variables.gradients;
  std::vector<std::span<float>> spans(aside.begin(), aside.end());
  const auto loss = program.ComputeGradients(batch, kKey, variables.value_spans(), spans);
  REQUIRE(loss.ok());
  return *loss;
}

// Along random directions, so that every variable takes part in a few evaluations.
void CheckGradients(const json& model, const std::string& loss, const Batch& schema,
                    uint32_t classes, uint32_t seed) {
  INFO(model.dump() << " seed " << seed);
  Job job = JobFor(model, loss);
  auto program = BuildKerasProgram(job, schema, 1);
  INFO(program.status());
  REQUIRE(program.ok());
  const Batch batch = RandomBatch(schema, 1 + seed % 5, classes, seed);
  Variables variables(**program);
  variables.Randomise(seed);
  REQUIRE((*program)
              ->ComputeGradients(batch, kKey, variables.value_spans(), variables.gradient_spans())
              .ok());
  std::mt19937 random(seed);
  for (size_t i = 0; i < variables.values.size(); ++i) {
    INFO(variables.names[i]);
    const std::vector<float> at = variables.values[i];
    double slope = 0, norm = 0;
    std::vector<float> direction(at.size());
    for (size_t j = 0; j < at.size(); ++j) {
      direction[j] = random() % 2 == 0 ? 1.f : -1.f;
      slope += static_cast<double>(direction[j]) * variables.gradients[i][j];
      norm += std::abs(variables.gradients[i][j]);
    }
    const float step = 1.f / 512 / std::sqrt(static_cast<float>(at.size()));
    const auto move = [&](float by) {
      for (size_t j = 0; j < at.size(); ++j) variables.values[i][j] = at[j] + by * direction[j];
      return LossOf(**program, batch, variables);
    };
    const double difference = (move(step) - move(-step)) / (2 * static_cast<double>(step));
    variables.values[i] = at;
    CHECK(slope == Approx(difference).epsilon(0.03).margin(0.01 * norm + 1e-4));
  }
}

json Conv(int filters, std::vector<int> size, json more) {
  more["filters"] = filters;
  more["kernel_size"] = size;
  return LayerJson("Conv2D", more);
}

TEST_CASE("gradients of layers over images agree with differences") {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int low, int high) {
      return low + static_cast<int>(random() % static_cast<uint32_t>(high - low + 1));
    };
    const int groups = draw(1, 2), channels = groups * draw(1, 3);
    const bool dilate = draw(0, 1) == 1;
    const std::string padding = draw(0, 1) == 0 ? "valid" : "same";
    const std::vector<int> some{draw(1, 2), draw(1, 3)}, one{1, 1};
    const json first = Conv(groups * draw(1, 3), {draw(1, 3), draw(1, 3)},
                            {{"groups", groups},
                             {"padding", padding},
                             {"strides", dilate ? one : some},
                             {"dilation_rate", dilate ? some : one},
                             {"use_bias", draw(0, 1) == 1},
                             {"activation", draw(0, 1) == 0 ? "relu" : "tanh"}});
    // Not max pooling, whose loss has corners everywhere.
    const json pool = LayerJson("AveragePooling2D",
                                {{"pool_size", {draw(1, 2), draw(1, 3)}}, {"padding", "same"}});
    const json model = SequentialJson(
        {first, pool, Conv(2, {1, 2}, {{"padding", "same"}}), LayerJson("Flatten", json::object()),
         LayerJson("Dropout", {{"rate", 0.25}}), LayerJson("Dense", {{"units", 3}})});
    CheckGradients(model, "mse",
                   SchemaOf({static_cast<uint64_t>(draw(7, 10)), static_cast<uint64_t>(draw(7, 10)),
                             static_cast<uint64_t>(channels)},
                            {3}),
                   0, seed);
  }
}

TEST_CASE("gradients of max pooling agree with differences") {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    const json model =
        SequentialJson({Conv(2, {2, 2}, json::object()),
                        LayerJson("MaxPooling2D", {{"pool_size", 2 + seed % 2},
                                                   {"strides", 1 + seed % 3},
                                                   {"padding", seed % 2 == 0 ? "same" : "valid"}}),
                        LayerJson("Flatten", json::object()), LayerJson("Dense", {{"units", 2}})});
    CheckGradients(model, "mse", SchemaOf({6, 7, 1}, {2}), 0, seed);
  }
}

TEST_CASE("gradients of every activation agree with differences") {
  for (const char* activation :
       {"linear", "relu", "leaky_relu", "elu", "selu", "sigmoid", "hard_sigmoid", "tanh",
        "softplus", "softsign", "exponential", "silu", "swish", "gelu", "softmax"}) {
    for (uint32_t seed = 0; seed < 3; ++seed) {
      const json model =
          SequentialJson({LayerJson("Dense", {{"units", 5}, {"activation", activation}}),
                          LayerJson("Activation", {{"activation", activation}}),
                          LayerJson("Dense", {{"units", 2}})});
      CheckGradients(model, "mse", SchemaOf({4}, {2}), 0, seed);
    }
  }
}

TEST_CASE("gradients of every loss agree with differences, fused and not") {
  struct LossCase {
    const char* loss;
    const char* activation;
    std::vector<uint64_t> targets;
    uint32_t classes;
  };
  const LossCase cases[] = {
      {"sparse_categorical_crossentropy", "softmax", {}, 4},
      {"sparse_categorical_crossentropy", "sigmoid", {1}, 4},
      {"categorical_crossentropy", "softmax", {4}, 2},
      {"categorical_crossentropy", "softplus", {4}, 2},
      {"binary_crossentropy", "sigmoid", {4}, 2},
      {"binary_crossentropy", "softmax", {4}, 2},
      {"mean_squared_error", "tanh", {4}, 0},
      {"mean_absolute_error", "linear", {4}, 0},
  };
  for (const LossCase& c : cases) {
    for (uint32_t seed = 0; seed < 3; ++seed) {
      INFO(c.loss << " of " << c.activation);
      const json model =
          SequentialJson({LayerJson("Dense", {{"units", 5}, {"activation", "tanh"}}),
                          LayerJson("Dense", {{"units", 4}, {"activation", c.activation}})});
      CheckGradients(model, c.loss, SchemaOf({3}, c.targets), c.classes, seed);
    }
  }
}

}  // namespace
}  // namespace paracord
