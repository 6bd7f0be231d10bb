#include "exchange/reply_sink.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "exchange/wire_reader.h"

namespace paracord {
namespace {

// A piece has two tags and two lengths before its data, each pair of at most 20 bytes.
constexpr size_t kHeadBytesMax = 64;

class ExchangeSink : public ReplySink {
 public:
  ExchangeSink(uint64_t bytes_max, PiecePlaceFn place)
      : bytes_max_(bytes_max), place_(std::move(place)) {}

  uint64_t bytes_max() const override { return bytes_max_; }

  Place Look(std::string_view bytes) override {
    Place next;
    while (next.looked < bytes.size()) {
      if (skip_ > 0) {
        const uint64_t skipped = std::min<uint64_t>(skip_, bytes.size() - next.looked);
        next.looked += skipped;
        skip_ -= skipped;
        continue;
      }
      head_.push_back(bytes[next.looked++]);
      const Head head = ReadHead();
      if (head == Head::kCut && head_.size() < kHeadBytesMax) continue;
      head_.clear();
      if (head == Head::kField) continue;
      next.at = head == Head::kPiece ? place_(piece_.partition, piece_.offset, piece_.data_bytes)
                                     : nullptr;
      if (next.at == nullptr) {
        next.wanted = false;
        return next;
      }
      next.bytes = piece_.data_bytes;
      return next;
    }
    return next;
  }

 private:
  enum class Head { kCut, kField, kPiece, kWrong };

  // Reads a varint field, the head of a field to skip, or the fields of a piece up to its data.
  Head ReadHead() {
    WireReader<const char*> reader(head_.data(), head_.size());
    uint64_t tag = 0;
    uint64_t value = 0;
    if (const WireRead read = reader.Tag(tag); read != WireRead::kOk) return HeadOf(read);
    switch (tag & 7) {
      case kWireVarint:
        return HeadOf(reader.Varint(value));
      case kWire64:
        skip_ = 8;
        return Head::kField;
      case kWire32:
        skip_ = 4;
        return Head::kField;
      case kWireBytes:
        if (const WireRead read = reader.Varint(value); read != WireRead::kOk) return HeadOf(read);
        if (tag >> 3 == ExchangeReply::kPiecesFieldNumber) return ReadPiece(reader, value);
        skip_ = value;
        return Head::kField;
      default:
        return Head::kWrong;
    }
  }

  static Head HeadOf(WireRead read) {
    return read == WireRead::kOk    ? Head::kField
           : read == WireRead::kCut ? Head::kCut
                                    : Head::kWrong;
  }

  // The data must end the piece, as codec.cc writes it.
  Head ReadPiece(WireReader<const char*>& reader, uint64_t bytes) {
    const uint64_t before = reader.left();
    piece_ = {};
    while (true) {
      uint64_t tag = 0;
      bool known = false;
      const WireRead read = ReadPieceField(reader, piece_, tag, known);
      if (read != WireRead::kOk) return HeadOf(read);
      if (!known || piece_.part != Piece::VALUES) return Head::kWrong;
      if (tag != kPieceDataTag) continue;
      if (piece_.data_bytes == 0) return Head::kWrong;
      const uint64_t head = before - reader.left();
      return bytes >= head && bytes - head == piece_.data_bytes ? Head::kPiece : Head::kWrong;
    }
  }

  const uint64_t bytes_max_;
  const PiecePlaceFn place_;
  std::string head_;   // bytes of an incomplete head
  uint64_t skip_ = 0;  // remaining bytes of a field to skip
  PieceHead piece_;
};

}  // namespace

std::shared_ptr<ReplySink> MakeExchangeSink(uint64_t bytes_max, PiecePlaceFn place) {
  return std::make_shared<ExchangeSink>(bytes_max, std::move(place));
}

}  // namespace paracord
