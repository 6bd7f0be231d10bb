// A program file: a model written by an exporter (python/paracord). A JSON document of format 1,
// sent with the job: variables, columns, and modules, each for a step or a prediction of one batch
// size. program/PROGRAM_FILE.md has an example. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "program/declaration.h"
#include "proto/paracord.pb.h"

namespace paracord {

inline constexpr int kProgramFormat = 1;

enum class ColumnType { kFloat32, kInt32, kInt64 };

// A column of the modules; the shape is of one example.
struct ProgramColumn {
  std::string name;
  std::vector<uint64_t> shape;
  ColumnType type = ColumnType::kFloat32;
};

// The meaning of a module's argument; `index` counts variables, inputs, targets or weights.
struct ModuleArgument {
  enum class Kind { kVariable, kInput, kTarget, kWeight, kKey } kind = Kind::kKey;
  size_t index = 0;
  uint64_t rows = 0;  // the module's room for rows of a table; 0: no table
};

// The meaning of a module's result; `index` counts variables or outputs.
struct ModuleResult {
  enum class Kind { kLoss, kGradient, kOutput } kind = Kind::kLoss;
  size_t index = 0;
};

struct ProgramModule {
  bool step = false;  // false: a prediction
  uint32_t batch = 0;
  // Above 1, the module runs on as many devices at once, each with a batch of its own. The losses
  // are those of each batch, the gradients the sums over all.
  uint32_t replicas = 1;
  std::vector<ModuleArgument> arguments;
  std::vector<ModuleResult> results;
  std::string code;  // StableHLO
};

struct ProgramFile {
  std::string made_by;
  std::string stablehlo;  // version of StableHLO, for people
  std::vector<VariableSpec> variables;
  std::map<size_t, DeclaredTable> tables;  // keyed by the variable's index
  std::vector<ProgramColumn> inputs, targets, weights;
  std::vector<ProgramOutput> outputs;
  std::vector<ProgramModule> modules;
};

// Returns a module's room for rows of a table; 0 for another variable, or without such an argument.
uint64_t RowsOfTable(const ProgramModule& module, size_t variable);

// Returns the number of replicas of the file's steps for several; 1 if the file has none.
uint32_t ReplicasOf(const ProgramFile& file);

// INVALID_ARGUMENT has one line for each problem. A step has the loss and each gradient once, a
// prediction each output.
absl::StatusOr<ProgramFile> ReadProgramFile(const nlohmann::json& document);

}  // namespace paracord
