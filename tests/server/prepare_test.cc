// A ps prepares partitions for a move, while it serves its present partitions and keeps them.
#include <filesystem>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/server/grown_rows.h"

namespace paracord {
namespace {

std::set<uint64_t> PreparedIds() {
  std::set<uint64_t> ids;
  for (uint64_t id = 0; id <= 300; ++id) ids.insert({id, id << 50});
  return ids;
}

TestModel PreparedModel() {
  TestModel model = GrowingModel(NamedSpec{"adagrad"});
  model.job.checkpoint.full_every = 5;
  model.variables[0].mutable_table()->set_lazy(true);
  return model;
}

void PushOn(TestPs& ps, uint32_t begin, uint32_t end) {
  for (uint32_t batch = begin; batch < end; ++batch) {
    REQUIRE(ps.Exchange(GrownPush(ps, batch, GrownBatch(batch))).ok());
  }
}

LoadRequest PrepareOrder(TestPs& ps, const std::string& checkpoint) {
  LoadRequest order = ps.LoadOrder(checkpoint);
  order.set_prepare(true);
  return order;
}

absl::StatusOr<PsDescription> Prepare(TestPs& ps, const std::string& checkpoint) {
  return ps.Call<PsDescription>(method::kLoad, PrepareOrder(ps, checkpoint));
}

// Removes what the ps have written into a checkpoint, and leaves its manifest.
void RemoveRowsOf(const std::string& dir, const std::string& checkpoint) {
  const std::string directory = absl::StrCat(dir, "/checkpoints/", checkpoint);
  const std::string folder = PsFilesDirectory(directory);
  size_t removed = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().filename() == kManifestName) continue;
    std::filesystem::remove_all(file.path());
    ++removed;
  }
  REQUIRE(removed > 0);
}

TEST_CASE("a ps refuses to prepare partitions of variables that the order does not have") {
  const TestModel model = PreparedModel();
  TestDirectory root;
  TestPs ps(model, root / "job");
  REQUIRE(ps.Adopt(2).ok());
  LoadRequest order = PrepareOrder(ps, "step-10-g1-r1");
  order.mutable_partitions(0)->set_variable(7);
  CHECK(absl::IsInvalidArgument(ps.Call<PsDescription>(method::kLoad, order).status()));
  order.clear_variables();
  CHECK(absl::IsInvalidArgument(ps.Call<PsDescription>(method::kLoad, order).status()));
}

TEST_CASE("a ps that prepares goes on from checkpoint to checkpoint by the difference alone") {
  const TestModel model = PreparedModel();
  TestDirectory root;
  const std::string dir = root / "job";
  TestPs old(model, dir);
  old.Ready();
  PushOn(old, 0, 10);
  const std::string first = CommitGrown(old, 1, "", true);
  TestPs fresh(model, dir);
  REQUIRE(fresh.Adopt(2).ok());
  const auto prepared = Prepare(fresh, first);
  REQUIRE(prepared.ok());
  CHECK(prepared->prepared() == first);
  // It serves nothing of that, and obeys a newer coordinator without forgetting it.
  CHECK(prepared->partitions_size() == 0);
  CHECK(prepared->run_id().empty());
  REQUIRE(fresh.Adopt(3).ok());
  CHECK(fresh.Describe().prepared() == first);
  CHECK(Prepare(fresh, first).ok());

  PushOn(old, 10, 14);
  const std::string second = CommitGrown(old, 2, first, true);
  RemoveRowsOf(dir, first);
  REQUIRE(Prepare(fresh, second).ok());
  PushOn(old, 14, 17);
  const std::string third = CommitGrown(old, 3, second, true);
  RemoveRowsOf(dir, second);
  REQUIRE(fresh.Load(third).ok());
  CHECK(GrownRows(fresh, PreparedIds()) == GrownRows(old, PreparedIds()));
  CHECK(GrownCounts(fresh).rows() == GrownCounts(old).rows());
  CHECK(fresh.Describe().prepared().empty());
  // Whoever has prepared nothing needs the whole chain.
  TestPs unprepared(model, dir);
  REQUIRE(unprepared.Adopt(4).ok());
  CHECK_FALSE(unprepared.Load(third).ok());
  // The prepared ps trains on, and its next checkpoint can continue the one that it has loaded.
  PushOn(fresh, 17, 20);
  PushOn(old, 17, 20);
  CHECK(GrownRows(fresh, PreparedIds()) == GrownRows(old, PreparedIds()));
}

TEST_CASE("a ps that prepares reads a checkpoint whole that does not continue the one before") {
  const TestModel model = PreparedModel();
  TestDirectory root;
  const std::string dir = root / "job";
  TestPs old(model, dir);
  old.Ready();
  PushOn(old, 0, 10);
  const std::string first = CommitGrown(old, 1, "", true);
  TestPs fresh(model, dir);
  REQUIRE(fresh.Adopt(2).ok());
  REQUIRE(Prepare(fresh, first).ok());
  PushOn(old, 10, 14);
  const std::string full = CommitGrown(old, 2, "", true);
  REQUIRE(Prepare(fresh, full).ok());
  PushOn(old, 14, 16);
  const std::string last = CommitGrown(old, 3, full, true);
  REQUIRE(fresh.Load(last).ok());
  CHECK(GrownRows(fresh, PreparedIds()) == GrownRows(old, PreparedIds()));
  CHECK(GrownCounts(fresh).rows() == GrownCounts(old).rows());
}

TEST_CASE("a ps takes over those that it has prepared of an order, beside what it serves") {
  const TestModel model = PreparedModel();
  TestDirectory root;
  const std::string dir = root / "job";
  TestPs old(model, dir);
  old.Ready();
  PushOn(old, 0, 10);
  const std::string first = CommitGrown(old, 1, "", true);
  TestPs ps(model, dir);
  REQUIRE(ps.Adopt(2).ok());
  LoadRequest own = ps.LoadOrder(first);
  own.mutable_partitions()->DeleteSubrange(1, own.partitions_size() - 1);
  REQUIRE(ps.Call<PsDescription>(method::kLoad, own).ok());
  LoadRequest others = PrepareOrder(ps, first);
  others.mutable_partitions()->DeleteSubrange(0, 1);
  REQUIRE(ps.Call<PsDescription>(method::kLoad, others).ok());
  // Two of those that are prepared become its own, and no file is left to read them from.
  RemoveRowsOf(dir, first);
  REQUIRE(ps.Adopt(3).ok());
  LoadRequest more = ps.LoadOrder(first);
  more.mutable_partitions()->DeleteSubrange(3, more.partitions_size() - 3);
  more.set_retain(true);
  const auto loaded = ps.Call<PsDescription>(method::kLoad, more);
  REQUIRE(loaded.ok());
  CHECK(loaded->partitions_size() == 3);
  CHECK(loaded->prepared().empty());
  // The others are dropped.
  REQUIRE(ps.Adopt(4).ok());
  LoadRequest all = ps.LoadOrder(first);
  all.set_retain(true);
  CHECK_FALSE(ps.Call<PsDescription>(method::kLoad, all).ok());
}

TEST_CASE("what has no room beside the variables that are served is not prepared") {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  TestModel model;
  model.job.optimizer = {"sgd", {{"learning_rate", 1.0}}};
  model.variables = {TestVariable("dense/kernel", {96, 1 << 18})};
  model.partitions = {TestPartition(0, 0, "dense/kernel/part_0", 0, 48),
                      TestPartition(1, 0, "dense/kernel/part_1", 48, 96)};
  const auto refused = [&](uint64_t limit) {
    TestPs ps(model, "", 0, 0, 0, false, std::make_shared<MemoryBudget>(limit));
    REQUIRE(ps.Adopt(1).ok());
    LoadRequest own = ps.LoadOrder("");
    own.mutable_partitions()->DeleteSubrange(1, 1);
    REQUIRE(ps.Call<PsDescription>(method::kLoad, own).ok());
    LoadRequest other = PrepareOrder(ps, "step-1-g1-r1");
    other.mutable_partitions()->DeleteSubrange(0, 1);
    return ps.Call<PsDescription>(method::kLoad, other).status();
  };
  const absl::Status small = refused(256 * kMiB);
  CHECK(absl::IsResourceExhausted(small));
  CHECK_THAT(std::string(small.message()), Catch::Contains("--memory-limit is 256.0 MiB"));
  CHECK_FALSE(absl::IsResourceExhausted(refused(1024 * kMiB)));  // there is no such checkpoint
}

TEST_CASE("a preparation that fails is forgotten, and the next one is whole") {
  const TestModel model = PreparedModel();
  TestDirectory root;
  const std::string dir = root / "job";
  TestPs old(model, dir);
  old.Ready();
  PushOn(old, 0, 10);
  const std::string first = CommitGrown(old, 1, "", true);
  PushOn(old, 10, 12);
  const std::string second = CommitGrown(old, 2, first, true);
  TestPs fresh(model, dir);
  REQUIRE(fresh.Adopt(2).ok());
  CHECK(absl::IsInvalidArgument(Prepare(fresh, "../etc").status()));
  CHECK_FALSE(Prepare(fresh, "step-9-g9-r9").ok());
  CHECK(fresh.Describe().prepared().empty());
  REQUIRE(Prepare(fresh, second).ok());
  LoadRequest stale = PrepareOrder(fresh, second);
  stale.mutable_fence()->set_generation(1);
  CHECK(absl::IsAborted(fresh.Call<PsDescription>(method::kLoad, stale).status()));
  // Another job's order takes nothing of it over, and drops it.
  LoadRequest other = fresh.LoadOrder(second);
  other.mutable_fence()->set_run_id(std::string(32, 'b'));
  CHECK_FALSE(fresh.Call<PsDescription>(method::kLoad, other).ok());
  REQUIRE(fresh.Load(second).ok());
  CHECK(GrownRows(fresh, PreparedIds()) == GrownRows(old, PreparedIds()));
}

TEST_CASE("a ps goes on with those of its partitions that it is to retain, as they are") {
  const TestModel whole = PreparedModel();
  TestDirectory root;
  const std::string dir = root / "job";
  TestPs ps(whole, dir);
  ps.Ready();
  PushOn(ps, 0, 8);
  const std::string name = CommitGrown(ps, 1, "", true);
  const auto then = GrownRows(ps, PreparedIds());
  PushOn(ps, 8, 10);
  const auto now = GrownRows(ps, PreparedIds());
  REQUIRE(then != now);
  LoadRequest fewer = ps.LoadOrder(name);
  REQUIRE(ps.Adopt(2).ok());
  *fewer.mutable_fence() = ps.MakeFence();
  fewer.mutable_partitions()->DeleteSubrange(0, 2);
  fewer.set_retain(true);
  const auto kept = ps.Call<PsDescription>(method::kLoad, fewer);
  REQUIRE(kept.ok());
  CHECK(kept->partitions_size() == 3);
  // The first two are read again from the checkpoint, the others are as the pushes have left them.
  REQUIRE(ps.Adopt(3).ok());
  LoadRequest more = ps.LoadOrder(name);
  more.set_retain(true);
  REQUIRE(ps.Call<PsDescription>(method::kLoad, more).ok());
  for (const auto& [id, row] : GrownRows(ps, PreparedIds())) {
    CHECK(row == (ShardOfRow(id, kGrownShards) < 2 ? then : now).at(id));
  }
}

TEST_CASE("in synchronous training nothing is prepared or retained") {
  TestModel model = PreparedModel();
  model.job.guarantees.consistency = "sync";
  model.job.guarantees.recovery = "rollback";
  TestPs ps(model);
  REQUIRE(ps.Adopt(1).ok());
  CHECK(absl::IsInvalidArgument(Prepare(ps, "step-1-g1-r1").status()));
}

}  // namespace
}  // namespace paracord
