#include "exchange/reply_sink.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "exchange/codec.h"
#include "net/arriving_body.h"
#include "proto/protocol.h"
#include "tests/parts.h"

namespace paracord {
namespace {

struct Places {
  std::map<uint32_t, std::vector<char>> partitions;
  std::shared_ptr<ReplySink> Land() {
    return MakeExchangeSink(1 << 30, [this](uint32_t id, uint64_t offset, uint64_t bytes) -> char* {
      const auto found = partitions.find(id);
      if (found == partitions.end() || offset + bytes > found->second.size()) return nullptr;
      return found->second.data() + offset;
    });
  }
};

// Receives a body in pieces of `step` bytes.
absl::Cord Receive(const std::string& bytes, const std::shared_ptr<ReplySink>& sink, size_t step) {
  ArrivingBody body(bytes.size(), /*wanted=*/true, sink);
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = std::min(step, bytes.size() - at);
    const std::span<char> room = body.Room();
    if (room.empty() || at % 3 == 0) {
      at += body.Take({bytes.data() + at, size});
      continue;
    }
    const size_t received = std::min(size, room.size());
    std::copy_n(bytes.data() + at, received, room.data());
    body.Filled(received);
    at += received;
  }
  REQUIRE(body.left() == 0);
  return body.TakeBytes();
}

std::string Numbers(size_t bytes, size_t seed) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 7 + i / 256 + seed);
  return text;
}

TEST_CASE("pieces of a reply land in their partitions wherever the bytes are cut") {
  ExchangeReply header;
  for (const uint32_t id : {0u, 300u, 70000u}) {
    PartitionState& state = *header.add_partitions();
    state.set_partition(id);
    state.set_updates(uint64_t{1} << 40);
  }
  const std::map<uint32_t, std::string> values = {
      {0, Numbers(5000, 1)}, {300, Numbers(4, 2)}, {70000, Numbers(kPieceBytes + 1000, 3)}};
  std::vector<PieceView> pieces;
  for (const auto& [id, bytes] : values) pieces.push_back({id, 0, absl::Cord(bytes)});
  const std::string whole(Joined(EncodeExchange(header, pieces)));
  for (const size_t step : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{64}, size_t{1000},
                            size_t{1} << 16, whole.size()}) {
    CAPTURE(step);
    Places places;
    for (const auto& [id, bytes] : values) places.partitions[id].resize(bytes.size());
    const absl::Cord reply = Receive(whole, places.Land(), step);
    CHECK((std::string(reply) == whole));
    for (const auto& [id, bytes] : values) {
      const std::vector<char>& place = places.partitions.at(id);
      CHECK((std::string(place.begin(), place.end()) == bytes));
    }
    const DecodedReply decoded = DecodeExchangeReply(reply).value();
    REQUIRE(decoded.pieces.size() == 4);
    for (const PieceView& piece : decoded.pieces) {
      if (piece.data.size() < 1000) continue;  // a Cord copies small data
      const auto flat = piece.data.TryFlat();
      REQUIRE(flat.has_value());
      CHECK(flat->data() == places.partitions.at(piece.partition).data() + piece.offset);
    }
  }
}

TEST_CASE("what is no piece for a place stays where it came, and so does all behind it") {
  Piece outside;
  outside.set_partition(1);
  outside.set_offset(90);
  outside.set_data(std::string(20, 'b'));
  Piece unknown;
  unknown.set_partition(2);
  unknown.set_data(std::string(20, 'c'));
  Piece backwards;  // data is not the last field
  backwards.set_data(std::string(20, 'd'));
  const std::string data_first = backwards.SerializeAsString() + "\x08\x01";
  const auto field = [](const std::string& piece) {
    return "\x7a" + std::string(1, static_cast<char>(piece.size())) + piece;
  };
  Piece good;
  good.set_partition(1);
  good.set_data(std::string(20, 'a'));
  const std::string first = field(good.SerializeAsString());
  for (const std::string& second :
       {field(outside.SerializeAsString()), field(unknown.SerializeAsString()), field(data_first),
        field("\x08"), field(""), std::string("\x7b\x7c"), std::string(80, '\xff'),
        std::string("\x7a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x08\x01\x1a\x05"),
        std::string("\x3a\x7f"), std::string("\x7a\x06\x08\x01\x1a\x7f xx")}) {
    CAPTURE(second);
    for (const size_t step : {size_t{1}, size_t{5}, size_t{1000}}) {
      Places places;
      places.partitions[1].resize(100);
      const std::string whole = first + second + first;
      CHECK(std::string(Receive(whole, places.Land(), step)) == whole);
      const std::vector<char>& place = places.partitions.at(1);
      CHECK(std::count(place.begin(), place.end(), 'a') == 20);
      CHECK(std::count(place.begin(), place.end(), '\0') == 80);
    }
  }
}

TEST_CASE("numbers and fields of other types before a piece are passed over") {
  Piece good;
  good.set_partition(1);
  good.set_data(std::string(20, 'a'));
  const std::string bytes = good.SerializeAsString();
  const std::string whole = std::string("\x08\xff\xff\x03") +
                            std::string(
                                "\x11"
                                "12345678") +
                            std::string(
                                "\x1d"
                                "1234") +
                            std::string(
                                "\x22\x04"
                                "zzzz") +
                            "\x7a" + std::string(1, static_cast<char>(bytes.size())) + bytes;
  Places places;
  places.partitions[1].resize(20);
  CHECK(std::string(Receive(whole, places.Land(), 1)) == whole);
  CHECK(places.partitions.at(1)[19] == 'a');
}

}  // namespace
}  // namespace paracord
