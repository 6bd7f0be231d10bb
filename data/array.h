// An array of a file format for whole arrays (idx, npy, npz): records of one shape from one or
// several files. In memory bytes stay bytes, integers of 4 and 8 bytes keep all digits, and other
// numbers become float32. Beyond a limit on memory a plain file stays on disk and is read record by
// record. Filled by one thread, constant afterwards.
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
  std::vector<uint64_t> shape;  // the number of records, then a record's shape
  bool fortran_order = false;   // column-major; such a file is held in memory
  // The kind of strings, if the elements are strings. Each string takes `text_width` bytes or code
  // points, zero-padded at the end; `type` is then unused.
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
  // `memory` has left. A compressed file must be held, and so must a file in Fortran order, of at
  // most kHeldBytesMax bytes: Append fails where that is impossible.
  explicit Array(uint64_t held_max = kHeldBytesMax, std::shared_ptr<MemoryShare> memory = nullptr)
      : held_max_(held_max), memory_(std::move(memory)) {}

  uint64_t records() const { return records_; }
  const std::vector<uint64_t>& shape() const { return shape_; }  // shape of a record
  // The number of floats in a record.
  uint64_t record_size() const { return record_size_; }
  // Whether the elements are strings, for ReadTexts, instead of numbers.
  bool text() const {
    return !by_file_.empty() && by_file_[0].header.text != ArrayHeader::Text::kNone;
  }
  // A hash over the order, the sizes, the record counts and the contents of the files.
  uint64_t fingerprint() const { return fingerprint_; }

  // Writes the record's elements, multiplied by `scale`, to `out`. With a scale of 1 also lists the
  // large whole numbers in `exact`, counting the record's first element as `first`. Fails only if a
  // file on disk cannot be read. Any thread.
  absl::Status Read(uint64_t record, float scale, float* out, size_t first,
                    std::vector<ExactInteger>& exact) const;
  // Writes the record's strings to `out`. INVALID_ARGUMENT names a record with invalid UTF-8.
  absl::Status ReadTexts(uint64_t record, std::string* out) const;
  // Returns where a record is, for people: "PATH row 17". Rows are counted from 0 in each file.
  std::string Where(uint64_t record) const;

  // Appends all records of a file. `stream` is behind the file's header. Errors name path and row.
  absl::Status Append(const ArrayHeader& header, ByteStream& stream);

 private:
  struct OneFile {
    std::string path;
    uint64_t first_record;
    ArrayHeader header;
    // The elements are in `bytes`, `integers`, `floats` or `texts`, or on disk in `file`. `exact`
    // belongs to `floats`: the whole numbers of a float64 file beyond float32's precision.
    std::vector<uint8_t> bytes;
    HeldIntegers integers;
    std::vector<float> floats;
    std::vector<ExactInteger> exact;
    std::vector<std::string> texts;  // not yet checked to be UTF-8
    std::unique_ptr<ReadFile> file;
    uint64_t file_offset = 0;  // offset of the first element; 0: the elements are in memory
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

// Reads the header of a file: everything before the elements.
using ReadArrayHeader = absl::StatusOr<ArrayHeader> (*)(ByteStream& stream);

// Counts the records announced by the headers of an array's files.
class HeaderCount {
 public:
  // Reads a header; the stream continues behind the header.
  absl::Status Add(ReadArrayHeader read_header, ByteStream& stream);
  // Nullopt: a header contradicts its file or another header; reading the files reports the error.
  const std::optional<uint64_t>& records() const { return records_; }

 private:
  std::optional<uint64_t> records_ = 0;
  std::optional<std::vector<uint64_t>> shape_;  // shape of a record
};

// Counts the records of all files matching `patterns` (globs), by their headers alone.
absl::StatusOr<HeaderCount> CountRecords(Files& files, const std::vector<std::string>& patterns,
                                         ReadArrayHeader read_header);
// Reads all files matching `patterns` as a single array, within the limits on memory of `spec`.
absl::StatusOr<Array> ReadArray(Files& files, const std::vector<std::string>& patterns,
                                ReadArrayHeader read_header, const DataSpec& spec);

absl::StatusOr<ArrayHeader> ReadIdxHeader(ByteStream& stream);
absl::StatusOr<ArrayHeader> ReadNpyHeader(ByteStream& stream);

}  // namespace paracord
