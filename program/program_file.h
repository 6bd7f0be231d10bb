// Reads a program file: a model that an exporter (python/paracord) has written as a JSON document,
// with variables, columns and modules. Each module is for a step or for a prediction, and for one
// batch size. program/PROGRAM_FILE.md has an example. Does no I/O.
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

// A column that the modules take. `shape`: the shape of one example.
struct ProgramColumn {
  std::string name;
  std::vector<uint64_t> shape;
  ColumnType type = ColumnType::kFloat32;
};

// The meaning of a module's argument. kKey: the batch_key of GradientProgram::ComputeGradients. For
// the other kinds `index` is the index in the file's variables, inputs, targets or weights.
struct ModuleArgument {
  enum class Kind { kVariable, kInput, kTarget, kWeight, kKey } kind = Kind::kKey;
  size_t index = 0;
  uint64_t rows = 0;  // for a variable that is a table, how many rows are passed; otherwise 0
};

// The meaning of a module's result. `index`: which variable (kGradient) or output (kOutput).
struct ModuleResult {
  enum class Kind { kLoss, kGradient, kOutput } kind = Kind::kLoss;
  size_t index = 0;
};

struct ProgramModule {
  bool step = false;   // true: the module computes loss and gradients; false: it predicts
  uint32_t batch = 0;  // the number of examples
  // Above 1, the module runs on so many devices at once, each with a batch of its own. Each device
  // returns the loss over its own batch, and the sums of the gradients of all batches.
  uint32_t replicas = 1;
  std::vector<ModuleArgument> arguments;
  std::vector<ModuleResult> results;
  std::string code;  // StableHLO
};

struct ProgramFile {
  std::string made_by;    // the exporter, for people
  std::string stablehlo;  // version of StableHLO, for people
  std::vector<VariableSpec> variables;
  std::map<size_t, DeclaredTable> tables;  // keyed by the variable's index
  std::vector<ProgramColumn> inputs, targets, weights;
  std::vector<ProgramOutput> outputs;
  std::vector<ProgramModule> modules;
};

// Returns ModuleArgument::rows of the variable; 0 if the variable is no argument.
uint64_t RowsOfTable(const ProgramModule& module, size_t variable);

// Returns ProgramModule::replicas of the steps for several replicas; 1 if the file has none.
uint32_t ReplicasOf(const ProgramFile& file);

// INVALID_ARGUMENT says what is wrong. In the returned file each step has as results the loss and
// the gradient of each trained variable, each once, and each prediction has each output once.
absl::StatusOr<ProgramFile> ReadProgramFile(const nlohmann::json& document);

}  // namespace paracord
