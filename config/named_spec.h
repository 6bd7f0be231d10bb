// Losses, metrics and optimizers as Keras names them: "adam", {"name": "adam", "learning_rate":
// 0.1} and Keras' own {"class_name": "Adam", "config": {...}} all become one NamedSpec, and a
// model's compile_config gives what a job leaves out. Which names exist is not known here: whoever
// builds the thing refuses the others. Pure.
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

// "SparseCategoricalCrossentropy" and "sparse_categorical_crossentropy" are the latter, "mse" is
// "mean_squared_error", "RMSprop" is "rmsprop" (optimizers have no underscores).
std::string KerasName(NamedKind kind, std::string_view name);

// Any of the three forms. Options that are null are dropped, and so are those of Keras' own form
// that are switched off; an option that is a schedule gets the form {"name": ..., ...}.
std::optional<NamedSpec> ReadNamedSpec(NamedKind kind, const nlohmann::json& json,
                                       const std::string& path, Problems& problems);

// One of them, or a list (by position) or an object (by name) of them for the outputs of a model;
// for metrics each entry may be a list again. Each gets its `output` where it has one.
std::vector<NamedSpec> ReadByOutput(NamedKind kind, const nlohmann::json& json,
                                    const std::string& path, Problems& problems);
// Numbers for the outputs: a list, or an object.
std::map<std::string, double> ReadNumbersByOutput(const nlohmann::json& json,
                                                  const std::string& path, Problems& problems);

// The inverse: always an object.
nlohmann::json NamedSpecToJson(const NamedSpec& spec);

// What a model's JSON says; nothing is set in one that was not compiled.
struct CompileConfig {
  std::optional<NamedSpec> optimizer;
  std::vector<NamedSpec> losses;
  std::map<std::string, double> loss_weights;
  std::optional<std::vector<NamedSpec>> metrics;
};
CompileConfig ReadCompileConfig(const nlohmann::json& model, Problems& problems);

}  // namespace paracord
