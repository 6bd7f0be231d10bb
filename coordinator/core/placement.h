// The choice of a ps for each partition is a pure function of the partitions' sizes and the number
// of ps, so that every start of a coordinator, and `paracord validate`, come to the same plan.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Sets `ps` of each partition; `bytes` has their sizes, in the same order.
//   "greedy"       the largest first, each to the ps with the fewest bytes; of equal partitions the
//                  one with the smaller id first, of equal ps the one with the smaller index
//   "round_robin"  in order, as TensorFlow does: every part of every variable is one tick
// INVALID_ARGUMENT for another rule, or no ps.
absl::Status PlacePartitions(const std::string& rule, uint32_t ps_count,
                             std::span<const uint64_t> bytes, std::span<PartitionSpec> partitions);

// Returns the ps of each partition, in the order of `bytes`, when those that have `holders` are
// spread over `ps_count` ps. Partitions of ps that are no more move, and then as few bytes as bring
// the fullest ps within a tenth of the mean, where whole partitions allow that. The largest move
// first, each to the ps with the fewest bytes. `ps_count` is at least 1.
std::vector<uint32_t> Rebalance(uint32_t ps_count, std::span<const uint64_t> bytes,
                                std::vector<uint32_t> holders);

// Bytes that each ps holds.
std::vector<uint64_t> BytesOfPs(uint32_t ps_count, std::span<const uint64_t> bytes,
                                std::span<const PartitionSpec> partitions);

// Largest over mean; 1 is perfect, and what nothing at all has.
double Imbalance(std::span<const uint64_t> bytes_of_ps);

}  // namespace paracord
