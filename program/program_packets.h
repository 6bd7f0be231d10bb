// The first packets of proto/PROGRAM.md. In a hello, of one or more packets, the process of a job's
// program (the child) declares variables and outputs. Then this process announces the layout of the
// memory file that both share. Does no I/O.
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
  std::vector<uint32_t> batches;           // supported batch sizes; empty: all sizes
  std::vector<std::string> metrics;        // evaluated by the program, "loss" first; may be empty
  std::vector<ProgramOutput> outputs;
  // The columns that the child takes as int64 and not as float32, as pairs: "inputs", "targets" or
  // "weights", and the column's name.
  std::set<std::pair<std::string, std::string>> int64_columns;
};

// Adds a packet to `hello`. True: another packet follows. INVALID_ARGUMENT says what is wrong.
absl::StatusOr<bool> AddHello(const nlohmann::json& packet, ProgramHello& hello);
// Checks a hello after its last packet was added.
absl::Status CheckHello(const ProgramHello& hello);
// INVALID_ARGUMENT if `now`, of a restarted program, differs from `before` beyond initializers.
absl::Status CheckSameHello(const ProgramHello& before, const ProgramHello& now);

struct PlacedColumn {
  uint64_t offset = 0;
  bool int64 = false;  // true: int64; false: float32
};

// The layout of the memory file. Offsets are in bytes and multiples of 64.
struct ProgramLayout {
  uint32_t batch = 0;  // the most examples of a batch
  uint64_t bytes = 0;  // the size of the memory file
  // For each variable the offsets of its values, and of its gradient (nullopt: no gradient).
  std::vector<uint64_t> values;
  std::vector<std::optional<uint64_t>> gradients;
  std::vector<std::optional<uint64_t>> rows;  // TableRoom::rows
  std::vector<PlacedColumn> inputs, targets, weights;
  std::vector<uint64_t> outputs;  // for each output its offset
};

struct TableRoom {
  // For each variable declared as a table, the most rows that the child gets; else nullopt.
  std::vector<std::optional<uint64_t>> rows;
  std::set<std::string> inputs;  // the names of the inputs that hold ids of tables
};

// `batch`: the most examples. INVALID_ARGUMENT if a column of the data has strings, if the data
// lack one of the hello's int64_columns, or if the memory file would exceed 2^46 bytes.
absl::StatusOr<ProgramLayout> LayOut(const ProgramHello& hello, const Batch& schema, uint32_t batch,
                                     const TableRoom& tables);
std::vector<nlohmann::json> LayoutPackets(const ProgramLayout& layout, const Batch& schema);

}  // namespace paracord
