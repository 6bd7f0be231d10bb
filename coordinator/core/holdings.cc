#include "coordinator/core/holdings.h"

#include <algorithm>
#include <numeric>

#include "coordinator/core/partitioner.h"

namespace paracord {

std::vector<uint64_t> BytesNow(const JobView& job) {
  const std::vector<PartitionSpec>& placed = job.ps.layout();
  std::vector<uint64_t> bytes = PartitionBytes(job.record.variables(), placed);
  for (const Ps& ps : job.ps.all()) {
    for (const PartitionDescription& partition : ps.description.partitions()) {
      if (!partition.has_table() || partition.id() >= bytes.size()) continue;
      bytes[partition.id()] = partition.table().bytes();
    }
  }
  return bytes;
}

std::vector<uint32_t> HoldersOf(const std::vector<PartitionSpec>& placed) {
  std::vector<uint32_t> holders;
  for (const PartitionSpec& partition : placed) holders.push_back(partition.ps());
  return holders;
}

double ResidentPerByte(const JobView& job, const std::vector<uint64_t>& bytes) {
  uint64_t resident = 0;
  for (const Ps& ps : job.ps.all()) resident += ps.description.bytes();
  const double values =
      static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}));
  return std::max(1.0, static_cast<double>(resident) / std::max(values, 1.0));
}

uint64_t VariablesMax(const Ps& ps) {
  for (const MemoryHeld& held : ps.description.memory()) {
    if (held.holder() == "variables" && held.bytes_max() > 0) return held.bytes_max();
  }
  return kUnlimitedBytes;
}

}  // namespace paracord
