#include "program/lane_devices.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "config/partitions.h"
#include "exchange/lane_sum.h"

namespace paracord {
namespace {

// A model with a dense variable and a table, without any computation.
class TwoVariables : public GradientProgram {
 public:
  TwoVariables() {
    for (const char* name : {"dense", "table"}) {
      VariableSpec& variable = variables_.emplace_back();
      variable.set_name(name);
      variable.add_shape(64);
      variable.add_shape(2);
      variable.set_trainable(true);
    }
    variables_[1].mutable_table()->set_kind(TableSpec::FIXED);
  }
  const std::vector<VariableSpec>& variables() const override { return variables_; }
  const std::vector<std::string>& metric_names() const override { return names_; }
  absl::StatusOr<double> ComputeGradients(const Batch&, uint64_t, ConstTensors,
                                          MutableTensors) override {
    return 0.0;
  }
  absl::Status Evaluate(const Batch&, ConstTensors, std::vector<MetricState>&) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<Column>> Predict(const Batch&, ConstTensors) override {
    return absl::UnimplementedError("none");
  }

 private:
  std::vector<VariableSpec> variables_;
  const std::vector<std::string> names_ = {"loss"};
};

struct Devices {
  explicit Devices(size_t count, CrossDeviceOps ops = CrossDeviceOps::kHierarchicalCopy) {
    std::vector<std::unique_ptr<GradientProgram>> others;
    while (others.size() + 1 < count) others.push_back(std::make_unique<TwoVariables>());
    lanes.emplace(first, std::move(others), ops);
  }
  TwoVariables first;
  std::optional<LaneDevices> lanes;
};

// Random gradients of lanes. The table's gradient has some rows, shard by shard if `shards` is
// above 1.
struct DrawnLanes {
  DrawnLanes(size_t count, uint64_t shards, uint32_t seed) : random(seed) {
    for (size_t i = 0; i < count; ++i) {
      const auto rows = std::make_shared<TableRows>();
      rows->ids.resize(2);
      if (shards > 1) rows->shards = {{}, {0}};
      for (uint64_t shard = 0; shard < shards; ++shard) {
        for (uint64_t id = 0; id < 64; ++id) {
          const bool own = shards == 1 || ShardOfRow(id, shards) == shard;
          if (own && random() % 3 == 0) rows->ids[1].push_back(id);
        }
        if (shards > 1) rows->shards[1].push_back(static_cast<uint32_t>(rows->ids[1].size()));
      }
      arrays.push_back({Floats(128), Floats(2 * rows->ids[1].size())});
      of_rows.push_back(rows);
    }
  }
  std::vector<float> Floats(size_t count) {
    std::vector<float> values(count);
    // With positive and negative zeros.
    for (float& value : values) {
      value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 700;
      if (random() % 8 == 0) value = random() % 2 == 0 ? 0.0f : -0.0f;
    }
    return values;
  }
  LaneRowSums AddUp(LaneDevices& devices,
                    LaneDevices::Variables which = LaneDevices::Variables::kAll) {
    spans.clear();
    for (auto& lane : arrays) spans.push_back({lane[0], lane[1]});
    std::vector<LaneGradients> gradients;
    for (size_t i = 0; i < arrays.size(); ++i) gradients.push_back({spans[i], of_rows[i]});
    return devices.AddUp(gradients, which);
  }

  std::mt19937 random;
  std::vector<std::vector<std::vector<float>>> arrays;  // [lane][variable]
  std::vector<std::shared_ptr<const TableRows>> of_rows;
  std::vector<std::vector<std::span<float>>> spans;
};

std::vector<uint32_t> Bits(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// Returns a row of the table's sum over lanes [first, first + count), by the definition of the
// tree.
std::optional<std::array<float, 2>> RowOf(const DrawnLanes& lanes, uint64_t id, size_t first,
                                          size_t count) {
  if (count == 1) {
    const auto& ids = lanes.of_rows[first]->ids[1];
    const auto found = std::ranges::find(ids, id);
    if (found == ids.end()) return std::nullopt;
    const auto at = static_cast<size_t>(found - ids.begin());
    return std::array{lanes.arrays[first][1][2 * at], lanes.arrays[first][1][2 * at + 1]};
  }
  const auto left = RowOf(lanes, id, first, count / 2);
  const auto right = RowOf(lanes, id, first + count / 2, count / 2);
  if (!left.has_value()) return right;
  if (!right.has_value()) return left;
  return std::array{(*left)[0] + (*right)[0], (*left)[1] + (*right)[1]};
}

float ElementOf(const DrawnLanes& lanes, size_t element, size_t first, size_t count) {
  if (count == 1) return lanes.arrays[first][0][element];
  return ElementOf(lanes, element, first, count / 2) +
         ElementOf(lanes, element, first + count / 2, count / 2);
}

TEST_CASE("the sum of a run of lanes is that of the tree to the bit, whoever adds") {
  const auto ops =
      GENERATE(CrossDeviceOps::kHierarchicalCopy, CrossDeviceOps::kReductionToOneDevice);
  const uint64_t shards = GENERATE(1, 3);
  for (const size_t count : {1u, 2u, 4u, 8u}) {
    CAPTURE(count, shards);
    Devices devices(8, ops);
    DrawnLanes lanes(count, shards, static_cast<uint32_t>(count));
    const DrawnLanes before = lanes;
    const LaneRowSums sums = lanes.AddUp(*devices.lanes);
    std::vector<float> dense;
    for (size_t i = 0; i < 128; ++i) dense.push_back(ElementOf(before, i, 0, count));
    CHECK(Bits(lanes.arrays[0][0]) == Bits(dense));
    std::vector<uint64_t> ids;
    std::vector<float> values;
    std::vector<uint32_t> bounds = {0};
    for (uint64_t shard = 0; shard < shards; ++shard) {
      for (uint64_t id = 0; id < 64; ++id) {
        if (shards > 1 && ShardOfRow(id, shards) != shard) continue;
        const auto row = RowOf(before, id, 0, count);
        if (!row.has_value()) continue;
        ids.push_back(id);
        values.insert(values.end(), row->begin(), row->end());
      }
      bounds.push_back(static_cast<uint32_t>(ids.size()));
    }
    REQUIRE(sums.rows != nullptr);
    CHECK(sums.rows->ids[1] == ids);
    CHECK(Bits(sums.values[1]) == Bits(values));
    CHECK(sums.rows->has_shards(1) == (shards > 1));
    if (shards > 1) CHECK(sums.rows->shards[1] == bounds);
  }
}

TEST_CASE("where the devices have added up dense gradients only those of tables are added") {
  Devices devices(4);
  DrawnLanes all(4, 3, 1), tables(4, 3, 1);
  const DrawnLanes before = tables;
  const LaneRowSums wanted = all.AddUp(*devices.lanes);
  const LaneRowSums sums = tables.AddUp(*devices.lanes, LaneDevices::Variables::kTables);
  CHECK(sums.rows->ids == wanted.rows->ids);
  CHECK(sums.values == wanted.values);
  for (size_t lane = 0; lane < 4; ++lane) {
    CHECK(Bits(tables.arrays[lane][0]) == Bits(before.arrays[lane][0]));
  }
}

TEST_CASE("each lane is computed by a program of its own, and all of them at the same time") {
  Devices devices(4);
  CHECK(devices.lanes->size() == 4);
  for (int again = 0; again < 100; ++again) {
    std::atomic<size_t> begun = 0;
    std::vector<GradientProgram*> used(3, nullptr);
    devices.lanes->ForLanes(3, [&](size_t lane, GradientProgram& program) {
      used[lane] = &program;
      ++begun;
      // Would hang if the lanes came one after another.
      while (begun < 3) std::this_thread::yield();
    });
    CHECK(used[0] == &devices.first);
    CHECK(std::set(used.begin(), used.end()).size() == 3);
  }
}

}  // namespace
}  // namespace paracord
