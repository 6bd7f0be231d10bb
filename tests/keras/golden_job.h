// Jobs and batches for the compiled models in tests/golden (make_graphs.py).
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "config/job.h"
#include "config/named_spec.h"
#include "data/data_source.h"
#include "nlohmann/json.hpp"

namespace paracord {

inline Column ToColumn(const std::string& name, const nlohmann::json& column) {
  return {name, column["shape"], column["values"]};
}

// Takes loss and metrics from the model's compile_config, or from the key beside the model.
inline Job CompiledJob(const nlohmann::json& golden) {
  nlohmann::json model = golden["model"];
  if (golden.contains("compile")) model["compile_config"] = golden["compile"];
  Problems problems;
  CompileConfig compiled = ReadCompileConfig(model, problems);
  INFO(problems.ToStatus());
  REQUIRE(problems.lines().empty());
  Job job;
  job.model = std::move(model);
  job.batch = golden["examples"];
  job.losses = std::move(compiled.losses);
  if (job.losses.size() == 1) {
    job.loss = job.losses[0];
    job.losses.clear();
  }
  job.loss_weights.by_output = std::move(compiled.loss_weights);
  job.metrics = compiled.metrics.value_or(std::vector<NamedSpec>());
  const nlohmann::json class_weight = golden.value("class_weight", nlohmann::json::object());
  for (const auto& [id, weight] : class_weight.items()) {
    job.loss_weights.by_class[std::stoll(id)] = weight;
  }
  return job;
}

inline Batch GoldenBatch(const nlohmann::json& golden, bool with_values) {
  Batch batch;
  const auto add = [&](std::vector<Column>& columns, const std::string& name,
                       const nlohmann::json& column) {
    columns.push_back(ToColumn(name, column));
    if (!with_values) columns.back().values.clear();
  };
  for (const auto& [name, column] : golden["inputs"].items()) add(batch.inputs, name, column);
  for (const auto& [name, column] : golden["targets"].items()) add(batch.targets, name, column);
  if (golden.contains("sample_weight")) add(batch.weights, "", golden["sample_weight"]);
  if (with_values) batch.examples = golden["examples"];
  return batch;
}

}  // namespace paracord
