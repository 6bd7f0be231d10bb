// An index of record offsets for formats without one (csv, tfrecord, text). Built in a single pass
// when a source opens, with at most index_entries_max offsets (128 MiB): if there are more records,
// notes the offset of only every second, fourth, ... record. A seek then walks from the nearest
// noted record before, or from where an earlier seek ended: reading all records in order walks over
// one record at a time. The pass also checks the files and computes the fingerprint on which all
// workers must agree. The index is kept for the next start (kept_bytes.h) and reused if the files
// are unchanged; records are checked again when read. Filled by one thread; seeks by any thread.
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

// Finds the end of a record. Messages name neither file nor record; RecordIndex adds both.
class RecordCutter {
 public:
  virtual ~RecordCutter() = default;
  // Moves over a record, perhaps checking it. Returns false at the end of the file.
  virtual absl::StatusOr<bool> Skip(FileCursor& cursor) const = 0;
};

// The offsets of a file's records.
struct RecordPlaces {
  uint64_t begin = 0;             // offset of the first record
  uint64_t size = 0;              // size of the file, decompressed
  uint64_t rows = 0;              // number of records
  uint32_t crc = 0;               // checksum of the bytes from `begin` on
  std::vector<uint64_t> offsets;  // offsets of every `every`-th record from 0
};

struct RecordPlacesOfAll {
  uint64_t every = 1;
  std::vector<RecordPlaces> files;
};

std::string EncodePlaces(const RecordPlacesOfAll& places);
// Returns nullopt unless all offsets ascend within their files, match `rows` in number, and are at
// most `entries_max`.
std::optional<RecordPlacesOfAll> DecodePlaces(std::string_view bytes, uint64_t entries_max);

class RecordIndex {
 public:
  explicit RecordIndex(uint64_t entries_max = DataSpec().index_entries_max)
      : entries_max_(entries_max) {}

  // Called before the first Add(): takes over the limits of `spec`, and loads the saved index of
  // these files if the files have not changed.
  void Recall(Files& files, const DataSpec& spec, std::span<const std::string> paths);
  // Called after the last Add(): saves the index unless Recall() loaded it. DATA_LOSS if the files
  // have changed since Recall().
  absl::Status Keep();

  // Notes the offsets of a file's records, from byte `begin` on. Errors name path and row.
  absl::Status Add(const std::string& path, std::unique_ptr<ReadFile> file, uint64_t begin,
                   const RecordCutter& cutter);

  uint64_t records() const { return records_; }
  uint64_t fingerprint() const { return fingerprint_; }
  // Returns a cursor at the record, which can read on to the end of the file.
  absl::StatusOr<FileCursor> Seek(uint64_t record, const RecordCutter& cutter) const;
  // Returns where a record is, for people: "PATH row 17". Rows are counted from 0 in each file.
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

  // The offset of a record in its file.
  struct Found {
    uint64_t record = 0;
    uint64_t offset = 0;
  };
  // Moves `from`, a noted record, on to the last record up to `record` at which an earlier seek
  // ended. Returns the index in found_ at which Remember puts the end of the present seek.
  size_t Advance(uint64_t record, Found& from) const;
  void Remember(size_t at, const Found& found) const;

  uint64_t entries_max_;
  uint64_t walked_max_ = UINT64_MAX;  // how many records Add walks over at most
  std::optional<KeptBytes> kept_;
  RecordPlacesOfAll recalled_;
  bool walked_ = false;
  RecordPlacesOfAll places_;
  uint64_t entries_ = 0;
  uint64_t records_ = 0;
  uint64_t fingerprint_ = 0;
  std::vector<OneFile> by_file_;  // parallel to places_.files

  // Where the last seeks ended, to serve a few readers that each read all records in order.
  mutable Mutex mu_;
  mutable std::array<Found, 4> found_ ABSL_GUARDED_BY(mu_);
  mutable size_t oldest_ ABSL_GUARDED_BY(mu_) = 0;
};

// Returns `status` with its message prefixed by `where`.
absl::Status At(const std::string& where, const absl::Status& status);

}  // namespace paracord
