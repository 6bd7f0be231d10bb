// Compares a model's gradients with central differences of the loss.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <random>

#include "common/json_text.h"
#include "keras/build.h"
#include "tests/keras/model_testing.h"

namespace paracord {

constexpr uint64_t kGradientKey = 99;

inline double LossOf(GradientProgram& program, const Batch& batch, Variables& variables) {
  std::vector<std::vector<float>> aside = variables.gradients;
  std::vector<std::span<float>> spans(aside.begin(), aside.end());
  const auto loss = program.ComputeGradients(batch, kGradientKey, variables.value_spans(), spans);
  REQUIRE(loss.ok());
  return *loss;
}

// Puts a layer between `first`, whose variables give the layer's input a gradient, and a Dense.
inline nlohmann::json Around(nlohmann::json first, nlohmann::json layer) {
  return SequentialJson({std::move(first), std::move(layer),
                         LayerJson("Flatten", nlohmann::json::object()),
                         LayerJson("Dense", {{"units", 2}, {"name", "last"}})});
}

// Takes differences along random directions, so that few evaluations involve every variable.
// `change` may modify the random batch.
inline void CheckGradients(const nlohmann::json& model, const std::string& loss,
                           const Batch& schema, uint32_t classes, uint32_t seed,
                           const std::function<void(Batch&)>& change = nullptr) {
  INFO(TextOf(model) << " seed " << seed);
  Job job = JobFor(model, loss);
  auto program = BuildKerasProgram(job, schema, TestOps());
  INFO(program.status());
  REQUIRE(program.ok());
  Batch batch = RandomBatch(schema, 1 + seed % 5, classes, seed);
  if (change) change(batch);
  Variables variables(**program);
  variables.Randomise(seed);
  REQUIRE((*program)
              ->ComputeGradients(batch, kGradientKey, variables.value_spans(),
                                 variables.gradient_spans())
              .ok());
  std::mt19937 random(seed);
  for (size_t i = 0; i < variables.values.size(); ++i) {
    INFO(variables.names[i]);
    if ((*program)->variables()[i].moving_average() > 0) continue;  // no gradient
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
    const auto difference = [&](float by) {
      const double both = move(by) - move(-by);
      variables.values[i] = at;
      return both / (2 * static_cast<double>(by));
    };
    const double wide = difference(step);
    const auto close = [norm](double value) {
      return Approx(value).epsilon(0.03).margin(0.01 * norm + 1e-4);
    };
    // If the loss has a corner within the step, the difference depends on the step size.
    if (slope != close(wide) && wide != close(difference(step / 4))) continue;
    CHECK(slope == close(wide));
  }
}

}  // namespace paracord
