// The bytes of a job's partitions, and the room of its ps for them. Pure functions of what the ps
// last said.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/core/held.h"
#include "coordinator/core/job_view.h"

namespace paracord {

// Returns the bytes of each partition: of a growing table those of the rows that have come.
std::vector<uint64_t> BytesNow(const JobView& job);

// Returns the index of the ps of each partition.
std::vector<uint32_t> HoldersOf(const std::vector<PartitionSpec>& placed);

// Returns the partitions of each ps that is there and holds exactly those that the layout gives it;
// none of another ps.
std::vector<std::vector<HeldPartition>> HeldByPs(const JobView& job);

// Returns how many bytes of memory a byte of values takes with the optimizer's state; at least 1.
double ResidentPerByte(const JobView& job, const std::vector<uint64_t>& bytes);

inline constexpr uint64_t kUnlimitedBytes = uint64_t{1} << 62;
// Returns the bytes that the ps has for variables; kUnlimitedBytes without a limit.
uint64_t VariablesMax(const Ps& ps);

}  // namespace paracord
