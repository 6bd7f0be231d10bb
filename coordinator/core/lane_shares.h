// Divides the lanes of an epoch among sessions: each session gets lanes with successive numbers, as
// many as let all sessions finish a round at about the same time. A pure function.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace paracord {

// A session that holds lanes or asks for some.
struct LaneTaker {
  uint64_t session = 0;
  double seconds = 0;    // seconds for a batch; 0: not known, taken as the mean of other takers
  uint32_t devices = 1;  // how many lanes the session computes in parallel
};

// Returns the new session of each lane, indexed by lane; 0 for every lane if `takers` is empty.
// `holders` has the present session of each lane, 0 for a free lane. A round lasts as long as its
// slowest taker. The shares make this time minimal, unless that would save less than a tenth
// compared with dealing out the free lanes alone: then no session gives up lanes. A session may get
// no lane.
std::vector<uint64_t> ShareLanes(std::span<const uint64_t> holders,
                                 std::span<const LaneTaker> takers);

}  // namespace paracord
