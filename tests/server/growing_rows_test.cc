// Growing tables in a ps: a row is created once, refused pushes change nothing, and a checkpoint
// has all rows.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/limit_error.h"
#include "common/memory_budget.h"
#include "exchange/rows.h"
#include "storage/safetensors.h"
#include "store/partition_set.h"
#include "tests/server/grown_rows.h"

namespace paracord {
namespace {

const std::set<uint64_t> kGrownIds = {0,
                                      1,
                                      77,
                                      uint64_t{1} << 40,
                                      std::numeric_limits<uint64_t>::max() - 5,
                                      std::numeric_limits<uint64_t>::max()};

TEST_CASE("a row comes into being when its first gradient is applied, and once for each batch") {
  TestPs ps(GrowingModel());
  ps.Ready();
  const auto initial = GrownRows(ps, kGrownIds);
  CHECK(GrownCounts(ps).rows() == 0);
  CHECK(GrownCounts(ps).pulled() == kGrownIds.size());
  CHECK(initial.at(0) != initial.at(1));
  CHECK(GrownRows(ps, kGrownIds) == initial);
  const DecodedRequest push = GrownPush(ps, 0, {{1, 2.0f}, {uint64_t{1} << 40, 4.0f}});
  for (const auto outcome : {PUSH_APPLIED, PUSH_ALREADY_APPLIED}) {
    const auto pushed = ps.Exchange(push);
    REQUIRE(pushed.ok());
    for (uint32_t shard = 0; shard < kGrownShards; ++shard)
      CHECK(pushed->State(shard).outcome() == outcome);
  }
  CHECK(ps.Exchange(GrownPush(ps, 2, {{1, 2.0f}}))->State(0).outcome() == PUSH_GAP);
  const auto after = GrownRows(ps, kGrownIds);
  for (const auto& [id, row] : after) {
    const float change = id == 1 ? 1.0f : id == uint64_t{1} << 40 ? 2.0f : 0.0f;
    for (size_t i = 0; i < kGrownDim; ++i) CHECK(row[i] == initial.at(id)[i] - change);
  }
  CHECK(GrownCounts(ps).rows() == 2);
  CHECK(GrownCounts(ps).admitted() == 2);
  CHECK(GrownCounts(ps).pushed() == 2);
  DecodedRequest rejected = GrownPush(ps, 1, {});
  for (PartitionPush& one : *rejected.header.mutable_push()) {
    one.clear_rows();
    one.set_bytes(0);
  }
  rejected.pieces.clear();
  rejected.header.set_rejected(true);
  REQUIRE(ps.Exchange(rejected).ok());
  CHECK(GrownRows(ps, kGrownIds) == after);
  CHECK(ps.Describe().partitions(0).ledger().rejected() == 1);
}

TEST_CASE("a push of rows that are not its shard's is refused whole, nothing changes") {
  TestPs ps(GrowingModel());
  ps.Ready();
  REQUIRE(ps.Exchange(GrownPush(ps, 0, {{77, 1.0f}})).ok());
  const auto before = GrownRows(ps, kGrownIds);
  const uint32_t shard = ShardOfRow(77, kGrownShards);
  DecodedRequest request = GrownPush(ps, 1, {{77, 1.0f}, {1, 1.0f}});
  PartitionPush& push = *request.header.mutable_push(static_cast<int>(shard));
  const uint64_t rows = push.rows().count();
  std::string why;
  SECTION("of another shard") {
    uint64_t other = 0;
    while (ShardOfRow(other, kGrownShards) == shard) ++other;
    SetPushRows(request, push, {other});
    why = absl::StrCat("row ", other, " is one of shard ", ShardOfRow(other, kGrownShards),
                       ", not of its shard ", shard, " of 4");
  }
  SECTION("repeated") {  // the greatest id twice
    SetPushIds(request, push, 2, std::string(9, '\xff') + std::string("\x01\0", 2));
    why = "the id of row 1 of 2 is malformed";
  }
  SECTION("2^32 rows") {
    push.mutable_rows()->set_count(uint64_t{1} << 32);
    why = "4294967296 rows in ";
  }
  SECTION("too many values") {
    SetPushRows(request, push, {});
    why = absl::StrCat("a gradient of ", rows * kGrownDim * sizeof(float),
                       " bytes, it has 0 for 0 rows");
  }
  SECTION("rows that are not named") {
    SetPushRows(request, push, {});
    push.clear_rows();
    why = "its rows are those of a growing table, and the push does not name them";
  }
  SECTION("not finite") {
    for (PieceView& piece : request.pieces) {
      if (piece.partition != shard || piece.part != Piece::VALUES) continue;
      Floats values(rows * kGrownDim, 1.0f);
      values.back() = std::numeric_limits<float>::infinity();
      piece.data = CordOf(values);
    }
    why = " has a gradient that is not finite";
  }
  SECTION("a pull of the whole table") {
    request.header.add_pull()->set_partition(shard);
    why = "all of a growing table, which is to be named by rows";
  }
  const auto reply = ps.Exchange(request);
  CHECK(absl::IsInvalidArgument(reply.status()));
  INFO(reply.status());
  CHECK(absl::StrContains(reply.status().message(), why));
  CHECK(GrownRows(ps, kGrownIds) == before);
  CHECK(GrownCounts(ps).rows() == 1);
  const PsDescription described = ps.Describe();
  for (const PartitionDescription& partition : described.partitions()) {
    CHECK(partition.ledger().applied() == 1);
  }
}

TEST_CASE("rows are admitted, expire and make room as the table says") {
  TestModel model = GrowingModel();
  TableSpec& table = *model.variables[0].mutable_table();
  SECTION("admitted at the third appearance") {
    table.set_admit_after(3);
    table.set_candidates(4096);
    TestPs ps(model);
    ps.Ready();
    const auto initial = GrownRows(ps, {77});
    for (uint32_t batch = 0; batch < 4; ++batch) {
      CHECK(GrownRows(ps, {77}).at(77)[0] == initial.at(77)[0] - (batch < 3 ? 0.0f : 0.5f));
      REQUIRE(ps.Exchange(GrownPush(ps, batch, {{77, 1.0f}})).ok());
    }
    CHECK(GrownCounts(ps).dropped() == 2);
    CHECK(GrownCounts(ps).rows() == 1);
  }
  SECTION("expire after two batches without a touch, in shards that are not touched, too") {
    table.set_expire_batches(2);
    TestPs ps(model);
    ps.Ready();
    const auto initial = GrownRows(ps, {77});
    REQUIRE(ps.Exchange(GrownPush(ps, 0, {{77, 1.0f}})).ok());
    for (uint32_t batch = 1; batch < 4; ++batch) {
      CHECK(GrownRows(ps, {77}) != initial);
      REQUIRE(ps.Exchange(GrownPush(ps, batch, {})).ok());
    }
    CHECK(GrownRows(ps, {77}) == initial);
    CHECK(GrownCounts(ps).rows() == 0);
    CHECK(GrownCounts(ps).expired() == 1);
  }
  SECTION("no more rows than there may be") {
    table.set_rows_max(8);
    TestPs ps(model);
    ps.Ready();
    for (uint32_t batch = 0; batch < 10; ++batch) {
      GrownGradients gradients;
      for (uint64_t id = 0; id < 20; ++id) gradients[batch * 20 + id] = 1.0f;
      REQUIRE(ps.Exchange(GrownPush(ps, batch, gradients)).ok());
    }
    CHECK(GrownCounts(ps).rows() == 8);
    CHECK(GrownCounts(ps).evicted() == 192);
  }
}

TEST_CASE("a table that was restored goes on as the one that was saved") {
  TestModel model = GrowingModel(GENERATE(NamedSpec{"adam"}, NamedSpec{"adagrad"}));
  TableSpec& table = *model.variables[0].mutable_table();
  table.set_lazy(true);
  table.set_admit_after(2);
  table.set_candidates(4096);
  table.set_expire_batches(5);
  std::set<uint64_t> ids;
  for (uint64_t id = 0; id <= 300; ++id) ids.insert({id, id << 50});
  TestDirectory root;
  TestPs saved(model, root / "job");
  saved.Ready();
  for (uint32_t batch = 0; batch < 20; ++batch) {
    REQUIRE(saved.Exchange(GrownPush(saved, batch, GrownBatch(batch))).ok());
  }
  const std::string name = CommitGrown(saved, 1);
  const std::string directory = root / "job" + "/checkpoints/" + name;
  const absl::Status sound = VerifyCheckpoint(saved.files, directory);
  INFO(sound);
  REQUIRE(sound.ok());
  TestPs restored(model, root / "job");
  REQUIRE(restored.Adopt(2).ok());
  const absl::Status loaded = restored.Load(name);
  INFO(loaded);
  REQUIRE(loaded.ok());
  CHECK(GrownRows(restored, ids) == GrownRows(saved, ids));
  CHECK(GrownCounts(restored).rows() == GrownCounts(saved).rows());
  CHECK(GrownCounts(restored).dropped() == GrownCounts(saved).dropped());

  // Reading the checkpoint gives equal rows.
  const absl::StatusOr<Manifest> manifest = ReadManifest(saved.files, directory);
  REQUIRE(manifest.ok());
  VariableIds stored;
  const auto values = ReadVariables(saved.files, directory, *manifest, &stored);
  INFO(values.status());
  REQUIRE(values.ok());
  CHECK(std::ranges::is_sorted(stored[0]));
  CHECK(stored[0].size() > 50);
  CHECK(stored[0].size() <= GrownCounts(saved).rows());
  const auto rows = GrownRows(saved, {stored[0].begin(), stored[0].end()});
  for (size_t i = 0; i < stored[0].size(); ++i) {
    const auto first = (*values)[0].begin() + static_cast<int64_t>(i * kGrownDim);
    CHECK(rows.at(stored[0][i]) == Floats(first, first + kGrownDim));
  }

  for (uint32_t batch = 20; batch < 40; ++batch) {
    for (TestPs* const ps : {&saved, &restored}) {
      const DecodedRequest push = GrownPush(*ps, batch, GrownBatch(batch));
      REQUIRE(ps->Exchange(push).ok());
    }
    CHECK(GrownRows(restored, ids) == GrownRows(saved, ids));
  }
}

// Writes rows of the table to a file, in the format of `paracord export`.
void WriteGrownRows(TestPs& ps, const std::string& path, const std::vector<uint64_t>& ids,
                    const Floats& rows) {
  const uint64_t id_bytes = ids.size() * sizeof(uint64_t), bytes = rows.size() * sizeof(float);
  std::string header = absl::StrCat(
      R"({"user/embeddings/ids":{"dtype":"I64","shape":[)", ids.size(), R"(],"data_offsets":[0,)",
      id_bytes, R"(]},"user/embeddings/rows":{"dtype":"F32","shape":[)", rows.size() / kGrownDim,
      ",", kGrownDim, R"(],"data_offsets":[)", id_bytes, ",", id_bytes + bytes, "]}}");
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string text(8, '\0');
  text[0] = static_cast<char>(header.size() & 0xff);
  text[1] = static_cast<char>(header.size() >> 8);
  text += header;
  text.append(reinterpret_cast<const char*>(ids.data()), id_bytes);
  text.append(reinterpret_cast<const char*>(rows.data()), bytes);
  REQUIRE(ps.files.WriteAtomic(path, text).ok());
}

TEST_CASE("a growing table begins with the rows of the job's initial weights") {
  TestDirectory root;
  TestModel model = GrowingModel({"adagrad", {{"learning_rate", 0.5}}});
  model.job.initial_weights = {root / "rows.safetensors", /*partial=*/true};
  const std::vector<uint64_t> ids = {0, 1, 77, ~uint64_t{0}};
  TestPs ps(model);
  const auto load = [&] { return std::string(ps.Load().message()); };
  REQUIRE(ps.Adopt(1).ok());
  const Floats rows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  WriteGrownRows(ps, root / "rows.safetensors", {0, 77, 1, 2}, rows);
  CHECK(absl::StrContains(load(), "user/embeddings/ids: id 1 follows 77"));
  WriteGrownRows(ps, root / "rows.safetensors", {0, 1, 2}, rows);
  CHECK(absl::StrContains(load(), "user/embeddings/rows has shape (4, 3)"));
  WriteGrownRows(ps, root / "rows.safetensors", ids, rows);
  CHECK(load().empty());
  CHECK(GrownCounts(ps).rows() == 4);
  CHECK(GrownCounts(ps).admitted() == 4);
  auto read = GrownRows(ps, kGrownIds);
  CHECK(read.at(77) == Floats{7, 8, 9});
  CHECK(read.at(~uint64_t{0}) == Floats{10, 11, 12});
  CHECK(std::abs(read.at(uint64_t{1} << 40)[0]) <= 0.05f);
  REQUIRE(ps.Exchange(GrownPush(ps, 0, {{77, 1.0f}, {5, 1.0f}})).ok());
  CHECK(GrownRows(ps, {77}).at(77)[0] == Approx(7 - 0.5 / std::sqrt(1.1)));
  CHECK(GrownCounts(ps).rows() == 5);

  model.variables[0].mutable_table()->set_rows_max(4);
  WriteGrownRows(ps, root / "rows.safetensors", {0, 1, 2, 3, 4}, Floats(15, 1));
  TestPs small(model);
  REQUIRE(small.Adopt(1).ok());
  CHECK(absl::StrContains(small.Load().message(), "more rows than rows_max allows"));
}

TEST_CASE("a snapshot of rows is of the moment it was taken, while they are written") {
  TestPs ps(GrowingModel());
  ps.Ready();
  GrownGradients many;
  for (uint64_t id = 0; id < 5000; ++id) many[id] = 1.0f;
  REQUIRE(ps.Exchange(GrownPush(ps, 0, many)).ok());
  const auto before = GrownRows(ps, {1, 4999});
  const Partition& partition = *ps.ps->content()->partitions[ShardOfRow(4999, kGrownShards)];
  const std::unique_ptr<PartitionImage> image = partition.NewImage(false);
  image->Refer();
  REQUIRE(ps.Exchange(GrownPush(ps, 1, many)).ok());
  std::string bytes;
  REQUIRE(image
              ->Write([&](std::string_view more) {
                bytes += more;
                return absl::OkStatus();
              })
              .ok());
  const uint64_t record = image->tensors()[0].shape[1];
  REQUIRE(bytes.size() == image->counts().table->rows() * record);
  bool seen = false;
  for (size_t at = 0; at < bytes.size(); at += record) {
    uint64_t id = 0;
    Floats row(kGrownDim);
    std::memcpy(&id, &bytes[at], sizeof id);
    std::memcpy(row.data(), &bytes[at + 12], kGrownDim * sizeof(float));
    if (id != 4999) continue;
    seen = true;
    CHECK(row == before.at(4999));
  }
  CHECK(seen);
  // Of two images, only the newer can be written.
  const std::unique_ptr<PartitionImage> older = partition.NewImage(false);
  const std::unique_ptr<PartitionImage> newer = partition.NewImage(false);
  older->Refer();
  newer->Refer();
  const auto nothing = [](std::string_view) { return absl::OkStatus(); };
  CHECK(absl::IsAborted(older->Write(nothing)));
  CHECK(newer->Write(nothing).ok());
}

uint64_t VariableBytes(const PsDescription& described) {
  return described.memory(0).holder() == "variables" ? described.memory(0).bytes() : 0;
}

TEST_CASE("what a restore takes counts in the memory of its ps while it lasts") {
  const TestModel model = GrowingModel();
  TestDirectory root;
  TestPs ps(model, root / "job");
  ps.Ready();
  GrownGradients many;
  for (uint64_t id = 0; id < 10000; ++id) many[id] = 1.0f;
  REQUIRE(ps.Exchange(GrownPush(ps, 0, many)).ok());
  const std::string full = CommitGrown(ps, 1, "", true);
  REQUIRE(ps.Exchange(GrownPush(ps, 1, {{1, 2.0f}})).ok());
  const std::string delta = CommitGrown(ps, 2, full, true);
  const auto memory = std::make_shared<MemoryBudget>(uint64_t{256} << 20);
  TestPs restored(model, root / "job", 0, 0, 0, false, memory);
  int64_t most = 0;
  restored.files.on_open = [&] { most = std::max(most, memory->restores()->bytes()); };
  REQUIRE(restored.Adopt(2).ok());
  REQUIRE(restored.Load(delta).ok());
  CHECK(most >= static_cast<int64_t>(10000 * kGrownDim * sizeof(float)));
  CHECK(memory->restores()->bytes() == 0);
  CHECK(GrownCounts(restored).rows() == many.size());
}

TEST_CASE("the rows of a growing table count in the memory of its ps") {
  const TestModel model = GrowingModel();
  TestDirectory root;
  const auto ample = std::make_shared<MemoryBudget>(uint64_t{256} << 20);
  TestPs ps(model, root / "job", 0, 0, 0, false, ample);
  ps.Ready();
  CHECK(VariableBytes(ps.Describe()) == ps.Describe().bytes());
  const uint64_t share = ample->requests()->spare();
  GrownGradients many;
  for (uint64_t id = 0; id < 10000; ++id) many[id] = 1.0f;
  REQUIRE(ps.Exchange(GrownPush(ps, 0, many)).ok());
  CHECK(VariableBytes(ps.Describe()) == ps.Describe().bytes());
  CHECK(VariableBytes(ps.Describe()) > 10000 * kGrownDim * sizeof(float));
  CHECK(ample->requests()->spare() < share);
  const std::string name = CommitGrown(ps, 1);
  // A ps whose budget is too small for the rows restores them nevertheless, and trains on.
  const auto scarce =
      std::make_shared<MemoryBudget>(MemoryBudget::kProgramBytes + (uint64_t{256} << 10));
  TestPs restored(model, root / "job", 0, 0, 0, false, scarce);
  REQUIRE(restored.Adopt(2).ok());
  const absl::Status loaded = restored.Load(name);
  INFO(loaded);
  REQUIRE(loaded.ok());
  CHECK(scarce->Uses()[0].bytes > scarce->limit() - MemoryBudget::kProgramBytes);
  CHECK(scarce->Uses()[0].bytes == restored.Describe().bytes());
  CHECK(scarce->requests()->spare() == scarce->limit() / 16);
  CHECK(GrownCounts(restored).rows() == many.size());
  const auto pushed = restored.Exchange(GrownPush(restored, 1, {{1, 2.0f}}));
  REQUIRE(pushed.ok());
  CHECK(pushed->State(0).outcome() == PUSH_APPLIED);
}

TEST_CASE("a batch of a million random ids, whose bytes are more than a header has, is taken") {
  TestPs ps(GrowingModel());
  ps.Ready();
  SeededRandom random(7);
  std::vector<RowIds> shards(kGrownShards);
  for (int i = 0; i < 65536 * 17; ++i) {
    const auto id = static_cast<uint64_t>(random.Between(0, INT64_MAX));
    shards[ShardOfRow(id, kGrownShards)].push_back(id);
  }
  DecodedRequest request;
  *request.header.mutable_fence() = ps.MakeFence();
  request.header.mutable_batch();
  for (uint32_t shard = 0; shard < kGrownShards; ++shard) {
    RowIds& ids = shards[shard];
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    PartitionPush& push = *request.header.add_push();
    push.set_partition(shard);
    SetPushRows(request, push, ids);
    const Floats values(ids.size() * kGrownDim, 1.0f);
    push.set_bytes(values.size() * sizeof(float));
    request.pieces.push_back({shard, 0, CordOf(values)});
    PartitionPull& pull = *request.header.add_pull();
    pull.set_partition(shard);
    SetPullRows(request, pull, ids);
  }
  request.header.add_push()->set_partition(kGrownShards);
  const absl::StatusOr<Pulled> reply = ps.Exchange(request);
  INFO(reply.status());
  REQUIRE(reply.ok());
  uint64_t rows = 0;
  for (uint32_t shard = 0; shard < kGrownShards; ++shard) {
    CHECK(reply->State(shard).outcome() == PUSH_APPLIED);
    CHECK(reply->values.at(shard).size() == shards[shard].size() * kGrownDim);
    rows += shards[shard].size();
  }
  CHECK(rows > 1'100'000);
  CHECK(GrownCounts(ps).rows() == rows);
}

TEST_CASE("ids that a ps has no room for are refused as a limit, which names what to set") {
  const auto memory = std::make_shared<MemoryBudget>(uint64_t{128} << 20);
  TestPs ps(GrowingModel(), "", 0, 0, 0, false, memory);
  ps.Ready();
  // An encoded id has 1 byte, a decoded id has 8.
  const uint64_t ids = memory->requests()->spare() / 9 + 1;
  DecodedRequest push;
  *push.header.mutable_fence() = ps.MakeFence();
  push.header.mutable_batch();
  RowSet& rows = *push.header.add_push()->mutable_rows();
  rows.set_count(ids);
  rows.set_bytes(ids);
  push.pieces.push_back({0, 0, absl::Cord(std::string(ids, '\0')), Piece::PUSH_IDS});
  const absl::Status refused = ps.Exchange(push).status();
  INFO(refused);
  CHECK(IsLimit(refused));
  CHECK(absl::StrContains(refused.message(), absl::StrCat("a batch of ", ids, " ids (")));
  CHECK(absl::StrContains(refused.message(), "half of what --memory-limit 128.0 MiB leaves"));
  CHECK(absl::StrContains(refused.message(), "a smaller \"batch\", more ps, or more memory"));
}

TEST_CASE("a table whose candidates alone do not fit is refused before they are allocated") {
  TestModel model = GrowingModel();
  TableSpec& table = *model.variables[0].mutable_table();
  table.set_admit_after(2);
  table.set_candidates(uint64_t{1} << 32);
  TestPs ps(model, "", 0, 0, 0, false, std::make_shared<MemoryBudget>(uint64_t{256} << 20));
  REQUIRE(ps.Adopt(1).ok());
  const absl::Status refused = ps.Load();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(absl::StrContains(refused.message(), "variables and slots take 16.0 GiB"));
}

}  // namespace
}  // namespace paracord
