// Computes how much memory a worker needs, whatever it computes on. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "data/data_source.h"
#include "proto/paracord.pb.h"

namespace paracord {

// What a worker holds beside its copy of the variables while it computes.
struct OwnLoad {
  size_t devices = 1;        // that compute lanes side by side; 0: the worker does not train
  uint64_t batch_bytes = 0;  // of one batch (BatchBytes)
  // By variable: the most rows of its table that one batch names; empty: not known.
  std::vector<uint64_t> rows = {};
  uint64_t memory_parts = 1;  // the worker has one of so many equal parts of --memory-limit
};

// Returns the bytes of a batch of so many examples with the columns of `schema`. The letters of
// texts do not count.
uint64_t BatchBytes(const Batch& schema, uint64_t examples);

// INVALID_ARGUMENT if a copy of the variables, and the gradients of a lane on each device, do not
// fit in `limit` bytes. Each of several devices also has a copy of its batch, and its rows of
// tables are copied to be added up. Otherwise the rows that batches name do not count: only these
// are in a worker, and not the table.
absl::Status CheckOwnMemory(std::span<const VariableSpec> variables, const OwnLoad& load,
                            uint64_t limit);

}  // namespace paracord
