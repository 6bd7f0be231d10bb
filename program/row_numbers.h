// Finds the distinct ids in a batch, and the index of each id among them. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "data/data_source.h"

namespace paracord {

// Replaces `unique` by the distinct ids in ascending order, and `places` by the index in `unique`
// of each of `ids`.
void NumberIds(std::span<const uint64_t> ids, std::vector<uint64_t>& unique,
               std::vector<uint32_t>& places);

// Like NumberIds, but `unique` is ordered by shard (of `count` shards, config/partitions.h), and
// ascending within a shard. `shards` gets the index in `unique` at which each shard begins, and
// last the size of `unique`.
void NumberIdsByShard(std::span<const uint64_t> ids, uint64_t count, std::vector<uint64_t>& unique,
                      std::vector<uint32_t>& places, std::vector<uint32_t>& shards);

// The valid ids of a table.
struct IdSpace {
  std::string table;  // the table's name, for people
  int64_t rows = 0;   // ids are 0 to `rows` - 1; if `rows` is 0, any 64 bits
};

// Appends the ids of a column of `batch`, without their fractions. INVALID_ARGUMENT names a record
// whose id is outside the table, not finite, or a float32 too large to be exact.
absl::Status AddIds(const Batch& batch, const Column& column, const IdSpace& space,
                    std::vector<uint64_t>& ids);

}  // namespace paracord
