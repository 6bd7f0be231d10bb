// An index of the offsets of records, for formats that have none (csv, tfrecord, text). Built when
// a source opens, in a single pass over the files, which also checks the files and computes the
// fingerprint on which all workers must agree. Notes at most index_entries_max offsets (by default
// they take 128 MiB): if there are more records, the offset of every second, fourth, ... record. A
// seek begins at the nearest noted record before the wanted one, or where an earlier seek ended,
// and skips the records between: to read all records in order skips one record at a time. The index
// is kept for later starts (kept_bytes.h), and used again if the files are unchanged; records are
// checked again when they are read. One thread fills an index; any thread may seek.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "data/data_file.h"
#include "data/kept_bytes.h"

namespace paracord {

// Finds the end of a record. Error messages name neither file nor record; RecordIndex adds both.
class RecordCutter {
 public:
  virtual ~RecordCutter() = default;
  // Moves over a record, which it may check. Returns false at the end of the file.
  virtual absl::StatusOr<bool> Skip(FileCursor& cursor) const = 0;
};

// The places of the records in a file.
struct RecordPlaces {
  uint64_t begin = 0;             // the offset of the first record
  uint64_t size = 0;              // the decompressed size of the file
  uint64_t rows = 0;              // the number of records
  uint32_t crc = 0;               // CRC-32C of the bytes from `begin` on
  std::vector<uint64_t> offsets;  // the offsets of the records 0, `every`, 2 `every`, ...
};

struct RecordPlacesOfAll {
  uint64_t every = 1;
  std::vector<RecordPlaces> files;
};

std::string EncodePlaces(const RecordPlacesOfAll& places);
// Returns nullopt if the bytes are no encoded places, if offsets do not ascend within their file,
// or if there are more than `entries_max` offsets.
std::optional<RecordPlacesOfAll> DecodePlaces(std::string_view bytes, uint64_t entries_max);

class RecordIndex {
 public:
  explicit RecordIndex(uint64_t entries_max = DataSpec().index_entries_max)
      : entries_max_(entries_max) {}

  // To be called before the first Add(). Takes this index's limits from `spec`, and loads the saved
  // index of the files `paths` if these files have not changed.
  void Recall(Files& files, const DataSpec& spec, std::span<const std::string> paths);
  // To be called after the last Add(). Saves the index if Add() had to read through a file. Returns
  // DATA_LOSS if Recall() loaded an index and the files have changed since then.
  absl::Status Keep();

  // Adds the records of a file, from the offset `begin` on. Errors name path and row.
  absl::Status Add(const std::string& path, std::unique_ptr<ReadFile> file, uint64_t begin,
                   const RecordCutter& cutter);

  uint64_t records() const { return records_; }
  uint64_t fingerprint() const { return fingerprint_; }
  // Returns a cursor at the record. The cursor can read on to the end of the file.
  absl::StatusOr<FileCursor> Seek(uint64_t record, const RecordCutter& cutter) const;
  // Returns "PATH row 17" for messages. Rows are counted from 0 in each file.
  std::string Where(uint64_t record) const;

 private:
  struct OneFile {
    std::string path;
    std::unique_ptr<ReadFile> file;
    uint64_t first_record;
  };
  absl::Status Walk(const ReadFile& file, const std::string& path, const RecordCutter& cutter,
                    RecordPlaces& places);
  void Note(RecordPlaces& places, uint64_t row, uint64_t offset);
  size_t FileOf(uint64_t record) const;

  // A record and its offset in its file.
  struct Found {
    uint64_t record = 0;
    uint64_t offset = 0;
  };
  // `from` is a noted record. If an earlier seek ended between `from` and `record`, moves `from` to
  // the last such end. Returns the place in found_ for the end of the present seek.
  size_t Advance(uint64_t record, Found& from) const;
  void Remember(size_t at, const Found& found) const;

  uint64_t entries_max_;
  uint64_t walked_max_ = UINT64_MAX;  // Add stops at this number of records
  std::optional<KeptBytes> kept_;
  RecordPlacesOfAll recalled_;
  bool walked_ = false;
  RecordPlacesOfAll places_;
  uint64_t entries_ = 0;
  uint64_t records_ = 0;
  uint64_t fingerprint_ = 0;
  std::vector<OneFile> by_file_;  // parallel to places_.files

  // Where the last few seeks ended, for readers that each read all records in order.
  mutable Mutex mu_;
  mutable std::array<Found, 4> found_ ABSL_GUARDED_BY(mu_);
  mutable size_t oldest_ ABSL_GUARDED_BY(mu_) = 0;
};

// Returns `status` with `where` in front of its message.
absl::Status At(const std::string& where, const absl::Status& status);

}  // namespace paracord
