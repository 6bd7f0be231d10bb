// A partition with rounds serves its state and the state before, as long as a worker may need the
// latter, and takes images of requested states.
#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "common/parallel.h"
#include "tests/store/pusher.h"

namespace paracord {
namespace {

using Served = std::pair<uint64_t, std::vector<float>>;  // update count and values

bool Gone(const absl::StatusOr<Served>& values) {
  return absl::IsOutOfRange(values.status()) &&
         absl::StartsWith(values.status().message(), "partition 3: ");
}

TEST_CASE("the state before is served until the first gradient of the next round, and no other") {
  SetParallelThreads(2);
  for (const SyncKind& kind : SyncKinds()) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      CAPTURE(kind.name, seed);
      SyncDraws draws(seed);
      Pusher pusher(kind, PlanOfLanes(100, 3, static_cast<uint32_t>(1 + draws.Below(4))));
      const uint64_t rounds = RoundsPerEpoch(pusher.plan);
      Served before;
      Served now = *pusher.partition.ValuesAt({});
      for (uint64_t state = 0; state < 2 * rounds; ++state) {
        CAPTURE(state);
        REQUIRE(*pusher.partition.ValuesAt(state) == now);
        REQUIRE(Gone(pusher.partition.ValuesAt(state + 1)));
        std::vector<SyncLane> lanes =
            draws.LanesFor(kind, LanesOfRound(pusher.plan, state % rounds));
        bool gradient = false;
        for (const uint32_t lane : draws.Order(static_cast<uint32_t>(lanes.size()))) {
          if (state > 0 && !gradient) {
            REQUIRE(*pusher.partition.ValuesAt(state - 1) == before);
            REQUIRE(pusher.partition->GetCounts().serves_before);
          } else if (state > 0) {
            REQUIRE(Gone(pusher.partition.ValuesAt(state - 1)));
            REQUIRE_FALSE(pusher.partition->GetCounts().serves_before);
          }
          pusher.Push(state, lane, lanes[lane]);
          gradient = gradient || !lanes[lane].rejected;
        }
        before = std::exchange(now, *pusher.partition.ValuesAt({}));
        REQUIRE(*pusher.partition.ValuesAt(state) == before);
        if (state > 0) REQUIRE(Gone(pusher.partition.ValuesAt(state - 1)));
      }
    }
  }
}

TEST_CASE("a partition that keeps nothing serves its own state alone, and says which") {
  const SyncKind kind = SyncKinds()[0];
  Pusher pusher(kind, PlanOfLanes(24, 3, 1), /*keeps_before=*/false);
  pusher.Push(0, 0, {});
  CHECK(pusher.partition.ValuesAt(1).ok());
  CHECK(
      pusher.partition.ValuesAt(0).status() ==
      absl::OutOfRangeError("partition 3: the values of state 0 are wanted, and it is at state 1"));
  pusher.Push(1, 0, {});
  CHECK(pusher.partition.ValuesAt(1).status().code() == absl::StatusCode::kOutOfRange);
}

TEST_CASE(
    "what is missing are the lanes that the round lacks, and nothing of a state that is gone") {
  for (const SyncKind& kind : SyncKinds()) {
    CAPTURE(kind.name);
    Pusher pusher(kind, PlanOfLanes(24, 1, 4));
    const auto missing = [&](uint64_t state) -> absl::StatusOr<std::vector<uint32_t>> {
      const auto lack = pusher.partition->LackOf(pusher.plan, state);
      if (!lack.ok()) return lack.status();
      CHECK_FALSE(lack->norms);
      return lack->lanes;
    };
    CHECK(missing(0)->empty());
    CHECK(*missing(1) == std::vector<uint32_t>{0, 1, 2, 3});
    pusher.Push(0, 2, {});
    CHECK(*missing(1) == std::vector<uint32_t>{0, 1, 3});
    CHECK(*missing(2) == std::vector<uint32_t>{0, 1, 3});
    for (const uint32_t lane : {0, 1, 3}) pusher.Push(0, lane, {});
    CHECK(missing(1)->empty());
    CHECK(missing(0)->empty());  // the state before is kept
    CHECK(missing(2)->size() == 4);
    pusher.Push(1, 0, {});
    CHECK(absl::IsOutOfRange(missing(0).status()));
  }
}

// An image requested at a state, and its contents.
struct Ordered {
  Ordered(Partition& of, uint64_t state) : partition(of), image(of.NewImage(false)) {
    status = of.ReferAt(state, *image, [this] { ++referred; });
  }
  ~Ordered() { partition.ForgetImage(); }
  Partition& partition;
  std::unique_ptr<PartitionImage> image;
  int referred = 0;
  absl::Status status;
};

TEST_CASE("an image is of the state that is ordered, now or once it is there") {
  SetParallelThreads(2);
  for (const SyncKind& kind : SyncKinds()) {
    CAPTURE(kind.name);
    SyncDraws draws(4);
    // A twin partition with the same pushes has the expected contents.
    const DataPlan plan = PlanOfLanes(60, 1, 3);
    Pusher pusher(kind, plan), twin(kind, plan);
    const auto round = [&](uint64_t state) {
      const std::vector<SyncLane> lanes = draws.LanesFor(kind, 3);
      pusher.PushAll(state, lanes);
      twin.PushAll(state, lanes);
    };
    for (uint64_t state = 0; state < 3; ++state) round(state);
    Ordered past(*pusher.partition, 2);
    CHECK(absl::IsOutOfRange(past.status));
    {
      Ordered now(*pusher.partition, 3);
      REQUIRE(now.status.ok());
      REQUIRE(now.referred == 1);
      CHECK(now.image->counts().state == 3);
      CHECK(TensorsIn(*now.image) == TensorsOf(*twin.partition));
    }
    Ordered forgotten(*pusher.partition, 4);
    CHECK(forgotten.status.ok());
    pusher.partition->ForgetImage();
    Ordered later(*pusher.partition, 5);
    CHECK(later.status.ok());
    round(3);
    CHECK(later.referred == 0);
    round(4);
    CHECK(later.referred == 1);
    CHECK(forgotten.referred == 0);
    const auto expected = TensorsOf(*twin.partition);
    const Ledger ledger = twin.partition->GetCounts().ledger.ToProto(true);
    round(5);  // goes on while the image is written
    round(6);
    CHECK(later.referred == 1);
    CHECK(later.image->counts().state == 5);
    CHECK(later.image->counts().ledger.ToProto(true).SerializeAsString() ==
          ledger.SerializeAsString());
    CHECK(TensorsIn(*later.image) == expected);
    CHECK(past.referred == 0);
  }
}

TEST_CASE("a table that outgrows what was prepared for its image has the image all the same") {
  const SyncKind kind = TableKind("growing", {"sgd"}, TableSpec::GROWING, true);
  Pusher pusher(kind, PlanOfLanes(24, 1, 1));
  Ordered ordered(*pusher.partition, 1);
  SyncGradient many(std::in_place);
  for (uint64_t id = 0; id < 5000; ++id) (*many)[id] = {1, 2, 3};
  pusher.Push(0, 0, {many, false});
  REQUIRE(ordered.referred == 1);
  pusher.Push(1, 0, {many, false});
  CHECK(ordered.image->counts().table->rows() == 5000);
  CHECK(TensorsIn(*ordered.image).at(SlotTensorName("v/part_0", kRowsSlot)).size() >
        5000 * 3 * sizeof(float));
}

TEST_CASE("a round that finds no room for old rows waits, and then the image ends") {
  const SyncKind kind = TableKind("growing", {"sgd"}, TableSpec::GROWING, true);
  Pusher pusher(kind, PlanOfLanes(24, 1, 2));
  SyncGradient even(std::in_place), odd(std::in_place);
  for (uint64_t id = 0; id < 20000; ++id) (*(id % 2 == 0 ? even : odd))[id] = {1, 2, 3};
  const auto round = [&](uint64_t state) {
    CHECK(pusher.Push(state, 1, {odd, false}).outcome == PUSH_TAKEN);
    CHECK(pusher.Push(state, 0, {even, false}).outcome == PUSH_APPLIED);
  };
  round(0);
  MemoryShare share(200000);
  const auto image = pusher.partition->NewImage(false, {.snapshots = &share, .push_wait_ms = 20});
  REQUIRE(pusher.partition->ReferAt(2, *image, [] {}).ok());
  round(1);
  round(2);
  CHECK(pusher.partition->GetCounts().state == 3);
  CHECK(share.bytes() <= 200000);
  const absl::Status written = image->Write([](std::string_view) { return absl::OkStatus(); });
  CHECK(absl::IsResourceExhausted(written));
}

}  // namespace
}  // namespace paracord
