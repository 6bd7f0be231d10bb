#include "coordinator/core/holdings.h"

#include <algorithm>

#include "coordinator/core/partitioner.h"

namespace paracord {

std::vector<uint64_t> BytesNow(const JobView& job) {
  const std::vector<PartitionSpec>& placed = job.ps.layout();
  std::vector<uint64_t> bytes = PartitionBytes(job.record.variables(), placed);
  for (const Ps* ps : job.ps.Holders()) {
    for (const PartitionDescription& partition : ps->description.partitions()) {
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

std::vector<std::vector<HeldPartition>> HeldByPs(const JobView& job) {
  std::vector<std::vector<HeldPartition>> held(job.ps.size());
  for (uint32_t i = 0; i < job.ps.size(); ++i) {
    const Ps& ps = job.ps.all()[i];
    if (ps.state == PsState::kAway || !job.ps.HoldsItsPartitions(i)) continue;
    for (const PartitionDescription& partition : ps.description.partitions()) {
      const uint32_t variable = job.ps.layout()[partition.id()].variable();
      held[i].push_back({partition.id(), job.record.variables()[variable].trainable(),
                         partition.state(), partition.serves_before()});
    }
  }
  return held;
}

double ResidentPerByte(const JobView& job, const std::vector<uint64_t>& bytes) {
  uint64_t resident = 0;
  for (const Ps* ps : job.ps.Holders()) resident += ps->description.bytes();
  double values = 0;
  for (size_t p = 0; p < bytes.size(); ++p) {
    const int holders = 1 + job.ps.layout()[p].copies_size();
    values += static_cast<double>(holders) * static_cast<double>(bytes[p]);
  }
  return std::max(1.0, static_cast<double>(resident) / std::max(values, 1.0));
}

uint64_t VariablesMax(const Ps& ps) {
  for (const MemoryHeld& held : ps.description.memory()) {
    if (held.holder() == "variables" && held.bytes_max() > 0) return held.bytes_max();
  }
  return kUnlimitedBytes;
}

}  // namespace paracord
