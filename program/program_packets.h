// The packets of proto/PROGRAM.md: a program in a process declares itself, and the worker tells it
// where everything lies in the memory that they share. Pure.
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
  std::map<size_t, DeclaredTable> tables;  // by variable
  std::vector<uint32_t> batches;           // that it can compute; empty: any
  std::vector<std::string> metrics;        // that it evaluates itself, "loss" first
  std::vector<ProgramOutput> outputs;
  // The columns that it wants as int64, not as float32: "inputs", "targets" or "weights", and the
  // name.
  std::set<std::pair<std::string, std::string>> int64_columns;
};

// Adds one packet of a hello, of which there may be several. True if another one follows.
// INVALID_ARGUMENT says what is wrong with it.
absl::StatusOr<bool> AddHello(const nlohmann::json& packet, ProgramHello& hello);
// Checks what only all packets of a hello show together.
absl::Status CheckHello(const ProgramHello& hello);
// INVALID_ARGUMENT unless a program that was started again says what it said before.
absl::Status CheckSameHello(const ProgramHello& before, const ProgramHello& now);

struct PlacedColumn {
  uint64_t offset = 0;
  bool int64 = false;  // else float32
};

// Offsets into the memory file, each a multiple of 64.
struct ProgramLayout {
  uint32_t batch = 0;  // the most examples that a column has room for
  uint64_t bytes = 0;
  std::vector<uint64_t> values;
  std::vector<std::optional<uint64_t>> gradients;  // of the variables that have one
  std::vector<std::optional<uint64_t>> rows;       // that there is room for, of tables
  std::vector<PlacedColumn> inputs, targets, weights;
  std::vector<uint64_t> outputs;
};

// The rows of tables that there is to be room for, by variable, and the inputs that have their ids.
struct TableRoom {
  std::vector<std::optional<uint64_t>> rows;
  std::set<std::string> inputs;
};

// INVALID_ARGUMENT if the data have strings, or lack a column of which the program says a type, or
// all is too much for one memory file.
absl::StatusOr<ProgramLayout> LayOut(const ProgramHello& hello, const Batch& schema, uint32_t batch,
                                     const TableRoom& tables);
// The packets that tell the child.
std::vector<nlohmann::json> LayoutPackets(const ProgramLayout& layout, const Batch& schema);

}  // namespace paracord
