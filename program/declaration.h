// A program declares in JSON, whatever runs it: variables and outputs, and texts of
// them for people. A process says it in a packet (program_packets.h), an exported program in its
// file (program_file.h). Pure.
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

// The factor of a variable that is assigned: a moving average that keeps nothing, as 1 less this
// factor is 1, so that the last observation that is pushed is its value to the bit.
inline constexpr double kAssignedKeeps = 1e-300;

// An output of its predictions; the shape is of one example.
struct ProgramOutput {
  std::string name;
  Shape shape;
};

// A variable of which the program is given the rows alone that the ids of a batch name.
struct DeclaredTable {
  std::vector<std::string> columns;  // inputs of the data that have its ids
  uint64_t capacity = 0;  // the most different ids of a batch; 0: as many as there can be
  bool operator==(const DeclaredTable&) const = default;
};

// Whether the worker pushes something for the variable: its gradient, or an observation.
inline bool HasGradient(const VariableSpec& variable) { return variable.trainable(); }

// Each reads the object at `path`, and adds its problems.
// `table` is set if the variable is declared one.
VariableSpec ReadVariable(const nlohmann::json& value, const std::string& path, Problems& problems,
                          std::optional<DeclaredTable>& table);
ProgramOutput ReadOutput(const nlohmann::json& value, const std::string& path, Problems& problems);
// Reads "shape", of at most 8 axes. False after a problem.
bool ReadShape(JsonFields& fields, std::vector<uint64_t>& shape);
// Calls `read` with each element of a list and its path; a key that is absent is an empty list.
void ReadList(JsonFields& fields, const std::string& key,
              const std::function<void(const nlohmann::json&, const std::string& path)>& read);

// A line for each; that of a variable ends with what `more` says of it, by its index.
std::string VariablesText(const std::vector<VariableSpec>& variables,
                          const std::function<std::string(size_t variable)>& more = nullptr);
std::string OutputsText(const std::vector<ProgramOutput>& outputs);
// A line for a column of `what` ("input") that the program is given; the shape is of one example.
std::string ColumnText(const char* what, const std::string& name,
                       const std::vector<uint64_t>& shape, const char* dtype);

}  // namespace paracord
