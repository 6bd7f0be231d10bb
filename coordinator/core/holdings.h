// The bytes of a job's partitions, and the memory that the job's ps have for partitions. Pure
// functions of the newest descriptions of the ps.
#pragma once

#include <cstdint>
#include <vector>

#include "common/memory_need.h"
#include "coordinator/core/held.h"
#include "coordinator/core/job_view.h"
#include "coordinator/core/layout.h"

namespace paracord {

// Returns the bytes of each partition's values; for a growing table, the memory of its rows.
std::vector<uint64_t> BytesNow(const JobView& job);

// Returns PartitionSpec.ps of each partition: its first holder (layout.h), not its copies.
std::vector<uint32_t> HoldersOf(const std::vector<PartitionSpec>& placed);

// Returns the partitions that each ps holds, indexed by ps; none for a ps that is away or holds
// other partitions than the layout says.
std::vector<std::vector<HeldPartition>> HeldByPs(const JobView& job);

// Returns how many bytes of memory the ps together take for one byte of trainable values outside
// growing tables, optimizer state included; at least 1. `bytes` is the result of BytesNow.
double ResidentPerByte(const JobView& job, const std::vector<uint64_t>& bytes);
// Returns the memory of each partition with its optimizer state: of a trainable one its `bytes`
// (BytesNow) times ResidentPerByte; of a growing table, or one that is not trained, its `bytes`.
std::vector<uint64_t> ResidentBytes(const JobView& job, const std::vector<uint64_t>& bytes);

// Returns the memory that each ps of the layout `to` needs for its partitions. The formula is that
// by which a ps refuses a Load (common/memory_need.h), except that for a fixed table with an
// optimizer of its own no pushes of whole partitions are counted, even if that optimizer changes
// all rows.
std::vector<MemoryNeed> NeedsOf(const JobView& job, const Layout& to);

inline constexpr uint64_t kUnlimitedBytes = uint64_t{1} << 62;
// Returns how much memory the ps may use for variables; kUnlimitedBytes without a limit.
uint64_t VariablesMax(const Ps& ps);
// Returns VariablesMax plus the memory of the program itself; kUnlimitedBytes without a limit.
uint64_t MemoryLimitOf(const Ps& ps);

}  // namespace paracord
