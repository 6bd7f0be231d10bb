#include "coordinator/core/holdings.h"

#include <algorithm>
#include <cmath>

#include "common/memory_budget.h"
#include "config/data_plan.h"
#include "config/partitions.h"
#include "config/tables.h"
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
  uint64_t resident = 0, rows = 0;
  for (const Ps* ps : job.ps.Holders()) {
    resident += ps->description.bytes();
    for (const PartitionDescription& partition : ps->description.partitions()) {
      rows += partition.table().bytes();
    }
  }
  double trained = 0, fixed = 0;
  for (size_t p = 0; p < bytes.size(); ++p) {
    const PartitionSpec& partition = job.ps.layout()[p];
    const VariableSpec& variable = job.record.variables()[partition.variable()];
    if (IsGrowing(variable)) continue;
    const int holders = 1 + partition.copies_size();
    (variable.trainable() ? trained : fixed) +=
        static_cast<double>(holders) * static_cast<double>(bytes[p]);
  }
  const double of_values = static_cast<double>(resident - std::min(resident, rows)) - fixed;
  return std::max(1.0, of_values / std::max(trained, 1.0));
}

std::vector<uint64_t> ResidentBytes(const JobView& job, const std::vector<uint64_t>& bytes) {
  const double factor = ResidentPerByte(job, bytes);
  std::vector<uint64_t> resident = bytes;
  for (size_t p = 0; p < bytes.size(); ++p) {
    const VariableSpec& variable = job.record.variables()[job.ps.layout()[p].variable()];
    if (IsGrowing(variable) || !variable.trainable()) continue;
    resident[p] = static_cast<uint64_t>(std::ceil(factor * static_cast<double>(bytes[p])));
  }
  return resident;
}

std::vector<MemoryNeed> NeedsOf(const JobView& job, const Layout& to) {
  const std::vector<uint64_t> bytes = BytesNow(job);
  const std::vector<uint64_t> resident = ResidentBytes(job, bytes);
  std::vector<std::vector<PartitionNeed>> by_ps(to.ps.size());
  for (size_t p = 0; p < bytes.size(); ++p) {
    const VariableSpec& variable = job.record.variables()[job.ps.layout()[p].variable()];
    const bool own = !variable.table().optimizer().empty();
    const bool rows =
        variable.has_table() && (IsGrowing(variable) || variable.table().lazy() || own ||
                                 LeavesUntouchedAlone(job.options.job.optimizer, variable));
    const bool pushed = variable.trainable() && !rows;
    const PartitionNeed need{resident[p], pushed ? bytes[p] : 0, variable.trainable() && rows};
    by_ps[to.holders[p]].push_back(need);
    const uint32_t second = to.SecondOf(p);
    if (job.options.HasHotCopies() && second != kNobody) by_ps[second].push_back(need);
  }
  RoundsNeed rounds;
  if (job.options.job.guarantees.sync()) {
    rounds = {static_cast<uint32_t>(SplitsPerEpoch(job.record.plan())), to.ps.size() > 1};
  }
  std::vector<MemoryNeed> needs;
  for (const std::vector<PartitionNeed>& held : by_ps) needs.push_back(NeedOfAll(held, rounds));
  return needs;
}

uint64_t VariablesMax(const Ps& ps) {
  for (const MemoryHeld& held : ps.description.memory()) {
    if (held.holder() == "variables" && held.bytes_max() > 0) return held.bytes_max();
  }
  return kUnlimitedBytes;
}

uint64_t MemoryLimitOf(const Ps& ps) {
  return std::min(VariablesMax(ps) + MemoryBudget::kProgramBytes, kUnlimitedBytes);
}

}  // namespace paracord
