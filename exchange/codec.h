// ExchangeRequest and ExchangeReply around absl::Cord: the header goes through the generated code,
// the pieces (field 15) never do, so a tensor is neither copied into protobuf's strings nor out of
// them. The bytes are plain protobuf all the same. Pure functions, any thread; whether offsets and
// sizes make sense is for the reader of the pieces to say.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "common/rpc.h"
#include "proto/paracord.pb.h"

namespace paracord {

struct PieceView {
  uint32_t partition = 0;
  uint64_t offset = 0;
  absl::Cord data;  // shares its bytes with where it came from
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

// The message cut into parts of about kPieceBytes, the header in the first; data longer than that
// is cut into several pieces. `header` has no pieces of its own.
Parts EncodeExchange(const ExchangeRequest& header, std::vector<PieceView> pieces);
Parts EncodeExchange(const ExchangeReply& header, std::vector<PieceView> pieces);

// INVALID_ARGUMENT if the bytes are not the message.
absl::StatusOr<DecodedRequest> DecodeExchangeRequest(const absl::Cord& bytes);
absl::StatusOr<DecodedReply> DecodeExchangeReply(const absl::Cord& bytes);

}  // namespace paracord
