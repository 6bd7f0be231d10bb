// Rows of a fixed table: memory, and images during updates.
#include "store/fixed_table.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <random>

#include "common/parallel.h"
#include "store/dense_partition.h"
#include "tests/sanitized.h"
#include "tests/store/fixed_rows.h"

namespace paracord {
namespace {

constexpr uint64_t kTableRows = 20011, kFirstRow = 500;

Optimizer Parsed(const std::string& name, bool lazy = false) {
  Optimizer optimizer = ParseOptimizer({name, nlohmann::json::object()}).value();
  optimizer.lazy = lazy;
  return optimizer;
}

// A table that gets pushes of random rows.
class RandomRows {
 public:
  RandomRows(const Optimizer& optimizer, uint64_t dim)
      : partition(MakeFixedRows(optimizer, {kTableRows, dim}, 0.5f, kFirstRow)), dim_(dim) {}

  RowIds Draw(size_t count) {
    RowIds ids;
    while (ids.size() < count) ids.push_back(kFirstRow + random_() % kTableRows);
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
  }
  void PushRows(size_t count) {
    const RowIds ids = Draw(count);
    Push({.gradient = GradientOf(ids.size()), .rows = ids});
  }
  void PushAll() { Push({.gradient = GradientOf(kTableRows), .rows = {}}); }
  void Push(const PartitionUpdate& update) {
    REQUIRE(partition->Push({0, batch_++, 1000000}, false, update, {}).outcome == PUSH_APPLIED);
  }
  Gradient GradientOf(uint64_t rows) {
    std::vector<float> values(rows * dim_);
    for (float& value : values) value = static_cast<float>(random_() % 1000) / 500.0f - 1;
    return Gradient(absl::Cord(absl::string_view(reinterpret_cast<const char*>(values.data()),
                                                 values.size() * sizeof(float))));
  }

  const std::unique_ptr<TablePartition> partition;

 private:
  const uint64_t dim_;
  std::mt19937_64 random_{1};
  uint32_t batch_ = 0;
};

std::string Joined(const std::map<std::string, std::string>& tensors) {
  std::string all;
  for (const auto& [name, bytes] : tensors) all += name + bytes;
  return all;
}

TEST_CASE("an image of a fixed table has the rows of its moment, whatever is pushed meanwhile") {
  SetParallelThreads(2);
  const bool lazy = GENERATE(false, true);
  const uint64_t dim = GENERATE(1, 16, 40);
  // Pushes of single rows, of all rows now and then, and of all rows from the middle on.
  const int everything = GENERATE(0, 2, 5);
  CAPTURE(lazy, dim, everything);
  RandomRows rows(Parsed(lazy ? "adam" : "adagrad", lazy), dim);
  rows.PushRows(100);
  for (int round = 0; round < UnderSanitizers(1, 2); ++round) {
    const auto before = TensorsOf(*rows.partition);
    const std::unique_ptr<PartitionImage> image = rows.partition->NewImage(/*copied=*/false, {});
    image->Refer();
    rows.PushRows(500);
    std::string bytes;
    int parts = 0;
    REQUIRE(image
                ->Write([&](std::string_view part) {
                  bytes += part;
                  if (++parts % 7 == 0) rows.PushRows(parts % 2 == 0 ? 3 : 9000);
                  if (everything > 0 && parts % (8 * everything) == 0) rows.PushAll();
                  return absl::OkStatus();
                })
                .ok());
    std::string expected;
    for (const TensorInfo& tensor : image->tensors()) expected += before.at(tensor.name);
    CHECK((bytes == expected));
    CHECK((Joined(TensorsOf(*rows.partition)) != Joined(before)));
  }
  SetParallelThreads(1);
}

TEST_CASE(
    "rows that a push names are those of a dense partition with zeros elsewhere, to the bit") {
  const std::string name = GENERATE("sgd", "adagrad");
  const uint64_t dim = GENERATE(1, 5, 16, 32, 64, 5000);
  CAPTURE(name, dim);
  const uint64_t count = dim == 5000 ? 20 : 3000;
  const Optimizer optimizer = Parsed(name);
  const auto table = MakeFixedRows(optimizer, {count, dim}, 0.5f);
  PartitionContents contents{.value = Block(count * dim), .slots = {}, .ledger = {}};
  contents.value.Fill(0.5f);
  FillSlots(optimizer, contents);
  DensePartition dense({.id = 0,
                        .name = "v",
                        .shape = {count, dim},
                        .trained = true,
                        .bytes = count * dim * sizeof(float)},
                       optimizer, std::move(contents));
  const auto gradient_of = [](const std::vector<float>& values) {
    return Gradient(absl::Cord(absl::string_view(reinterpret_cast<const char*>(values.data()),
                                                 values.size() * sizeof(float))));
  };
  std::mt19937_64 random(3);
  for (uint32_t batch = 0; batch < 4; ++batch) {
    PartitionUpdate update;
    update.rows.emplace();
    std::vector<float> some, all(count * dim);
    for (uint64_t row = 0; row < count; ++row) {
      if (random() % 3 == 0) continue;
      update.rows->push_back(row);
      for (uint64_t i = 0; i < dim; ++i) {
        some.push_back(static_cast<float>(random() % 1000) / 300.0f - 1);
        all[row * dim + i] = some.back();
      }
    }
    update.gradient = gradient_of(some);
    REQUIRE(table->Push({0, batch, 100}, false, update, {}).outcome == PUSH_APPLIED);
    REQUIRE(dense.Push({0, batch, 100}, false, gradient_of(all)).outcome == PUSH_APPLIED);
  }
  CHECK((TensorsOf(*table) == TensorsOf(dense)));
}

TEST_CASE("records of a line and more begin at one where that costs little, others are packed") {
  struct Expected {
    const char* optimizer;
    uint64_t dim, bytes;
  };
  for (const Expected& expected :
       {Expected{"adagrad", 16, 128}, Expected{"adagrad", 32, 256}, Expected{"adagrad", 15, 128},
        Expected{"adagrad", 10, 80}, Expected{"sgd", 3, 12}, Expected{"sgd", 16, 64}}) {
    CAPTURE(expected.optimizer, expected.dim);
    const Optimizer optimizer = Parsed(expected.optimizer);
    CHECK(FixedTable::BytesOf(optimizer, 1000, expected.dim, true) == 1000 * expected.bytes);
    FixedTable table(optimizer, {1000, expected.dim}, 0, true);
    CHECK(table.bytes() == 1000 * expected.bytes);
    const auto place = table.PlaceOf(table.columns()[0]);
    CHECK(reinterpret_cast<uintptr_t>(place.data) % 64 == 0);
  }
}

}  // namespace
}  // namespace paracord
