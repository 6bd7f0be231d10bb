// A worker's copy where partitions have further holders.
#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "exchange/codec.h"
#include "tests/parts.h"
#include "tests/worker/copied_session.h"
#include "worker/parameter_copy.h"

namespace paracord {
namespace {

// A table of ten rows of two elements and a bias of three, on the first ps and with a copy on the
// second, and a bias on the second ps alone.
struct HeldTwice : CopiedSession {
  explicit HeldTwice(const TransferOptions& transfer = {}) {
    VariableSpec& table = variables.emplace_back();
    table.add_shape(10);
    table.add_shape(2);
    table.set_trainable(true);
    table.mutable_table()->set_kind(TableSpec::FIXED);
    for (int i = 0; i < 2; ++i) {
      VariableSpec& bias = variables.emplace_back();
      bias.add_shape(3);
      bias.set_trainable(true);
    }
    Add(0, 0, 10, 0);
    Add(1, 0, 3, 0);
    Add(2, 0, 3, 1);
    for (const int twice : {0, 1}) session.mutable_partitions(twice)->add_copies(1);
    copy.emplace(session, variables, transfer);
    const auto rows = std::make_shared<TableRows>();
    rows->ids = {{1, 7}, {}, {}};
    copy->BeginBatch(0);
    copy->gradients().Prepare(0, rows);
    for (const std::span<float> gradient : copy->gradients().arrays(0)) {
      for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i) + 0.5f;
    }
    for (size_t v = 0; v < variables.size(); ++v) REQUIRE(copy->gradients().Encode(0, v));
    order.batch = BatchId();
    order.state = 7;
    order.rows = {rows};
    order.incoming = copy->Expect(order.rows);
  }
  // Returns the answer of the second ps. `bytes`: of the first bias, which it was not asked for.
  absl::StatusOr<ExchangeOutcome> Take(size_t bytes, bool all = true) {
    ExchangeReply reply;
    std::vector<PieceView> pieces;
    for (const uint32_t id : {0u, 1u, 2u}) {
      if (id == 0 && !all) continue;
      PartitionState& state = *reply.add_partitions();
      state.set_partition(id);
      state.set_outcome(PUSH_TAKEN);
      state.set_next(1);
      state.set_updates(7);
      const size_t size = id == 2 ? 12 : id == 1 ? bytes : 0;
      state.set_bytes(size);
      if (size > 0) pieces.push_back({id, 0, absl::Cord(std::string(size, '\0'))});
    }
    return copy->TakeReply(1, order, false, Joined(EncodeExchange(reply, std::move(pieces))));
  }

  std::optional<ParameterCopy> copy;
  ExchangeOrder order;
};

TEST_CASE("a further holder is sent what the first is sent, and asked for its state alone") {
  for (const Encoding wire : {ENCODING_FLOAT32, ENCODING_BF16}) {
    HeldTwice test({.wire = wire, .compression = {}});
    const SentRequest first = Sent(*test.copy, 0, test.order);
    const SentRequest further = Sent(*test.copy, 1, test.order);
    REQUIRE(first.header.push_size() == 2);
    REQUIRE(further.header.push_size() == 3);
    for (const uint32_t id : {0u, 1u}) {
      CHECK_FALSE(first.bytes.at(id).empty());
      CHECK(further.bytes.at(id) == first.bytes.at(id));
      const auto pull = std::ranges::find(further.header.pull(), id, &PartitionPull::partition);
      CHECK(pull->state_only());
      CHECK_FALSE(pull->has_rows());
      CHECK_FALSE(first.header.pull(static_cast<int>(id)).state_only());
    }
    CHECK(further.ids.at({0, Piece::PUSH_IDS}) == first.ids.at({0, Piece::PUSH_IDS}));
    CHECK_FALSE(further.ids.contains({0, Piece::PULL_IDS}));
    CHECK(first.ids.contains({0, Piece::PULL_IDS}));
    CHECK(first.header.squares());
  }
}

TEST_CASE("values come from the first holder, and one that sends others is refused") {
  HeldTwice test;
  const absl::StatusOr<ExchangeOutcome> taken = test.Take(/*bytes=*/0);
  INFO(taken.status());
  REQUIRE(taken.ok());
  CHECK(taken->applied);
  CHECK(taken->next == 1);
  CHECK(PlaceOf(*test.copy, 1, test.order, 1, 0, 12) == nullptr);
  CHECK(PlaceOf(*test.copy, 0, test.order, 1, 0, 12) != nullptr);
  // The copy has no version of the first holder's values yet.
  CHECK_FALSE(Sent(*test.copy, 0, test.order).header.pull(1).has_known_version());
  CHECK(absl::IsInternal(test.Take(/*bytes=*/12).status()));
  // One that leaves a partition out has not said that it has the state.
  CHECK(absl::IsInternal(test.Take(0, /*all=*/false).status()));
}

TEST_CASE("holders that no session can name are left out") {
  CopiedSession odd;
  VariableSpec& bias = odd.variables.emplace_back();
  bias.add_shape(3);
  bias.set_trainable(true);
  odd.Add(0, 0, 3, 0);
  for (const uint32_t ps : {0u, 7u, 1u, 1u}) odd.session.mutable_partitions(0)->add_copies(ps);
  ParameterCopy copy(odd.session, odd.variables);
  CHECK(Sent(copy, 0, {}).header.pull_size() == 1);
  CHECK_FALSE(Sent(copy, 0, {}).header.pull(0).state_only());
  CHECK(Sent(copy, 1, {}).header.pull_size() == 1);
}

}  // namespace
}  // namespace paracord
