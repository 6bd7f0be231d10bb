// Numbers a batch's ids of tables: finds the distinct rows, and each id's index among them. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "data/data_source.h"

namespace paracord {

// Replaces `unique` by the distinct ids in ascending order, and `places` by the place there of each
// of `ids`.
void NumberIds(std::span<const uint64_t> ids, std::vector<uint64_t>& unique,
               std::vector<uint32_t>& places);

// Like NumberIds, but shard by shard, ascending within each; `shards` gets the index at which each
// shard begins, and the end of the last.
void NumberIdsByShard(std::span<const uint64_t> ids, uint64_t count, std::vector<uint64_t>& unique,
                      std::vector<uint32_t>& places, std::vector<uint32_t>& shards);

// The valid ids of a table.
struct IdSpace {
  std::string table;  // for people
  int64_t rows = 0;   // 0 to rows - 1; 0: any 64 bits
};

// Appends the ids of a column of `batch`. INVALID_ARGUMENT names a record whose id is no exact
// integer, or outside the table.
absl::Status AddIds(const Batch& batch, const Column& column, const IdSpace& space,
                    std::vector<uint64_t>& ids);

}  // namespace paracord
