// The bytes of a job's partitions, and the memory that its ps have for them. Pure functions of the
// newest descriptions of the ps.
#pragma once

#include <cstdint>
#include <vector>

#include "common/memory_need.h"
#include "coordinator/core/held.h"
#include "coordinator/core/job_view.h"
#include "coordinator/core/layout.h"

namespace paracord {

// Returns the bytes of each partition's values; for a growing table, of the rows present.
std::vector<uint64_t> BytesNow(const JobView& job);

// Returns the index of the first holder of each partition.
std::vector<uint32_t> HoldersOf(const std::vector<PartitionSpec>& placed);

// Returns the partitions that each ps holds, indexed by ps; empty for a ps that is away or holds
// other partitions than the layout says.
std::vector<std::vector<HeldPartition>> HeldByPs(const JobView& job);

// Returns the memory taken by one byte of trainable values together with its optimizer state,
// outside growing tables; at least 1.
double ResidentPerByte(const JobView& job, const std::vector<uint64_t>& bytes);
// Returns the memory of each partition with its optimizer state. For a growing table `bytes`
// (BytesNow) includes all memory of its rows; other trainable partitions are scaled by
// ResidentPerByte.
std::vector<uint64_t> ResidentBytes(const JobView& job, const std::vector<uint64_t>& bytes);

// Returns the memory that each ps of the layout `to` needs for its partitions. The formula is that
// of a ps when it refuses a Load (common/memory_need.h), without pushes to a fixed table whose own
// optimizer changes all rows.
std::vector<MemoryNeed> NeedsOf(const JobView& job, const Layout& to);

inline constexpr uint64_t kUnlimitedBytes = uint64_t{1} << 62;
// Returns the ps's memory for variables; kUnlimitedBytes without a limit.
uint64_t VariablesMax(const Ps& ps);
// Returns the --memory-limit of the ps; kUnlimitedBytes without one.
uint64_t MemoryLimitOf(const Ps& ps);

}  // namespace paracord
