#include "exchange/codec.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "common/limit_error.h"
#include "proto/protocol.h"
#include "tests/parts.h"

namespace paracord {
namespace {

std::string Bytes(size_t size, char first) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(first + static_cast<char>(i % 97));
  return bytes;
}

// Returns the bytes in chunks of `chunk` bytes, as from the network.
absl::Cord Cut(const std::string& bytes, size_t chunk) {
  absl::Cord cord;
  for (size_t at = 0; at < bytes.size(); at += chunk) {
    auto* piece = new std::string(bytes.substr(at, chunk));
    cord.Append(absl::MakeCordFromExternal(*piece, [piece](absl::string_view) { delete piece; }));
  }
  return cord;
}

ExchangeRequest FullHeader() {
  ExchangeRequest header;
  header.mutable_fence()->set_run_id("run");
  header.mutable_fence()->set_generation(7);
  header.set_worker("worker:1");
  header.mutable_batch()->set_epoch(uint64_t{1} << 40);
  header.mutable_batch()->set_batch(3);
  for (uint32_t i = 0; i < 5; ++i) {
    PartitionPush* push = header.add_push();
    push->set_partition(i * 1000);
    push->set_bytes(i);
    PartitionPull* pull = header.add_pull();
    pull->set_partition(i);
    if (i % 2 == 0) pull->set_known_version(i);
  }
  return header;
}

TEST_CASE("data begin at multiples of four bytes of the message, whatever stands before them") {
  ExchangeRequest header;
  for (size_t name = 0; name < 9; ++name) {
    header.set_worker(std::string(name, 'w'));
    std::vector<PieceView> pieces;
    // Sizes around those where a varint needs another byte, and odd sizes.
    for (const size_t size :
         {1u,   2u,   3u,   119u,   120u,   121u,   122u,   123u,   124u,   125u,
          126u, 127u, 128u, 16370u, 16375u, 16376u, 16377u, 16378u, 16379u, 16384u}) {
      const uint32_t partition = size % 2 == 0 ? 0 : 1000;
      pieces.push_back(
          {partition, size % 3 == 0 ? uint64_t{1} << 41 : 0, absl::Cord(Bytes(size, 'x'))});
    }
    const std::string whole(Joined(EncodeExchange(header, pieces)));
    const absl::Cord cord = Cut(whole, whole.size());
    const char* const begin = cord.TryFlat()->data();
    const DecodedRequest decoded = DecodeExchangeRequest(cord).value();
    REQUIRE(decoded.pieces.size() == pieces.size());
    for (size_t i = 0; i < pieces.size(); ++i) {
      CAPTURE(name, pieces[i].data.size());
      CHECK(decoded.pieces[i].offset == pieces[i].offset);
      CHECK(decoded.pieces[i].data == pieces[i].data);
      if (pieces[i].data.size() < 1000) continue;  // a Cord copies small data
      CHECK((decoded.pieces[i].data.TryFlat()->data() - begin) % 4 == 0);
    }
    ExchangeRequest generated;
    REQUIRE(generated.ParseFromString(whole));
    for (int i = 0; i < generated.pieces_size(); ++i) {
      CHECK(generated.pieces(i).offset() == pieces[static_cast<size_t>(i)].offset);
      CHECK(generated.pieces(i).data() == pieces[static_cast<size_t>(i)].data);
    }
  }
}

TEST_CASE("the ids of rows travel as pieces of their own part, beside values") {
  const std::string ids = Bytes(kPieceBytes + 5, 'i'), values = Bytes(9, 'v');
  const std::vector<PieceView> pieces = {{3, 0, absl::Cord(ids), Piece::PUSH_IDS},
                                         {3, 0, absl::Cord(values)},
                                         {3, 7, absl::Cord("p"), Piece::PULL_IDS}};
  const std::string whole(Joined(EncodeExchange(FullHeader(), pieces)));
  ExchangeRequest generated;
  REQUIRE(generated.ParseFromString(whole));
  const DecodedRequest decoded = DecodeExchangeRequest(Cut(whole, 1000)).value();
  std::map<Piece::Part, std::string> by_generated, by_codec;
  for (const Piece& piece : generated.pieces()) by_generated[piece.part()] += piece.data();
  for (const PieceView& piece : decoded.pieces) by_codec[piece.part] += std::string(piece.data);
  CHECK(by_generated == by_codec);
  CHECK(by_codec == std::map<Piece::Part, std::string>{
                        {Piece::VALUES, values}, {Piece::PUSH_IDS, ids}, {Piece::PULL_IDS, "p"}});
  CHECK(decoded.pieces.back().offset == 7);
}

TEST_CASE("what the codec writes, the generated class reads") {
  const std::string small = Bytes(100, 'a');
  const std::string large = Bytes(3 * kPieceBytes + 5, 'b');
  const ExchangeRequest header = FullHeader();
  const Parts parts = EncodeExchange(
      header, {{0, 0, absl::Cord(small)}, {300, 0, absl::Cord(large)}, {7, 12, absl::Cord()}});

  uint64_t pieces = 0;
  ExchangeRequest merged;
  for (const absl::Cord& part : parts) {
    CHECK(part.size() <= kPieceBytes + 4096);
    ExchangeRequest alone;
    REQUIRE(alone.ParseFromString(std::string(part)));  // each part is a message
    merged.MergeFrom(alone);
    pieces += static_cast<uint64_t>(alone.pieces_size());
  }
  ExchangeRequest whole;
  REQUIRE(whole.ParseFromString(std::string(Joined(parts))));
  CHECK(whole.SerializeAsString() == merged.SerializeAsString());
  CHECK(pieces == 1 + 4 + 1);
  CHECK(whole.pieces(0).data() == small);
  std::string put_together;
  for (const Piece& piece : whole.pieces()) {
    if (piece.partition() != 300) continue;
    CHECK(piece.offset() == put_together.size());
    put_together += piece.data();
  }
  CHECK(put_together == large);
  whole.clear_pieces();
  CHECK(whole.SerializeAsString() == header.SerializeAsString());
}

TEST_CASE("what the generated class writes, the codec reads, however it was cut") {
  ExchangeRequest request = FullHeader();
  std::vector<std::string> data;
  for (uint32_t i = 0; i < 4; ++i) {
    data.push_back(Bytes(1 + i * 1000, static_cast<char>('a' + i)));
    Piece* piece = request.add_pieces();
    piece->set_partition(i);
    piece->set_offset(uint64_t{i} << 33);
    piece->set_data(data.back());
  }
  const std::string bytes = request.SerializeAsString();
  for (const size_t chunk : {size_t{1}, size_t{2}, size_t{3}, size_t{64}, bytes.size()}) {
    const absl::StatusOr<DecodedRequest> decoded = DecodeExchangeRequest(Cut(bytes, chunk));
    REQUIRE(decoded.ok());
    CHECK(decoded->header.SerializeAsString() == FullHeader().SerializeAsString());
    REQUIRE(decoded->pieces.size() == 4);
    for (uint32_t i = 0; i < 4; ++i) {
      CHECK(decoded->pieces[i].partition == i);
      CHECK(decoded->pieces[i].offset == uint64_t{i} << 33);
      CHECK(decoded->pieces[i].data == data[i]);
    }
  }
}

TEST_CASE("a reply survives the way there and back") {
  ExchangeReply header;
  PartitionState* state = header.add_partitions();
  state->set_outcome(PUSH_GAP);
  state->set_updates(9);
  const std::string data = Bytes(2 * kPieceBytes, 'x');
  const Parts parts = EncodeExchange(header, {{4, 0, absl::Cord(data)}});
  const absl::StatusOr<DecodedReply> decoded = DecodeExchangeReply(Joined(parts));
  REQUIRE(decoded.ok());
  CHECK(decoded->header.SerializeAsString() == header.SerializeAsString());
  absl::Cord whole;
  for (const PieceView& piece : decoded->pieces) {
    CHECK(piece.offset == whole.size());
    whole.Append(piece.data);
  }
  CHECK(whole == data);
}

TEST_CASE("the data of a piece are not copied on either side") {
  const std::string data = Bytes(kPieceBytes / 2, 'q');
  const absl::Cord external = absl::MakeCordFromExternal(data, [](absl::string_view) {});
  const Parts parts = EncodeExchange(ExchangeReply(), {{1, 0, external}});
  const absl::StatusOr<DecodedReply> decoded = DecodeExchangeReply(Joined(parts));
  REQUIRE(decoded.ok());
  const absl::optional<absl::string_view> flat = decoded->pieces.at(0).data.TryFlat();
  REQUIRE(flat.has_value());
  CHECK(flat->data() == data.data());
}

TEST_CASE("fields of a later protocol are ignored, inside pieces and outside") {
  std::string bytes = FullHeader().SerializeAsString();
  bytes += std::string("\xa0\x06\x05", 3);                          // field 100, varint
  bytes += std::string("\xa5\x06zzzz", 6);                          // field 100, 4 bytes
  bytes += std::string("\xa1\x06zzzzzzzz", 10);                     // field 100, 8 bytes
  bytes += std::string("\x7a\x09\x08\x02\x2a\x02zz\x1a\x01q", 11);  // a piece with field 5
  const absl::StatusOr<DecodedRequest> decoded = DecodeExchangeRequest(absl::Cord(bytes));
  REQUIRE(decoded.ok());
  CHECK(decoded->header.worker() == "worker:1");
  REQUIRE(decoded->pieces.size() == 1);
  CHECK(decoded->pieces[0].partition == 2);
  CHECK(decoded->pieces[0].data == "q");
}

TEST_CASE("malformed bytes are refused") {
  const std::vector<std::string> bad = {
      "\x7a",                              // a piece without a length
      "\x7a\x05\x08",                      // a piece longer than the rest
      std::string("\x7a\x02\x08\x80", 4),  // a number that ends inside the piece
      std::string("\x7a\x02\x1a\x05", 4),  // data longer than the piece
      std::string("\x7a\x01\x0b", 3),      // a group inside a piece
      std::string("\x7a\x02\x02\x00", 4),  // field 0 inside a piece
      "\x0b",                              // a group
      "\x0f",                              // wire type 7
      std::string("\x78\x01", 2),          // pieces as a number, against the schema
      std::string(11, '\xff'),             // a tag of more than 64 bits
      "\x12\x05worm",                      // a truncated string
      std::string("\x0a\x01\xff", 3),      // a fence that is no message
  };
  for (const std::string& bytes : bad) {
    CAPTURE(bytes);
    ExchangeRequest generated;
    const bool generated_ok = generated.ParseFromString(bytes);
    const absl::StatusOr<DecodedRequest> decoded = DecodeExchangeRequest(absl::Cord(bytes));
    // Protobuf treats a known field with a wrong wire type as unknown, so the codec may do so, too.
    if (bytes[0] == '\x78') {
      CHECK(decoded.ok() == generated_ok);
      continue;
    }
    CHECK_FALSE(generated_ok);
    CHECK(absl::IsInvalidArgument(decoded.status()));
  }
}

TEST_CASE("a tag that protobuf does not read is refused") {
  const std::string value(4, 'x');                            // wire type 5
  const std::string far("\xf5\xf7\xef\xff\x40", 5);           // above 32 bits
  const std::string long_one("\xf5\x80\x80\x80\x80\x00", 6);  // six bytes
  const std::string none("\x05", 1);                          // field 0
  for (const std::string& tag : {far, long_one, none}) {
    CAPTURE(tag.size());
    CHECK_FALSE(DecodeExchangeRequest(absl::Cord(tag + value)).ok());
    CHECK_FALSE(DecodeExchangeReply(absl::Cord(tag + value)).ok());
  }
  CHECK_FALSE(ExchangeRequest().ParseFromString(long_one + value));
  const std::string sound("\xf5\x7f", 2);
  CHECK(DecodeExchangeRequest(absl::Cord(sound + value)).ok());
}

TEST_CASE("no message takes many times its bytes in memory") {
  std::string empty;
  for (int i = 0; i < 10; ++i) empty += std::string("\x7a\0", 2);
  CHECK(std::string(DecodeExchangeRequest(absl::Cord(empty)).status().message()) ==
        "malformed exchange: an empty piece");
  std::string small;
  for (int i = 0; i <= 1 << 20; ++i) small += "\x7a\x03\x1a\x01x";
  const absl::Status refused = DecodeExchangeReply(absl::Cord(small)).status();
  CHECK(IsLimit(refused));
  CHECK(refused.message() ==
        "an exchange of more than 1048576 pieces: a smaller batch, or more ps");
}

TEST_CASE("a header is not copied without end") {
  const std::string unknown = "\xa2\x06\x80\x80\x80\x10";  // field 100 with 32 MiB
  const absl::Cord filler(std::string(32 << 20, 'x'));
  absl::Cord bytes;
  for (int i = 0; i < 3; ++i) {
    bytes.Append(unknown);
    bytes.Append(filler);
  }
  const absl::Status refused = DecodeExchangeRequest(bytes).status();
  CHECK(IsLimit(refused));
  CHECK(std::string(refused.message()).find("8 MiB") != std::string::npos);
}

TEST_CASE("every prefix of a message is refused or read as protobuf reads it") {
  ExchangeRequest request = FullHeader();
  request.add_pieces()->set_data("some data");
  const std::string bytes = request.SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    ExchangeRequest generated;
    const bool generated_ok = generated.ParseFromString(bytes.substr(0, size));
    CHECK(DecodeExchangeRequest(absl::Cord(bytes.substr(0, size))).ok() == generated_ok);
  }
}

}  // namespace
}  // namespace paracord
