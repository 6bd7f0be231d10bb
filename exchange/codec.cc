#include "exchange/codec.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/bytes.h"
#include "common/limit_error.h"
#include "common/status_macros.h"
#include "exchange/wire_reader.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

constexpr uint64_t kPiecesTag = WireTag(ExchangeRequest::kPiecesFieldNumber, kWireBytes);
static_assert(+ExchangeRequest::kPiecesFieldNumber == +ExchangeReply::kPiecesFieldNumber);

absl::Status Malformed(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("malformed exchange: ", what));
}

// Reads a Cord from front to back.
class Reader {
 public:
  explicit Reader(const absl::Cord& cord) : wire_(cord.char_begin(), cord.size()) {}
  bool done() const { return wire_.left() == 0; }

  absl::StatusOr<uint64_t> Varint() {
    uint64_t value = 0;
    RETURN_IF_ERROR(Check(wire_.Varint(value)));
    return value;
  }

  absl::StatusOr<uint64_t> Tag() {
    uint64_t tag = 0;
    RETURN_IF_ERROR(Check(wire_.Tag(tag)));
    return tag;
  }

  absl::StatusOr<absl::Cord> Bytes(uint64_t size) {
    if (size > wire_.left()) {
      return Malformed(
          absl::StrCat("a field of ", size, " bytes where ", wire_.left(), " are left"));
    }
    wire_.Took(size);
    return absl::Cord::AdvanceAndRead(&wire_.at(), size);
  }

  // Reads the value of the field `tag`, with its length if the field is length-delimited.
  absl::StatusOr<absl::Cord> Value(uint64_t tag) {
    switch (tag & 7) {
      case kWireVarint: {
        ASSIGN_OR_RETURN(const uint64_t value, Varint());
        std::string bytes;
        AppendVarint(value, bytes);
        return absl::Cord(bytes);
      }
      case kWire64:
        return Bytes(8);
      case kWireBytes: {
        ASSIGN_OR_RETURN(const uint64_t size, Varint());
        std::string length;
        AppendVarint(size, length);
        ASSIGN_OR_RETURN(const absl::Cord value, Bytes(size));
        absl::Cord all(length);
        all.Append(value);
        return all;
      }
      case kWire32:
        return Bytes(4);
      default:
        return Malformed(absl::StrCat("wire type ", tag & 7));
    }
  }

  absl::StatusOr<PieceView> ReadPiece() {
    PieceView piece;
    while (!done()) {
      PieceHead head{.partition = piece.partition, .offset = piece.offset, .part = piece.part};
      uint64_t tag = 0;
      bool known = false;
      RETURN_IF_ERROR(Check(ReadPieceField(wire_, head, tag, known)));
      piece.partition = head.partition;
      piece.offset = head.offset;
      piece.part = static_cast<Piece::Part>(head.part);
      if (tag == kPieceDataTag) {
        ASSIGN_OR_RETURN(piece.data, Bytes(head.data_bytes));
      } else if (!known) {
        RETURN_IF_ERROR(Value(tag).status());
      }
    }
    return piece;
  }

 private:
  static absl::Status Check(WireRead read) {
    if (read == WireRead::kOk) return absl::OkStatus();
    return Malformed(read == WireRead::kCut ? "it ends inside a number"
                                            : "a number that cannot be");
  }

  WireReader<absl::Cord::CharIterator> wire_;
};

template <class Header>
absl::Status Decode(const absl::Cord& bytes, Header& header, std::vector<PieceView>& pieces) {
  std::string header_bytes;
  Reader reader(bytes);
  while (!reader.done()) {
    ASSIGN_OR_RETURN(const uint64_t tag, reader.Tag());
    if (tag == kPiecesTag) {
      ASSIGN_OR_RETURN(const uint64_t size, reader.Varint());
      ASSIGN_OR_RETURN(const absl::Cord piece_bytes, reader.Bytes(size));
      ASSIGN_OR_RETURN(PieceView piece, Reader(piece_bytes).ReadPiece());
      if (piece.data.empty()) return Malformed("an empty piece");
      if (pieces.size() == kPiecesMax) {
        return LimitError(absl::StrCat("an exchange of more than ", kPiecesMax,
                                       " pieces: a smaller batch, or more ps"));
      }
      pieces.push_back(std::move(piece));
      continue;
    }
    ASSIGN_OR_RETURN(const absl::Cord value, reader.Value(tag));
    if (value.size() > kHeaderBytesMax - std::min(kHeaderBytesMax, header_bytes.size())) {
      return LimitError(absl::StrCat("an exchange whose header has more than ",
                                     kHeaderBytesMax >> 20,
                                     " MiB, most of which names partitions: more ps"));
    }
    AppendVarint(tag, header_bytes);
    for (const absl::string_view chunk : value.Chunks()) {
      header_bytes.append(chunk.data(), chunk.size());
    }
  }
  if (!header.ParseFromString(header_bytes) || header.pieces_size() != 0) {
    return Malformed(absl::StrCat("the header of ", header.GetTypeName()));
  }
  return absl::OkStatus();
}

// Encodes the fields of a piece up to its data. `padding`: extra bytes for the varint of `offset`,
// which may be longer than needed.
std::string EncodePieceHead(const PieceView& piece, uint64_t data_bytes, size_t padding) {
  std::string fields;
  if (piece.partition != 0) {
    AppendVarint(kPiecePartitionTag, fields);
    AppendVarint(piece.partition, fields);
  }
  if (piece.part != Piece::VALUES) {
    AppendVarint(kPiecePartTag, fields);
    AppendVarint(static_cast<uint64_t>(piece.part), fields);
  }
  AppendVarint(kPieceOffsetTag, fields);
  AppendVarint(piece.offset, fields);
  for (; padding > 0; --padding) {
    fields.back() = static_cast<char>(fields.back() | '\x80');
    fields.push_back('\0');
  }
  AppendVarint(kPieceDataTag, fields);
  AppendVarint(data_bytes, fields);
  std::string head;
  AppendVarint(kPiecesTag, head);
  AppendVarint(fields.size() + data_bytes, head);
  return head + fields;
}

// Encodes the head of a piece so that its data start at a multiple of 4 bytes, `behind` bytes being
// before the head. A receiver can then use the floats in place.
std::string AlignedPieceHead(const PieceView& piece, uint64_t data_bytes, uint64_t behind) {
  constexpr uint64_t kAlignment = sizeof(float);
  for (size_t padding = 0;; ++padding) {
    std::string head = EncodePieceHead(piece, data_bytes, padding);
    // Padding may also lengthen the varint of the piece's length.
    if ((behind + head.size()) % kAlignment == 0 || padding == kAlignment) return head;
  }
}

template <class Header>
Parts Encode(const Header& header, std::vector<PieceView>& pieces) {
  Parts parts{absl::Cord(header.SerializeAsString())};
  uint64_t bytes = parts.back().size();
  for (PieceView& piece : pieces) {
    do {
      absl::Cord& last = parts.back();
      const uint64_t room = last.size() < kPieceBytes ? kPieceBytes - last.size() : 0;
      // Data that fit a part are not split: they go to a new part if the last one is too full.
      const uint64_t take = std::min<uint64_t>(piece.data.size(), kPieceBytes);
      if (take > room && !last.empty()) {
        parts.emplace_back();
        continue;
      }
      absl::Cord data = piece.data.Subcord(0, take);
      const std::string head = AlignedPieceHead(piece, take, bytes);
      bytes += head.size() + take;
      last.Append(head);
      last.Append(std::move(data));
      piece.data.RemovePrefix(take);
      piece.offset += take;
      if (piece.data.empty()) break;
    } while (true);
  }
  return parts;
}

}  // namespace

Parts EncodeExchange(const ExchangeRequest& header, std::vector<PieceView> pieces) {
  return Encode(header, pieces);
}

Parts EncodeExchange(const ExchangeReply& header, std::vector<PieceView> pieces) {
  return Encode(header, pieces);
}

absl::StatusOr<DecodedRequest> DecodeExchangeRequest(const absl::Cord& bytes) {
  DecodedRequest request;
  RETURN_IF_ERROR(Decode(bytes, request.header, request.pieces));
  return request;
}

absl::StatusOr<DecodedReply> DecodeExchangeReply(const absl::Cord& bytes) {
  DecodedReply reply;
  RETURN_IF_ERROR(Decode(bytes, reply.header, reply.pieces));
  return reply;
}

}  // namespace paracord
