// The bytes of a job's partitions, and the room of its ps for them. Pure functions of what the ps
// last said.
#pragma once

#include <cstdint>
#include <vector>

#include "common/memory_need.h"
#include "coordinator/core/held.h"
#include "coordinator/core/job_view.h"
#include "coordinator/core/layout.h"

namespace paracord {

// Returns the bytes of each partition: of a growing table those of the rows that have come.
std::vector<uint64_t> BytesNow(const JobView& job);

// Returns the index of the ps of each partition.
std::vector<uint32_t> HoldersOf(const std::vector<PartitionSpec>& placed);

// Returns the partitions that each ps holds, by ps. A ps that is away, or whose partitions differ
// from those of the layout, counts as one without partitions.
std::vector<std::vector<HeldPartition>> HeldByPs(const JobView& job);

// Returns how many bytes of memory a byte of values takes with the optimizer's state, where the
// values are not those of a growing table; at least 1.
double ResidentPerByte(const JobView& job, const std::vector<uint64_t>& bytes);
// Returns the bytes of each partition with the optimizer's state: `bytes` (BytesNow) of a growing
// table, which counts all memory of its rows, and else by ResidentPerByte.
std::vector<uint64_t> ResidentBytes(const JobView& job, const std::vector<uint64_t>& bytes);

// Returns the memory that each ps of the layout `to` needs for its partitions, by the same sum
// (common/memory_need.h) by which a ps refuses a Load. The sum leaves out pushes to a fixed table
// whose own optimizer changes all rows.
std::vector<MemoryNeed> NeedsOf(const JobView& job, const Layout& to);

inline constexpr uint64_t kUnlimitedBytes = uint64_t{1} << 62;
// Returns the bytes that the ps has for variables; kUnlimitedBytes without a limit.
uint64_t VariablesMax(const Ps& ps);
// Returns the --memory-limit of the ps; kUnlimitedBytes without one.
uint64_t MemoryLimitOf(const Ps& ps);

}  // namespace paracord
