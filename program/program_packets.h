// The packets of proto/PROGRAM.md: a program's process declares itself, and the worker announces
// the layout of their shared memory. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/data_source.h"
#include "nlohmann/json.hpp"
#include "program/declaration.h"
#include "program/gradient_program.h"
#include "proto/paracord.pb.h"

namespace paracord {

inline constexpr int kProgramProtocol = 1;

struct ProgramHello {
  std::vector<VariableSpec> variables;
  std::map<size_t, DeclaredTable> tables;  // keyed by the variable's index
  std::vector<uint32_t> batches;           // supported batch sizes; empty: any
  std::vector<std::string> metrics;        // metrics evaluated by the program, "loss" first
  std::vector<ProgramOutput> outputs;
  // The columns wanted as int64 instead of float32, as pairs of "inputs", "targets" or "weights"
  // and the column's name.
  std::set<std::pair<std::string, std::string>> int64_columns;
};

// Adds one of a hello's packets. Returns true if another packet follows. INVALID_ARGUMENT says what
// is wrong.
absl::StatusOr<bool> AddHello(const nlohmann::json& packet, ProgramHello& hello);
// Checks a complete hello, across its packets.
absl::Status CheckHello(const ProgramHello& hello);
// INVALID_ARGUMENT unless a restarted program declares what it declared before.
absl::Status CheckSameHello(const ProgramHello& before, const ProgramHello& now);

struct PlacedColumn {
  uint64_t offset = 0;
  bool int64 = false;  // else float32
};

// Offsets into the memory file, each a multiple of 64.
struct ProgramLayout {
  uint32_t batch = 0;  // each column's room in examples
  uint64_t bytes = 0;
  std::vector<uint64_t> values;
  std::vector<std::optional<uint64_t>> gradients;  // for variables with a gradient
  std::vector<std::optional<uint64_t>> rows;       // for tables: room for rows
  std::vector<PlacedColumn> inputs, targets, weights;
  std::vector<uint64_t> outputs;
};

// The room for rows of each table, by variable, and the inputs with the tables' ids.
struct TableRoom {
  std::vector<std::optional<uint64_t>> rows;
  std::set<std::string> inputs;
};

// INVALID_ARGUMENT if the data have strings or lack a column typed by the program, or if the sum
// exceeds the size of a memory file.
absl::StatusOr<ProgramLayout> LayOut(const ProgramHello& hello, const Batch& schema, uint32_t batch,
                                     const TableRoom& tables);
// The packets that announce the layout to the child.
std::vector<nlohmann::json> LayoutPackets(const ProgramLayout& layout, const Batch& schema);

}  // namespace paracord
