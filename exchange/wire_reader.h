// Reads protobuf's encoding (protobuf.dev/programming-guides/encoding), for messages of exchanges,
// whose payload must not be copied. A field is a varint tag, number << 3 | wire type, and a value
// of that type. Reads from any byte iterator. A reader has no lock: one thread uses it at a time.
#pragma once

#include <cstdint>

#include "proto/paracord.pb.h"

namespace paracord {

// kCut: the bytes ended early, and more may follow. kWrong: the bytes are malformed.
enum class WireRead { kOk, kCut, kWrong };

enum WireType : uint32_t { kWireVarint = 0, kWire64 = 1, kWireBytes = 2, kWire32 = 5 };
constexpr uint64_t WireTag(int field, WireType type) {
  return static_cast<uint64_t>(field) << 3 | type;
}

template <class At>
class WireReader {
 public:
  WireReader(At at, uint64_t bytes) : at_(at), left_(bytes) {}

  uint64_t left() const { return left_; }  // bytes
  // The position of the next byte. A caller that moves the position on then calls Took.
  At& at() { return at_; }
  void Took(uint64_t bytes) { left_ -= bytes; }

  WireRead Varint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (left_ == 0) return WireRead::kCut;
      const uint8_t byte = static_cast<uint8_t>(*at_);
      ++at_;
      --left_;
      if (shift == 63 && byte > 1) return WireRead::kWrong;
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return WireRead::kOk;
    }
    return WireRead::kWrong;
  }

  // Reads the tag of a field. Returns kWrong if the field's number is 0 or above 2^29 - 1, or if
  // the tag takes more than five bytes, as in protobuf's parser. A tag may be longer than it has to
  // be.
  WireRead Tag(uint64_t& tag) {
    constexpr uint64_t kTagBytesMax = 5;
    const uint64_t before = left_;
    const WireRead read = Varint(tag);
    if (read != WireRead::kOk) return read;
    const bool can_be = tag >> 3 != 0 && tag >> 32 == 0 && before - left_ <= kTagBytesMax;
    return can_be ? WireRead::kOk : WireRead::kWrong;
  }

 private:
  At at_;
  uint64_t left_;
};

// A piece (proto: Piece), with the size of its data in place of the data.
struct PieceHead {
  uint32_t partition = 0;
  uint64_t offset = 0;
  int part = Piece::VALUES;  // may be unknown, from a later protocol
  uint64_t data_bytes = 0;
};
inline constexpr uint64_t kPiecePartitionTag = WireTag(Piece::kPartitionFieldNumber, kWireVarint);
inline constexpr uint64_t kPieceOffsetTag = WireTag(Piece::kOffsetFieldNumber, kWireVarint);
inline constexpr uint64_t kPieceDataTag = WireTag(Piece::kDataFieldNumber, kWireBytes);
inline constexpr uint64_t kPiecePartTag = WireTag(Piece::kPartFieldNumber, kWireVarint);

// Reads a field of a piece into `head`, its tag into `tag`. Of the data it reads only the size, and
// stops before the bytes. Of an unknown field it reads only the tag, and sets `known` to false.
template <class At>
WireRead ReadPieceField(WireReader<At>& reader, PieceHead& head, uint64_t& tag, bool& known) {
  uint64_t value = 0;
  WireRead read = reader.Tag(tag);
  if (read != WireRead::kOk) return read;
  known = true;
  switch (tag) {
    case kPiecePartitionTag:
      read = reader.Varint(value);
      head.partition = static_cast<uint32_t>(value);  // truncated, as protobuf does
      return read;
    case kPieceOffsetTag:
      return reader.Varint(head.offset);
    case kPiecePartTag:
      read = reader.Varint(value);
      head.part = static_cast<int>(value);
      return read;
    case kPieceDataTag:
      return reader.Varint(head.data_bytes);
    default:
      known = false;
      return WireRead::kOk;
  }
}

}  // namespace paracord
