// The rows of a checkpoint's tables, left in its files: for readers that look rows up in tables
// larger than their memory. While ReadVariables (chain.h) goes through the verified files of a
// chain, notes where the newest record of each row lies: 16 bytes a row of a growing table, and of
// a fixed table for each row changed since the full checkpoint. Later, rows are read where they
// lie. The files stay open, so that they can be read after somebody has removed the checkpoint.
// Filled by one thread and constant afterwards; blocking. Errors are those of checkpoint.h.
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

// Returns, by variable, whether its rows should be left in the files for the values of all others
// to take at most `bytes_max` bytes: nothing if all values fit, else every table whose rows are
// larger than their place in the files. Reads headers alone. No rows are left in an object store,
// where each would be a request.
absl::StatusOr<std::vector<bool>> TablesToLeave(Files& files, const std::string& directory,
                                                const Manifest& manifest, uint64_t bytes_max);

class CheckpointRows {
 public:
  // `left`: by variable of the manifest, whether its rows are left in the files. All are tables.
  CheckpointRows(const Manifest& manifest, const std::vector<bool>& left);

  bool Has(size_t variable) const { return tables_.contains(variable); }
  // Reads the rows of `ids`, row-major and in their order, averages in place of values if there are
  // averages. there[i] is 0 where a growing table has no row of ids[i], or the row has expired;
  // the values of such a row are undefined. OUT_OF_RANGE: a fixed table has no such row.
  absl::Status Read(size_t variable, std::span<const uint64_t> ids, std::span<float> rows,
                    std::vector<char>& there) const;

  // ---- For ReadVariables, which reads the links of a chain, oldest first.

  // Called first, with links in which all partitions of the checkpoint are wanted. Opens the files
  // of the tables.
  absl::Status Open(Files& files, const std::vector<ChainLink>& links, KnownDamage& known);
  // As LinkPlaceFn and LinkDoneFn, for a partition of a table whose rows are left.
  TensorPlace PlaceOf(uint32_t partition, std::string_view slot, uint64_t elements);
  absl::Status EndLink(uint32_t partition, const StoredPartition& stored);

 private:
  // What a link has of a partition: records, or the values of all rows of a fixed table, and
  // perhaps their averages. Null: the file has no such tensor, which reading it reports.
  struct Link {
    const SafetensorsFile* file = nullptr;
    bool records = false;
    const TensorInfo* tensor = nullptr;
    const TensorInfo* average = nullptr;
  };
  // Rows at equal distances in a tensor; numbers are in bytes.
  struct Run {
    const SafetensorsFile* file;
    const TensorInfo* tensor;
    uint64_t stride;
    uint64_t values;  // the values' offset in a record
  };
  struct Place {
    uint64_t id;
    uint32_t run, record;
  };
  struct Partition {
    size_t variable = 0;
    uint64_t row_begin = 0, row_end = 0;
    std::deque<Link> links;         // not read yet
    std::vector<uint64_t> ids;      // the ids of the records in the link being read
    std::vector<uint64_t> removed;  // ids that this link removes
    TableMetadata now;              // the newest link's
    std::vector<Place> places;      // ascending ids
    std::optional<uint32_t> whole;  // a fixed table's run of all rows
    bool averages = false;          // `whole` has averages in place of values
  };
  struct Table {
    bool growing = false;
    uint64_t width = 0;           // elements in a row
    uint64_t axis0 = 0;           // rows of a fixed table, shards of a growing one
    uint64_t expire = 0;          // batches; 0: never
    std::vector<uint32_t> parts;  // partitions, in the order of their rows
  };
  struct Wanted {
    const Partition* of;
    uint32_t run;
    uint64_t record;
    size_t at;  // among the requested ids
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
