// Row ids of a variable on the wire: a RowSet has their number and the size of their bytes, and
// pieces have the bytes, as for tensors. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "exchange/codec.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Ascending, distinct row ids.
using RowIds = std::vector<uint64_t>;

// Describes `ids`, ascending and distinct, in `set`, and appends the piece with their bytes. `part`
// is PUSH_IDS or PULL_IDS.
void NameRows(std::span<const uint64_t> ids, uint32_t partition, Piece::Part part, RowSet& set,
              std::vector<PieceView>& pieces);

// Returns the number of row ids that a request claims to have, at most as many as the bytes of its
// pieces of ids. A ps needs 8 bytes of memory for each id until it has answered.
uint64_t CountIds(const DecodedRequest& request);

// Decodes `count` ids from a peer into ascending, distinct ids. Returns INVALID_ARGUMENT, without
// the partition's name, if the bytes are malformed, too few or too many. Takes 8 bytes of memory
// per id, so at most 8 per byte of `bytes`, whatever `count` says.
absl::StatusOr<RowIds> DecodeRows(uint64_t count, const absl::Cord& bytes);

}  // namespace paracord
