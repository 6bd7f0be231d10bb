// A program's declaration in JSON, for all kinds of programs: variables and outputs, with texts for
// people. A process sends the declaration in a packet (program_packets.h); an exported program has
// it in its file (program_file.h). Pure.
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

// The factor of an assigned variable, treated as a moving average that keeps nothing: 1 less this
// factor is exactly 1, hence the last pushed observation becomes the value bit by bit.
inline constexpr double kAssignedKeeps = 1e-300;

// An output of the predictions; the shape is of one example.
struct ProgramOutput {
  std::string name;
  Shape shape;
};

// A variable passed to the program by rows: only the rows named by the ids of a batch.
struct DeclaredTable {
  std::vector<std::string> columns;  // inputs of the data that hold the ids
  uint64_t capacity = 0;  // the most different ids of a batch; 0: as many as there can be
  bool operator==(const DeclaredTable&) const = default;
};

// Whether the worker pushes a gradient or an observation for the variable.
inline bool HasGradient(const VariableSpec& variable) { return variable.trainable(); }

// Each function reads the object at `path`, and adds problems found there. Sets `table` if the
// variable is declared as a table.
VariableSpec ReadVariable(const nlohmann::json& value, const std::string& path, Problems& problems,
                          std::optional<DeclaredTable>& table);
ProgramOutput ReadOutput(const nlohmann::json& value, const std::string& path, Problems& problems);
// Reads "shape", of at most 8 axes. False after a problem.
bool ReadShape(JsonFields& fields, std::vector<uint64_t>& shape);
// Calls `read` with each element of a list and its path; an absent key counts as an empty list.
void ReadList(JsonFields& fields, const std::string& key,
              const std::function<void(const nlohmann::json&, const std::string& path)>& read);

// A line for each variable, ending with the text of more(index of the variable).
std::string VariablesText(const std::vector<VariableSpec>& variables,
                          const std::function<std::string(size_t variable)>& more = nullptr);
std::string OutputsText(const std::vector<ProgramOutput>& outputs);
// A line for a column of kind `what` ("input") passed to the program; the shape is of one example.
std::string ColumnText(const char* what, const std::string& name,
                       const std::vector<uint64_t>& shape, const char* dtype);

}  // namespace paracord
