// Reads losses, metrics and optimizers as Keras names them. "adam", {"name": "adam",
// "learning_rate": 0.1} and Keras' own {"class_name": "Adam", "config": {...}} all become a
// NamedSpec. Also reads a model's compile_config. Unknown names are refused not here, but by the
// functions that build the loss, metric or optimizer. Pure.
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

// Returns the name that a job uses for a name of Keras: "sparse_categorical_crossentropy" for
// "SparseCategoricalCrossentropy", "mean_squared_error" for "mse", "rmsprop" for "RMSprop" (names
// of optimizers have no underscores).
std::string KerasName(NamedKind kind, std::string_view name);

// Reads a string, an object with "name", or an object that Keras wrote. Drops null options, except
// class_aggregation, and, of an object that Keras wrote, also options that are switched off. An
// option that is a schedule gets the form {"name": ..., ...}. Returns nullopt after a problem.
std::optional<NamedSpec> ReadNamedSpec(NamedKind kind, const nlohmann::json& json,
                                       const std::string& path, Problems& problems);

// Reads a single spec, a list of specs, or an object with a spec for each output of the model. In a
// list of several losses, entry i is for output i; so it is in a list of metrics of which one is a
// list or null. A list entry, or a member of the object, may be a list of metrics. A spec for one
// output gets its `output`.
std::vector<NamedSpec> ReadByOutput(NamedKind kind, const nlohmann::json& json,
                                    const std::string& path, Problems& problems);
// Reads a list or object with a number for each output. The result has keys like NamedSpec::output.
std::map<std::string, double> ReadNumbersByOutput(const nlohmann::json& json,
                                                  const std::string& path, Problems& problems);

// Returns an object that ReadNamedSpec reads as `spec`.
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
