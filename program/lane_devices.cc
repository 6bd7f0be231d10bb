#include "program/lane_devices.h"

#include <utility>

#include "config/partitions.h"
#include "exchange/lane_sum.h"

namespace paracord {
namespace {

// A table's gradient; for a growing table shard by shard, because ids ascend only within a shard.
using ShardSums = std::vector<SummedRows>;

bool HasRowGradient(const VariableSpec& variable) {
  return variable.has_table() && variable.trainable();
}

ShardSums ShardsOf(const TableRows& rows, size_t variable, std::span<const float> values) {
  const std::vector<uint64_t>& ids = rows.ids[variable];
  std::vector<uint32_t> bounds = {0, static_cast<uint32_t>(ids.size())};
  if (rows.has_shards(variable)) bounds = rows.shards[variable];
  const size_t width = ids.empty() ? 0 : values.size() / ids.size();
  ShardSums shards;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    SummedRows& shard = shards.emplace_back();
    shard.ids.assign(ids.begin() + bounds[i], ids.begin() + bounds[i + 1]);
    const auto own = values.subspan(bounds[i] * width, (bounds[i + 1] - bounds[i]) * width);
    shard.values.assign(own.begin(), own.end());
  }
  return shards;
}

void AddShards(const ShardSums& other, uint64_t row_elements, ShardSums& sum) {
  for (size_t i = 0; i < sum.size(); ++i) {
    AddRows(other[i].ids, other[i].values, row_elements, sum[i]);
  }
}

void Join(const ShardSums& shards, bool has_shards, size_t variable, TableRows& rows,
          std::vector<float>& values) {
  std::vector<uint64_t>& ids = rows.ids[variable];
  std::vector<uint32_t> bounds = {0};
  for (const SummedRows& shard : shards) {
    ids.insert(ids.end(), shard.ids.begin(), shard.ids.end());
    values.insert(values.end(), shard.values.begin(), shard.values.end());
    bounds.push_back(static_cast<uint32_t>(ids.size()));
  }
  if (!has_shards) return;
  rows.shards.resize(rows.ids.size());
  rows.shards[variable] = std::move(bounds);
}

}  // namespace

LaneDevices::LaneDevices(GradientProgram& first,
                         std::vector<std::unique_ptr<GradientProgram>> others,
                         CrossDeviceOps reduction, std::shared_ptr<DeviceSum> sum)
    : reduction_(reduction), sum_(std::move(sum)), programs_{&first}, others_(std::move(others)) {
  for (const auto& program : others_) {
    programs_.push_back(program.get());
    threads_.push_back(std::make_unique<WorkThread>());
  }
}

LaneDevices::~LaneDevices() = default;

void LaneDevices::InThreads(size_t count, const std::function<void(size_t)>& body) {
  for (size_t i = 1; i < count; ++i) {
    threads_[i - 1]->Start([&body, i] { body(i); });
  }
  body(0);
  for (size_t i = 1; i < count; ++i) threads_[i - 1]->Wait();
}

void LaneDevices::ForLanes(
    size_t lanes, const std::function<void(size_t lane, GradientProgram& program)>& compute) {
  InThreads(lanes, [&](size_t lane) { compute(lane, *programs_[lane]); });
}

LaneRowSums LaneDevices::AddUp(std::span<const LaneGradients> lanes, Variables which) {
  const std::vector<VariableSpec>& variables = programs_[0]->variables();
  const bool tables = lanes[0].rows != nullptr;
  std::vector<std::vector<ShardSums>> sums(lanes.size());  // (lane, variable)
  for (size_t lane = 0; tables && lane < lanes.size(); ++lane) {
    sums[lane].resize(variables.size());
    for (size_t v = 0; v < variables.size(); ++v) {
      if (!HasRowGradient(variables[v])) continue;
      sums[lane][v] = ShardsOf(*lanes[lane].rows, v, lanes[lane].arrays[v]);
    }
  }
  const auto add = [&](size_t to, size_t from) {
    for (size_t v = 0; v < variables.size(); ++v) {
      if (tables && HasRowGradient(variables[v])) {
        AddShards(sums[from][v], RowElements(variables[v]), sums[to][v]);
      } else if (which == Variables::kAll || variables[v].has_table()) {
        AddTo(lanes[to].arrays[v], lanes[from].arrays[v]);
      }
    }
  };
  for (size_t step = 1; step < lanes.size(); step *= 2) {
    const size_t pairs = lanes.size() / (2 * step);
    const auto add_pair = [&](size_t pair) { add(2 * step * pair, 2 * step * pair + step); };
    if (reduction_ == CrossDeviceOps::kReductionToOneDevice) {
      for (size_t pair = 0; pair < pairs; ++pair) add_pair(pair);
    } else {
      InThreads(pairs, add_pair);
    }
  }
  LaneRowSums all;
  if (!tables) return all;
  const auto rows = std::make_shared<TableRows>();
  rows->ids.resize(variables.size());
  all.values.resize(variables.size());
  for (size_t v = 0; v < variables.size(); ++v) {
    if (HasRowGradient(variables[v])) {
      Join(sums[0][v], lanes[0].rows->has_shards(v), v, *rows, all.values[v]);
    }
  }
  all.rows = rows;
  return all;
}

}  // namespace paracord
