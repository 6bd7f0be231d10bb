// The choice of a ps for each partition. All functions are pure, so that every start of a
// coordinator and `paracord validate` choose alike. A layout in job.state (layout.h) takes
// precedence.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Sets `ps` of each partition; `bytes` has the sizes of `partitions`, in their order. Rules:
//
//   - "greedy": the largest partition first, each to the ps with the fewest bytes so far; ties go
//     to the smaller partition index and the smaller ps index
//   - "round_robin": partition i to ps i modulo `ps_count`, as in TensorFlow
//
// INVALID_ARGUMENT for another rule, or for no ps.
absl::Status PlacePartitions(const std::string& rule, uint32_t ps_count,
                             std::span<const uint64_t> bytes, std::span<PartitionSpec> partitions);

// Returns the new ps of each partition, in the order of `bytes`, when partitions are spread over
// `ps_count` ps (at least 1). `holders` has their present ps. First the partitions of removed ps,
// with an index of `ps_count` or more, move, the largest first, each to the ps with the fewest
// bytes. Then partitions move from the fullest ps to the ps with the fewest bytes, each time the
// largest one with which the receiver has less than the fullest ps had, until the fullest ps has at
// most 1.1 times the mean, or no partition is small enough.
std::vector<uint32_t> Rebalance(uint32_t ps_count, std::span<const uint64_t> bytes,
                                std::vector<uint32_t> holders);

// A ps that may become the second holder of partitions, which has a copy (docs/scaling.md).
struct CopyPlace {
  std::string address;
  bool available = true;
  // How many bytes of partitions the ps may hold as their second holder.
  uint64_t room = std::numeric_limits<uint64_t>::max();
};

// Returns the second holder of each partition; kNobody (layout.h): none fits. `holders` are the
// first holders. A second holder in `seconds` stays if it is available and is not the first holder,
// even beyond its room. Each other partition, the largest first, gets an available ps with room: a
// ps on another host than the first holder if there is one, and among those the ps with the fewest
// bytes as first and second holder together.
std::vector<uint32_t> PlaceSeconds(std::span<const uint64_t> bytes,
                                   std::span<const uint32_t> holders, std::vector<uint32_t> seconds,
                                   std::vector<CopyPlace> ps);

// Returns the bytes of the partitions of which each ps is the first holder (PartitionSpec.ps).
std::vector<uint64_t> BytesOfPs(uint32_t ps_count, std::span<const uint64_t> bytes,
                                std::span<const PartitionSpec> partitions);

// Returns the most bytes of a ps divided by the mean of all ps: 1 if they are equal, or all 0.
double Imbalance(std::span<const uint64_t> bytes_of_ps);

}  // namespace paracord
