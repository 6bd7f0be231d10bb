// The rows of a checkpoint's tables, left in its files: for readers that look rows up in tables
// larger than their memory. While ReadVariables (chain.h) goes through the verified files of a
// chain, this class notes where the newest record of each row lies: in 16 bytes for each row of a
// growing table, and for each row of a fixed table that changed since the full checkpoint. Read()
// then reads rows from the files, which stay open, so that the checkpoint may be removed. Filled by
// one thread and constant afterwards; blocking. Errors are those of checkpoint.h.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "storage/chain.h"
#include "storage/checkpoint.h"
#include "storage/safetensors.h"

namespace paracord {

// Returns, by variable, whether its rows should be left in the files: none if all values fit in
// `bytes_max` bytes, else those of all tables, except growing tables whose rows with their ids take
// no more than 16 bytes each. Reads headers alone. No rows are left in an object store, where each
// row would be a request.
absl::StatusOr<std::vector<bool>> TablesToLeave(Files& files, const std::string& directory,
                                                const Manifest& manifest, uint64_t bytes_max);

class CheckpointRows {
 public:
  // `left`: by variable of the manifest, whether its rows are left in the files. All are tables.
  CheckpointRows(const Manifest& manifest, const std::vector<bool>& left);

  bool Has(size_t variable) const { return tables_.contains(variable); }
  // Reads the rows of `ids` in their order, row after row: averages if the table has averages, else
  // values. Sets there[i] to 0 if a growing table has no row of ids[i], or the row has expired; the
  // numbers of such a row are undefined. OUT_OF_RANGE: a fixed table has no such row.
  absl::Status Read(size_t variable, std::span<const uint64_t> ids, std::span<float> rows,
                    std::vector<char>& there) const;

  // ---- For ReadVariables, which reads the links of a chain, oldest first.

  // Called before PlaceOf and EndLink. `links` are those of ReadChain for the ids of all
  // partitions. Opens the files of the tables.
  absl::Status Open(Files& files, const std::vector<ChainLink>& links, KnownDamage& known);
  // As LinkPlaceFn and LinkDoneFn, for a partition of a table whose rows are left.
  TensorPlace PlaceOf(uint32_t partition, std::string_view slot, uint64_t elements);
  absl::Status EndLink(uint32_t partition, const StoredPartition& stored);

 private:
  // What a link has of a partition: records, or the values of all rows of a fixed table and perhaps
  // their averages. A null `tensor`: the file has no such tensor, and EndLink fails.
  struct Link {
    const SafetensorsFile* file = nullptr;
    bool records = false;
    const TensorInfo* tensor = nullptr;
    const TensorInfo* average = nullptr;
  };
  // Rows at equal distances (`stride`) in a tensor; `stride` and `values` are in bytes.
  struct Run {
    const SafetensorsFile* file;
    const TensorInfo* tensor;
    uint64_t stride;
    uint64_t values;  // the values' offset in a record
  };
  // Where the newest record of a row lies: its run, and its place in the run.
  struct Place {
    uint64_t id;
    uint32_t run, record;
  };
  struct Partition {
    size_t variable = 0;
    uint64_t row_begin = 0, row_end = 0;
    std::deque<Link> links;         // the links not read yet, oldest first
    std::vector<uint64_t> ids;      // the ids of the records in the link being read
    std::vector<uint64_t> removed;  // the ids that the link being read removes
    TableMetadata now;              // the state at the newest link read
    std::vector<Place> places;      // ascending ids
    std::optional<uint32_t> whole;  // the run of all rows of a fixed table
    bool averages = false;          // `whole` has averages, not values
  };
  struct Table {
    bool growing = false;
    uint64_t width = 0;           // elements in a row
    uint64_t axis0 = 0;           // rows of a fixed table, shards of a growing one
    uint64_t expire = 0;          // rows expire after so many batches; 0: never
    std::vector<uint32_t> parts;  // partitions, in the order of their rows
  };
  // A row to read.
  struct Wanted {
    const Partition* of;
    uint32_t run;
    uint64_t record;
    size_t at;  // index among the requested ids
  };

  absl::Status OpenLink(Files& files, const ChainLink& link);
  absl::Status TakeRecords(Partition& partition, const Link& link);
  absl::Status Merge(Partition& partition, std::vector<Place> changed,
                     std::vector<uint64_t> removed);
  std::optional<Wanted> Find(const Table& table, uint64_t id, size_t at) const;
  absl::StatusOr<bool> ReadRow(const Table& table, const Wanted& row, std::span<float> out) const;

  std::map<size_t, Table> tables_;            // keyed by variable
  std::map<uint32_t, Partition> partitions_;  // keyed by id
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<Run> runs_;
};

}  // namespace paracord
