// Who is to have which lanes of an epoch: each session gets a contiguous run of lanes, in
// proportion to its speed, so that all sessions finish a round together. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace paracord {

// A session that holds lanes or asks for some.
struct LaneTaker {
  uint64_t session = 0;
  double seconds = 0;    // a batch; 0: unknown, assumed to be average
  uint32_t devices = 1;  // lanes computed in parallel
};

// Returns, by lane, the session that is to have it; 0 for all of them if there are no `takers`.
// `holders` has the session that a lane is with now, by lane, and 0 where nobody has it. A round
// takes as long as the taker whose lanes take longest. That time is as short as it can be, or less
// than a tenth longer, and then lanes stay where they are. Ties go to sessions that hold lanes,
// then to the order of `takers`. A session without a lane stands by.
std::vector<uint64_t> ShareLanes(std::span<const uint64_t> holders,
                                 std::span<const LaneTaker> takers);

}  // namespace paracord
