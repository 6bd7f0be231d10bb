// The ids of some rows of a variable, and how they travel (proto: RowSet). Pure functions, any
// thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Ascending and distinct.
using RowIds = std::vector<uint64_t>;

// Encodes ids, which must be ascending and distinct.
RowSet EncodeRows(std::span<const uint64_t> ids);

// Decodes a set that a peer sent. INVALID_ARGUMENT, without naming the partition, if it is
// malformed or has more ids than it has bytes; otherwise the ids are ascending and distinct. Takes
// memory in proportion to the bytes that arrived, whatever `count` says.
absl::StatusOr<RowIds> DecodeRows(const RowSet& rows);

}  // namespace paracord
