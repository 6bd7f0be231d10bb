// Computes how much memory of the host a worker needs, whatever its device. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "data/data_source.h"
#include "proto/paracord.pb.h"

namespace paracord {

// What a worker holds while computing, beside its copy of the variables.
struct OwnLoad {
  size_t devices = 1;        // devices that compute lanes side by side; 0: nothing is trained
  uint64_t batch_bytes = 0;  // BatchBytes of a whole batch
  // For each variable that is a table, the most rows that a batch reads; empty: not known.
  std::vector<uint64_t> rows = {};
  uint64_t memory_parts = 1;  // the worker may take one of so many equal parts of --memory-limit
};

// Returns the bytes of a batch of `examples` examples with the columns of `schema`. Of a string,
// only the std::string object counts, not its letters.
uint64_t BatchBytes(const Batch& schema, uint64_t examples);

// INVALID_ARGUMENT if `limit` bytes cannot hold the program itself, a copy of the variables that
// are no tables, and their gradients for each device. With several devices, a batch and copied rows
// of tables count for each device, too; with one device, rows of tables do not count.
absl::Status CheckOwnMemory(std::span<const VariableSpec> variables, const OwnLoad& load,
                            uint64_t limit);

}  // namespace paracord
