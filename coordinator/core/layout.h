// A layout says which ps hold a running job, and which of them has each partition. A job that has
// always been where its coordinator was told to has none: its partitions are placed by a rule
// (placement.h). One that was moved, by `paracord scale`, has its layout in job.state, so that the
// next coordinator finds the partitions where they are. Plain data and pure functions.
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

// Returns the addresses of `count` ps for a job that is held by those at `now`: these go on, then
// come the addresses that somebody `told`, those that the coordinator was `given`, or addresses
// that follow from that of ps 0, such as "job-ps-0.job-ps:7000", by its number. INVALID_ARGUMENT:
// there is none for some ps, a ps would have that of another one, or more are told than are new.
absl::StatusOr<std::vector<std::string>> AddressesFor(uint32_t count,
                                                      const std::vector<std::string>& now,
                                                      const std::vector<std::string>& told,
                                                      const std::vector<std::string>& given);

}  // namespace paracord
