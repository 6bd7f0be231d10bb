// Computes how much of the host's memory a worker needs at least. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "data/data_source.h"
#include "proto/paracord.pb.h"

namespace paracord {

// What a worker needs memory for while computing, besides its copy of the variables.
struct OwnLoad {
  size_t devices = 1;        // how many devices compute side by side; 0: nothing is trained
  uint64_t batch_bytes = 0;  // BatchBytes of a batch of the job's batch size
  // Indexed by variable: the most rows of a table that a batch reads; empty: not known.
  std::vector<uint64_t> rows = {};
  uint64_t memory_parts = 1;  // the worker may use one of so many equal parts of --memory-limit
};

// Returns the bytes of a batch of `examples` examples with the columns of `schema`. A string counts
// as the size of std::string, without its letters.
uint64_t BatchBytes(const Batch& schema, uint64_t examples);

// INVALID_ARGUMENT if `limit` bytes cannot hold the worker's own program, a copy of the variables
// that are no tables, and the gradients of these variables for each device. With several devices, a
// batch and the rows of tables that it reads count for each device, too.
absl::Status CheckOwnMemory(std::span<const VariableSpec> variables, const OwnLoad& load,
                            uint64_t limit);

}  // namespace paracord
