// Makes models, batches and variables for tests of the worker's arithmetic.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "config/job.h"
#include "nlohmann/json.hpp"
#include "program/gradient_program.h"

namespace paracord {

// Returns the device for the models in this test program. Tests of models and layers are shared by
// all devices (tests/keras/test_ops.cc, tests/cuda_host/test_ops.cc).
std::unique_ptr<Ops> TestOps();

inline nlohmann::json LayerJson(const std::string& class_name, nlohmann::json config) {
  return {{"class_name", class_name}, {"config", std::move(config)}};
}

inline nlohmann::json SequentialJson(std::vector<nlohmann::json> layers) {
  return {{"class_name", "Sequential"}, {"config", {{"name", "model"}, {"layers", layers}}}};
}

inline Job JobFor(nlohmann::json model, const std::string& loss, uint32_t batch = 4) {
  Job job;
  job.model = std::move(model);
  job.loss.name = loss;
  job.batch = batch;
  return job;
}

inline Batch SchemaOf(std::vector<uint64_t> input, std::vector<uint64_t> target) {
  Batch schema;
  schema.inputs.push_back({"", std::move(input), {}});
  schema.targets.push_back({"", std::move(target), {}});
  return schema;
}

// The variables of a program, with gradients.
class Variables {
 public:
  explicit Variables(const GradientProgram& program) {
    for (const VariableSpec& spec : program.variables()) {
      size_t size = 1;
      for (const uint64_t dim : spec.shape()) size *= dim;
      names.push_back(spec.name());
      values.emplace_back(size, 0.f);
      gradients.emplace_back(spec.trainable() ? size : 0, 0.f);
    }
    Bind();
  }
  void Randomise(uint32_t seed, float range = 0.5f) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> draw(-range, range);
    for (auto& value : values) {
      for (float& x : value) x = draw(random);
    }
  }
  // Draws kernels with Glorot's formula, and sets biases to zero.
  void Initialise(uint32_t seed) {
    std::mt19937 random(seed);
    for (size_t i = 0; i < values.size(); ++i) {
      const bool kernel = names[i].find("kernel") != std::string::npos;
      const float limit =
          kernel ? std::sqrt(3.f / std::sqrt(static_cast<float>(values[i].size()))) : 0.f;
      std::uniform_real_distribution<float> draw(-limit, limit);
      for (float& x : values[i]) x = kernel ? draw(random) : 0.f;
    }
  }
  void Descend(float rate) {
    for (size_t i = 0; i < values.size(); ++i) {
      for (size_t j = 0; j < gradients[i].size(); ++j) values[i][j] -= rate * gradients[i][j];
    }
  }
  // Sets the variables by name. `weights` must have exactly these variables.
  void Set(const nlohmann::json& weights) {
    REQUIRE(names.size() == weights.size());
    for (size_t i = 0; i < names.size(); ++i) {
      INFO(names[i]);
      REQUIRE(weights.contains(names[i]));
      values[i] = weights[names[i]].get<std::vector<float>>();
    }
    Bind();
  }
  ConstTensors value_spans() const { return value_spans_; }
  MutableTensors gradient_spans() const { return gradient_spans_; }
  void Bind() {
    value_spans_.assign(values.begin(), values.end());
    gradient_spans_.assign(gradients.begin(), gradients.end());
  }

  std::vector<std::string> names;
  std::vector<std::vector<float>> values, gradients;

 private:
  std::vector<std::span<const float>> value_spans_;
  std::vector<std::span<float>> gradient_spans_;
};

// Draws inputs uniformly from [-1, 1]. Targets are class indices below `classes`, or drawn like
// inputs if `classes` is 0.
inline Batch RandomBatch(const Batch& schema, uint32_t examples, uint32_t classes, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(-1, 1);
  Batch batch = schema;
  batch.examples = examples;
  const auto fill = [&](Column& column, bool labels) {
    size_t size = examples;
    for (const uint64_t dim : column.shape) size *= dim;
    column.values.resize(size);
    for (float& x : column.values)
      x = labels ? static_cast<float>(random() % classes) : draw(random);
  };
  for (Column& column : batch.inputs) fill(column, false);
  for (Column& column : batch.targets) fill(column, classes > 0);
  return batch;
}

}  // namespace paracord
