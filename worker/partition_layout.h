// The ps that hold each partition in a session, and the rows of each partition. A partition's first
// holder is PartitionSpec.ps; its further holders are the ps in PartitionSpec.copies. A worker uses
// the layout to cut variables into the messages to each ps. Constant after construction, so any
// thread may use a PartitionLayout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "program/gradient_program.h"
#include "proto/paracord.pb.h"

namespace paracord {

// A range of elements in a variable's array.
struct ElementRange {
  uint64_t first = 0, elements = 0;
};

// Returns how many elements the variable has.
uint64_t ArrayElements(const VariableSpec& variable);

// A partition on one of its holders.
struct PartitionReplica {
  uint32_t id = 0;
  size_t index = 0;  // the partition's index in Session.partitions
  uint32_t variable = 0;
  uint64_t row_begin = 0, row_end = 0;  // rows of the variable, or shards of a growing table
  uint64_t row_elements = 0;
  bool table = false;
  bool trained = false;
  bool moving_average = false;
  // The ps is a further holder. A worker sends each push to all holders of a partition, but pulls
  // values only from the first holder, and from further holders only the PartitionState.
  bool further_holder = false;

  // Returns the ids in `rows` that belong to the partition; empty if the variable is no table.
  std::span<const uint64_t> IdsIn(const TableRows* rows) const;
  // Returns where the partition lies in the variable's array. `rows`: the rows that the array of a
  // table has; null: the array of a table has no rows. Not used for other variables.
  ElementRange RangeIn(const TableRows* rows) const;
};

// Returns the description of a partition on its first holder; `index`: PartitionReplica::index.
PartitionReplica DescribePartition(const PartitionSpec& partition, const VariableSpec& variable,
                                   size_t index = 0);

class PartitionLayout {
 public:
  // Ignores partitions of the session that do not fit `variables`, and holders that are no ps.
  PartitionLayout(const Session& session, std::span<const VariableSpec> variables);

  std::span<const PartitionReplica> of_ps(uint32_t ps) const { return of_ps_[ps]; }
  // Returns the partitions of a variable, each on its first holder.
  std::span<const PartitionReplica> of_variable(size_t variable) const {
    return of_variable_[variable];
  }
  // Returns the partition with the id `id` on `ps`; nullptr: `ps` holds none.
  const PartitionReplica* Find(uint32_t ps, uint32_t id) const;
  // Returns the size of Session.partitions; every PartitionReplica::index is less.
  size_t partitions() const { return partitions_; }
  // Whether some partition has more than one holder.
  bool has_copies() const { return has_copies_; }
  // Whether exchanges include `ps`. They leave out a ps that holds no partition if some partition
  // has further holders, or if the session lacks the boot id of the ps.
  bool TakesPart(uint32_t ps) const { return !of_ps_[ps].empty() || (known_[ps] && !has_copies_); }

 private:
  void Add(uint32_t ps, const PartitionReplica& replica);

  std::vector<std::vector<PartitionReplica>> of_ps_;
  std::vector<absl::flat_hash_map<uint32_t, size_t>>
      index_of_id_;  // index: ps; keyed by the partition's id: the index in of_ps_[ps]
  std::vector<std::vector<PartitionReplica>> of_variable_;
  std::vector<bool> known_;  // index: ps; true: the session has the boot id of the ps
  size_t partitions_ = 0;
  bool has_copies_ = false;
};

}  // namespace paracord
