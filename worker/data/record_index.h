// Where the records of files without an index of their own begin (csv, tfrecord, text). Built in
// one pass when a source opens and kept in memory, at most 128 MiB of it: of files with more
// records than fit, every second, fourth, ... is noted, and the walk to a record starts at the
// noted one before it. It is not kept on disk: the pass also checks the files and takes the
// fingerprint that all workers must agree on. Filled by one thread, constant afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/data_file.h"

namespace paracord {

// Knows where a record ends. Its messages name neither file nor record: the index does.
class RecordCutter {
 public:
  virtual ~RecordCutter() = default;
  // Moves over one record, which may be checked on the way. False: there are no more.
  virtual absl::StatusOr<bool> Skip(FileCursor& cursor) const = 0;
};

class RecordIndex {
 public:
  explicit RecordIndex(uint64_t entries_max = uint64_t{16} << 20) : entries_max_(entries_max) {}

  // Walks over the records from byte `begin` on. Errors name path and row.
  absl::Status Add(const std::string& path, std::unique_ptr<ReadFile> file, uint64_t begin,
                   const RecordCutter& cutter);

  uint64_t records() const { return records_; }
  uint64_t fingerprint() const { return fingerprint_; }
  // A cursor that stands before the record and may go on to the end of its file.
  absl::StatusOr<FileCursor> Seek(uint64_t record, const RecordCutter& cutter) const;
  // "path row 17", counted from 0 in its own file.
  std::string Where(uint64_t record) const;

 private:
  struct Part {
    std::string path;
    std::unique_ptr<ReadFile> file;
    uint64_t first_record;
    std::vector<uint64_t> offsets;  // of records 0, every_, 2 * every_, ... of this file
  };
  void Note(Part& part, uint64_t row, uint64_t offset);
  const Part& PartOf(uint64_t record) const;

  const uint64_t entries_max_;
  uint64_t entries_ = 0;
  uint64_t every_ = 1;
  uint64_t records_ = 0;
  uint64_t fingerprint_ = 0;
  std::vector<std::unique_ptr<Part>> parts_;
};

// `status`, with the place before its message.
absl::Status At(const std::string& where, const absl::Status& status);

}  // namespace paracord
