// A layout lists the ps of a running job, and for each partition its first holder and perhaps a
// second one. job.state stores the layout once `paracord scale` has moved the job, or if the job
// has copies, and the next coordinator uses the stored layout. Without a stored layout a rule
// (placement.h) places the partitions on the ps that the coordinator was started with. Plain data
// and pure functions.
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

// Stands for "no ps" where the index of a ps is expected.
inline constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();

struct Layout {
  uint64_t version = 0;  // raised whenever first holders change
  // The ps addresses that the coordinator was started with. A coordinator started with different
  // addresses ignores the layout and places the partitions by the rule.
  std::vector<std::string> given;
  std::vector<std::string> ps;    // the addresses of the job's ps, by index
  std::vector<uint32_t> holders;  // the index in `ps` of each partition's first holder
  // In a job with copies, the index in `ps` of each partition's second holder; kNobody: the
  // partition has one holder. Empty: no partition has two. In synchronous training a second holder
  // takes part in every round; in asynchronous training it reads into memory each checkpoint that
  // the first holder writes, to be prepared.
  std::vector<uint32_t> seconds;

  uint32_t SecondOf(size_t partition) const {
    return seconds.empty() ? kNobody : seconds[partition];
  }
  // Whether the ps holds any partition, as first or second holder.
  bool Holds(uint32_t ps_index) const {
    return std::ranges::count(holders, ps_index) > 0 || std::ranges::count(seconds, ps_index) > 0;
  }
  bool operator==(const Layout&) const = default;
};

// The condition of a ps, for deciding whether second holders take over from lost ps.
struct Standing {
  bool lost = false;  // the ps is away, or came back without its partitions
  // The ps is there, and holds either all partitions that the layout gives it, or none.
  bool takes = false;
  bool prepared = false;  // the ps has prepared the partitions of which it is the second holder
};

// Returns the layout in which each partition whose first holder is lost has its second holder as
// first and only holder. A second holder takes over only if it has prepared its partitions, or if
// `unprepared`: then it reads a whole checkpoint. nullopt: no first holder is lost, or a lost one
// has a partition without a second holder that can take over.
std::optional<Layout> Promoted(const Layout& layout, std::span<const Standing> ps, bool unprepared);

// Returns the layout of synchronous training without the ps that leave (`stays` is false): if one
// holder of a partition leaves, the other becomes its only holder. If both leave, both stay listed.
// nullopt: no holder changes.
std::optional<Layout> Without(const Layout& layout, const std::vector<bool>& stays);

// Returns the addresses of `count` ps for a job whose ps are at `now`. The addresses in `now` come
// first, then `told` (by the caller of `paracord scale`), then each ps has the address at its index
// in `given` (Layout::given). If `given` is too short, the address is that of ps 0 with its number
// replaced, as the 0 of "job-ps-0.job-ps:7000". INVALID_ARGUMENT: the address of a ps is not known,
// two ps share an address, or `told` has more addresses than there are new ps.
absl::StatusOr<std::vector<std::string>> AddressesFor(uint32_t count,
                                                      const std::vector<std::string>& now,
                                                      const std::vector<std::string>& told,
                                                      const std::vector<std::string>& given);

}  // namespace paracord
