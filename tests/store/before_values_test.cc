// The values before a round, of dense partitions and of rows.
#include "store/before_values.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "common/counter_random.h"
#include "common/parallel.h"
#include "exchange/rows.h"
#include "store/fixed_table.h"
#include "store/growing_table.h"
#include "store/pinned_bytes.h"
#include "tests/floats.h"

namespace paracord {
namespace {

Floats ValuesOf(const std::vector<ChunkRef>& chunks) {
  Floats values;
  for (const ChunkRef& chunk : chunks) {
    values.insert(values.end(), chunk.values().begin(), chunk.values().end());
  }
  return values;
}

// Writes `value` to all elements, as an update of a dense partition does.
void Write(Block& block, DenseBefore& before, float value, PinnedBytes& pinned) {
  for (size_t i = 0; i < block.chunks().size(); ++i) {
    const ChunkRef out = before.Writable(block, i);
    std::ranges::fill(out.mutable_values(), value);
    if (block.chunks()[i] != out) pinned.Replaced(block.chunks()[i]);
    block.Replace(i, out);
  }
}

const float* PlaceOf(const Block& block) { return block.chunks()[0].values().data(); }

TEST_CASE("dense values before a round stay until they are dropped, in two copies in all") {
  PinnedBytes pinned;
  Block block(kChunkElements + 10);
  block.Fill(0);
  DenseBefore before;
  std::set<const float*> places = {PlaceOf(block)};
  for (int round = 1; round <= 6; ++round) {
    before.Drop();
    CHECK_FALSE(before.kept());
    before.Keep(block, static_cast<uint64_t>(round) - 1);
    Write(block, before, static_cast<float>(round), pinned);
    CHECK(before.kept());
    CHECK(before.updates() == static_cast<uint64_t>(round) - 1);
    CHECK(ValuesOf(before.values()) == Floats(block.elements(), static_cast<float>(round - 1)));
    CHECK(ValuesOf(block.chunks()) == Floats(block.elements(), static_cast<float>(round)));
    places.insert(PlaceOf(block));
  }
  CHECK(places.size() == 2);
}

TEST_CASE(
    "a slow reader of a state before keeps it unchanged, and pins no memory once it is done") {
  PinnedBytes pinned;
  auto shared = std::make_shared<PinnedBytes>();
  Block block(8);
  block.Fill(1);
  DenseBefore before;
  before.Keep(block, 0);
  Write(block, before, 2, *shared);
  {
    const PulledChunk pulled(before.values()[0], shared);
    CHECK(shared->bytes() == 8 * sizeof(float));
    for (int round = 3; round < 6; ++round) {
      before.Keep(block, 0);
      Write(block, before, static_cast<float>(round), *shared);
    }
    CHECK(pulled.chunk().values()[0] == 1);
  }
  CHECK(shared->bytes() == 0);
  // A chunk in use again is no longer stale.
  before.Keep(block, 0);
  Write(block, before, 7, *shared);
  const PulledChunk pulled(block.chunks()[0], shared);
  CHECK(shared->bytes() == 0);
}

TEST_CASE("a round that changes nothing has the same values before it and after it") {
  PinnedBytes pinned;
  Block block(4);
  block.Fill(1);
  DenseBefore before;
  before.Keep(block, 0);
  Write(block, before, 2, pinned);
  before.Keep(block, 1);  // the next round has no update
  CHECK(ValuesOf(before.values()) == Floats(4, 2.0f));
  before.Keep(block, 1);
  Write(block, before, 3, pinned);
  CHECK(ValuesOf(before.values()) == Floats(4, 2.0f));
  CHECK(ValuesOf(block.chunks()) == Floats(4, 3.0f));
}

TEST_CASE("values that nobody keeps are updated in place") {
  PinnedBytes pinned;
  Block block(4);
  block.Fill(1);
  DenseBefore before;
  const float* const at = PlaceOf(block);
  Write(block, before, 2, pinned);
  CHECK(PlaceOf(block) == at);
}

constexpr uint64_t kWide = 3;

Optimizer Adam() { return ParseOptimizer({"adam", {{"learning_rate", 0.1}}}).value(); }

Floats DrawFloats(uint64_t key, uint64_t& draw, size_t count) {
  Floats values(count);
  for (float& value : values) value = static_cast<float>(RandomNormal(key, draw++));
  return values;
}

RowIds DrawIds(uint64_t key, uint64_t& draw, uint64_t begin, uint64_t end, size_t most) {
  std::set<uint64_t> ids;
  for (uint64_t i = RandomBits(key, draw++) % (most + 1); i > 0; --i) {
    ids.insert(begin + RandomBits(key, draw++) % (end - begin));
  }
  return {ids.begin(), ids.end()};
}

std::unique_ptr<GrowingTable> MakeGrowing(uint64_t expire, uint64_t rows_max, uint32_t admit) {
  GrowingTableOptions options;
  options.variable.set_name("user/embeddings");
  options.variable.add_shape(1);
  options.variable.add_shape(kWide);
  options.variable.mutable_initializer()->set_name("random_uniform");
  options.seed = 3;
  options.optimizer = Adam();
  options.expire_batches = expire;
  options.rows_max = rows_max;
  options.admit_after = admit;
  return GrowingTable::Make(std::move(options)).value();
}

// Trains a table in rounds, and compares all ids with their values before each round.
void CheckGrowing(uint64_t seed, uint64_t expire, uint64_t rows_max, uint32_t admit) {
  CAPTURE(seed, expire, rows_max, admit);
  const auto table = MakeGrowing(expire, rows_max, admit);
  RowsBefore before(kWide);
  table->TellBefore(&before);
  RowIds all(300);
  std::iota(all.begin(), all.end(), 0);
  uint64_t draw = 0, step = 0;
  for (int round = 0; round < 150; ++round) {
    Floats expected(all.size() * kWide), found(expected.size());
    table->Lookup(all, expected);
    before.Keep(step);
    // Some rounds have no update, or an update without rows.
    if (RandomBits(seed, draw++) % 8 != 0) {
      const size_t most = RandomBits(seed, draw++) % 4 == 0 ? 200 : 12;
      const RowIds ids = DrawIds(seed, draw, 0, all.size(), most);
      REQUIRE(table->Update(step++, ids, DrawFloats(seed, draw, ids.size() * kWide)));
    }
    REQUIRE(before.kept());
    table->LookupBefore(before, all, found);
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i] != expected[i]) FAIL("round " << round << ", id " << all[i / kWide]);
    }
    // Looks up a few ids, as a pull does.
    const RowIds some = DrawIds(seed, draw, 0, all.size(), 9);
    Floats values(some.size() * kWide);
    table->LookupBefore(before, some, values);
    for (size_t i = 0; i < values.size(); ++i) {
      REQUIRE(values[i] == expected[some[i / kWide] * kWide + i % kWide]);
    }
  }
  const GrowingTable::Counts counts = table->counts();
  CHECK(counts.created > 100);
  // Otherwise most rows are evicted.
  if (expire != 0) CHECK(counts.expired > (rows_max == 0 ? 20 : 0));
  if (rows_max != 0) CHECK(counts.evicted > 20);
}

TEST_CASE("rows of a growing table read as before the round: created, expired, evicted ones too") {
  SetParallelThreads(2);
  uint64_t seed = 1;
  for (const uint64_t expire : {0, 1, 2, 9}) {
    for (const uint64_t rows_max : {0, 40}) {
      for (const uint32_t admit : {0, 2}) {
        if (expire == 1 && rows_max != 0) continue;  // too few rows exist at once for evictions
        CheckGrowing(seed++, expire, rows_max, admit);
      }
    }
  }
  SetParallelThreads(1);
}

TEST_CASE("a row that expires by the round itself reads as it was") {
  const auto table = MakeGrowing(/*expire=*/2, /*rows_max=*/0, /*admit=*/0);
  RowsBefore before(kWide);
  table->TellBefore(&before);
  Floats row(kWide), first(kWide), was(kWide);
  table->Lookup(RowIds{7}, first);
  REQUIRE(table->Update(0, RowIds{7}, Floats(kWide, 1)));
  table->Lookup(RowIds{7}, row);
  CHECK(row != first);
  REQUIRE(table->Update(2, RowIds{}, {}));
  before.Keep(2);
  REQUIRE(table->Update(3, RowIds{8}, Floats(kWide, 1)));  // the row is now stale, and swept
  table->Lookup(RowIds{7}, was);
  CHECK(was == first);
  table->LookupBefore(before, RowIds{7}, was);
  CHECK(was == row);
  // A row that expired before the round has its initial value there.
  before.Keep(3);
  REQUIRE(table->Update(4, RowIds{}, {}));
  table->LookupBefore(before, RowIds{7}, was);
  CHECK(was == first);
}

TEST_CASE("rows of a fixed table read as before the round, some, a range and all of them") {
  SetParallelThreads(2);
  constexpr uint64_t kBegin = 500, kRows = 9000;
  const Optimizer optimizer = ParseOptimizer({"adagrad", {{"learning_rate", 0.1}}}).value();
  FixedTable table(optimizer, {kRows, kWide}, kBegin, /*trained=*/true);
  uint64_t draw = 0;
  table.PlaceOf(table.columns()[0]).Put(0, DrawFloats(9, draw, kRows * kWide));
  table.FillSlots();
  RowsBefore before(kWide);
  table.TellBefore(&before);
  for (uint64_t step = 0; step < 12; ++step) {
    Floats expected(kRows * kWide), found(expected.size());
    table.Read(0, expected);
    before.Keep(step);
    if (step % 5 == 3) {
      REQUIRE(table.UpdateAll(step, DrawFloats(9, draw, kRows * kWide)));
    } else if (step % 5 != 4) {
      const RowIds ids = DrawIds(9, draw, kBegin, kBegin + kRows, step % 2 == 0 ? 30 : 20000);
      REQUIRE(table.Update(step, ids, DrawFloats(9, draw, ids.size() * kWide)));
    }
    table.ReadBefore(before, 0, found);
    REQUIRE(found == expected);
    Floats range(40 * kWide);
    table.ReadBefore(before, 100, range);
    REQUIRE(std::equal(range.begin(), range.end(), expected.begin() + 100 * kWide));
    const RowIds some = DrawIds(9, draw, kBegin, kBegin + kRows, 50);
    Floats values(some.size() * kWide);
    table.LookupBefore(before, some, values);
    for (size_t i = 0; i < values.size(); ++i) {
      REQUIRE(values[i] == expected[(some[i / kWide] - kBegin) * kWide + i % kWide]);
    }
  }
  SetParallelThreads(1);
}

TEST_CASE("what is kept of rows is counted, and its memory serves the next round") {
  const auto table = MakeGrowing(0, 0, 0);
  RowsBefore before(kWide);
  table->TellBefore(&before);
  CHECK(before.bytes() == 0);
  const RowIds ids = {1, 2, 3, 4};
  before.Keep(0);
  REQUIRE(table->Update(0, ids, Floats(4 * kWide, 1)));
  CHECK(before.bytes() == 4 * (sizeof(uint64_t) + 1 + kWide * sizeof(float)));
  before.Drop();
  CHECK_FALSE(before.kept());
  before.Keep(1);
  REQUIRE(table->Update(1, ids, Floats(4 * kWide, 1)));
  CHECK(before.updates() == 1);
  CHECK(before.bytes() == 4 * (sizeof(uint64_t) + 1 + kWide * sizeof(float)));
}

}  // namespace
}  // namespace paracord
