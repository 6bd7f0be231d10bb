// An array of a file format that holds whole arrays (idx, npy, npz): records of one shape from one
// or several files. Bytes stay bytes in memory, everything else becomes float32; files beyond a
// limit that are not packed stay on disk and are read record by record. Filled by one thread,
// constant afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "data/byte_stream.h"

namespace paracord {

enum class ElementType { kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF16, kF32, kF64 };

struct ArrayHeader {
  ElementType type = ElementType::kU8;
  bool big_endian = false;
  std::vector<uint64_t> shape;  // records first
  bool fortran_order = false;   // the first axis runs fastest; such a file is held in memory
};

constexpr uint64_t kHeldBytesMax = uint64_t{1} << 30;

class Array {
 public:
  // A file whose elements take more is not held, if it is not packed.
  explicit Array(uint64_t held_max = kHeldBytesMax) : held_max_(held_max) {}

  uint64_t records() const { return records_; }
  const std::vector<uint64_t>& shape() const { return shape_; }  // of a record
  // Floats of a record.
  uint64_t record_size() const { return record_size_; }
  // What it was read from: order, sizes, record counts and contents of the files.
  uint64_t fingerprint() const { return fingerprint_; }

  // Writes scale times the record's elements. Fails only where the file does.
  absl::Status Read(uint64_t record, float scale, float* out) const;
  // "path row 17", counted from 0 in its own file.
  std::string Where(uint64_t record) const;

  // Appends the records that follow the header in `stream`, which must end with them. Errors name
  // path and row.
  absl::Status Append(const ArrayHeader& header, ByteStream& stream);

 private:
  struct Part {
    std::string path;
    uint64_t first_record;
    ArrayHeader header;
    // One of the three is in use.
    std::vector<uint8_t> bytes;
    std::vector<float> floats;
    std::unique_ptr<ReadFile> file;
    uint64_t file_offset = 0;  // of the first element
  };
  absl::Status CheckHeader(const ArrayHeader& header, const std::string& path) const;
  // Takes elements in; those of a part on disk are only checked.
  absl::Status Convert(Part& part, std::span<const char> bytes, uint64_t first_element) const;
  const Part& PartOf(uint64_t record) const;

  const uint64_t held_max_;
  std::vector<Part> parts_;
  uint64_t records_ = 0;
  uint64_t record_size_ = 1;
  uint64_t fingerprint_ = 0;
  std::vector<uint64_t> shape_;
};

// Reads what comes before the elements.
using ReadArrayHeader = absl::StatusOr<ArrayHeader> (*)(ByteStream& stream);

// All files that `patterns` (globs) name, one after the other.
absl::StatusOr<Array> ReadArray(Files& files, const std::vector<std::string>& patterns,
                                ReadArrayHeader read_header);

absl::StatusOr<ArrayHeader> ReadIdxHeader(ByteStream& stream);
absl::StatusOr<ArrayHeader> ReadNpyHeader(ByteStream& stream);

}  // namespace paracord
