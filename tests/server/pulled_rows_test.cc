// A ps reserves memory for pulled rows before copying them.
#include "absl/strings/match.h"
#include "common/limit_error.h"
#include "common/memory_budget.h"
#include "tests/server/grown_rows.h"

namespace paracord {
namespace {

constexpr uint64_t kRowBytes = kGrownDim * sizeof(float);

// A ps of 128 MiB. Replies may hold 8 MiB, or 12 if the ps holds nothing else.
struct PulledRows {
  PulledRows() { ps.Ready(); }
  // Returns a pull of `rows` rows of the first shard.
  DecodedRequest Pull(size_t rows) {
    RowIds ids;
    for (uint64_t id = 0; ids.size() < rows; ++id) {
      if (ShardOfRow(id, kGrownShards) == 0) ids.push_back(id);
    }
    DecodedRequest request;
    *request.header.mutable_fence() = ps.MakeFence();
    SetPullRows(request, *request.header.add_pull(), ids);
    return request;
  }
  std::shared_ptr<FakeCall> Send(const DecodedRequest& request) {
    auto call = std::make_shared<FakeCall>();
    ps.ps->Handle(method::kExchange, Joined(EncodeExchange(request.header, request.pieces)), call);
    ps.loop.RunPosted();
    return call;
  }
  uint64_t Held() const { return static_cast<uint64_t>(memory->replies()->bytes()); }

  std::shared_ptr<MemoryBudget> memory = std::make_shared<MemoryBudget>(uint64_t{128} << 20);
  TestPs ps{GrowingModel(), "", 0, 0, 0, false, memory};
};

TEST_CASE("rows that do not fit beside what readers hold wait until it is let go") {
  PulledRows test;
  constexpr size_t kRows = 500'000;
  auto first = test.Send(test.Pull(kRows));
  REQUIRE(first->reply.ok());
  CHECK(test.Held() == kRows * kRowBytes);
  // A small pull does not wait behind larger ones.
  DecodedRequest large = test.Pull(kRows);
  DecodedRequest push = GrownPush(test.ps, 0, {{77, 1.0f}});
  *large.header.mutable_batch() = push.header.batch();
  *large.header.mutable_push() = push.header.push();
  std::ranges::move(push.pieces, std::back_inserter(large.pieces));
  const auto second = test.Send(large);
  CHECK(second->answered == 0);
  CHECK(test.ps.Describe().waiting_exchanges() == 1);
  CHECK(GrownCounts(test.ps).rows() == 0);  // the waiting exchange's push is not yet applied
  CHECK(test.Held() == kRows * kRowBytes);
  CHECK(test.Send(test.Pull(1000))->reply.ok());
  first = nullptr;
  test.ps.loop.RunPosted();
  REQUIRE(second->answered == 1);
  REQUIRE(second->reply.ok());
  CHECK(GrownCounts(test.ps).rows() == 1);
  CHECK(test.Held() == kRows * kRowBytes);
  second->reply = absl::UnknownError("let go");
  CHECK(test.Held() == 0);
}

TEST_CASE("more rows than replies may hold go alone, and beyond the spare share not at all") {
  PulledRows test;
  auto alone = test.Send(test.Pull(800'000));  // takes 9.2 MiB
  CHECK(alone->reply.ok());
  CHECK(test.Held() == 800'000 * kRowBytes);
  alone = nullptr;
  const auto never = test.Send(test.Pull(1'200'000));
  REQUIRE(never->answered == 1);
  INFO(never->reply.status());
  CHECK(IsLimit(never->reply.status()));
  CHECK(absl::StrContains(never->reply.status().message(),
                          "the rows that one pull wants take 13.7 MiB, and replies may hold"));
  CHECK(absl::StrContains(never->reply.status().message(), "--memory-limit 128.0 MiB"));
  CHECK(test.Held() == 0);
}

TEST_CASE("a pull that is refused holds nothing") {
  PulledRows test;
  DecodedRequest pull = test.Pull(1000);
  pull.header.mutable_pull(0)->mutable_rows()->set_count(999);
  CHECK(absl::IsInvalidArgument(test.Send(pull)->reply.status()));
  CHECK(test.Held() == 0);
}

TEST_CASE("rows travel in copies of about a piece, whole rows each") {
  PulledRows test;
  const Encoding encoding = GENERATE(ENCODING_FLOAT32, ENCODING_BF16);
  constexpr uint64_t kRows = 200'000;
  DecodedRequest pull = test.Pull(kRows);
  pull.header.mutable_pull(0)->set_encoding(encoding);
  const auto call = test.Send(pull);
  REQUIRE(call->reply.ok());
  const DecodedReply reply = DecodeExchangeReply(*call->reply).value();
  const uint64_t row = kGrownDim * (encoding == ENCODING_FLOAT32 ? 4 : 2);
  CHECK(reply.header.partitions(0).bytes() == kRows * row);
  uint64_t at = 0;
  for (const PieceView& piece : reply.pieces) {
    CHECK(piece.offset == at);
    CHECK(piece.data.size() % row == 0);
    CHECK(piece.data.size() <= kPieceBytes);
    at += piece.data.size();
  }
  CHECK(at == kRows * row);
  CHECK(test.Held() == kRows * row);
}

}  // namespace
}  // namespace paracord
