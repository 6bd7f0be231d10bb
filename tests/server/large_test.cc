// Partitions whose byte counts exceed signed and unsigned 32-bit integers.
#include "exchange/encoding.h"
#include "store/dense_partition.h"
#include "store/store.h"
#include "tests/parts.h"
#include "tests/server/ps_fixture.h"

namespace paracord {
namespace {

// Returns a cord that repeats one block of 4 MiB: a large push with little memory.
absl::Cord Repeated(float value, uint64_t elements) {
  const absl::Cord part = CordOf(Floats(1 << 20, value));
  absl::Cord whole;
  for (uint64_t left = elements * sizeof(float); left > 0;) {
    const uint64_t step = std::min<uint64_t>(left, part.size());
    whole.Append(part.Subcord(0, step));
    left -= step;
  }
  return whole;
}

float At(const absl::Cord& bytes, uint64_t element) {
  const std::string text(bytes.Subcord(element * sizeof(float), sizeof(float)));
  float value = 0;
  std::memcpy(&value, text.data(), sizeof(value));
  return value;
}

TEST_CASE("a variable of more than 4 GiB is pushed and pulled as any other", "[.slow]") {
  // A partition of 2.2 GiB, then a partition of 4.3 GiB.
  for (const uint64_t rows : {550u, 1075u}) {
    const uint64_t elements = rows << 20;
    Partition::Facts facts{0, "v", {rows, 1 << 20}, true, elements * sizeof(float)};
    PartitionSet content;
    content.plan.set_records(1000);
    content.plan.set_batch(10);
    content.plan.set_split_batches(10);
    content.optimizer = ParseOptimizer({"sgd", {{"learning_rate", 1.0}}}).value();
    PartitionContents values{.value = Block(elements), .slots = {}, .ledger = {}};
    values.value.Fill(1.0f);
    content.partitions.push_back(
        std::make_unique<DensePartition>(facts, content.optimizer, std::move(values)));
    content.trained = 1;

    UpdateCounters counters;
    // Only the last element has a different gradient.
    absl::Cord gradient = Repeated(3.0f, elements - 1);
    gradient.Append(CordOf({5.0f}));
    ExchangeRequest header;
    header.mutable_batch()->set_batch(0);
    header.add_push()->set_bytes(gradient.size());
    header.add_pull()->set_partition(0);
    const absl::Cord bytes = Joined(EncodeExchange(header, {{0, 0, gradient}}));
    CHECK(bytes.size() > elements * sizeof(float));
    absl::StatusOr<DecodedRequest> request = DecodeExchangeRequest(bytes);
    REQUIRE(request.ok());
    absl::StatusOr<Parts> reply = absl::UnknownError("not answered");
    ManualLoop loop;
    WaitingPulls waiting(loop, std::make_shared<MemoryShare>());
    Store(content, counters, waiting)
        .Exchange(*std::move(request), {},
                  [&](absl::StatusOr<Parts> parts) { reply = std::move(parts); });
    REQUIRE(reply.ok());
    const absl::Cord answer = Joined(*reply);
    const absl::StatusOr<DecodedReply> decoded = DecodeExchangeReply(answer);
    REQUIRE(decoded.ok());
    CHECK(decoded->header.partitions(0).bytes() == elements * sizeof(float));
    absl::Cord pulled;
    for (const PieceView& piece : decoded->pieces) {
      REQUIRE(piece.offset == pulled.size());
      pulled.Append(piece.data);
    }
    REQUIRE(pulled.size() == elements * sizeof(float));
    CHECK(At(pulled, 0) == -2.0f);
    CHECK(At(pulled, elements / 2) == -2.0f);
    CHECK(At(pulled, elements - 2) == -2.0f);
    CHECK(At(pulled, elements - 1) == -4.0f);
  }
}

}  // namespace
}  // namespace paracord
