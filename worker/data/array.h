// An array of a file format that holds whole arrays (idx, npy), in memory: records of one shape
// from one or several files. Bytes stay bytes, everything else becomes float32. Filled by one
// thread, constant afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "worker/data/byte_stream.h"

namespace paracord {

enum class ElementType { kU8, kI8, kI16, kI32, kI64, kF32, kF64 };

struct ArrayHeader {
  ElementType type = ElementType::kU8;
  bool big_endian = false;
  std::vector<uint64_t> shape;  // records first
};

class Array {
 public:
  uint64_t records() const { return records_; }
  const std::vector<uint64_t>& shape() const { return shape_; }  // of a record
  // Floats of a record.
  uint64_t record_size() const { return record_size_; }
  // What it was read from: order, sizes, record counts and contents of the files.
  uint64_t fingerprint() const { return fingerprint_; }

  // Writes scale times the record's elements.
  void Read(uint64_t record, float scale, float* out) const;
  // "path row 17", counted from 0 in its own file.
  std::string Where(uint64_t record) const;

  // Appends the records that follow the header in `stream`, which must end with them. Errors name
  // path and row.
  absl::Status Append(const ArrayHeader& header, ByteStream& stream);

 private:
  struct Part {
    std::string path;
    uint64_t first_record;
  };
  absl::Status CheckHeader(const ArrayHeader& header, const std::string& path) const;
  absl::Status Convert(const ArrayHeader& header, std::span<const char> bytes,
                       const std::string& path, uint64_t first_element);

  std::vector<Part> parts_;
  uint64_t records_ = 0;
  uint64_t record_size_ = 1;
  uint64_t fingerprint_ = 0;
  std::vector<uint64_t> shape_;
  bool is_bytes_ = false;
  std::vector<uint8_t> bytes_;  // one of the two is in use
  std::vector<float> floats_;
};

// Reads what comes before the elements.
using ReadArrayHeader = absl::StatusOr<ArrayHeader> (*)(ByteStream& stream);

// All files that `patterns` (globs) name, one after the other.
absl::StatusOr<Array> ReadArray(Files& files, const std::vector<std::string>& patterns,
                                ReadArrayHeader read_header);

absl::StatusOr<ArrayHeader> ReadIdxHeader(ByteStream& stream);
absl::StatusOr<ArrayHeader> ReadNpyHeader(ByteStream& stream);

}  // namespace paracord
