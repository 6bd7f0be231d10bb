// Encodes and decodes ExchangeRequest and ExchangeReply. The header uses the generated code; the
// pieces (field 15) are absl::Cords, so that tensors are neither copied into protobuf's strings nor
// out of them. The bytes are ordinary protobuf. Pure functions, any thread. Whether offsets and
// sizes are valid is checked by the reader of the pieces.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "common/rpc.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Limits of a message: all fields except the pieces are copied, and a message of 64 GiB has far
// fewer pieces.
inline constexpr size_t kHeaderBytesMax = 8 << 20;
inline constexpr size_t kPiecesMax = 1 << 20;

struct PieceView {
  uint32_t partition = 0;
  uint64_t offset = 0;
  absl::Cord data;  // shares bytes with its source
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

// Encodes the message as parts of about kPieceBytes, the header in the first. Data longer than that
// is cut into several pieces. `header` must have no pieces itself.
Parts EncodeExchange(const ExchangeRequest& header, std::vector<PieceView> pieces);
Parts EncodeExchange(const ExchangeReply& header, std::vector<PieceView> pieces);

// Returns INVALID_ARGUMENT if the bytes are no such message, and a limit error (common/
// limit_error.h) if the header or the pieces are too many.
absl::StatusOr<DecodedRequest> DecodeExchangeRequest(const absl::Cord& bytes);
absl::StatusOr<DecodedReply> DecodeExchangeReply(const absl::Cord& bytes);

}  // namespace paracord
