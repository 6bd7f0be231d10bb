#include "exchange/reply_landing.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "proto/paracord.pb.h"

namespace paracord {
namespace {

using google::protobuf::internal::WireFormatLite;

// A tag and a length take at most 20 bytes, and a piece has two of each before its data.
constexpr size_t kHeadBytesMax = 64;

class ExchangeLanding : public Landing {
 public:
  ExchangeLanding(uint64_t bytes_max, PiecePlaceFn place)
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
      next.at = head == Head::kPiece ? place_(partition_, offset_, data_) : nullptr;
      if (next.at == nullptr) {
        next.wanted = false;
        return next;
      }
      next.bytes = data_;
      return next;
    }
    return next;
  }

 private:
  enum class Head { kCut, kField, kPiece, kWrong };
  using Input = google::protobuf::io::CodedInputStream;

  // Reads a number, a field that is skipped, or a piece up to its data.
  Head ReadHead() {
    Input input(reinterpret_cast<const uint8_t*>(head_.data()), static_cast<int>(head_.size()));
    const uint32_t tag = input.ReadTag();
    uint64_t value = 0;
    if (tag == 0) return Head::kCut;
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_VARINT:
        return input.ReadVarint64(&value) ? Head::kField : Head::kCut;
      case WireFormatLite::WIRETYPE_FIXED64:
        skip_ = 8;
        return Head::kField;
      case WireFormatLite::WIRETYPE_FIXED32:
        skip_ = 4;
        return Head::kField;
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        if (!input.ReadVarint64(&value)) return Head::kCut;
        if (WireFormatLite::GetTagFieldNumber(tag) == ExchangeReply::kPiecesFieldNumber) {
          return ReadPiece(input, value);
        }
        skip_ = value;
        return Head::kField;
      default:
        return Head::kWrong;
    }
  }

  // The data are the last of the piece's `bytes`, as our encoder writes it.
  Head ReadPiece(Input& input, uint64_t bytes) {
    const int begin = input.CurrentPosition();
    partition_ = 0;
    offset_ = 0;
    while (true) {
      const uint32_t tag = input.ReadTag();
      uint64_t value = 0;
      if (tag == 0 || !input.ReadVarint64(&value)) return Head::kCut;
      if (tag == kPartitionTag) {
        partition_ = static_cast<uint32_t>(value);
      } else if (tag == kOffsetTag) {
        offset_ = value;
      } else if (tag == kDataTag && value > 0) {
        data_ = value;
        const auto before = static_cast<uint64_t>(input.CurrentPosition() - begin);
        return bytes >= before && bytes - before == value ? Head::kPiece : Head::kWrong;
      } else {
        return Head::kWrong;
      }
    }
  }

  static constexpr uint32_t kPartitionTag = Piece::kPartitionFieldNumber << 3 | 0;
  static constexpr uint32_t kOffsetTag = Piece::kOffsetFieldNumber << 3 | 0;
  static constexpr uint32_t kDataTag = Piece::kDataFieldNumber << 3 | 2;

  const uint64_t bytes_max_;
  const PiecePlaceFn place_;
  std::string head_;   // bytes of a head that is not complete
  uint64_t skip_ = 0;  // bytes of a skipped field's value
  uint32_t partition_ = 0;
  uint64_t offset_ = 0;
  uint64_t data_ = 0;
};

}  // namespace

std::shared_ptr<Landing> MakeExchangeLanding(uint64_t bytes_max, PiecePlaceFn place) {
  return std::make_shared<ExchangeLanding>(bytes_max, std::move(place));
}

}  // namespace paracord
