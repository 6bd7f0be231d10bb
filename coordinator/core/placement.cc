#include "coordinator/core/placement.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

void PlaceGreedily(uint32_t ps_count, std::span<const uint64_t> bytes,
                   std::span<PartitionSpec> partitions) {
  std::vector<size_t> order(partitions.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  using Load = std::pair<uint64_t, uint32_t>;  // bytes, then index: ties go to the smaller index
  std::priority_queue<Load, std::vector<Load>, std::greater<>> lightest;
  for (uint32_t ps = 0; ps < ps_count; ++ps) lightest.emplace(0, ps);
  for (size_t i : order) {
    auto [load, ps] = lightest.top();
    lightest.pop();
    partitions[i].set_ps(ps);
    lightest.emplace(load + bytes[i], ps);
  }
}

}  // namespace

absl::Status PlacePartitions(const std::string& rule, uint32_t ps_count,
                             std::span<const uint64_t> bytes, std::span<PartitionSpec> partitions) {
  if (ps_count == 0) return absl::InvalidArgumentError("there is no ps to place partitions on");
  if (rule == "greedy") {
    PlaceGreedily(ps_count, bytes, partitions);
  } else if (rule == "round_robin") {
    for (size_t i = 0; i < partitions.size(); ++i) {
      partitions[i].set_ps(static_cast<uint32_t>(i % ps_count));
    }
  } else {
    return absl::InvalidArgumentError(absl::StrCat("placement: there is no rule ", rule));
  }
  return absl::OkStatus();
}

std::vector<uint64_t> BytesOfPs(uint32_t ps_count, std::span<const uint64_t> bytes,
                                std::span<const PartitionSpec> partitions) {
  std::vector<uint64_t> of_ps(ps_count, 0);
  for (size_t i = 0; i < partitions.size(); ++i) of_ps[partitions[i].ps()] += bytes[i];
  return of_ps;
}

double Imbalance(std::span<const uint64_t> bytes_of_ps) {
  uint64_t sum = 0;
  uint64_t largest = 0;
  for (uint64_t bytes : bytes_of_ps) {
    sum += bytes;
    largest = std::max(largest, bytes);
  }
  if (sum == 0) return 1;
  return static_cast<double>(largest) * static_cast<double>(bytes_of_ps.size()) /
         static_cast<double>(sum);
}

}  // namespace paracord
