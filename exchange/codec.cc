#include "exchange/codec.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/bytes.h"
#include "common/status_macros.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

// Protobuf's encoding (protobuf.dev/programming-guides/encoding): a field is a varint tag, number
// << 3 | wire type, followed by a value of that type.
constexpr uint32_t kPiecesField = 15;
constexpr uint64_t kPiecesTag = kPiecesField << 3 | 2;
constexpr uint64_t kPartitionTag = 1 << 3 | 0;
constexpr uint64_t kOffsetTag = 2 << 3 | 0;
constexpr uint64_t kDataTag = 3 << 3 | 2;

// All fields except the pieces are copied.
constexpr size_t kHeaderBytesMax = 8 << 20;

// A message of 64 GiB has far fewer pieces, and so many need little memory.
constexpr size_t kPiecesMax = 1 << 20;

absl::Status Malformed(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("malformed exchange: ", what));
}

// Reads a Cord front to back.
class Reader {
 public:
  explicit Reader(const absl::Cord& cord) : at_(cord.char_begin()), left_(cord.size()) {}
  bool done() const { return left_ == 0; }

  absl::StatusOr<uint64_t> Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (left_ == 0) return Malformed("it ends inside a number");
      const uint8_t byte = static_cast<uint8_t>(*at_);
      ++at_;
      --left_;
      if (shift == 63 && byte > 1) break;
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return Malformed("a number has more than 64 bits");
  }

  absl::StatusOr<absl::Cord> Bytes(uint64_t size) {
    if (size > left_) {
      return Malformed(absl::StrCat("a field of ", size, " bytes where ", left_, " are left"));
    }
    left_ -= size;
    return absl::Cord::AdvanceAndRead(&at_, size);
  }

  // Reads the value that belongs to `tag`, including its length if it has one.
  absl::StatusOr<absl::Cord> Value(uint64_t tag) {
    switch (tag & 7) {
      case 0: {
        ASSIGN_OR_RETURN(const uint64_t value, Varint());
        std::string bytes;
        AppendVarint(value, bytes);
        return absl::Cord(bytes);
      }
      case 1:
        return Bytes(8);
      case 2: {
        ASSIGN_OR_RETURN(const uint64_t size, Varint());
        std::string length;
        AppendVarint(size, length);
        ASSIGN_OR_RETURN(const absl::Cord value, Bytes(size));
        absl::Cord all(length);
        all.Append(value);
        return all;
      }
      case 5:
        return Bytes(4);
      default:
        return Malformed(absl::StrCat("wire type ", tag & 7));
    }
  }

 private:
  absl::Cord::CharIterator at_;
  uint64_t left_;
};

absl::StatusOr<PieceView> DecodePiece(const absl::Cord& bytes) {
  PieceView piece;
  Reader reader(bytes);
  while (!reader.done()) {
    ASSIGN_OR_RETURN(const uint64_t tag, reader.Varint());
    if (tag == kPartitionTag) {
      ASSIGN_OR_RETURN(const uint64_t partition, reader.Varint());
      piece.partition = static_cast<uint32_t>(partition);  // truncated as protobuf does
    } else if (tag == kOffsetTag) {
      ASSIGN_OR_RETURN(piece.offset, reader.Varint());
    } else if (tag == kDataTag) {
      ASSIGN_OR_RETURN(const uint64_t size, reader.Varint());
      ASSIGN_OR_RETURN(piece.data, reader.Bytes(size));
    } else {
      if (tag >> 3 == 0 || tag >> 32 != 0) return Malformed("a field number in a piece");
      RETURN_IF_ERROR(reader.Value(tag).status());
    }
  }
  return piece;
}

template <class Header>
absl::Status Decode(const absl::Cord& bytes, Header& header, std::vector<PieceView>& pieces) {
  std::string header_bytes;
  Reader reader(bytes);
  while (!reader.done()) {
    ASSIGN_OR_RETURN(const uint64_t tag, reader.Varint());
    if (tag == kPiecesTag) {
      ASSIGN_OR_RETURN(const uint64_t size, reader.Varint());
      ASSIGN_OR_RETURN(const absl::Cord piece_bytes, reader.Bytes(size));
      ASSIGN_OR_RETURN(PieceView piece, DecodePiece(piece_bytes));
      if (piece.data.empty()) return Malformed("an empty piece");
      if (pieces.size() == kPiecesMax) return Malformed("too many pieces");
      pieces.push_back(std::move(piece));
      continue;
    }
    ASSIGN_OR_RETURN(const absl::Cord value, reader.Value(tag));
    if (value.size() > kHeaderBytesMax - std::min(kHeaderBytesMax, header_bytes.size())) {
      return Malformed("a header of more than 8 MiB");
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

// Encodes all of a piece before its data. `padding` bytes only fill up: a varint may be longer than
// needed.
std::string PieceHead(const PieceView& piece, uint64_t data_bytes, size_t padding) {
  std::string fields;
  if (piece.partition != 0) {
    AppendVarint(kPartitionTag, fields);
    AppendVarint(piece.partition, fields);
  }
  AppendVarint(kOffsetTag, fields);
  AppendVarint(piece.offset, fields);
  for (; padding > 0; --padding) {
    fields.back() = static_cast<char>(fields.back() | '\x80');
    fields.push_back('\0');
  }
  AppendVarint(kDataTag, fields);
  AppendVarint(data_bytes, fields);
  std::string head;
  AppendVarint(kPiecesTag, head);
  AppendVarint(fields.size() + data_bytes, head);
  return head + fields;
}

// Encodes the head of a piece that begins after `behind` bytes so that its data are aligned to an
// element's size, and the receiver can use them in place.
std::string AlignedPieceHead(const PieceView& piece, uint64_t data_bytes, uint64_t behind) {
  constexpr uint64_t kAlignment = sizeof(float);
  for (size_t padding = 0;; ++padding) {
    std::string head = PieceHead(piece, data_bytes, padding);
    // Padding may also make a length longer.
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
      // Small data are not cut to fill a part; a full part is followed by a new one.
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
