// Who is to have which lanes of an epoch: each session as many as any other, and a run of
// neighbouring ones. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace paracord {

// Returns, by lane, the session that is to have it; 0 for all of them if there are no `takers`.
// `holders` has the session that a lane is with now, by lane, and 0 where nobody has it. Of more
// takers than lanes those that hold lanes go before others, and then those that are named first.
std::vector<uint64_t> ShareLanes(std::span<const uint64_t> holders,
                                 std::span<const uint64_t> takers);

}  // namespace paracord
