// Who is to have which lanes of an epoch: as many as it computes in the time in which the others
// compute theirs, and a run of neighbouring ones. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace paracord {

// A session that holds lanes or asks for some.
struct LaneTaker {
  uint64_t session = 0;
  double seconds = 0;    // that it takes for a batch; 0: not known, and then as long as the others
  uint32_t devices = 1;  // on which it computes as many lanes in that time
};

// Returns, by lane, the session that is to have it; 0 for all of them if there are no `takers`.
// `holders` has the session that a lane is with now, by lane, and 0 where nobody has it. A round
// takes as long as the taker whose lanes take longest. That time is as short as it can be, or less
// than a tenth longer, and then lanes stay where they are. Among equals those that hold lanes go
// before others, and then those that are named first; who gets none stands by.
std::vector<uint64_t> ShareLanes(std::span<const uint64_t> holders,
                                 std::span<const LaneTaker> takers);

}  // namespace paracord
