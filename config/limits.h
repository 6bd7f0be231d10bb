// Limits that several roles have to agree on.
#pragma once

#include <cstdint>

namespace paracord {

// Of one partition's parameters, which are applied and sent under one lock.
inline constexpr uint64_t kPartitionBytesMax = uint64_t{1} << 30;

}  // namespace paracord
