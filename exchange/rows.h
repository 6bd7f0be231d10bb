// The ids of some rows of a variable, and how they travel: a RowSet says how many there are, and
// their bytes go in pieces, as tensors do. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "exchange/codec.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Ascending and distinct.
using RowIds = std::vector<uint64_t>;

// Makes `set` say the ids, which must be ascending and distinct, and adds the piece that has them.
// `part`: PUSH_IDS or PULL_IDS.
void NameRows(std::span<const uint64_t> ids, uint32_t partition, Piece::Part part, RowSet& set,
              std::vector<PieceView>& pieces);

// How many ids a request has, by what it says itself, but no more than its bytes of ids can hold. A
// ps holds 8 bytes for each while it answers.
uint64_t CountIds(const DecodedRequest& request);

// Decodes `count` ids that a peer sent. INVALID_ARGUMENT, without naming the partition, if the
// bytes are malformed or fewer than the ids; otherwise the ids are ascending and distinct. Takes 8
// bytes an id, so at most 8 for each byte that arrived, whatever `count` says.
absl::StatusOr<RowIds> DecodeRows(uint64_t count, const absl::Cord& bytes);

}  // namespace paracord
