// Models with tables. Results with all rows are compared with results on a batch's rows.
#pragma once

#include <catch2/catch.hpp>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "keras/build.h"
#include "keras/table_ids.h"
#include "tensor/ops.h"
#include "tests/keras/graph_json.h"

namespace paracord {

using nlohmann::json;

inline json InputJson(const std::string& name, int64_t width, const std::string& dtype = "int64") {
  return Named("InputLayer", name, {{"dtype", dtype}, {"batch_shape", {nullptr, width}}},
               json::array());
}

inline json EmbeddingJson(const std::string& name, int64_t rows, const std::vector<std::string>& of,
                          const json& more = json::object()) {
  json config = {{"input_dim", rows}, {"output_dim", 3}};
  config.update(more);
  json calls = json::array();
  for (const std::string& input : of) calls.push_back(Call(input));
  return Named("Embedding", name, config, calls);
}

inline json ModelJson(json layers, const std::vector<std::string>& inputs,
                      const std::string& output) {
  json in = json::array();
  for (const std::string& name : inputs) in.push_back({name, 0, 0});
  return {{"class_name", "Functional"},
          {"config",
           {{"name", "model"},
            {"layers", std::move(layers)},
            {"input_layers", in},
            {"output_layers", {{output, 0, 0}}}}}};
}

// A model with two inputs of ids. `shared` reads both; `own` and a small embedding, which is no
// table, read the first.
inline json ThreeTables(bool mask = false) {
  const json flat = {{"units", 1}};
  return ModelJson(
      json::array(
          {InputJson("a", 4), InputJson("b", 4),
           EmbeddingJson("shared", 1000, {"a", "b"}, {{"mask_zero", mask}}),
           EmbeddingJson("own", 500, {"a"}), EmbeddingJson("small", 400, {"a"}),
           Named("GlobalAveragePooling1D", "pa", json::object(), {Call("shared")}),
           Named("GlobalAveragePooling1D", "pb", json::object(), {Call("shared", 1)}),
           Named("Flatten", "fo", json::object(), {Call("own")}),
           Named("Flatten", "fs", json::object(), {Call("small")}),
           Named("Concatenate", "all", json::object(), {CallWith({"pa", "pb", "fo", "fs"})}),
           Named("Dense", "out", flat, {Call("all")})}),
      {"a", "b"}, "out");
}

inline Batch IdsBatch(std::vector<float> a, std::vector<float> b) {
  Batch batch;
  batch.examples = static_cast<uint32_t>(a.size() / 4);
  batch.inputs.push_back({"a", {4}, std::move(a)});
  batch.inputs.push_back({"b", {4}, std::move(b)});
  batch.targets.push_back({"", {1}, std::vector<float>(batch.examples, 0.7f)});
  return batch;
}

inline Batch WithoutValues(Batch batch) {
  for (auto* columns : {&batch.inputs, &batch.targets}) {
    for (Column& column : *columns) {
      column.values.clear();
      column.strings.clear();
    }
  }
  batch.examples = 0;
  return batch;
}

inline Job TablesJob(const json& model, TablesSpec tables, uint32_t batch = 4) {
  Job job = JobFor(model, "mean_squared_error", batch);
  job.optimizer.name = "sgd";
  job.tables = std::move(tables);
  return job;
}

inline TablesSpec Fixed(std::initializer_list<const char*> layers) {
  TablesSpec tables;
  for (const char* layer : layers) tables.by_layer[layer] = {};
  return tables;
}

// The arrays of `all`, with tables reduced to a batch's rows.
struct BatchRows {
  BatchRows(const GradientProgram& program, const TableRows& rows, const Variables& all) {
    for (size_t v = 0; v < program.variables().size(); ++v) {
      const VariableSpec& variable = program.variables()[v];
      values.push_back(all.values[v]);
      if (variable.has_table()) values[v].clear();
      const size_t width = all.values[v].size() / variable.shape(0);
      for (const uint64_t id : rows.ids[v]) {
        const auto row = all.values[v].begin() + static_cast<std::ptrdiff_t>(id * width);
        values[v].insert(values[v].end(), row, row + static_cast<std::ptrdiff_t>(width));
      }
      gradients.emplace_back(values[v].size(), 9.f);
    }
    for (auto& each : values) value_spans.emplace_back(each);
    for (auto& each : gradients) gradient_spans.emplace_back(each);
  }
  std::vector<std::vector<float>> values, gradients;
  std::vector<std::span<const float>> value_spans;
  std::vector<std::span<float>> gradient_spans;
};

// Loss, gradients, metrics and predictions must be equal with and without tables, bit for bit.
inline void CheckSame(Job job, const Batch& batch, const std::vector<std::string>& tables) {
  auto with = BuildKerasProgram(job, WithoutValues(batch), TestOps());
  job.tables = {.automatic = false, .by_layer = {}};
  auto without = BuildKerasProgram(job, WithoutValues(batch), TestOps());
  INFO(with.status() << without.status());
  REQUIRE((with.ok() && without.ok()));
  Variables all(**without);
  all.Randomise(3);
  const double loss =
      (*without)->ComputeGradients(batch, 5, all.value_spans(), all.gradient_spans()).value();

  const auto rows = (*with)->RowsOf(batch).value();
  REQUIRE(rows != nullptr);
  BatchRows some(**with, *rows, all);
  (*with)->UseRows(rows);
  CHECK((*with)->ComputeGradients(batch, 5, some.value_spans, some.gradient_spans).value() == loss);
  std::vector<std::string> found;
  for (size_t v = 0; v < all.values.size(); ++v) {
    const VariableSpec& variable = (*with)->variables()[v];
    INFO(variable.name());
    if (!variable.has_table()) {
      CHECK(some.gradients[v] == all.gradients[v]);
      continue;
    }
    found.push_back(variable.name());
    std::vector<float> back(all.gradients[v].size(), 0.f);
    const size_t width = back.size() / variable.shape(0);
    for (size_t k = 0; k < rows->ids[v].size(); ++k) {
      std::copy_n(some.gradients[v].begin() + static_cast<std::ptrdiff_t>(k * width), width,
                  back.begin() + static_cast<std::ptrdiff_t>(rows->ids[v][k] * width));
    }
    CHECK(back == all.gradients[v]);
  }
  CHECK(found == tables);
  std::vector<MetricState> states, expected;
  REQUIRE((*with)->Evaluate(batch, some.value_spans, states).ok());
  REQUIRE((*without)->Evaluate(batch, all.value_spans(), expected).ok());
  CHECK(states[0].SerializeAsString() == expected[0].SerializeAsString());
  // A caller with all rows must say so.
  (*with)->UseRows(nullptr);
  CHECK((*with)->Predict(batch, all.value_spans()).value()[0].values ==
        (*without)->Predict(batch, all.value_spans()).value()[0].values);
  Variables whole(**with);
  CHECK((*with)->ComputeGradients(batch, 5, all.value_spans(), whole.gradient_spans()).value() ==
        loss);
  CHECK(whole.gradients == all.gradients);
}

}  // namespace paracord
