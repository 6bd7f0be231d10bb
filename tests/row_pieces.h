// Rows of pushes and pulls in a request, for tests. Row ids are pieces of the request.
#pragma once

#include <vector>

#include "exchange/codec.h"
#include "exchange/rows.h"

namespace paracord {

// Replaces the rows that a push or pull of the request names.
inline void SetRowsOf(DecodedRequest& request, uint32_t partition, Piece::Part part, RowSet& set,
                      const RowIds& ids) {
  std::erase_if(request.pieces, [&](const PieceView& piece) {
    return piece.partition == partition && piece.part == part;
  });
  NameRows(ids, partition, part, set, request.pieces);
}
inline void SetPushRows(DecodedRequest& request, PartitionPush& push, const RowIds& ids) {
  SetRowsOf(request, push.partition(), Piece::PUSH_IDS, *push.mutable_rows(), ids);
}
inline void SetPullRows(DecodedRequest& request, PartitionPull& pull, const RowIds& ids) {
  SetRowsOf(request, pull.partition(), Piece::PULL_IDS, *pull.mutable_rows(), ids);
}
// Like SetPushRows, but with arbitrary bytes in place of ids.
inline void SetPushIds(DecodedRequest& request, PartitionPush& push, uint64_t count,
                       const std::string& bytes) {
  SetPushRows(request, push, {});
  push.mutable_rows()->set_count(count);
  push.mutable_rows()->set_bytes(bytes.size());
  if (bytes.empty()) return;
  request.pieces.push_back({push.partition(), 0, absl::Cord(bytes), Piece::PUSH_IDS});
}

}  // namespace paracord
