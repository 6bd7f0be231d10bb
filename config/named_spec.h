// Reads losses, metrics and optimizers as Keras names them. "adam", {"name": "adam",
// "learning_rate": 0.1} and Keras' own {"class_name": "Adam", "config": {...}} all become one
// NamedSpec, and a model's compile_config fills in what a job leaves out. Unknown names are not
// refused here, but by the functions that build the loss, metric or optimizer. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/job.h"
#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

enum class NamedKind { kLoss, kMetric, kOptimizer, kSchedule };

// Returns the name that a job uses: "sparse_categorical_crossentropy" for
// "SparseCategoricalCrossentropy", "mean_squared_error" for "mse", "rmsprop" for "RMSprop"
// (optimizers have no underscores).
std::string KerasName(NamedKind kind, std::string_view name);

// Reads a string, an object with "name", or an object of Keras. Null options are dropped, except
// class_aggregation, and in an object of Keras options that are switched off. A schedule as an
// option gets the form {"name": ..., ...}. Returns nullopt after a problem.
std::optional<NamedSpec> ReadNamedSpec(NamedKind kind, const nlohmann::json& json,
                                       const std::string& path, Problems& problems);

// Reads one spec, a list, or an object of specs by the outputs of a model. A list is by position if
// it has several losses, or metrics of which one is a list or null. For metrics each entry may be a
// list again. A spec for one output gets its `output`.
std::vector<NamedSpec> ReadByOutput(NamedKind kind, const nlohmann::json& json,
                                    const std::string& path, Problems& problems);
// Reads a list or object of numbers for the outputs. The result has keys like NamedSpec::output.
std::map<std::string, double> ReadNumbersByOutput(const nlohmann::json& json,
                                                  const std::string& path, Problems& problems);

// Returns the object that ReadNamedSpec reads as `spec`.
nlohmann::json NamedSpecToJson(const NamedSpec& spec);

// The settings of a model's compile_config; all are unset for a model that was not compiled.
struct CompileConfig {
  std::optional<NamedSpec> optimizer;
  std::vector<NamedSpec> losses;
  std::map<std::string, double> loss_weights;
  std::optional<std::vector<NamedSpec>> metrics;
};
CompileConfig ReadCompileConfig(const nlohmann::json& model, Problems& problems);

}  // namespace paracord
