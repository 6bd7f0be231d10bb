// Divides the lanes of an epoch among sessions: each session gets a contiguous run of lanes in
// proportion to its speed, so that all sessions finish a round together. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace paracord {

// A session that holds lanes or asks for some.
struct LaneTaker {
  uint64_t session = 0;
  double seconds = 0;    // seconds a batch; 0: unknown, assumed average
  uint32_t devices = 1;  // how many lanes it computes in parallel
};

// Returns the new session of each lane, indexed by lane; 0 for every lane if `takers` is empty.
// `holders` has the present session of each lane, 0 for a free lane. The slowest taker determines
// the time of a round, which is minimal, unless moving lanes would save less than a tenth: then
// lanes stay. Ties go to sessions that hold lanes, then to the order of `takers`. A session that
// gets no lane stands by.
std::vector<uint64_t> ShareLanes(std::span<const uint64_t> holders,
                                 std::span<const LaneTaker> takers);

}  // namespace paracord
