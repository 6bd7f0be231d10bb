// A growing table with 64-bit ids, which forgets rows.
#include "store/growing_table.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "common/counter_random.h"
#include "common/parallel.h"
#include "tests/floats.h"

namespace paracord {
namespace {

constexpr uint64_t kDim = 5;
using Ids = std::vector<uint64_t>;

GrowingTableOptions Options(const NamedSpec& optimizer = {"sgd", {{"learning_rate", 0.5}}}) {
  GrowingTableOptions options;
  options.variable.set_name("user/embeddings");
  options.variable.add_shape(1);
  options.variable.add_shape(kDim);
  options.variable.mutable_initializer()->set_name("random_uniform");
  options.seed = 3;
  options.optimizer = ParseOptimizer(optimizer).value();
  return options;
}

std::unique_ptr<GrowingTable> Make(GrowingTableOptions options) {
  return GrowingTable::Make(std::move(options)).value();
}

Floats RowOf(const GrowingTable& table, uint64_t id) {
  Floats row(kDim);
  table.Lookup(Ids{id}, row);
  return row;
}

void Touch(GrowingTable& table, uint64_t step, const Ids& ids, float gradient = 1) {
  REQUIRE(table.Update(step, ids, Floats(ids.size() * kDim, gradient)));
}

Floats Moved(Floats row, float by) {
  for (float& value : row) value += by;
  return row;
}

TEST_CASE("a row that is not there reads as its initial values, and reading creates nothing") {
  const auto table = Make(Options());
  const Floats first = RowOf(*table, 7);
  CHECK(first != Floats(kDim, 0.0f));
  for (const float value : first) CHECK(std::abs(value) <= 0.05f);
  CHECK(RowOf(*table, 8) != first);
  CHECK(RowOf(*table, UINT64_MAX) != first);
  CHECK(RowOf(*Make(Options()), 7) == first);
  GrowingTableOptions other = Options();
  other.seed = 4;
  CHECK(RowOf(*Make(other), 7) != first);
  other = Options();
  other.variable.set_name("film/embeddings");
  CHECK(RowOf(*Make(other), 7) != first);
  CHECK(table->counts().rows == 0);
  Touch(*table, 0, {7});
  CHECK(RowOf(*table, 7) == Moved(first, -0.5f));
  CHECK(table->counts().rows == 1);
}

TEST_CASE("rows of many ids are those of a plain map, whatever is removed meanwhile") {
  SetParallelThreads(2);
  GrowingTableOptions options = Options();
  options.expire_batches = 20;
  const auto table = Make(options);
  struct Row {
    Floats values;
    uint64_t touched = 0;
  };
  std::map<uint64_t, Row> expected;
  const auto initial = Make(Options());
  uint64_t draw = 0;
  uint64_t now = 0;
  for (; now < 120; ++now) {
    std::set<uint64_t> chosen;
    while (chosen.size() < 700) {
      const uint64_t x = RandomBits(1, draw++);
      chosen.insert(x % 5 == 0 ? x % 500 : x % 20000 << 44);
    }
    const Ids ids(chosen.begin(), chosen.end());
    Touch(*table, now, ids);
    for (const uint64_t id : ids) {
      const auto [row, made] = expected.try_emplace(id);
      if (made || now - row->second.touched > 20) row->second.values = RowOf(*initial, id);
      row->second.values = Moved(row->second.values, -0.5f);
      row->second.touched = now;
    }
  }
  --now;
  size_t live = 0;
  for (const auto& [id, row] : expected) {
    const bool stale = now - row.touched > 20;
    if (!stale) ++live;
    if (RowOf(*table, id) != (stale ? RowOf(*initial, id) : row.values)) FAIL("id " << id);
  }
  CHECK(live < expected.size());
  CHECK(table->counts().rows >= live);
  CHECK(table->counts().expired == table->counts().created - table->counts().rows);
  SetParallelThreads(1);
}

TEST_CASE("a row counts its own steps where the optimizer needs it") {
  const NamedSpec spec{"adam", {{"learning_rate", 0.1}, {"use_ema", true}}};
  const auto table = Make(Options(spec));
  const Floats first = RowOf(*table, 9);
  for (uint64_t step = 0; step < 9; ++step) Touch(*table, step, {1, 2});
  Touch(*table, 9, {9});
  // Adam's first step has the size of the learning rate.
  const Floats after = RowOf(*table, 9);
  for (size_t i = 0; i < kDim; ++i) CHECK(after[i] == Approx(first[i] - 0.1f).margin(1e-5));
}

TEST_CASE("an id is admitted when it has appeared often enough") {
  GrowingTableOptions options = Options();
  options.admit_after = 3;
  const auto table = Make(options);
  const Floats first = RowOf(*table, 7);
  Touch(*table, 0, {7, 8});
  Touch(*table, 1, {7});
  CHECK(table->counts().rows == 0);
  CHECK(table->counts().dropped == 3);
  CHECK(RowOf(*table, 7) == first);
  Touch(*table, 2, {7, 8});
  CHECK(table->counts().rows == 1);
  CHECK(RowOf(*table, 7) == Moved(first, -0.5f));
  Touch(*table, 3, {8});
  CHECK(table->counts().rows == 2);
}

TEST_CASE("candidates take memory that does not grow, and frequent ids stay among them") {
  GrowingTableOptions options = Options();
  options.admit_after = 4;
  options.candidates = 1024;
  const auto table = Make(options);
  const uint64_t bytes = table->bytes();
  uint64_t next = 1000;
  for (uint64_t step = 0; step < 200; ++step) {
    Ids ids;
    if (step % 5 == 0) ids = {1, 2, 3};
    for (int i = 0; i < 50; ++i) ids.push_back(next++);
    Touch(*table, step, ids);
  }
  CHECK(table->counts().rows == 3);
  CHECK(table->bytes() < bytes + 10000);
}

TEST_CASE("ids are admitted by chance, which is a function of the seed") {
  GrowingTableOptions options = Options();
  options.admit_probability = 0.25;
  const auto table = Make(options);
  const auto other = Make(options);
  Ids ids;
  for (uint64_t id = 0; id < 4000; ++id) ids.push_back(id * 17);
  Touch(*table, 0, ids);
  Touch(*other, 0, ids);
  CHECK(table->counts().rows > 900);
  CHECK(table->counts().rows < 1100);
  CHECK(table->counts().rows == other->counts().rows);
  Touch(*table, 1, ids);
  CHECK(table->counts().rows > 1600);
}

TEST_CASE("where there may be no more rows, the longest untouched go") {
  GrowingTableOptions options = Options();
  options.rows_max = 100;
  const auto table = Make(options);
  for (uint64_t id = 0; id < 100; ++id) Touch(*table, id, {id});
  Touch(*table, 100, {0, 1, 2});
  Ids fresh;
  for (uint64_t id = 0; id < 10; ++id) fresh.push_back(1000 + id);
  for (uint64_t i = 0; i < fresh.size(); ++i) Touch(*table, 101 + i, {fresh[i]});
  CHECK(table->counts().rows == 100);
  CHECK(table->counts().evicted == 10);
  const auto initial = Make(Options());
  for (uint64_t id = 0; id < 100; ++id) {
    INFO(id);
    CHECK((RowOf(*table, id) == RowOf(*initial, id)) == (id >= 3 && id < 13));
  }
  // A batch with more ids than allowed rows.
  Ids many;
  for (uint64_t id = 0; id < 300; ++id) many.push_back(5000 + id);
  Touch(*table, 200, many);
  CHECK(table->counts().rows == 100);
}

// Returns the words of all rows in an image that begins now. Calls `part` before each part of the
// image.
Floats WordsOf(GrowingTable& table, const std::function<void(uint64_t part)>& part = {}) {
  const auto undo =
      std::make_shared<UndoLog>(table.records().memory(), table.records().rows(), nullptr);
  table.BeginImage(undo);
  Floats all, words;
  for (uint64_t group = 0; group < undo->groups(); ++group) {
    if (part) part(group);
    REQUIRE(undo->Read(group, words).ok());
    undo->Pass(group);
    table.records().KeepLive(words, 0, UINT64_MAX);
    all.insert(all.end(), words.begin(), words.end());
  }
  table.BeginImage(nullptr);
  return all;
}

// Restores a table from `words`, last row first, as another ps might.
std::unique_ptr<GrowingTable> Restored(const GrowingTableOptions& options, uint32_t now,
                                       const Floats& words) {
  std::unique_ptr<GrowingTable> table = Make(options);
  const uint64_t width = table->record_words();
  uint64_t left = words.size();
  for (const std::span<float> room : table->RestoreRoom(words.size() / width)) {
    for (uint64_t at = 0; at < room.size(); at += width, left -= width) {
      std::memcpy(&room[at], &words[left - width], width * sizeof(float));
    }
  }
  REQUIRE(table->FinishRestore(now, {}, [](uint64_t) { return true; }).ok());
  return table;
}

Ids IdsOf(GrowingTable& table) {
  Ids ids;
  Floats words = WordsOf(table);
  for (uint64_t at = 0; at < words.size(); at += table.record_words()) {
    ids.push_back(table.records().InWords(std::span(words).subspan(at)).id());
  }
  std::ranges::sort(ids);
  return ids;
}

TEST_CASE("which rows go depends on what a checkpoint has of them, not on their places") {
  GrowingTableOptions options = Options();
  options.rows_max = GENERATE(300, 5000, 20000);
  options.expire_batches = GENERATE(0, 40);
  const auto table = Make(options);
  std::unique_ptr<GrowingTable> restored;
  uint64_t draw = 0;
  for (uint64_t step = 0; step < 120; ++step) {
    std::set<uint64_t> ids;
    while (ids.size() < 400) {
      const uint64_t x = RandomBits(7, draw++);
      ids.insert(x % 3 == 0 ? x % 1000 : x % 60000);
    }
    const Ids touched(ids.begin(), ids.end());
    Touch(*table, step, touched);
    if (restored != nullptr) Touch(*restored, step, touched);
    if (step != 60) continue;
    restored = Restored(options, static_cast<uint32_t>(step), WordsOf(*table));
  }
  CHECK(IdsOf(*table) == IdsOf(*restored));
  if (options.rows_max < 5001) CHECK(table->counts().evicted > 0);
  if (options.expire_batches != 0 && options.rows_max == 20000) {
    CHECK(table->counts().expired > 0);
  }
}

TEST_CASE("rows that have expired and are not removed yet are told apart") {
  GrowingTableOptions options = Options();
  options.expire_batches = 3;
  const auto table = Make(options);
  Ids many;
  for (uint64_t id = 0; id < 1000; ++id) many.push_back(id);
  Touch(*table, 0, many);
  Touch(*table, 3, {5000});
  CHECK(table->counts().stale == 0);
  Touch(*table, 4, {5000});  // all other rows have expired, and some are removed
  const GrowingTable::Counts counts = table->counts();
  CHECK(counts.rows > 900);
  CHECK(counts.rows - counts.stale == 1);
  CHECK(counts.created == counts.rows + counts.expired);
}

TEST_CASE("rows that expire and rows that make room are counted once each") {
  GrowingTableOptions options = Options({"adam"});
  options.expire_batches = 3;
  options.rows_max = 150;
  options.admit_after = 2;
  const auto table = Make(options);
  uint64_t draw = 0;
  for (uint64_t step = 0; step < 500; ++step) {
    std::set<uint64_t> ids;
    const uint64_t count = RandomBits(5, draw++) % 120;
    while (ids.size() < count) ids.insert(RandomBits(6, draw++) % 400);
    Touch(*table, step, Ids(ids.begin(), ids.end()));
    const GrowingTable::Counts counts = table->counts();
    REQUIRE(counts.rows <= 150);
    REQUIRE(counts.created == counts.rows + counts.expired + counts.evicted);
  }
  CHECK(table->counts().expired > 100);
  CHECK(table->counts().evicted > 100);
  CHECK(table->counts().dropped > 100);
}

TEST_CASE("memory of removed rows is used again") {
  GrowingTableOptions options = Options();
  options.expire_batches = 4;
  const auto table = Make(options);
  const auto grow = [&](uint64_t from, uint64_t batches) {
    for (uint64_t step = from; step < from + batches; ++step) {
      Ids ids;
      for (uint64_t i = 0; i < 1000; ++i) ids.push_back(step * 1000 + i);
      Touch(*table, step, ids);
    }
  };
  grow(0, 40);
  const uint64_t bytes = table->bytes();
  CHECK(table->counts().rows < 10000);
  grow(40, 200);
  CHECK(table->counts().created == 240000);
  CHECK(table->bytes() < bytes + bytes / 10);
}

TEST_CASE("a row takes at most 24 bytes beside values and slots, at any size") {
  const auto table = Make(Options({"adagrad"}));
  uint64_t id = 0;
  for (uint64_t step = 0; step < 400; ++step) {
    Ids ids;
    for (int i = 0; i < 1000; ++i) ids.push_back(Mix64(id++));
    Touch(*table, step, ids);
    const auto rows = static_cast<double>(table->counts().rows);
    const double own = rows * 2 * kDim * sizeof(float);  // values and slots
    const auto beside = (static_cast<double>(table->bytes()) - own) / rows;
    if (rows > 50000 && beside > 24) FAIL(beside << " bytes a row of " << rows);
  }
}

TEST_CASE("an image is of one moment while rows change, and a table is restored from it") {
  GrowingTableOptions options = Options({"adam"});
  options.expire_batches = 30;
  const auto table = Make(options);
  const auto step = [](GrowingTable& to, uint64_t batch) {
    Ids ids;
    for (uint64_t i = 0; i < 500; ++i) ids.push_back((batch * 131 + i * 7) % 9000 << 20);
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    Touch(to, batch, ids, static_cast<float>(batch % 7) - 2.5f);
  };
  uint64_t batch = 0;
  for (; batch < 40; ++batch) step(*table, batch);
  absl::flat_hash_map<uint64_t, Floats> then;
  for (uint64_t id = 0; id < 9000; ++id) then[id << 20] = RowOf(*table, id << 20);
  const uint64_t live = table->counts().rows;

  uint64_t meanwhile = batch;
  const Floats words = WordsOf(*table, [&](uint64_t) {
    for (int i = 0; i < 9; ++i) step(*table, meanwhile++);  // rows change, expire and appear
  });
  CHECK(meanwhile > batch + 9);
  CHECK(words.size() == live * table->record_words());
  const auto restored = Restored(options, static_cast<uint32_t>(batch) - 1, words);
  for (const auto& [id, values] : then) {
    if (RowOf(*restored, id) != values) FAIL("id " << id);
  }
  // The restored table must continue like the first.
  const auto again = Make(options);
  for (uint64_t b = 0; b < batch + 5; ++b) step(*again, b);
  for (uint64_t b = batch; b < batch + 5; ++b) step(*restored, b);
  for (uint64_t id = 0; id < 9000; ++id) {
    if (RowOf(*restored, id << 20) != RowOf(*again, id << 20)) FAIL("later, id " << (id << 20));
  }
}

TEST_CASE("changes in which a row stands twice are refused") {
  const auto table = Make(Options()), restored = Make(Options());
  Touch(*table, 3, {7, 8});
  Floats words = WordsOf(*table);
  const auto own = [](uint64_t) { return true; };
  CHECK(restored->RestoreChanges(3, {}, {}, words, own).ok());
  const auto size = static_cast<int64_t>(table->record_words());
  words.insert(words.end(), words.begin(), words.begin() + size);
  const absl::Status twice = restored->RestoreChanges(3, {}, {}, words, own);
  CHECK(absl::IsDataLoss(twice));
  CHECK(twice.message() == "the changed row of id 7 stands twice");
}

TEST_CASE("a table that cannot be is refused, and the reason is named") {
  const auto refused = [](GrowingTableOptions options) {
    return std::string(GrowingTable::Make(std::move(options)).status().message());
  };
  GrowingTableOptions options = Options();
  options.variable.mutable_initializer()->set_name("orthogonal");
  CHECK(refused(options) ==
        "variable \"user/embeddings\": initializer orthogonal: no use for a table that grows, "
        "because it needs all rows");
  options = Options();
  options.admit_after = 256;
  CHECK(refused(options) ==
        "table user/embeddings: ids are admitted after at most 255 appearances");
  options = Options();
  options.expire_batches = GrowingTable::kExpireMax + 1;
  CHECK(refused(options) == "table user/embeddings: rows expire after at most 1073741824 batches");
}

}  // namespace
}  // namespace paracord
