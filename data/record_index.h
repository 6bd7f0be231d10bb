// Where the records of files without an index of their own begin (csv, tfrecord, text). Built in
// one pass when a source opens, at most 128 MiB of it: of files with more records than fit, every
// second, fourth, ... is noted, and the walk to a record starts at the noted one before it. The
// pass also checks the files and takes the fingerprint that all workers must agree on. It is kept
// for the next start (kept_bytes.h); what was kept is used only if it fits the files' sizes, and
// records are checked when they are read as ever. Filled by one thread, constant afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/data_file.h"
#include "data/kept_bytes.h"

namespace paracord {

// Knows where a record ends. Its messages name neither file nor record: the index does.
class RecordCutter {
 public:
  virtual ~RecordCutter() = default;
  // Moves over one record, which may be checked on the way. False: there are no more.
  virtual absl::StatusOr<bool> Skip(FileCursor& cursor) const = 0;
};

// Of one file.
struct RecordPlaces {
  uint64_t begin = 0;             // of the first record
  uint64_t size = 0;              // of the file, unpacked
  uint64_t rows = 0;              // records
  uint32_t crc = 0;               // of the bytes from `begin` on
  std::vector<uint64_t> offsets;  // of records 0, every, 2 * every, ...
};

struct RecordPlacesOfAll {
  uint64_t every = 1;
  std::vector<RecordPlaces> files;
};

std::string EncodePlaces(const RecordPlacesOfAll& places);
// Nothing unless all offsets ascend inside of their files, and there are as many as there must be.
std::optional<RecordPlacesOfAll> DecodePlaces(std::string_view bytes, uint64_t entries_max);

class RecordIndex {
 public:
  explicit RecordIndex(uint64_t entries_max = uint64_t{16} << 20) : entries_max_(entries_max) {}

  // Before the first Add(): uses what was kept of these files, if they are the same still.
  void Recall(Files& files, const DataSpec& spec, std::span<const std::string> paths);
  // After the last Add(): keeps what was not recalled. DATA_LOSS: files changed since Recall().
  absl::Status Keep();

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
  };
  absl::Status Walk(const ReadFile& file, const std::string& path, const RecordCutter& cutter,
                    RecordPlaces& places);
  void Note(RecordPlaces& places, uint64_t row, uint64_t offset);
  size_t PartOf(uint64_t record) const;

  const uint64_t entries_max_;
  std::optional<KeptBytes> kept_;
  RecordPlacesOfAll recalled_;
  bool walked_ = false;
  RecordPlacesOfAll places_;
  uint64_t entries_ = 0;
  uint64_t records_ = 0;
  uint64_t fingerprint_ = 0;
  std::vector<Part> parts_;  // as many as places_.files
};

// `status`, with the place before its message.
absl::Status At(const std::string& where, const absl::Status& status);

}  // namespace paracord
