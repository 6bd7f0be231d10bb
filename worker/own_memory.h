// Computes how much memory a worker needs on any device. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "data/data_source.h"
#include "proto/paracord.pb.h"

namespace paracord {

// What a worker holds beside its copy of the variables while computing.
struct OwnLoad {
  size_t devices = 1;  // devices that compute lanes side by side; 0: the worker does not train
  uint64_t batch_bytes = 0;  // bytes of a batch (BatchBytes)
  // By variable: the most rows of its table that one batch names; empty: not known.
  std::vector<uint64_t> rows = {};
  uint64_t memory_parts = 1;  // the worker has one of so many equal parts of --memory-limit
};

// Returns the bytes of a batch of `examples` examples with the columns of `schema`, without the
// letters of texts.
uint64_t BatchBytes(const Batch& schema, uint64_t examples);

// INVALID_ARGUMENT if `limit` bytes cannot hold a copy of the variables and a lane's gradients for
// each device. With several devices, each device also has a copy of its batch, and rows of tables
// are copied to be added up. Otherwise the rows of batches are left out: a worker holds these rows,
// not whole tables.
absl::Status CheckOwnMemory(std::span<const VariableSpec> variables, const OwnLoad& load,
                            uint64_t limit);

}  // namespace paracord
