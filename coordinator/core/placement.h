// The choice of a ps for each partition: a pure function of the partitions' sizes and the number of
// ps, so every start of a coordinator, and `paracord validate`, compute the same plan.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Sets `ps` of each partition; `bytes` has the sizes, in the same order. Rules:
//
//   - "greedy": the largest partition first, each to the ps with the fewest bytes; ties go to the
//     smaller partition id and the smaller ps index
//   - "round_robin": in order, as in TensorFlow, counting every part of every variable
//
// INVALID_ARGUMENT for another rule, or no ps.
absl::Status PlacePartitions(const std::string& rule, uint32_t ps_count,
                             std::span<const uint64_t> bytes, std::span<PartitionSpec> partitions);

// Returns the new ps of each partition, in the order of `bytes`, when partitions held by `holders`
// are spread over `ps_count` ps (at least 1). Partitions of removed ps move. Beyond that, as few
// bytes move as bring the fullest ps within a tenth of the mean, where whole partitions allow it.
// The largest partition moves first, each to the ps with the fewest bytes.
std::vector<uint32_t> Rebalance(uint32_t ps_count, std::span<const uint64_t> bytes,
                                std::vector<uint32_t> holders);

// A ps that may become the second holder of partitions.
struct CopyPlace {
  std::string address;  // another host than the first holder's is preferred
  bool available = true;
  // Bytes for partitions of which it is the second holder.
  uint64_t room = std::numeric_limits<uint64_t>::max();
};

// Returns the second holder of each partition, or kNobody (layout.h). A second holder in `seconds`
// stays if it is available and is not the first holder (`holders`). Otherwise the available ps with
// the fewest bytes (of first and second partitions) is chosen, preferably on another host. The
// largest partition is placed first.
std::vector<uint32_t> PlaceSeconds(std::span<const uint64_t> bytes,
                                   std::span<const uint32_t> holders, std::vector<uint32_t> seconds,
                                   std::vector<CopyPlace> ps);

// Returns the bytes that each ps holds.
std::vector<uint64_t> BytesOfPs(uint32_t ps_count, std::span<const uint64_t> bytes,
                                std::span<const PartitionSpec> partitions);

// Returns the largest over the mean; 1 is perfect, and the value for no bytes at all.
double Imbalance(std::span<const uint64_t> bytes_of_ps);

}  // namespace paracord
