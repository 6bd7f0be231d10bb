// An array of the formats idx, npy and npz: records of one shape, from one or several files. In
// memory bytes stay bytes, integers of 4 and 8 bytes keep all digits, and other numbers become
// float32. A large plain file stays on disk, and each record is read when it is asked for. One
// thread fills an Array; afterwards the Array is constant.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "common/memory_budget.h"
#include "data/byte_stream.h"
#include "data/data_source.h"
#include "data/element.h"
#include "data/held_integers.h"

namespace paracord {

struct ArrayHeader {
  ElementType type = ElementType::kU8;
  bool big_endian = false;
  std::vector<uint64_t> shape;  // the number of records, then the shape of a record
  bool fortran_order = false;   // column-major: the first axis runs fastest
  // Whether the elements are strings, and of which kind. Each string then takes `text_width` bytes
  // or code points in the file, with zeros behind a shorter string, and `type` is unused.
  enum class Text { kNone, kBytes, kCodePoints };
  Text text = Text::kNone;
  size_t text_width = 0;

  size_t element_bytes() const {
    if (text == Text::kNone) return ElementSize(type);
    return text == Text::kBytes ? text_width : 4 * text_width;
  }
  bool is_bytes() const { return text == Text::kNone && type == ElementType::kU8; }
  bool is_integers() const { return text == Text::kNone && IsWideInteger(type); }
};

constexpr uint64_t kHeldBytesMax = uint64_t{1} << 30;

class Array {
 public:
  // A plain file stays on disk if its elements take more than `held_max` bytes, or more than
  // `memory` has left. A compressed file and a file in Fortran order cannot stay on disk: Append
  // returns an error if `memory` has no room for them, or if a plain file in Fortran order takes
  // more than kHeldBytesMax bytes.
  explicit Array(uint64_t held_max = kHeldBytesMax, std::shared_ptr<MemoryShare> memory = nullptr)
      : held_max_(held_max), memory_(std::move(memory)) {}

  uint64_t records() const { return records_; }
  const std::vector<uint64_t>& shape() const { return shape_; }  // shape of a record
  // The number of elements in a record.
  uint64_t record_size() const { return record_size_; }
  // Whether the elements are strings. Records are then read by ReadTexts, otherwise by Read.
  bool text() const {
    return !by_file_.empty() && by_file_[0].header.text != ArrayHeader::Text::kNone;
  }
  // A hash of the order, the sizes, the numbers of records and the contents of the files.
  uint64_t fingerprint() const { return fingerprint_; }

  // Writes the record's elements, multiplied by `scale`, to `out`. If `scale` is 1, also appends
  // the record's whole numbers that float32 may not represent to `exact`; the first element of the
  // record has the index `first` there. Any thread.
  absl::Status Read(uint64_t record, float scale, float* out, size_t first,
                    std::vector<ExactInteger>& exact) const;
  // Writes the record's strings to `out`. INVALID_ARGUMENT names a record with invalid UTF-8.
  absl::Status ReadTexts(uint64_t record, std::string* out) const;
  // Returns "PATH row 17" for messages. Rows are counted from 0 in each file.
  std::string Where(uint64_t record) const;

  // Appends all records of a file. `stream` stands behind the file's header. Errors name the path.
  absl::Status Append(const ArrayHeader& header, ByteStream& stream);

 private:
  struct OneFile {
    std::string path;
    uint64_t first_record;
    ArrayHeader header;
    // The elements are in `bytes`, `integers`, `floats` or `texts`, or on disk in `file`. `exact`
    // has the whole numbers of a float64 file that `floats` may not represent.
    std::vector<uint8_t> bytes;
    HeldIntegers integers;
    std::vector<float> floats;
    std::vector<ExactInteger> exact;
    std::vector<std::string> texts;  // not yet checked to be UTF-8
    std::unique_ptr<ReadFile> file;
    // The offset of the first element in `file`; 0: the elements are in memory.
    uint64_t file_offset = 0;
  };
  absl::Status CheckHeader(const ArrayHeader& header, const std::string& path) const;
  absl::StatusOr<uint32_t> TakeElements(OneFile& one, uint64_t elements, ByteStream& stream) const;
  absl::StatusOr<bool> IsHeld(const ArrayHeader& header, uint64_t elements,
                              const ByteStream& stream) const;
  const OneFile& FileOf(uint64_t record) const;

  const uint64_t held_max_;
  const std::shared_ptr<MemoryShare> memory_;  // null: no limit
  std::vector<OneFile> by_file_;
  uint64_t records_ = 0;
  uint64_t record_size_ = 1;
  uint64_t fingerprint_ = 0;
  std::vector<uint64_t> shape_;
};

// Reads the header of a file, which is everything before the elements.
using ReadArrayHeader = absl::StatusOr<ArrayHeader> (*)(ByteStream& stream);

// Counts the records announced by the headers of an array's files.
class HeaderCount {
 public:
  // Reads the header of a file. `stream` then stands behind the header.
  absl::Status Add(ReadArrayHeader read_header, ByteStream& stream);
  // Nullopt if a header does not fit its file or another header, which ReadArray will report.
  const std::optional<uint64_t>& records() const { return records_; }

 private:
  std::optional<uint64_t> records_ = 0;
  std::optional<std::vector<uint64_t>> shape_;  // shape of a record
};

// Counts the records of all files that match `patterns` (globs), by their headers alone.
absl::StatusOr<HeaderCount> CountRecords(Files& files, const std::vector<std::string>& patterns,
                                         ReadArrayHeader read_header);
// Reads all files that match `patterns` as a single array, within the limits on memory of `spec`.
absl::StatusOr<Array> ReadArray(Files& files, const std::vector<std::string>& patterns,
                                ReadArrayHeader read_header, const DataSpec& spec);

absl::StatusOr<ArrayHeader> ReadIdxHeader(ByteStream& stream);
absl::StatusOr<ArrayHeader> ReadNpyHeader(ByteStream& stream);

}  // namespace paracord
