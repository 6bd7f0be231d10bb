// Encodes and decodes ExchangeRequest and ExchangeReply as ordinary protobuf. Generated code
// handles the header: all fields but the pieces. Pieces (field 15) are absl::Cords, so that tensors
// are not copied into protobuf's strings or out of them. The functions do not check offsets and
// sizes of pieces; ReadStep and the worker's reader of replies do. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "common/rpc.h"
#include "proto/paracord.pb.h"

namespace paracord {

// The limits of a message.
inline constexpr size_t kHeaderBytesMax = 8 << 20;
inline constexpr size_t kPiecesMax = 1 << 20;

// A part of a partition's values or ids: `data` begins at byte `offset` of them.
struct PieceView {
  uint32_t partition = 0;
  uint64_t offset = 0;
  absl::Cord data;  // after decoding: shares the bytes of the message's Cord
  Piece::Part part = Piece::VALUES;
};
inline uint64_t PieceBytes(const std::vector<PieceView>& pieces) {
  uint64_t bytes = 0;
  for (const PieceView& piece : pieces) bytes += piece.data.size();
  return bytes;
}

struct DecodedRequest {
  ExchangeRequest header;  // without pieces
  std::vector<PieceView> pieces;
};

struct DecodedReply {
  ExchangeReply header;  // without pieces
  std::vector<PieceView> pieces;
};

// Encodes a message as parts of about kPieceBytes (proto/protocol.h). The first part begins with
// the whole header. A piece with more data is cut into several. `header` must have no pieces.
Parts EncodeExchange(const ExchangeRequest& header, std::vector<PieceView> pieces);
Parts EncodeExchange(const ExchangeReply& header, std::vector<PieceView> pieces);

// Return INVALID_ARGUMENT if the bytes are malformed or a piece is empty, and a limit error
// (common/limit_error.h) if the header or the number of pieces exceeds its limit.
absl::StatusOr<DecodedRequest> DecodeExchangeRequest(const absl::Cord& bytes);
absl::StatusOr<DecodedReply> DecodeExchangeReply(const absl::Cord& bytes);

}  // namespace paracord
