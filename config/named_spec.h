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

// Reads any of the three forms. Null options are dropped, as are options of Keras' own form that
// are switched off; a schedule as an option gets the form {"name": ..., ...}.
std::optional<NamedSpec> ReadNamedSpec(NamedKind kind, const nlohmann::json& json,
                                       const std::string& path, Problems& problems);

// Reads one spec, or a list (by position) or an object (by name) of specs for the outputs of a
// model; for metrics each entry may be a list again. A spec for one output gets its `output`.
std::vector<NamedSpec> ReadByOutput(NamedKind kind, const nlohmann::json& json,
                                    const std::string& path, Problems& problems);
// Reads numbers for the outputs: a list, or an object.
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
