#include "worker/partition_layout.h"

#include <algorithm>

#include "config/partitions.h"

namespace paracord {
namespace {

uint64_t RowsOf(const VariableSpec& variable) {
  return variable.shape_size() == 0 ? 1 : variable.shape(0);
}

}  // namespace

PartitionReplica DescribePartition(const PartitionSpec& partition, const VariableSpec& variable,
                                   size_t index) {
  return {.id = partition.id(),
          .index = index,
          .variable = partition.variable(),
          .row_begin = partition.row_begin(),
          .row_end = partition.row_end(),
          .row_elements = RowElements(variable),
          .table = variable.has_table(),
          .trained = variable.trainable(),
          .moving_average = variable.moving_average() > 0};
}

uint64_t ArrayElements(const VariableSpec& variable) {
  return RowsOf(variable) * RowElements(variable);
}

std::span<const uint64_t> PartitionReplica::IdsIn(const TableRows* rows) const {
  if (!table || rows == nullptr) return {};
  const std::vector<uint64_t>& ids = rows->ids[variable];
  if (rows->has_shards(variable)) {
    const std::vector<uint32_t>& shards = rows->shards[variable];
    const uint32_t first = shards[row_begin];
    return std::span(ids).subspan(first, shards[row_end] - first);
  }
  const auto begin = std::ranges::lower_bound(ids, row_begin);
  return {begin, std::lower_bound(begin, ids.end(), row_end)};
}

ElementRange PartitionReplica::RangeIn(const TableRows* rows) const {
  if (!table) return {row_begin * row_elements, (row_end - row_begin) * row_elements};
  const std::span<const uint64_t> own = IdsIn(rows);
  if (own.empty()) return {};
  const uint64_t* const all = rows->ids[variable].data();
  return {static_cast<uint64_t>(own.data() - all) * row_elements, own.size() * row_elements};
}

PartitionLayout::PartitionLayout(const Session& session, std::span<const VariableSpec> variables)
    : of_ps_(static_cast<size_t>(session.ps_size())),
      index_of_id_(of_ps_.size()),
      of_variable_(variables.size()),
      partitions_(static_cast<size_t>(session.partitions_size())) {
  for (const PsInfo& ps : session.ps()) known_.push_back(!ps.boot_id().empty());
  size_t index = 0;
  for (const PartitionSpec& partition : session.partitions()) {
    const size_t own_index = index++;
    if (partition.variable() >= variables.size() || partition.ps() >= of_ps_.size()) continue;
    const VariableSpec& variable = variables[partition.variable()];
    if (partition.row_begin() > partition.row_end() || partition.row_end() > RowsOf(variable)) {
      continue;
    }
    Add(partition.ps(), DescribePartition(partition, variable, own_index));
    PartitionReplica copy = *Find(partition.ps(), partition.id());
    copy.further_holder = true;
    for (const uint32_t ps : partition.copies()) {
      if (ps >= of_ps_.size() || ps == partition.ps()) continue;
      has_copies_ = true;
      Add(ps, copy);
    }
  }
}

void PartitionLayout::Add(uint32_t ps, const PartitionReplica& replica) {
  if (!index_of_id_[ps].emplace(replica.id, of_ps_[ps].size()).second) return;
  of_ps_[ps].push_back(replica);
  if (!replica.further_holder) of_variable_[replica.variable].push_back(replica);
}

const PartitionReplica* PartitionLayout::Find(uint32_t ps, uint32_t id) const {
  const auto found = index_of_id_[ps].find(id);
  return found == index_of_id_[ps].end() ? nullptr : &of_ps_[ps][found->second];
}

}  // namespace paracord
