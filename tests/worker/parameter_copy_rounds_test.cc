// A worker's copy in synchronous training, and the state of its values.
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

constexpr uint32_t kElements = 3;

// A vector on the second ps.
struct VectorCopy : CopiedSession {
  VectorCopy() {
    VariableSpec vector;
    vector.set_name("bias");
    vector.add_shape(kElements);
    vector.set_trainable(true);
    variables = {vector};
    Add(0, 0, kElements, 1);
    copy.emplace(session, variables, TransferOptions{});
  }
  // Takes an answer to a pull of a state with the values `value`; nullopt: the answer omits values
  // that the copy has.
  bool Take(uint64_t updates, std::optional<float> value) {
    ExchangeReply reply;
    PartitionState& state = *reply.add_partitions();
    state.set_updates(updates);
    std::vector<PieceView> pieces;
    if (value.has_value()) {
      const std::vector<float> values(kElements, *value);
      const std::string bytes(reinterpret_cast<const char*>(values.data()), kElements * 4);
      state.set_bytes(bytes.size());
      pieces.push_back({0, 0, absl::Cord(bytes)});
    }
    ExchangeOrder order;
    order.state = updates;
    return copy->TakeReply(1, order, false, Joined(EncodeExchange(reply, std::move(pieces)))).ok();
  }
  // Returns the update count in the next pull.
  uint64_t Has() { return Sent(*copy, 1, {}).header.pull(0).known_version(); }

  std::optional<ParameterCopy> copy;
};

TEST_CASE("values of the state before are not taken for those of now, nor the other way round") {
  VectorCopy test;
  REQUIRE(test.Take(6, 60.f));
  CHECK(test.Has() == 6);
  REQUIRE(test.Take(5, 50.f));  // a round earlier
  CHECK(test.Has() == 5);
  CHECK(test.copy->values()[0][0] == 50);
  CHECK(test.Take(5, std::nullopt));
  REQUIRE(test.Take(6, 60.f));
  CHECK(test.Has() == 6);
  CHECK(test.copy->values()[0][0] == 60);
  CHECK_FALSE(test.Take(5, std::nullopt));  // the copy no longer has this state
}

TEST_CASE("a push that is taken into the sum of its round was pushed, and has no age") {
  VectorCopy test;
  REQUIRE(test.Take(6, 60.f));
  test.copy->BeginBatch(0);
  test.copy->gradients().Prepare(0);
  for (const bool waits : {true, false}) {
    ExchangeReply reply;
    reply.set_waits(waits);
    PartitionState& state = *reply.add_partitions();
    state.set_outcome(PUSH_TAKEN);
    state.set_next(1);
    state.set_updates(waits ? 6 : 7);  // now, and once the round is applied
    std::vector<PieceView> pieces;
    if (!waits) {
      state.set_bytes(kElements * 4);
      pieces.push_back({0, 0, absl::Cord(std::string(kElements * 4, '\0'))});
    }
    ExchangeOrder order{.batch = BatchId()};
    order.state = 7;
    const auto outcome =
        test.copy->TakeReply(1, order, false, Joined(EncodeExchange(reply, std::move(pieces))));
    INFO(outcome.status());
    REQUIRE(outcome.ok());
    CHECK(outcome->applied);
    CHECK_FALSE(outcome->gap);
    CHECK(outcome->waits == waits);
    CHECK(outcome->next == 1);
    CHECK(outcome->staleness == 0);
  }
}

}  // namespace
}  // namespace paracord
