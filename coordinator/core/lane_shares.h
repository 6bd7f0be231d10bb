// Divides the lanes of an epoch among sessions: each session gets a contiguous run of lanes in
// proportion to its speed, so that all sessions finish a round together. A pure function.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace paracord {

// A session that holds lanes or asks for some.
struct LaneTaker {
  uint64_t session = 0;
  double seconds = 0;    // seconds a batch; 0: unknown; the mean of the others is assumed
  uint32_t devices = 1;  // how many lanes the session computes in parallel
};

// Returns the new session of each lane, indexed by lane; 0 for every lane if `takers` is empty.
// `holders` has the present session of each lane, 0 for a free lane. The slowest taker determines
// the time of a round. The shares make this time minimal, unless that would save less than a tenth:
// then no session gives up lanes. Among equals, sessions that hold more lanes come first, then the
// order of `takers` decides. A session may get no lane.
std::vector<uint64_t> ShareLanes(std::span<const uint64_t> holders,
                                 std::span<const LaneTaker> takers);

}  // namespace paracord
