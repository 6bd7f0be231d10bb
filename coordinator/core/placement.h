// The choice of a ps for each partition is a pure function of the partitions' sizes and the number
// of ps, so that every start of a coordinator, and `paracord validate`, come to the same plan.
#pragma once

#include <cstdint>
#include <limits>
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

// A ps to which second holders of partitions may be given.
struct CopyPlace {
  std::string address;  // partitions get their second holder on another host where one is free
  bool available = true;
  uint64_t room = std::numeric_limits<uint64_t>::max();  // bytes, for partitions it is second of
};

// Returns the second ps of each partition, or kNobody (layout.h): it stays the one in `seconds`
// where that is available and not the first, `holders`, and is else the available ps on another
// host, or on this one, that holds the fewest bytes of both kinds. The largest partition first.
std::vector<uint32_t> PlaceSeconds(std::span<const uint64_t> bytes,
                                   std::span<const uint32_t> holders, std::vector<uint32_t> seconds,
                                   std::vector<CopyPlace> ps);

// Bytes that each ps holds.
std::vector<uint64_t> BytesOfPs(uint32_t ps_count, std::span<const uint64_t> bytes,
                                std::span<const PartitionSpec> partitions);

// Largest over mean; 1 is perfect, and what nothing at all has.
double Imbalance(std::span<const uint64_t> bytes_of_ps);

}  // namespace paracord
