// A layout lists the ps of a running job, and for each partition its first holder and perhaps a
// second one.
// job.state stores the layout once `paracord scale` has moved the job, or the job has copies, and
// the next coordinator finds the partitions there. Without a stored layout a rule (placement.h)
// places the partitions on the ps that the coordinator was started with. Plain data and pure
// functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paracord {

// In place of the index of a ps.
inline constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();

struct Layout {
  uint64_t version = 0;  // how often partitions have got other first holders
  // The addresses of the ps that the coordinator was started with. A coordinator that is started
  // with others places the partitions by the rule again.
  std::vector<std::string> given;
  std::vector<std::string> ps;    // the addresses of those that hold the job, by index
  std::vector<uint32_t> holders;  // the index in `ps` of each partition, by its id
  // Of a job with copies: the index of the second ps of each partition; kNobody: the partition has
  // one holder. Empty: no partition has two. In synchronous training a second ps takes part in
  // every round, otherwise it prepares the checkpoints that the first one writes.
  std::vector<uint32_t> seconds;

  uint32_t SecondOf(size_t partition) const {
    return seconds.empty() ? kNobody : seconds[partition];
  }
  // Whether the ps is a holder of some partition.
  bool Holds(uint32_t ps_index) const {
    return std::ranges::count(holders, ps_index) > 0 || std::ranges::count(seconds, ps_index) > 0;
  }
  bool operator==(const Layout&) const = default;
};

// How a ps stands when others that hold partitions are lost.
struct Standing {
  bool lost = false;   // the ps is away, or has come back without its partitions
  bool takes = false;  // the ps is there, and serves all that the layout gives it or nothing at all
  bool prepared = false;  // the ps has prepared a checkpoint of the partitions whose second it is
};

// Returns the layout in which partitions of ps that are lost are held by their second ps, which are
// the first and only ones from then on. nullopt: no ps that holds partitions is lost, or one of
// these partitions has no second that takes over. A second takes over only if it has prepared what
// it gets, unless `unprepared`: then it has to read a checkpoint whole.
std::optional<Layout> Promoted(const Layout& layout, std::span<const Standing> ps, bool unprepared);

// Returns the layout of synchronous training without the ps that do not stay: where the first ps of
// a partition leaves, the second one is the first and only one. A partition none of whose ps stays
// keeps both. nullopt: nobody leaves.
std::optional<Layout> Without(const Layout& layout, const std::vector<bool>& stays);

// Returns the addresses of `count` ps for a job held by the ps at `now`. The addresses in `now`
// come first, then the addresses `told` by the caller of scale, then those `given` to the
// coordinator; missing addresses are derived from the address of ps 0 by replacing the number, as
// in "job-ps-0.job-ps:7000". INVALID_ARGUMENT: a ps has no address, two ps share an address, or
// `told` has more addresses than there are new ps.
absl::StatusOr<std::vector<std::string>> AddressesFor(uint32_t count,
                                                      const std::vector<std::string>& now,
                                                      const std::vector<std::string>& told,
                                                      const std::vector<std::string>& given);

}  // namespace paracord
