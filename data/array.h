// An array of a file format that holds whole arrays (idx, npy, npz): records of one shape from one
// or several files. Bytes stay bytes in memory, integers of 4 and 8 bytes keep all their digits,
// and other numbers become float32; files beyond a limit that are not packed stay on disk and are
// read record by record. Filled by one thread, constant afterwards.
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
  std::vector<uint64_t> shape;  // records first
  bool fortran_order = false;   // the first axis runs fastest; such a file is held in memory
  // The elements are strings unless this is kNone. Each takes `text_width` bytes or code points,
  // padded with zeros at its end, and `type` says nothing.
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
  // A file whose elements take more than `held_max` bytes, or more than `memory` has left, stays on
  // disk. A packed one cannot: with more than `memory` has left, Append fails.
  explicit Array(uint64_t held_max = kHeldBytesMax, std::shared_ptr<MemoryShare> memory = nullptr)
      : held_max_(held_max), memory_(std::move(memory)) {}

  uint64_t records() const { return records_; }
  const std::vector<uint64_t>& shape() const { return shape_; }  // of a record
  // The number of floats in one record.
  uint64_t record_size() const { return record_size_; }
  // Whether the elements are strings, which ReadTexts returns, instead of numbers.
  bool text() const {
    return !by_file_.empty() && by_file_[0].header.text != ArrayHeader::Text::kNone;
  }
  // A hash over the order, the sizes, the record counts and the contents of the files.
  uint64_t fingerprint() const { return fingerprint_; }

  // Writes the record's elements, multiplied by `scale`, to `out`. With a scale of 1 it also lists
  // the large whole numbers in `exact`, where the first element of the record has the number
  // `first`. It fails only if the file does. Any thread.
  absl::Status Read(uint64_t record, float scale, float* out, size_t first,
                    std::vector<ExactInteger>& exact) const;
  // Writes the record's strings. INVALID_ARGUMENT names the record whose bytes are no UTF-8.
  absl::Status ReadTexts(uint64_t record, std::string* out) const;
  // "path row 17", counted from 0 in its own file.
  std::string Where(uint64_t record) const;

  // Appends the records that follow the header in `stream`, which must end with them. Errors name
  // path and row.
  absl::Status Append(const ArrayHeader& header, ByteStream& stream);

 private:
  struct OneFile {
    std::string path;
    uint64_t first_record;
    ArrayHeader header;
    // One of the five holders is in use. `exact` belongs to `floats`: it lists the whole numbers of
    // a file of float64 that float32 cannot represent.
    std::vector<uint8_t> bytes;
    HeldIntegers integers;
    std::vector<float> floats;
    std::vector<ExactInteger> exact;
    std::vector<std::string> texts;  // as the file has them
    std::unique_ptr<ReadFile> file;
    uint64_t file_offset = 0;  // of the first element
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

// Reads a file's header, which is everything before its elements.
using ReadArrayHeader = absl::StatusOr<ArrayHeader> (*)(ByteStream& stream);

// Counts the records that the headers of an array's files announce.
class HeaderCount {
 public:
  // Reads a header, after which the stream goes on.
  absl::Status Add(ReadArrayHeader read_header, ByteStream& stream);
  // Nullopt: the files cannot have or be what some header says, which reading them will say.
  const std::optional<uint64_t>& records() const { return records_; }

 private:
  std::optional<uint64_t> records_ = 0;
  std::optional<std::vector<uint64_t>> shape_;  // of a record
};

// Counts the records of all files that `patterns` (globs) name.
absl::StatusOr<HeaderCount> CountRecords(Files& files, const std::vector<std::string>& patterns,
                                         ReadArrayHeader read_header);
// Reads the files, one after the other, as one array. `memory` may be null.
absl::StatusOr<Array> ReadArray(Files& files, const std::vector<std::string>& patterns,
                                ReadArrayHeader read_header,
                                const std::shared_ptr<MemoryShare>& memory);

absl::StatusOr<ArrayHeader> ReadIdxHeader(ByteStream& stream);
absl::StatusOr<ArrayHeader> ReadNpyHeader(ByteStream& stream);

}  // namespace paracord
