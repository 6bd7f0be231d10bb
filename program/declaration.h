// Reads a program's declaration of its variables and outputs, in JSON, and describes both for
// people. A process sends the declaration in packets (program_packets.h); an exported program has
// the declaration in its file (program_file.h). Does no I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/json_fields.h"
#include "config/shape.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {

// VariableSpec.moving_average, a factor, of a variable declared as `assigned`. A moving average
// becomes its old value times the factor + an observation times (1 - factor). With kAssignedKeeps,
// 1 - factor is exactly 1, and the value becomes the last pushed observation, bit by bit.
inline constexpr double kAssignedKeeps = 1e-300;

// An output that the program predicts; the shape is of one example.
struct ProgramOutput {
  std::string name;
  Shape shape;
};

// A variable of which the program gets only the rows named by the ids of a batch.
struct DeclaredTable {
  std::vector<std::string> columns;  // names of the inputs of the data that hold the ids
  uint64_t capacity = 0;             // the most different ids that a batch may have; 0: no limit
  bool operator==(const DeclaredTable&) const = default;
};

// Whether the program computes a gradient, or the observation of a moving average, of the variable.
inline bool HasGradient(const VariableSpec& variable) { return variable.trainable(); }

// ReadVariable and ReadOutput read `value`, which lies at `path` in the declaration, and add what
// is wrong with `value` to `problems`. ReadVariable sets `table` if `value` declares a table.
VariableSpec ReadVariable(const nlohmann::json& value, const std::string& path, Problems& problems,
                          std::optional<DeclaredTable>& table);
ProgramOutput ReadOutput(const nlohmann::json& value, const std::string& path, Problems& problems);
// Reads the key "shape", a list of at most 8 sizes. If the key is missing or wrong, adds a problem
// and returns false.
bool ReadShape(JsonFields& fields, std::vector<uint64_t>& shape);
// Calls `read` for each element of the list at `key`. An absent key counts as an empty list.
void ReadList(JsonFields& fields, const std::string& key,
              const std::function<void(const nlohmann::json&, const std::string& path)>& read);

// Returns a line for each variable. With `more`, the line of variable i ends with more(i).
std::string VariablesText(const std::vector<VariableSpec>& variables,
                          const std::function<std::string(size_t variable)>& more = nullptr);
std::string OutputsText(const std::vector<ProgramOutput>& outputs);
// Returns a line that describes a column passed to the program. `what`: "input", "target" or
// "weight"; `shape`: the shape of one example.
std::string ColumnText(const char* what, const std::string& name,
                       const std::vector<uint64_t>& shape, const char* dtype);

}  // namespace paracord
