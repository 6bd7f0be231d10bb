// A layout says which ps hold a running job, and which of them has each partition. A job that has
// always been where its coordinator was told to has none: its partitions are placed by a rule
// (placement.h). After `paracord scale` moves a job, job.state stores the layout, and the next
// coordinator finds the partitions there. Plain data and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paracord {

struct Layout {
  uint64_t version = 0;  // how often the job has moved
  // The addresses of the ps that the coordinator was started with. A coordinator that is started
  // with others places the partitions by the rule again.
  std::vector<std::string> given;
  std::vector<std::string> ps;    // the addresses of those that hold the job, by index
  std::vector<uint32_t> holders;  // the index in `ps` of each partition, by its id

  bool operator==(const Layout&) const = default;
};

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
