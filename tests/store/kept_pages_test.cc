// Images of a partition whose rows are updated while they are written.
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <random>

#include "store/dense_partition.h"

namespace paracord {
namespace {

constexpr uint64_t kTableRows = 20011, kTableDim = 40;  // some rows lie across the ends of chunks

class Table {
 public:
  explicit Table(const NamedSpec& optimizer)
      : optimizer_(ParseOptimizer(optimizer).value()), partition_(Make(optimizer_)) {}

  DensePartition& operator*() { return *partition_; }

  void PushRows(size_t count) {
    PartitionUpdate update;
    RowIds ids;
    while (ids.size() < count) ids.push_back(random_() % kTableRows);
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    Push({.gradient = GradientOf(ids.size()), .rows = ids});
  }
  void PushAll() { Push({.gradient = GradientOf(kTableRows), .rows = {}}); }

  // Returns what a file would have; `meanwhile` is called before each of its parts.
  std::string Written(PartitionImage& image, const std::function<void()>& meanwhile) {
    std::string bytes;
    REQUIRE(image
                .Write([&](std::string_view part) {
                  bytes += part;
                  meanwhile();
                  return absl::OkStatus();
                })
                .ok());
    return bytes;
  }
  std::string Now() {
    const std::unique_ptr<PartitionImage> image = partition_->NewImage(/*copied=*/true, {});
    image->Take();
    return Written(*image, [] {});
  }
  std::vector<const float*> Places() {
    ChunkRefs chunks;
    partition_->Pull(chunks);
    std::vector<const float*> places;
    for (const ChunkRef& chunk : chunks) places.push_back(chunk.values().data());
    return places;
  }

 private:
  static std::unique_ptr<DensePartition> Make(const Optimizer& optimizer) {
    Partition::Facts facts{.id = 0,
                           .name = "v",
                           .shape = {kTableRows, kTableDim},
                           .trained = true,
                           .bytes = kTableRows * kTableDim * sizeof(float)};
    PartitionContents contents{.value = Block(kTableRows * kTableDim), .slots = {}, .ledger = {}};
    contents.value.Fill(0.5f);
    FillSlots(optimizer, contents);
    return std::make_unique<DensePartition>(std::move(facts), optimizer, std::move(contents));
  }
  Gradient GradientOf(uint64_t rows) {
    std::vector<float> values(rows * kTableDim);
    for (float& value : values) value = static_cast<float>(random_() % 1000) / 500.0f - 1;
    return Gradient(absl::Cord(absl::string_view(reinterpret_cast<const char*>(values.data()),
                                                 values.size() * sizeof(float))));
  }
  void Push(const PartitionUpdate& update) {
    REQUIRE(partition_->Push({0, batch_++, 1000000}, false, update).outcome == PUSH_APPLIED);
  }

  const Optimizer optimizer_;
  std::mt19937_64 random_{1};
  uint32_t batch_ = 0;
  std::unique_ptr<DensePartition> partition_;
};

TEST_CASE("an image has the rows of its moment, whatever is pushed while it is written") {
  Table table({"adagrad", nlohmann::json::object()});
  table.PushRows(100);
  REQUIRE((*table).images_by_pages());
  // Pushes of rows alone, of everything now and then, and of everything from the middle on.
  const int everything = GENERATE(0, 2, 5);
  CAPTURE(everything);
  for (int round = 0; round < 3; ++round) {
    const std::string before = table.Now();
    const std::unique_ptr<PartitionImage> image = (*table).NewImage(/*copied=*/false, {});
    image->Take();
    int parts = 0;
    table.PushRows(500);
    CHECK(table.Written(*image, [&] {
      table.PushRows(parts % 2 == 0 ? 3 : 900);
      if (everything > 0 && ++parts % everything == 0) table.PushAll();
    }) == before);
    CHECK(table.Now() != before);
  }
}

TEST_CASE("rows are updated where they are while an image has not read them yet") {
  Table table({"adagrad", nlohmann::json::object()});
  table.PushRows(100);
  const std::vector<const float*> places = table.Places();
  const std::unique_ptr<PartitionImage> image = (*table).NewImage(/*copied=*/false, {});
  image->Take();
  table.PushRows(2000);
  CHECK(table.Places() == places);
  SECTION("unless somebody else reads them") {
    ChunkRefs reader;
    (*table).Pull(reader);
    table.PushRows(2000);
    CHECK(table.Places() != places);
  }
  SECTION("and an older image that is still there keeps its own") {
    const std::string older = table.Now();
    const std::unique_ptr<PartitionImage> second = (*table).NewImage(/*copied=*/false, {});
    second->Take();
    table.PushRows(2000);
    const std::string newer = table.Now();
    const std::unique_ptr<PartitionImage> third = (*table).NewImage(/*copied=*/false, {});
    third->Take();
    table.PushRows(2000);
    CHECK(table.Written(*second, [&] { table.PushRows(50); }) == older);
    CHECK(table.Written(*third, [&] { table.PushRows(50); }) == newer);
  }
}

TEST_CASE("an image that is given up leaves nothing behind") {
  Table table({"sgd", nlohmann::json::object()});
  table.PushRows(100);
  const std::vector<const float*> places = table.Places();
  {
    const std::unique_ptr<PartitionImage> image = (*table).NewImage(/*copied=*/false, {});
    image->Take();
    table.PushRows(2000);
  }
  table.PushAll();
  CHECK(table.Places() == places);
}

}  // namespace
}  // namespace paracord
