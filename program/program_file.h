// A program file: what an exporter writes of a model (python/paracord). It is one JSON document of
// format 1, which travels in the job: variables and columns, and modules, each of which computes a
// step or a prediction of one size of batch. program/PROGRAM_FILE.md has an example. Pure.
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

// A column that the modules take; the shape is of one example.
struct ProgramColumn {
  std::string name;
  std::vector<uint64_t> shape;
  ColumnType type = ColumnType::kFloat32;
};

// Says what an argument of a module is; `index` counts variables, inputs, targets or weights.
struct ModuleArgument {
  enum class Kind { kVariable, kInput, kTarget, kWeight, kKey } kind = Kind::kKey;
  size_t index = 0;
  uint64_t rows = 0;  // of a table, that the module has room for; 0: it is no table
};

// Says what a result of a module is; `index` counts variables or outputs.
struct ModuleResult {
  enum class Kind { kLoss, kGradient, kOutput } kind = Kind::kLoss;
  size_t index = 0;
};

struct ProgramModule {
  bool step = false;  // else it predicts
  uint32_t batch = 0;
  std::vector<ModuleArgument> arguments;
  std::vector<ModuleResult> results;
  std::string code;  // StableHLO
};

struct ProgramFile {
  std::string made_by;
  std::string stablehlo;  // its version, for people
  std::vector<VariableSpec> variables;
  std::map<size_t, DeclaredTable> tables;  // by variable
  std::vector<ProgramColumn> inputs, targets, weights;
  std::vector<ProgramOutput> outputs;
  std::vector<ProgramModule> modules;
};

// Returns how many rows of a table a module has room for; 0 of another variable, or one that it
// does not take.
uint64_t RowsOfTable(const ProgramModule& module, size_t variable);

// INVALID_ARGUMENT has one line for each problem. A step has the loss and each gradient once, a
// prediction each output.
absl::StatusOr<ProgramFile> ReadProgramFile(const nlohmann::json& document);

}  // namespace paracord
