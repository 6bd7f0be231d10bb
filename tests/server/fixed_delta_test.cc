// Delta checkpoints of fixed tables: their bytes, what a chain restores, and the error for a
// damaged chain.
#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "storage/chain.h"
#include "store/partition_set.h"
#include "tests/rows_in_files.h"
#include "tests/sanitized.h"
#include "tests/server/grown_rows.h"
#include "tests/store/fixed_rows.h"

namespace paracord {
namespace {

constexpr uint64_t kFixedRows = 20000, kFixedDim = 4, kFixedCut = 12000;

// A model with a table in two partitions, and a vector.
TestModel FixedModel(bool lazy) {
  TestModel model;
  model.job.optimizer = lazy ? NamedSpec{"adam", {{"use_ema", true}}} : NamedSpec{"adagrad"};
  model.job.checkpoint.full_every = 5;
  model.variables = {TestVariable("table/embeddings", {kFixedRows, kFixedDim}),
                     TestVariable("dense/bias", {2})};
  model.variables[0].mutable_initializer()->set_name("random_uniform");
  model.variables[0].mutable_table()->set_kind(TableSpec::FIXED);
  model.variables[0].mutable_table()->set_lazy(lazy);
  model.partitions = {TestPartition(0, 0, "table/embeddings/part_0", 0, kFixedCut),
                      TestPartition(1, 0, "table/embeddings/part_1", kFixedCut, kFixedRows),
                      TestPartition(2, 1, "dense/bias/part_0", 0, 2)};
  return model;
}

// Pushes every `stride`-th row, from an offset that depends on the batch.
void PushFixed(TestPs& ps, uint32_t batch, uint64_t stride) {
  DecodedRequest request;
  *request.header.mutable_fence() = ps.MakeFence();
  request.header.mutable_batch()->set_split(batch / 10);
  request.header.mutable_batch()->set_batch(batch % 10);
  for (uint32_t id = 0; id < 2; ++id) {
    RowIds ids;
    const uint64_t begin = id == 0 ? 0 : kFixedCut, end = id == 0 ? kFixedCut : kFixedRows;
    for (uint64_t row = begin + batch % stride; row < end; row += stride) ids.push_back(row);
    const Floats values(ids.size() * kFixedDim, static_cast<float>(batch % 7) - 2.5f);
    PartitionPush& push = *request.header.add_push();
    push.set_partition(id);
    push.set_bytes(values.size() * sizeof(float));
    SetPushRows(request, push, ids);
    request.pieces.push_back({id, 0, CordOf(values)});
  }
  PartitionPush& bias = *request.header.add_push();
  bias.set_partition(2);
  bias.set_bytes(2 * sizeof(float));
  request.pieces.push_back({2, 0, CordOf({1, 1})});
  REQUIRE(ps.Exchange(request).ok());
}

std::unique_ptr<TestPs> RestoredFixed(const TestModel& model, const std::string& dir,
                                      const std::string& name, uint64_t generation = 2) {
  auto ps = std::make_unique<TestPs>(model, dir);
  REQUIRE(ps->Adopt(generation).ok());
  const absl::Status loaded = ps->Load(name);
  INFO(loaded);
  REQUIRE(loaded.ok());
  return ps;
}

// Compares values, slots and step counts, bit by bit.
void CheckSameRows(TestPs& ps, TestPs& other) {
  for (size_t p = 0; p < ps.ps->content()->partitions.size(); ++p) {
    const Partition& one = *ps.ps->content()->partitions[p];
    const Partition& two = *other.ps->content()->partitions[p];
    CHECK((TensorsOf(one) == TensorsOf(two)));
    CHECK(one.GetCounts().updates == two.GetCounts().updates);
  }
}

TEST_CASE("a chain of a fixed table restores to what the last one saw, and can be continued") {
  const bool lazy = GENERATE(false, true);
  const TestModel model = FixedModel(lazy);
  const TestDirectory root;
  const std::string dir = root / "job";
  TestPs saved(model, dir);
  saved.Ready();
  PosixFiles files;
  uint32_t batch = 0;
  for (; batch < 3; ++batch) PushFixed(saved, batch, 3);
  std::string name = CommitGrown(saved, 1, "", true);
  CHECK(ReadManifest(files, absl::StrCat(dir, "/checkpoints/", name))->min_reader_version == 2);
  for (uint32_t link = 1; link <= 3; ++link) {
    for (int i = 0; i < 3; ++i) PushFixed(saved, batch++, 97);
    const std::string before = name;
    name = CommitGrown(saved, link + 1, before, true);
    const std::string directory = absl::StrCat(dir, "/checkpoints/", name);
    const absl::StatusOr<Manifest> manifest = ReadManifest(files, directory);
    REQUIRE(manifest.ok());
    CHECK(manifest->base == before);
    CHECK(manifest->partitions[1].delta);
    CHECK(manifest->min_reader_version == kFixedChainFormat);
    const absl::Status sound = VerifyCheckpoint(files, directory);
    INFO(sound);
    REQUIRE(sound.ok());
    const auto restored = RestoredFixed(model, dir, name);
    CheckSameRows(*restored, saved);

    // Reading the checkpoint gives all rows, or their averages.
    const auto values = ReadVariables(files, directory, *manifest);
    INFO(values.status());
    REQUIRE(values.ok());
    Floats expected;
    for (const uint32_t id : {0u, 1u}) {
      const Partition& partition = *saved.ps->content()->Find(id);
      const Floats part = TensorOf(
          partition, lazy ? partition.facts().name + "/.slot/average" : partition.facts().name);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    CHECK((*values)[0] == expected);
    CheckRowsInFiles(files, directory);
  }
  // A second ps restores the checkpoint and writes a delta on top of it.
  const auto other = RestoredFixed(model, dir, name);
  for (int i = 0; i < 4; ++i, ++batch) {
    PushFixed(saved, batch, 89);
    PushFixed(*other, batch, 89);
  }
  CheckSameRows(*other, saved);
  const std::string next = CommitGrown(*other, 9, name, true);
  CHECK(ReadManifest(files, absl::StrCat(dir, "/checkpoints/", next))->base == name);
  CheckSameRows(*RestoredFixed(model, dir, next, 3), saved);
}

TEST_CASE("rows that change while a delta is written are in the next one") {
  const TestModel model = FixedModel(false);
  const TestDirectory root;
  const std::string dir = root / "job";
  TestPs saved(model, dir);
  saved.Ready();
  for (uint32_t batch = 0; batch < 3; ++batch) PushFixed(saved, batch, 3);
  const std::string first = CommitGrown(saved, 1, "", true);
  PushFixed(saved, 3, 50);
  // Two checkpoints that no manifest commits. The next delta on `first` must still have their rows.
  CommitGrown(saved, 2, first, true);
  PushFixed(saved, 4, 60);
  CommitGrown(saved, 3, first, true);
  PushFixed(saved, 5, 70);
  const std::string third = CommitGrown(saved, 4, first, true);
  CHECK(ReadManifest(saved.files, absl::StrCat(dir, "/checkpoints/", third))->base == first);
  CheckSameRows(*RestoredFixed(model, dir, third), saved);

  Partition& partition = *saved.ps->content()->Find(0);
  const auto name = ParseCheckpointName(third);
  const auto image = partition.NewImage(false, {.base = name, .own = CheckpointName{9, 1, 5}});
  image->Refer();
  PushFixed(saved, 6, 40);
  std::string bytes;
  REQUIRE(image
              ->Write([&](std::string_view more) {
                bytes += more;
                return absl::OkStatus();
              })
              .ok());
  CHECK(bytes.empty());  // no row changed since the base
  const std::string fifth = CommitGrown(saved, 6, third, true);
  CHECK(ReadManifest(saved.files, absl::StrCat(dir, "/checkpoints/", fifth))->base == third);
  CheckSameRows(*RestoredFixed(model, dir, fifth, 4), saved);
}

TEST_CASE("a checkpoint of 1 % of a fixed table's rows has a fiftieth of the bytes") {
  const TestModel model = FixedModel(false);
  const TestDirectory root;
  TestPs saved(model, root / "job");
  saved.Ready();
  PushFixed(saved, 0, 1);
  const std::string full = CommitGrown(saved, 1, "", true);
  PushFixed(saved, 1, 100);
  const std::string delta = CommitGrown(saved, 2, full, true);
  PushFixed(saved, 2, 2);  // changes more than a quarter of the rows
  const std::string whole = CommitGrown(saved, 3, delta, true);
  const auto manifest = [&](const std::string& name) {
    return *ReadManifest(saved.files, absl::StrCat(root / "job", "/checkpoints/", name));
  };
  CHECK(manifest(delta).files[0].bytes * 50 <= manifest(full).files[0].bytes);
  CHECK(manifest(full).files[0].bytes > kFixedRows * kFixedDim * 2 * sizeof(float));
  // The second partition is so small that its changed rows are always written as a delta.
  CHECK_FALSE(manifest(whole).partitions[0].delta);
  CHECK(manifest(whole).partitions[1].delta);
  CheckSameRows(*RestoredFixed(model, root / "job", whole), saved);
}

TEST_CASE("bits of changed rows are kept only where a later checkpoint may continue one") {
  const TestModel model = FixedModel(false);
  TestPs ps(model);
  ps.Ready();
  const Partition& partition = *ps.ps->content()->Find(0);
  const uint64_t bytes = partition.resident_bytes();
  CommitGrown(ps, 1, "", false);
  CHECK(partition.resident_bytes() == bytes);
  const std::string first = CommitGrown(ps, 2, "", true);
  CHECK(partition.resident_bytes() == bytes + kFixedCut / 8 + 4);
  const std::string second = CommitGrown(ps, 3, first, true);
  CHECK(partition.resident_bytes() <= bytes + kFixedCut / 4 + 16);
  CommitGrown(ps, 4, second, false);
  CHECK(partition.resident_bytes() <= bytes + kFixedCut / 8 + 8);
}

// Flips every `step`-th bit of the manifest and of the file of the ps in the newest checkpoint of a
// chain. Reading it fails, or yields the values of the sound checkpoint.
void FlipBitsOfChain(size_t step) {
  TestModel model = FixedModel(true);
  const TestDirectory root;
  const std::string dir = root / "job";
  TestPs saved(model, dir);
  saved.Ready();
  PushFixed(saved, 0, 1);
  const std::string full = CommitGrown(saved, 1, "", true);
  PushFixed(saved, 1, 4000);
  const std::string delta = CommitGrown(saved, 2, full, true);
  const std::string directory = absl::StrCat(dir, "/checkpoints/", delta);
  const auto sound = ReadVariables(saved.files, directory, *ReadManifest(saved.files, directory));
  REQUIRE(sound.ok());
  for (const std::string& name : {std::string(kManifestName), PsFileName(0, 1)}) {
    const std::string path = directory + "/" + name;
    const std::string good = *saved.files.ReadWhole(path);
    for (size_t bit = 0; bit < good.size() * 8; bit += step) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      REQUIRE(Overwrite(saved.files, path, bad));
      const absl::StatusOr<Manifest> manifest = ReadManifest(saved.files, directory);
      if (!manifest.ok()) continue;
      const auto read = ReadVariables(saved.files, directory, *manifest);
      if (read.ok() && *read != *sound) FAIL("bit " << bit << " of " << path);
    }
    REQUIRE(Overwrite(saved.files, path, good));
  }
}

TEST_CASE("a changed bit of a fixed table's chain is found, or changes no value") {
  FlipBitsOfChain(UnderSanitizers(97, 13));
}

TEST_CASE("every changed bit of a fixed table's chain is found, or changes no value", "[.slow]") {
  FlipBitsOfChain(1);
}

TEST_CASE("a changed row outside its partition is refused, and one that stands twice") {
  FixedTable table(ParseOptimizer({"sgd", nlohmann::json::object()}).value(), {10, 1}, 100, true);
  std::vector<float> words;
  const float record = 7;
  table.AppendChanged(3, &record, words);
  TableMetadata stored;
  CHECK(table.RestoreChanged(stored, words).ok());
  words.insert(words.end(), words.begin(), words.end());
  CHECK(table.RestoreChanged(stored, words).message() == "the changed row of id 103 stands twice");
  words.clear();
  table.AppendChanged(10, &record, words);
  CHECK(absl::IsDataLoss(table.RestoreChanged(stored, words)));
}

}  // namespace
}  // namespace paracord
