// Delta checkpoints of growing tables: their bytes, what a chain restores, and the error for a
// broken chain.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/mix.h"
#include "storage/chain.h"
#include "store/partition_set.h"
#include "tests/rows_in_files.h"
#include "tests/server/grown_rows.h"

namespace paracord {
namespace {

std::set<uint64_t> DeltaIds() {
  std::set<uint64_t> ids;
  for (uint64_t id = 0; id <= 300; ++id) ids.insert({id, id << 50});
  return ids;
}

void PushBatches(TestPs& ps, uint32_t begin, uint32_t end) {
  for (uint32_t batch = begin; batch < end; ++batch) {
    REQUIRE(ps.Exchange(GrownPush(ps, batch, GrownBatch(batch))).ok());
  }
}

// Returns a new ps that has restored checkpoint `name`.
std::unique_ptr<TestPs> Restored(const TestModel& model, const std::string& dir,
                                 const std::string& name) {
  auto ps = std::make_unique<TestPs>(model, dir);
  REQUIRE(ps->Adopt(2).ok());
  const absl::Status loaded = ps->Load(name);
  INFO(loaded);
  REQUIRE(loaded.ok());
  return ps;
}

void CheckSame(TestPs& ps, TestPs& other) {
  CHECK(GrownRows(ps, DeltaIds()) == GrownRows(other, DeltaIds()));
  const TableCounts one = GrownCounts(ps), two = GrownCounts(other);
  CHECK(one.rows() == two.rows());
  CHECK(one.admitted() == two.admitted());
  CHECK(one.expired() == two.expired());
  CHECK(one.evicted() == two.evicted());
  CHECK(one.dropped() == two.dropped());
}

TestModel DeltaModel(int kind) {
  TestModel model = GrowingModel(kind == 0 ? NamedSpec{"adam"} : NamedSpec{"adagrad"});
  model.job.checkpoint.full_every = 5;
  TableSpec& table = *model.variables[0].mutable_table();
  table.set_lazy(true);
  if (kind == 0) {
    table.set_admit_after(2);
    table.set_candidates(4096);
    table.set_expire_batches(5);
  } else if (kind == 1) {
    table.set_rows_max(80);
  } else {
    table.set_optimizer(R"({"name": "adam", "row_wise": true, "use_ema": true})");
  }
  return model;
}

TEST_CASE("a chain of checkpoints restores to what the last one saw, and can be continued") {
  const TestModel model = DeltaModel(GENERATE(0, 1, 2));
  TestDirectory root;
  const std::string dir = root / "job";
  TestPs saved(model, dir);
  saved.Ready();
  PushBatches(saved, 0, 15);
  std::string name = CommitGrown(saved, 1, "", true);
  PosixFiles files;
  for (uint32_t link = 1; link <= 3; ++link) {
    PushBatches(saved, 12 + 3 * link, 15 + 3 * link);
    const std::string before = name;
    name = CommitGrown(saved, link + 1, before, true);
    const std::string directory = absl::StrCat(dir, "/checkpoints/", name);
    const absl::Status sound = VerifyCheckpoint(files, directory);
    INFO(sound);
    REQUIRE(sound.ok());
    CHECK(ReadManifest(files, directory)->base == before);
    CheckSame(*Restored(model, dir, name), saved);

    CheckRowsInFiles(files, directory);

    // Reading the checkpoint gives the rows that have not expired.
    VariableIds ids;
    const auto values = ReadVariables(files, directory, *ReadManifest(files, directory), &ids);
    INFO(values.status());
    REQUIRE(values.ok());
    CHECK(std::ranges::is_sorted(ids[0]));
    CHECK(ids[0].size() > 20);
    CHECK(ids[0].size() <= GrownCounts(saved).rows());
    if (model.variables[0].table().optimizer().empty()) {
      const auto rows = GrownRows(saved, {ids[0].begin(), ids[0].end()});
      for (size_t i = 0; i < ids[0].size(); ++i) {
        const auto first = (*values)[0].begin() + static_cast<int64_t>(i * kGrownDim);
        CHECK(rows.at(ids[0][i]) == Floats(first, first + kGrownDim));
      }
    }
  }
  // A second ps restores the checkpoint and writes a delta on top of it.
  const auto other = Restored(model, dir, name);
  for (uint32_t batch = 24; batch < 30; ++batch) {
    for (TestPs* const ps : {&saved, other.get()}) {
      REQUIRE(ps->Exchange(GrownPush(*ps, batch, GrownBatch(batch))).ok());
    }
  }
  CheckSame(*other, saved);
  const std::string next = CommitGrown(*other, 9, name, true);
  CHECK(ReadManifest(files, absl::StrCat(dir, "/checkpoints/", next))->base == name);
  TestPs last(model, dir);
  REQUIRE(last.Adopt(3).ok());
  REQUIRE(last.Load(next).ok());
  CheckSame(last, *other);
}

TEST_CASE("a chain that one ps wrote restores to two") {
  const TestModel model = DeltaModel(1);
  TestDirectory root;
  const std::string dir = root / "job";
  TestPs saved(model, dir);
  saved.Ready();
  PushBatches(saved, 0, 9);
  const std::string first = CommitGrown(saved, 1, "", true);
  PushBatches(saved, 9, 12);
  const std::string name = CommitGrown(saved, 2, first, true);
  const std::set<uint64_t> all = DeltaIds();
  for (const bool second : {false, true}) {
    TestModel half = model;
    std::erase_if(half.partitions,
                  [&](const PartitionSpec& spec) { return (spec.id() >= 2) != second; });
    const auto ps = Restored(half, dir, name);
    REQUIRE(ps->ps->content()->partitions.size() == (second ? 3 : 2));
    for (const auto& partition : ps->ps->content()->partitions) {
      if (!partition->growing()) continue;
      const RowIds ids = IdsByShard(all)[partition->facts().id];
      Floats here(ids.size() * kGrownDim), there(here.size());
      partition->PullRows(ids, here);
      saved.ps->content()->Find(partition->facts().id)->PullRows(ids, there);
      CHECK(here == there);
    }
  }
}

TEST_CASE("a checkpoint continues the one that is asked for, or is whole if that is not known") {
  const TestModel model = DeltaModel(2);
  TestDirectory root;
  const std::string dir = root / "job";
  TestPs saved(model, dir);
  saved.Ready();
  PosixFiles files;
  const auto base_of = [&](const std::string& name) {
    return ReadManifest(files, absl::StrCat(dir, "/checkpoints/", name))->base;
  };
  PushBatches(saved, 0, 5);
  const std::string first = CommitGrown(saved, 1, "", true);
  PushBatches(saved, 5, 7);
  CommitGrown(saved, 2, first, true);  // the coordinator never hears of this one
  PushBatches(saved, 7, 9);
  const std::string third = CommitGrown(saved, 3, first, true);
  CHECK(base_of(third) == first);
  CheckSame(*Restored(model, dir, third), saved);
  PushBatches(saved, 9, 11);
  const std::string unknown = CommitGrown(saved, 4, "step-7-g1-r2", true);
  CHECK(base_of(unknown).empty());
  CheckSame(*Restored(model, dir, unknown), saved);
  // A checkpoint can be a base only if its order said `continued`.
  const std::string fifth = CommitGrown(saved, 5, unknown, false);
  CHECK(base_of(fifth) == unknown);
  CHECK(base_of(CommitGrown(saved, 6, fifth, false)).empty());
}

TEST_CASE("a checkpoint of 1 % of the rows has a twentieth of the bytes") {
  TestModel model = GrowingModel({"adagrad"});
  TestDirectory root;
  TestPs saved(model, root / "job");
  saved.Ready();
  GrownGradients all, some;
  for (uint64_t n = 0; n < 40000; ++n) all[Mix64(n)] = 1;
  for (uint64_t n = 0; n < 400; ++n) some[Mix64(n * 97)] = 1;
  REQUIRE(saved.Exchange(GrownPush(saved, 0, all)).ok());
  REQUIRE(saved.Exchange(GrownPush(saved, 1, {{1, 1.0f}})).ok());
  const std::string full = CommitGrown(saved, 1, "", true);
  REQUIRE(saved.Exchange(GrownPush(saved, 2, some)).ok());
  const std::string delta = CommitGrown(saved, 2, full, true);
  const auto bytes = [&](const std::string& name) {
    return ReadManifest(saved.files, absl::StrCat(root / "job", "/checkpoints/", name))
        ->files[0]
        .bytes;
  };
  CHECK(bytes(delta) * 20 <= bytes(full));
  CHECK(bytes(full) > 40000 * kGrownDim * 2 * sizeof(float));
}

TEST_CASE("a checkpoint is whole if more than a quarter of many rows changed") {
  const TestModel model = GrowingModel({"adagrad"});
  TestDirectory root;
  TestPs saved(model, root / "job");
  saved.Ready();
  GrownGradients all, few, many;
  for (uint64_t n = 0; n < 30000; ++n) all[Mix64(n)] = 1;
  for (uint64_t n = 0; n < 15000; ++n) few[Mix64(n)] = 1;  // fewer than 4,096 in each shard
  for (uint64_t n = 0; n < 18000; ++n) many[Mix64(n)] = 1;
  const auto base_after = [&](uint32_t batch, const GrownGradients& gradients,
                              const std::string& base, std::string& name) {
    REQUIRE(saved.Exchange(GrownPush(saved, batch, gradients)).ok());
    name = CommitGrown(saved, batch + 1, base, true);
    return ReadManifest(saved.files, absl::StrCat(root / "job", "/checkpoints/", name))->base;
  };
  std::string first, second, third;
  // Rows of the first batch count as changed until the second batch.
  REQUIRE(saved.Exchange(GrownPush(saved, 0, all)).ok());
  CHECK(base_after(1, {{1, 1.0f}}, "", first).empty());
  CHECK(base_after(2, few, first, second) == first);
  CHECK(base_after(3, many, second, third).empty());
}

// A full checkpoint of a table, and a chain of two deltas.
struct ChainOfThree {
  const TestModel model = DeltaModel(1);
  const TestDirectory root = {};
  const std::string dir = root / "job", checkpoints = dir + "/checkpoints/";
  TestPs saved{model, dir};
  const std::string first = Commit(0, 5, 1, ""), second = Commit(5, 8, 2, first),
                    third = Commit(8, 11, 3, second);

 private:
  std::string Commit(uint32_t from, uint32_t to, uint64_t round, const std::string& base) {
    if (round == 1) saved.Ready();
    PushBatches(saved, from, to);
    return CommitGrown(saved, round, base, true);
  }
};

TEST_CASE("a chain with a link that is missing, damaged or another one is refused by its name") {
  const ChainOfThree chain;
  const TestModel& model = chain.model;
  const std::string &dir = chain.dir, &checkpoints = chain.checkpoints;
  const std::string &first = chain.first, &second = chain.second, &third = chain.third;
  PosixFiles files;
  const std::string part = checkpoints + first + "/" + PsFileName(0, 1);
  std::string named = first;
  SECTION("missing") { REQUIRE(files.RemoveTree(checkpoints + first).ok()); }
  SECTION("with a bit changed") {
    std::string text = *files.ReadWhole(part);
    text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 4);
    REQUIRE(files.WriteAtomic(part, text).ok());
  }
  SECTION("cut off") {
    REQUIRE(files.WriteAtomic(part, files.ReadWhole(part)->substr(0, 99)).ok());
  }
  SECTION("in the middle") {
    REQUIRE(files.RemoveTree(checkpoints + second).ok());
    named = second;
  }
  const absl::Status damage = VerifyCheckpoint(files, checkpoints + third);
  INFO(damage);
  CHECK(SaysDamaged(damage));
  CHECK(absl::StrContains(damage.message(), named));
  CHECK(absl::StrContains(damage.message(), third));
  CHECK(!FindObviousDamage(files, checkpoints + third).empty() ==
        !absl::StrContains(damage.message(), "checksum"));
  TestPs other(model, dir);
  REQUIRE(other.Adopt(2).ok());
  const absl::Status loaded = other.Load(third);
  INFO(loaded);
  CHECK(SaysDamaged(loaded));
  CHECK(absl::StrContains(loaded.message(), named));
  const absl::Status read =
      ReadVariables(files, checkpoints + third, *ReadManifest(files, checkpoints + third)).status();
  CHECK(absl::StrContains(read.message(), named));
}

TEST_CASE("a damaged checkpoint is read once, however many that continue it are tried") {
  const ChainOfThree chain;
  const std::string& checkpoints = chain.checkpoints;
  const std::string part = checkpoints + chain.first + "/" + PsFileName(0, 1);
  TestPs other(chain.model, chain.dir);
  const std::string sound = *other.files.ReadWhole(part);
  std::string text = sound;
  text.back() = static_cast<char>(text.back() ^ 4);
  REQUIRE(Overwrite(other.files, part, text));
  const int before = other.files.Opened(part);
  const auto load = [&](const std::string& name) {
    const absl::Status loaded = other.Load(name);
    CHECK(absl::StrContains(loaded.message(), loaded.ok() ? "" : part + ": checksum"));
    return loaded;
  };
  uint64_t generation = 1;
  for (const std::string& name : {chain.third, chain.second, chain.first}) {
    REQUIRE(other.Adopt(++generation).ok());
    CHECK(absl::IsDataLoss(load(name)));
  }
  CHECK(other.files.Opened(part) == before + 1);
  // A new coordinator may mean that an operator has put back a sound copy.
  REQUIRE(Overwrite(other.files, part, sound));
  CHECK_FALSE(load(chain.third).ok());
  REQUIRE(other.Adopt(++generation, "c2").ok());
  CHECK(load(chain.third).ok());

  REQUIRE(Overwrite(other.files, part, text));
  KnownDamage known;
  const int then = other.files.Opened(part);
  for (const std::string& name : {chain.third, chain.second, chain.first}) {
    const std::string path = checkpoints + name;
    const auto manifest = ReadManifest(other.files, path);
    REQUIRE(manifest.ok());
    CHECK(absl::IsDataLoss(ReadVariables(other.files, path, *manifest, nullptr, known).status()));
  }
  // The file size is checked first, which opens the file once more.
  CHECK(other.files.Opened(part) == then + 2);
}

TEST_CASE("a link that continues another state than its base has is refused") {
  const ChainOfThree chain;
  const TestModel& model = chain.model;
  const std::string &dir = chain.dir, &checkpoints = chain.checkpoints;
  const std::string &first = chain.first, &third = chain.third;
  PosixFiles files;
  Manifest manifest = *ReadManifest(files, checkpoints + third);
  manifest.base = first;
  REQUIRE(
      files.WriteAtomic(checkpoints + third + "/" + kManifestName, ManifestToText(manifest)).ok());
  TestPs other(model, dir);
  REQUIRE(other.Adopt(2).ok());
  const absl::Status loaded = other.Load(third);
  INFO(loaded);
  CHECK(absl::IsDataLoss(loaded));
  CHECK(absl::StrContains(loaded.message(), "continues 8 updates"));
}

}  // namespace
}  // namespace paracord
