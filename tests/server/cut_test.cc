// Snapshots of a synchronous job, through calls: a ps waits for the ordered state and writes it.
#include <vector>

#include "common/memory_budget.h"
#include "storage/safetensors.h"
#include "store/partition_set.h"
#include "tests/batches.h"
#include "tests/server/ps_fixture.h"

namespace paracord {
namespace {

// A model with two lanes of fifty batches an epoch.
TestModel SyncModel() {
  TestModel model;
  model.job.guarantees.consistency = "sync";
  model.job.guarantees.recovery = "rollback";
  model.job.guarantees.round_batches = 2;
  model.plan.set_lanes(2);
  model.plan.set_split_batches(50);
  return model;
}

struct SyncPs {
  SyncPs() : ps(SyncModel(), "", 0, PinnedBytes::kUnlimited, uint64_t{1} << 30, true, memory) {
    ps.Ready();
  }
  void Lane(uint64_t lane, uint32_t round) {
    REQUIRE(ps.Exchange(ps.PushOf(lane, round, 1.0f)).ok());
    ps.loop.RunPosted();
  }
  void Round(uint32_t round) {
    Lane(0, round);
    Lane(1, round);
  }
  SnapshotRequest CutOrder(uint64_t round, uint64_t cut) {
    SnapshotRequest order = ps.SnapshotOrder(round);
    order.set_cut(cut);
    return order;
  }
  std::shared_ptr<FakeCall> Order(uint64_t round, uint64_t cut) {
    return ps.Send(method::kSnapshot, CutOrder(round, cut));
  }
  Floats Written(uint64_t round) {
    const std::string path =
        ps.dir() + "/checkpoints/" + RoundDirectory(1, round) + "/" + PsFileName(0, 1);
    const auto file = SafetensorsFile::Open(ps.files, path);
    REQUIRE(file.ok());
    Floats values(2);
    REQUIRE((*file)->ReadElements(*(*file)->header().Find("dense/bias/part_0"), 0, values).ok());
    return values;
  }

  std::shared_ptr<MemoryBudget> memory = std::make_shared<MemoryBudget>();
  TestPs ps;
};

TEST_CASE("a cut is of the state that was ordered, although training goes on") {
  SyncPs test;
  test.Round(0);
  const auto call = test.Order(1, 2);
  CHECK(call->answered == 0);
  CHECK(test.memory->snapshots()->bytes() > 0);
  test.Lane(0, 1);
  CHECK(call->answered == 0);
  test.ps.executor.set_at_once(false);
  test.Lane(1, 1);
  test.Round(2);
  while (test.ps.executor.RunOne()) test.ps.loop.RunPosted();
  const auto reply = test.ps.Answer<SnapshotReply>(call);
  REQUIRE(reply.ok());
  for (const PartitionDescription& partition : reply->partitions()) {
    CHECK(partition.state() == (partition.has_ledger() ? 2 : 0));
    CHECK(partition.ledger().applied() == (partition.has_ledger() ? 4 : 0));
  }
  CHECK(test.Written(1) == Floats(2, -2.0f));
  CHECK(test.memory->snapshots()->bytes() == 0);
  // A repeated order gets an equal answer.
  const auto again = test.Order(1, 2);
  CHECK(test.ps.Answer<SnapshotReply>(again)->SerializeAsString() == reply->SerializeAsString());
}

TEST_CASE("a cut of the state at hand has nothing of the round under way") {
  SyncPs test;
  test.Round(0);
  test.Lane(0, 1);
  REQUIRE(test.ps.Answer<SnapshotReply>(test.Order(1, 1)).ok());
  CHECK(test.Written(1) == Floats(2, -1.0f));
}

TEST_CASE("a cut that is past is out of range, and nothing stays of it") {
  SyncPs test;
  test.Round(0);
  test.Round(1);
  CHECK(absl::IsOutOfRange(test.ps.Answer<SnapshotReply>(test.Order(1, 1)).status()));
  CHECK(test.memory->snapshots()->bytes() == 0);
  MetricSet metrics;
  test.ps.ps->AddMetrics(metrics);
  CHECK(metrics.Text().find("paracord_ps_snapshot_failures_total 0") != std::string::npos);
  CHECK(test.ps.Answer<SnapshotReply>(test.Order(2, 2)).ok());
}

TEST_CASE("a cut that waits is voided by a newer order, a generation, a Load and the job's end") {
  SyncPs test;
  const auto newer = test.Order(1, 5);
  const auto joined = test.Order(1, 5);
  const auto adopted = test.Order(2, 1);
  CHECK(absl::IsAborted(test.ps.Answer<SnapshotReply>(newer).status()));
  CHECK(absl::IsAborted(test.ps.Answer<SnapshotReply>(joined).status()));
  CHECK(adopted->answered == 0);
  CHECK(test.ps.Adopt(2).ok());
  CHECK(absl::IsAborted(test.ps.Answer<SnapshotReply>(adopted).status()));
  CHECK(test.memory->snapshots()->bytes() == 0);
  test.Round(0);
  const auto loaded = test.Order(3, 2);
  CHECK(loaded->answered == 0);
  CHECK(test.ps.Load().ok());
  CHECK(absl::IsAborted(test.ps.Answer<SnapshotReply>(loaded).status()));
  CHECK(test.memory->snapshots()->bytes() == 0);
  const auto ended = test.Order(4, 1);
  CHECK(ended->answered == 0);
  FinishRequest finish;
  *finish.mutable_fence() = test.ps.MakeFence();
  finish.set_coordinator_boot_id("c1");
  CHECK(test.ps.Call<FinishReply>(method::kFinish, finish).ok());
  test.ps.loop.RunPosted();
  CHECK(absl::IsUnavailable(test.ps.Answer<SnapshotReply>(ended).status()));
  CHECK(test.memory->snapshots()->bytes() == 0);
}

TEST_CASE("an order that is voided while it is prepared is not carried out") {
  SyncPs test;
  test.ps.executor.set_at_once(false);
  const auto first = test.Order(1, 1);
  const auto second = test.Order(2, 1);
  CHECK(absl::IsAborted(test.ps.Answer<SnapshotReply>(first).status()));
  while (test.ps.executor.RunOne()) test.ps.loop.RunPosted();
  CHECK(second->answered == 0);
  test.Round(0);
  while (test.ps.executor.RunOne()) test.ps.loop.RunPosted();
  CHECK(test.ps.Answer<SnapshotReply>(second).ok());
  CHECK(test.ps.files.List(test.ps.dir() + "/checkpoints/" + RoundDirectory(1, 1))->empty());
}

TEST_CASE("a ps that ends while partitions wait for a cut says so, and lets go of it") {
  SyncPs test;
  const auto call = test.Order(1, 1);
  test.ps.ps.reset();
  CHECK(absl::IsUnavailable(call->reply.status()));
  test.ps.loop.RunPosted();
  CHECK(test.memory->snapshots()->bytes() == 0);
}

TEST_CASE("a synchronous job is written by cuts alone, another one without, and none is behind") {
  SyncPs test;
  const auto refused = [](TestPs& ps, const SnapshotRequest& order) {
    return std::string(ps.Call<SnapshotReply>(method::kSnapshot, order).status().message());
  };
  CHECK(refused(test.ps, test.ps.SnapshotOrder(1)).find("lacks its `cut`") != std::string::npos);
  CHECK(absl::IsInvalidArgument(
      test.ps.Answer<SnapshotReply>(test.Order(1, uint64_t{1} << 40)).status()));
  TestPs async;
  async.Ready();
  SnapshotRequest order = async.SnapshotOrder(1);
  order.set_cut(0);
  CHECK(refused(async, order).find("has no rounds") != std::string::npos);
}

TEST_CASE("a ps writes the partitions alone that an order names, and holds the others") {
  SyncPs test;
  test.Round(0);
  SnapshotRequest order = test.CutOrder(1, 1);
  order.add_only(2);
  const auto reply = test.ps.Call<SnapshotReply>(method::kSnapshot, order);
  REQUIRE(reply.ok());
  REQUIRE(reply->partitions_size() == 1);
  CHECK(reply->partitions(0).id() == 2);
  CHECK(test.Written(1) == Floats(2, -1.0f));
  const std::string path =
      test.ps.dir() + "/checkpoints/" + RoundDirectory(1, 1) + "/" + PsFileName(0, 1);
  const auto file = SafetensorsFile::Open(test.ps.files, path);
  REQUIRE(file.ok());
  CHECK((*file)->header().Find("dense/kernel/part_0") == nullptr);
  CHECK(test.memory->snapshots()->bytes() == 0);
  test.Round(1);  // training goes on in all of them
  CHECK(test.ps.PullAll().values.at(0)[0] == -2.0f);

  SnapshotRequest stranger = test.CutOrder(2, 2);
  stranger.add_only(9);
  const auto refused = test.ps.Call<SnapshotReply>(method::kSnapshot, stranger).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(refused.message() == "a snapshot of partition 9 is ordered, which is not held here");
}

TEST_CASE("a cut of some partitions waits for these alone") {
  SyncPs test;
  SnapshotRequest order = test.CutOrder(1, 1);
  order.add_only(0);
  const auto call = test.ps.Send(method::kSnapshot, order);
  CHECK(call->answered == 0);
  test.Lane(0, 0);
  // The last lane, in the partition that is written.
  const PlanBatch last = *FindBatch(test.ps.model.plan, BatchOf(0, 1, 0));
  test.ps.ps->content()->Find(0)->Push(last, /*rejected=*/true, {}, {});
  test.ps.loop.RunPosted();
  REQUIRE(test.ps.Answer<SnapshotReply>(call).ok());
  CHECK(test.ps.ps->content()->Find(1)->GetCounts().state == 0);
}

}  // namespace
}  // namespace paracord
