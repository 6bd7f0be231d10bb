// Finds the distinct ids in a batch, and each id's index among them. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "data/data_source.h"

namespace paracord {

// Sets `unique` to the distinct ids, ascending, and `places` to each id's index in `unique`.
void NumberIds(std::span<const uint64_t> ids, std::vector<uint64_t>& unique,
               std::vector<uint32_t>& places);

// Like NumberIds, but `unique` has the ids shard after shard (of `count` shards,
// config/partitions.h), and within a shard in ascending order. Sets `shards` to the indices in
// `unique` at which the shards begin, followed by the size of `unique`.
void NumberIdsByShard(std::span<const uint64_t> ids, uint64_t count, std::vector<uint64_t>& unique,
                      std::vector<uint32_t>& places, std::vector<uint32_t>& shards);

// The valid ids of a table.
struct IdSpace {
  std::string table;  // the table's name, for people
  int64_t rows = 0;   // the ids are 0 to `rows` - 1; if `rows` is 0, any 64 bits are an id
};

// Appends the ids of a column of `batch` to `ids`; fractions are cut off. INVALID_ARGUMENT if an id
// is outside the table, not finite, or a float32 too large to be exact; the error names the record.
absl::Status AddIds(const Batch& batch, const Column& column, const IdSpace& space,
                    std::vector<uint64_t>& ids);

}  // namespace paracord
