#include "coordinator/core/placement.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <queue>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/layout.h"

namespace paracord {
namespace {

// Returns the indices of `bytes`, largest first; ties go to the smaller index.
std::vector<size_t> LargestFirst(std::span<const uint64_t> bytes) {
  std::vector<size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  return order;
}

std::string_view HostOf(std::string_view address) {
  return address.substr(0, address.find_last_of(':'));
}

void PlaceGreedily(uint32_t ps_count, std::span<const uint64_t> bytes,
                   std::span<PartitionSpec> partitions) {
  using Load = std::pair<uint64_t, uint32_t>;  // bytes, then index: ties go to the smaller index
  std::priority_queue<Load, std::vector<Load>, std::greater<>> lightest;
  for (uint32_t ps = 0; ps < ps_count; ++ps) lightest.emplace(0, ps);
  for (size_t i : LargestFirst(bytes)) {
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

std::vector<uint32_t> Rebalance(uint32_t ps_count, std::span<const uint64_t> bytes,
                                std::vector<uint32_t> holders) {
  constexpr double kFullest = 1.1;  // times the mean
  std::vector<uint64_t> held(ps_count);
  const std::vector<size_t> largest_first = LargestFirst(bytes);
  const auto emptiest = [&] {
    return static_cast<uint32_t>(std::min_element(held.begin(), held.end()) - held.begin());
  };
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (holders[i] < ps_count) held[holders[i]] += bytes[i];
  }
  for (const size_t i : largest_first) {
    if (holders[i] < ps_count) continue;
    holders[i] = emptiest();
    held[holders[i]] += bytes[i];
  }
  const double mean = static_cast<double>(std::accumulate(held.begin(), held.end(), uint64_t{0})) /
                      static_cast<double>(ps_count);
  while (true) {
    const auto fullest =
        static_cast<uint32_t>(std::max_element(held.begin(), held.end()) - held.begin());
    const uint32_t least = emptiest();
    if (static_cast<double>(held[fullest]) <= kFullest * mean) return holders;
    // Moves the largest partition that does not make the other ps the fuller one.
    const auto moves = std::find_if(largest_first.begin(), largest_first.end(), [&](size_t i) {
      return holders[i] == fullest && bytes[i] > 0 && held[least] + bytes[i] < held[fullest];
    });
    if (moves == largest_first.end()) return holders;
    holders[*moves] = least;
    held[fullest] -= bytes[*moves];
    held[least] += bytes[*moves];
  }
}

std::vector<uint32_t> PlaceSeconds(std::span<const uint64_t> bytes,
                                   std::span<const uint32_t> holders, std::vector<uint32_t> seconds,
                                   std::vector<CopyPlace> ps) {
  seconds.resize(bytes.size(), kNobody);
  std::vector<uint64_t> held(ps.size());
  const auto give = [&](size_t i, uint32_t second) {
    seconds[i] = second;
    held[second] += bytes[i];
    ps[second].room -= std::min(ps[second].room, bytes[i]);
  };
  for (size_t i = 0; i < bytes.size(); ++i) held[holders[i]] += bytes[i];
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint32_t second = std::exchange(seconds[i], kNobody);
    if (second < ps.size() && second != holders[i] && ps[second].available) give(i, second);
  }
  for (const size_t i : LargestFirst(bytes)) {
    if (seconds[i] != kNobody) continue;
    // Ranks ps by host, then bytes, then index.
    std::optional<std::tuple<bool, uint64_t, uint32_t>> best;
    for (uint32_t j = 0; j < ps.size(); ++j) {
      if (j == holders[i] || !ps[j].available || ps[j].room < bytes[i]) continue;
      const std::tuple rank(HostOf(ps[j].address) == HostOf(ps[holders[i]].address), held[j], j);
      if (!best.has_value() || rank < *best) best = rank;
    }
    if (best.has_value()) give(i, std::get<2>(*best));
  }
  return seconds;
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
