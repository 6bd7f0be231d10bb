// A request is read as a step.
#include "exchange/step.h"

#include <catch2/catch.hpp>
#include <functional>

#include "tests/row_pieces.h"

namespace paracord {
namespace {

DecodedRequest Request() {
  DecodedRequest request;
  request.header.mutable_batch()->set_batch(3);
  PartitionPush* push = request.header.add_push();
  push->set_partition(7);
  push->set_bytes(8);
  push->set_encoding(ENCODING_BF16);
  request.pieces = {{7, 4, absl::Cord("efgh")}, {7, 0, absl::Cord("abcd")}};
  SetPushRows(request, *push, {5, 9});
  PartitionPull* pull = request.header.add_pull();
  pull->set_partition(8);
  pull->set_known_version(6);
  pull = request.header.add_pull();
  pull->set_partition(9);
  SetPullRows(request, *pull, {300, 301});
  pull = request.header.add_pull();
  pull->set_partition(10);
  pull->set_state_only(true);
  return request;
}

TEST_CASE("a request is read as a step, its updates and what is wanted after it") {
  const absl::StatusOr<StepRequest> read = ReadStep(Request());
  REQUIRE(read.ok());
  CHECK(read->step->batch.batch() == 3);
  CHECK_FALSE(read->step->rejected);
  REQUIRE(read->updates.size() == 1);
  CHECK(read->updates[0].partition == 7);
  CHECK(*read->updates[0].rows == RowIds{5, 9});
  CHECK(read->updates[0].encoding == ENCODING_BF16);
  CHECK(read->updates[0].gradient == "abcdefgh");
  REQUIRE(read->wants.size() == 3);
  CHECK(read->wants[0].partition == 8);
  CHECK_FALSE(read->wants[0].rows.has_value());
  CHECK(read->wants[0].known_version == 6);
  CHECK(*read->wants[1].rows == RowIds{300, 301});
  CHECK_FALSE(read->wants[1].state_only);
  CHECK(read->wants[2].state_only);
}

TEST_CASE("a request that contradicts itself is refused, and the partition is named") {
  const auto refused = [](const std::function<void(DecodedRequest&)>& change) {
    DecodedRequest request = Request();
    change(request);
    const absl::Status status = ReadStep(std::move(request)).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK(refused([](auto& r) { *r.header.add_push() = r.header.push(0); }) ==
        "partition 7: named twice");
  CHECK(refused([](auto& r) { *r.header.add_pull() = r.header.pull(0); }) ==
        "partition 8: pulled twice");
  CHECK(refused([](auto& r) { r.pieces[0].offset = 5; }) ==
        "partition 7: a piece at offset 5 where 4 was expected");
  CHECK(refused([](auto& r) { r.pieces[0].data = absl::Cord("efghi"); }) ==
        "partition 7: pieces for more than its 8 bytes");
  CHECK(refused([](auto& r) { r.pieces.erase(r.pieces.begin() + 1); }) ==
        "partition 7: a piece at offset 4 where 0 was expected");
  CHECK(refused([](auto& r) { r.pieces[0].partition = 8; }) ==
        "partition 7: pieces for 4 of 8 bytes");
  CHECK(refused([](auto& r) {
          r.pieces.push_back({9, 0, absl::Cord("x")});
        }) == "partition 9: pieces without an entry for them");
  CHECK(refused([](auto& r) {
          r.pieces.push_back({8, 0, absl::Cord("x"), Piece::PULL_IDS});
        }) == "partition 8: pieces of the ids it pulls without an entry for them");
  CHECK(refused([](auto& r) {
          r.pieces.push_back({8, 0, absl::Cord("x"), static_cast<Piece::Part>(3)});
        }) == "partition 8: pieces of part 3 without an entry for them");
  CHECK(refused([](auto& r) { r.pieces.back().data.RemoveSuffix(1); }) ==
        "partition 9: pieces of the ids it pulls for 2 of 3 bytes");
  CHECK(refused([](auto& r) { r.header.mutable_push(0)->mutable_rows()->set_bytes(1); }) ==
        "partition 7: pieces of the ids it pushes for more than its 1 bytes");
  CHECK(refused([](auto& r) { r.header.mutable_push(0)->mutable_rows()->set_count(3); }) ==
        "partition 7: 3 rows in 2 bytes of ids");
  CHECK(refused([](auto& r) { r.header.clear_batch(); }) == "a push without a batch");
}

}  // namespace
}  // namespace paracord
