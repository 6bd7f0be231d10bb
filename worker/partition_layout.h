// The ps that hold each partition in a session, and the rows of each partition. A worker uses the
// layout to cut variables into the messages to each ps. Constant after construction: any thread.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "program/gradient_program.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Elements of a variable's array.
struct ElementRange {
  uint64_t first = 0, elements = 0;
};

// Returns the elements of the whole variable.
uint64_t ArrayElements(const VariableSpec& variable);

// A partition on one of the ps that hold it.
struct PartitionReplica {
  uint32_t id = 0;
  size_t index = 0;  // in the session's list of partitions, equal for all holders
  uint32_t variable = 0;
  uint64_t row_begin = 0, row_end = 0;  // rows of the variable, or shards of a growing table
  uint64_t row_elements = 0;
  bool table = false;
  bool trained = false;
  bool moving_average = false;
  // PartitionSpec.copies lists the ps: workers send all holders of a partition the same pushes, but
  // pull values from the first holder, and from further holders only the state.
  bool further_holder = false;

  // Returns the ids in `rows` that belong to the partition; empty for other variables than tables.
  std::span<const uint64_t> IdsIn(const TableRows* rows) const;
  // Returns where the partition lies in an array of the variable: for a table, in an array of
  // `rows` (null: no rows).
  ElementRange RangeIn(const TableRows* rows) const;
};

// Describes a partition of `variable` on its first holder; `index` as in PartitionReplica.
PartitionReplica DescribePartition(const PartitionSpec& partition, const VariableSpec& variable,
                                   size_t index = 0);

class PartitionLayout {
 public:
  // Leaves out partitions and holders that do not fit the variables or the number of ps.
  PartitionLayout(const Session& session, std::span<const VariableSpec> variables);

  std::span<const PartitionReplica> of_ps(uint32_t ps) const { return of_ps_[ps]; }
  // Returns the partitions of a variable on their first holders.
  std::span<const PartitionReplica> of_variable(size_t variable) const {
    return of_variable_[variable];
  }
  // Returns a partition that `ps` holds, or nullptr.
  const PartitionReplica* Find(uint32_t ps, uint32_t id) const;
  // Returns the size of the session's list of partitions, an upper bound of
  // PartitionReplica::index.
  size_t partitions() const { return partitions_; }
  // Whether some partition has more than one holder.
  bool has_copies() const { return has_copies_; }
  // Whether exchanges go to `ps`. A ps without partitions may be dead if partitions have further
  // holders or the session does not name the process.
  bool TakesPart(uint32_t ps) const { return !of_ps_[ps].empty() || (known_[ps] && !has_copies_); }

 private:
  void Add(uint32_t ps, const PartitionReplica& replica);

  std::vector<std::vector<PartitionReplica>> of_ps_;
  std::vector<absl::flat_hash_map<uint32_t, size_t>>
      index_of_id_;  // index: ps; index in of_ps_[ps]
  std::vector<std::vector<PartitionReplica>> of_variable_;
  std::vector<bool> known_;  // index: ps; the session has the boot id
  size_t partitions_ = 0;
  bool has_copies_ = false;
};

}  // namespace paracord
