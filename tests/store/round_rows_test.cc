// Rows of tables in round sums, and kept from before a round, reserve their memory first.
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>

#include "store/partition_maker.h"
#include "store/store.h"
#include "tests/batches.h"
#include "tests/fakes.h"
#include "tests/store/sync_partitions.h"

namespace paracord {
namespace {

constexpr uint64_t kRoundRows = 12, kRoundWidth = 3;
// Bytes of a row in a sum, or kept from before a round.
constexpr uint64_t kRoundRowBytes = kRoundWidth * sizeof(float) + sizeof(uint64_t);

// A store with one table, in rounds of two lanes.
struct RowsStore {
  RowsStore(TableSpec::Kind of, uint64_t bytes_max)
      : kind(TableKind("table", {"sgd"}, of, true)),
        share(std::make_shared<MemoryShare>(bytes_max)),
        waiting(std::make_shared<WaitingPulls>(loop, std::make_shared<MemoryShare>())) {
    content.plan = PlanOfLanes(20, 1, 2);
    content.sync = true;
    content.round_rows = share;
    content.optimizer = ParseOptimizer(kind.optimizer).value();
    const PartitionMaker maker(content, /*keeps_before=*/true, /*seed=*/1, nullptr);
    PartitionSpec spec;
    spec.set_name("v/part_0");
    spec.set_row_end(kind.variable.shape(0));
    TableContents contents;
    if (kind.growing()) {
      contents.table = maker.MakeShard(kind.variable).value();
    } else {
      contents.fixed =
          std::make_unique<FixedTable>(maker.OptimizerOf(kind.variable),
                                       PartitionShape(kind.variable, spec), 0, /*trained=*/true);
    }
    content.partitions.push_back(maker.Make(kind.variable, spec, std::move(contents)).value());
    content.trained = 1;
  }
  ~RowsStore() { waiting->Close(absl::UnavailableError("the test ends")); }

  absl::Status Push(uint32_t lane, uint32_t batch, uint64_t rows) {
    StepRequest request;
    request.step.emplace();
    request.step->batch.set_split(lane);
    request.step->batch.set_batch(batch);
    Update& update = request.updates.emplace_back();
    update.rows.emplace();
    for (uint64_t id = 0; id < rows; ++id) update.rows->push_back(id);
    const std::string bytes(rows * kRoundWidth * sizeof(float), '\0');
    update.gradient = absl::Cord(bytes);
    absl::Status answer = absl::UnknownError("none");
    Store(content, counters, *waiting)
        .Apply(std::move(request), PushFence(newest, newest),
               [&](const absl::StatusOr<DecodedReply>& reply) { answer = reply.status(); });
    return answer;
  }
  uint64_t state() const { return content.partitions[0]->GetCounts().state; }

  const SyncKind kind;
  const std::shared_ptr<MemoryShare> share;
  ManualLoop loop;
  std::shared_ptr<WaitingPulls> waiting;
  PartitionSet content;
  UpdateCounters counters;
  std::atomic<uint64_t> newest = 1;
};

constexpr TableSpec::Kind kRoundTables[] = {TableSpec::FIXED, TableSpec::GROWING};

TEST_CASE("rows in sums and before them are counted, and given back with the partition") {
  for (const TableSpec::Kind of : kRoundTables) {
    std::shared_ptr<MemoryShare> share;
    {
      RowsStore store(of, MemoryShare::kUnlimited);
      share = store.share;
      const uint64_t resident = store.content.partitions[0]->resident_bytes();
      CHECK(share->bytes() == 0);
      REQUIRE(store.Push(0, 0, kRoundRows).ok());
      // Rows in the sum, and as many kept from before the round.
      CHECK(share->bytes() >= static_cast<int64_t>(2 * kRoundRows * kRoundRowBytes));
      CHECK(share->bytes() <= static_cast<int64_t>(4 * kRoundRows * kRoundRowBytes));
      CHECK(store.content.partitions[0]->resident_bytes() == resident);
      REQUIRE(store.Push(1, 0, kRoundRows).ok());
      CHECK(store.state() == 1);
      CHECK(share->bytes() >= static_cast<int64_t>(kRoundRows * kRoundRowBytes));
    }
    CHECK(share->bytes() == 0);
  }
}

TEST_CASE("a push whose rows have no room in a round is refused whole, and the keys are named") {
  for (const TableSpec::Kind of : kRoundTables) {
    RowsStore store(of, 6 * kRoundRows * kRoundRowBytes);
    REQUIRE(store.Push(0, 0, kRoundRows).ok());
    REQUIRE(store.share->Reserve(2 * kRoundRows * kRoundRowBytes));  // another partition's share
    const absl::Status refused = store.Push(1, 0, kRoundRows);
    CHECK(absl::IsResourceExhausted(refused));
    CHECK(refused.message().find("\"round_batches\"") != std::string_view::npos);
    CHECK(refused.message().find("--memory-limit") != std::string_view::npos);
    CHECK(store.state() == 0);
    store.share->Subtract(2 * kRoundRows * kRoundRowBytes);
    CHECK(store.Push(1, 0, kRoundRows).ok());
    CHECK(store.state() == 1);
  }
}

TEST_CASE("memory that waits for later rounds is given back before a push is refused") {
  for (const TableSpec::Kind of : kRoundTables) {
    RowsStore store(of, 7 * kRoundRows * kRoundRowBytes);
    for (uint32_t batch = 0; batch < 5; ++batch) {
      for (uint32_t lane = 0; lane < 2; ++lane) REQUIRE(store.Push(lane, batch, kRoundRows).ok());
    }
    // Room for the rows kept from before the newest round, and a few more.
    store.share->SetMax((kRoundRows + 4) * kRoundRowBytes, 0);
    REQUIRE(store.share->bytes() > static_cast<int64_t>((kRoundRows + 4) * kRoundRowBytes));
    CHECK(store.Push(0, 5, 1).ok());
    CHECK(store.Push(1, 5, 1).ok());
    CHECK(store.state() == 6);
  }
}

}  // namespace
}  // namespace paracord
